//! The settings of the host: flags over environment over `wasmq.toml` over defaults.
//!
//! Invariants: raw settings are texts with the place they came from ([`raw::RawConfig`]); only
//! [`RawConfig::check`] turns them into a [`Config`], so every value of a `Config` is inside its
//! documented range; a setting nobody knows is refused and never ignored.
//!
//! Deliberately absent: the settings of a task version (timeout, memory, retries), which belong to
//! a deploy, and any default that depends on whether a server runs.

pub mod checked;
pub mod close;
pub mod file;
pub mod raw;
pub mod settings;
pub mod units;

pub use checked::{ColorMode, Config, FsyncMode, LogFormat, LogLevel, NetworkDiskMode, StoreMode};
pub use raw::{RawConfig, Source};
pub use settings::{SETTINGS, Setting};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The configuration file is not TOML, or a value has a type that cannot be one.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// A setting nobody knows.
    #[error("{}: there is no setting \"{name}\"", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The name as written.
        name: String,
        /// Names that are close.
        close: Vec<&'static str>,
    },
    /// A value outside its range.
    #[error("{setting} is \"{found}\" ({origin}), but must be {expected}")]
    Value {
        /// The setting.
        setting: &'static str,
        /// The value as written.
        found: String,
        /// Where it was written.
        origin: Source,
        /// What it must be.
        expected: String,
    },
}

/// Collects the settings from all places and checks them. `flags` holds what the command line
/// gave; `environment` answers for a variable; `file` is the file that `--config` named.
///
/// # Errors
/// A file that cannot be read or understood, or a value outside its range.
pub fn load(
    flags: &[(&'static str, OsString)],
    environment: impl Fn(&str) -> Option<OsString>,
    file: Option<&Path>,
) -> Result<Config, ConfigError> {
    let mut raw = RawConfig::defaults();
    let named = file.map(Path::to_owned).or_else(|| environment(file::FILE_VARIABLE).map(PathBuf::from));
    for (name, value, source) in file::read(named.as_deref())? {
        raw.set(name, value, source);
    }
    for setting in &SETTINGS {
        if let Some(value) = environment(setting.variable).filter(|value| !value.is_empty()) {
            raw.set(setting.name, value, Source::Environment(setting.variable));
        }
    }
    for (name, value) in flags {
        raw.set(name, value.clone(), Source::Flag);
    }
    raw.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wasmq.toml");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn source_of(config: &Config, name: &str) -> String {
        config.origins.iter().find(|origin| origin.name == name).unwrap().source.to_string()
    }

    #[test]
    fn flags_win_over_environment_over_file_over_default() {
        let (_dir, path) = with_file("workers = 3\ngrace = \"1m\"\nfsync = \"interval\"\n");
        let environment = |name: &str| match name {
            "WASMQ_FSYNC" => Some("never".into()),
            "WASMQ_GRACE" => Some("2m".into()),
            "WASMQ_COLOR" => Some("".into()),
            _ => None,
        };
        let config = load(&[("grace", "5s".into())], environment, Some(&path)).unwrap();
        assert_eq!((config.workers.get(), config.fsync, config.grace.0), (3, FsyncMode::Never, 5000));
        assert_eq!(source_of(&config, "workers"), format!("file {}", path.display()));
        assert_eq!(source_of(&config, "fsync"), "environment WASMQ_FSYNC");
        assert_eq!(source_of(&config, "grace"), "flag");
        assert_eq!(source_of(&config, "color"), "default");
    }

    #[test]
    fn an_unknown_setting_is_refused_with_close_names() {
        let (_dir, path) = with_file("fsink = \"always\"\n");
        let error = load(&[], |_| None, Some(&path)).unwrap_err();
        assert!(
            matches!(&error, ConfigError::Unknown { name, close, .. } if name == "fsink" && close == &["fsync"]),
            "{error}"
        );
    }

    #[test]
    fn a_value_outside_its_range_names_setting_value_place_and_range() {
        let error = load(&[], |name| (name == "WASMQ_WORKERS").then(|| "0".into()), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "workers is \"0\" (environment WASMQ_WORKERS), but must be a number from 1 to 256"
        );
        for (name, value) in
            [("payload_limit", "65MiB"), ("payload_limit", "NaN"), ("grace", "-1s"), ("fsync", "yes"), ("data", "")]
        {
            assert!(load(&[(name, value.into())], |_| None, None).is_err(), "{name} = {value}");
        }
    }

    #[test]
    fn a_value_of_a_wrong_type_names_its_path() {
        let (_dir, path) = with_file("workers = [1]\n");
        let error = load(&[], |_| None, Some(&path)).unwrap_err().to_string();
        assert!(error.contains("workers"), "{error}");
    }

    #[test]
    fn the_data_directory_of_a_file_is_relative_to_the_file() {
        let (dir, path) = with_file("data = \"queue\"\n");
        let config = load(&[], |_| None, Some(&path)).unwrap();
        assert_eq!(config.data, dir.path().join("queue"));
    }

    #[test]
    fn a_named_file_that_is_missing_is_an_error_and_a_missing_default_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(load(&[], |_| None, Some(&dir.path().join("no.toml"))), Err(ConfigError::Read { .. })));
    }
}
