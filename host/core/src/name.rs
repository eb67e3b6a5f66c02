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
    if is_name(text.as_bytes()) { Ok(()) } else { Err(explain(text, what)) }
}

fn is_name(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: &u8| is_plain(byte) || matches!(byte, b'.' | b'_' | b'-');
    let ends_well = text.first().is_some_and(is_plain) && text.last().is_some_and(is_plain);
    ends_well && text.len() <= MAX_NAME_LEN && text.iter().all(is_inner)
}

/// What is wrong with a text that is no name.
fn explain(text: &str, what: &'static str) -> NameError {
    let length = text.chars().count();
    if length > MAX_NAME_LEN {
        return NameError::TooLong { what, found: length };
    }
    let is_allowed = |at: usize, character: char| match character {
        'a'..='z' | '0'..='9' => true,
        '.' | '_' | '-' => at > 0 && at + 1 < length,
        _ => false,
    };
    match text.chars().enumerate().find(|(at, character)| !is_allowed(*at, *character)) {
        Some((at, character)) => NameError::Character { what, at: at + 1, found: character.escape_debug().to_string() },
        None => NameError::Empty { what },
    }
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

    proptest::proptest! {
        #[test]
        fn every_text_that_is_refused_has_an_explanation(text in "[a-z.Ä]{0,70}") {
            let refused = text.parse::<TaskName>().is_err();
            let empty = explain(&text, "task name") == NameError::Empty { what: "task name" };
            proptest::prop_assert_eq!(refused, !empty || text.is_empty());
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
