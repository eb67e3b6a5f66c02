//! Settings as people wrote them: texts, each with the place it came from.
//!
//! Invariant: a raw configuration holds exactly one value for every known setting.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::settings::SETTINGS;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(&'static str),
    /// The command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// A text with the place it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawValue {
    /// The value as written. What is not UTF-8 is refused when it is checked.
    pub text: OsString,
    /// Where it was written.
    pub source: Source,
}

/// Unchecked settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawConfig(BTreeMap<&'static str, RawValue>);

impl RawConfig {
    /// What holds when nobody says anything.
    #[must_use]
    pub fn defaults() -> Self {
        let value = |text: &str| RawValue { text: text.into(), source: Source::Default };
        Self(SETTINGS.iter().map(|setting| (setting.name, value(setting.default))).collect())
    }

    /// Replaces a value. Later calls win.
    pub fn set(&mut self, name: &'static str, text: OsString, source: Source) {
        self.0.insert(name, RawValue { text, source });
    }

    /// The value of a setting.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name)
    }
}
