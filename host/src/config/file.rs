//! Reads `wasmq.toml`.
//!
//! Invariants: a key that is no setting is refused with close names; a file that somebody named
//! must exist, the default one need not; a path in the file is relative to the file.
//!
//! Deliberately absent: the meaning of the values, which [`super::checked`] knows.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::close::close_names;
use super::settings::{find, names};
use super::{ConfigError, Source};

/// The file that is read when nobody names one, in the current directory.
pub const DEFAULT_FILE: &str = "wasmq.toml";
/// The variable that names another file.
pub const FILE_VARIABLE: &str = "WASMQ_CONFIG";
/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A value of the file: a text or a whole number; both are texts for the checks.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a whole number")]
enum FileValue {
    Number(u64),
    Text(String),
}

/// The settings of the file, each with its source; nothing when there is no file to read.
///
/// # Errors
/// When the file cannot be read, is no TOML, or has a key that is no setting.
pub fn read(named: Option<&Path>) -> Result<Vec<(&'static str, OsString, Source)>, ConfigError> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    match read_text(path) {
        Ok(text) => parse(&text, path),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
    }
}

#[allow(clippy::disallowed_methods)] // The configuration is not part of the store.
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(text: &str, path: &Path) -> Result<Vec<(&'static str, OsString, Source)>, ConfigError> {
    let wrong = |message: String| ConfigError::Syntax { path: path.to_owned(), message };
    let table = toml::Deserializer::parse(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
    let values: BTreeMap<String, FileValue> =
        serde_path_to_error::deserialize(table).map_err(|error| match error.path().to_string() {
            place if place == "." => wrong(error.inner().message().to_owned()),
            place => wrong(format!("{place}: {}", error.inner().message())),
        })?;
    values.into_iter().map(|(name, value)| known(name, value, path)).collect()
}

fn known(name: String, value: FileValue, path: &Path) -> Result<(&'static str, OsString, Source), ConfigError> {
    let Some(setting) = find(&name) else {
        let close = close_names(&name.replace('-', "_"), names());
        return Err(ConfigError::Unknown { path: path.to_owned(), name, close });
    };
    let text = match value {
        FileValue::Text(text) if setting.name == "data" && !text.is_empty() => beside(path, &text),
        FileValue::Text(text) => text.into(),
        FileValue::Number(number) => number.to_string().into(),
    };
    Ok((setting.name, text, Source::File(path.to_owned())))
}

fn beside(file: &Path, text: &str) -> OsString {
    file.parent().map_or_else(|| PathBuf::from(text), |folder| folder.join(text)).into_os_string()
}
