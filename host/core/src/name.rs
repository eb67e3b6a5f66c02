//! Names that people give: task names, version numbers, labels. The grammar is enforced here and
//! nowhere else.
//!
//! A task name is 1 to 63 characters of `a-z`, `0-9`, `.`, `_`, `-`, and begins and ends with a
//! letter or digit. So it needs no escaping in a shell, a URL, a metric or a file, and no name can
//! look like an option or a path.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::id::serde_as_text;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest task name or label, in characters.
pub const MAX_NAME_LEN: usize = 63;

/// The name of a task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName(std::sync::Arc<str>);

/// A word an operator attached to a version, such as `hotfix`. Same grammar as a task name, but it
/// can be neither a version (`v2`) nor `current` or `original`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Box<str>);

/// The number of a version, counted from 1 and written `v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionNumber(pub NonZeroU32);

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("a {what} cannot be empty")]
    Empty {
        /// `task name` or `label`.
        what: &'static str,
    },
    /// Over [`MAX_NAME_LEN`].
    #[error("a {what} has at most {MAX_NAME_LEN} characters, this one has {found}")]
    TooLong {
        /// `task name` or `label`.
        what: &'static str,
        /// Its length in characters.
        found: usize,
    },
    /// A character outside the grammar.
    #[error(
        "a {what} may hold a-z, 0-9, '.', '_' and '-', and begins and ends with a letter or digit; character {at} is '{found}'"
    )]
    Character {
        /// `task name` or `label`.
        what: &'static str,
        /// The position, counted from 1.
        at: usize,
        /// The character, escaped.
        found: String,
    },
    /// A label that would be taken for something else.
    #[error("\"{0}\" cannot be a label: v<number>, current and original have a meaning of their own")]
    Reserved(String),
    /// Not `v` and a number from 1.
    #[error("\"{0}\" is not a version: expected v1, v2, …")]
    Version(String),
}

fn check(text: &str, what: &'static str) -> Result<(), NameError> {
    let found = text.chars().count();
    if found == 0 {
        return Err(NameError::Empty { what });
    }
    if found > MAX_NAME_LEN {
        return Err(NameError::TooLong { what, found });
    }
    for (at, character) in text.chars().enumerate() {
        let plain = character.is_ascii_lowercase() || character.is_ascii_digit();
        let inside = at > 0 && at + 1 < found && matches!(character, '.' | '_' | '-');
        if !plain && !inside {
            return Err(NameError::Character { what, at: at + 1, found: character.escape_debug().to_string() });
        }
    }
    Ok(())
}

impl TaskName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TaskName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check(text, "task name")?;
        Ok(Self(text.into()))
    }
}

impl Label {
    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check(text, "label")?;
        if text == "current" || text == "original" || text.parse::<VersionNumber>().is_ok() {
            return Err(NameError::Reserved(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl VersionNumber {
    /// The first version of a task.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The version after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl FromStr for VersionNumber {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::Version(text.chars().take(80).flat_map(char::escape_debug).collect());
        let digits = text.strip_prefix('v').ok_or_else(wrong)?;
        if digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong());
        }
        digits.parse().map(Self).map_err(|_| wrong())
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

serde_as_text!(TaskName, Label, VersionNumber);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_names() {
        for text in ["a", "7", "resize", "resize-2.v_x", &"a".repeat(63)] {
            assert_eq!(text.parse::<TaskName>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn names_that_would_need_escaping_somewhere_are_refused() {
        let long = "a".repeat(10_000);
        for text in
            ["", "a/b", "a:b", "a#b", "a b", "..", ".", "-x", "x-", "%2e%2e", "Ä", "\u{202e}x", "a\0", "A", &long]
        {
            assert!(text.parse::<TaskName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_error_names_the_position_of_the_bad_character() {
        let error = "ab/c".parse::<TaskName>().unwrap_err();
        assert_eq!(error, NameError::Character { what: "task name", at: 3, found: "/".into() });
    }

    #[test]
    fn a_label_cannot_be_taken_for_a_version() {
        assert!("v2".parse::<Label>().is_err());
        assert!("current".parse::<Label>().is_err());
        assert!("hotfix".parse::<Label>().is_ok());
    }

    #[test]
    fn versions_are_v_and_a_number_from_1() {
        assert_eq!("v12".parse::<VersionNumber>().unwrap().get(), 12);
        for text in ["v0", "v", "2", "v01", "v-1", "v99999999999", "v+1"] {
            assert!(text.parse::<VersionNumber>().is_err(), "{text}");
        }
    }
}
