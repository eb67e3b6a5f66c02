//! Names: the id of a log and the files that belong to it.
//!
//! Every file name is built and taken apart here and nowhere else. Deliberately absent: making up
//! new ids, which takes randomness.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

/// What the name of every file of any format version begins with.
const PREFIX: &str = "wal-";
const ID_DIGITS: usize = 32;
const SEQUENCE_DIGITS: usize = 10;

/// The identity of a log: 128 bits, written as 32 lower-case hex digits (a UUID without dashes).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalId([u8; 16]);

impl WalId {
    /// The id with these bytes, for example those of a UUIDv7.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes of the id.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for WalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for WalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalId({self})")
    }
}

/// A text that is not the id of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read {found:?} as the id of a log: expected 32 lower-case hex digits")]
pub struct InvalidWalId {
    /// The text.
    pub found: String,
}

impl FromStr for WalId {
    type Err = InvalidWalId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidWalId { found: text.to_owned() };
        let lower_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if text.len() != ID_DIGITS || !text.chars().all(lower_hex) {
            return Err(invalid());
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| invalid())?;
        Ok(Self(number.to_be_bytes()))
    }
}

/// `wal-v1-<id>.lock`
#[must_use]
pub fn lock_file_name(id: WalId) -> String {
    format!("wal-v1-{id}.lock")
}

/// `wal-v1-<id>-<sequence>.log`
#[must_use]
pub fn segment_file_name(id: WalId, sequence: u32) -> String {
    format!("wal-v1-{id}-{sequence:0width$}.log", width = SEQUENCE_DIGITS)
}

/// What a file name says about the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileName {
    Lock(WalId),
    Segment(WalId, u32),
    Quarantined(WalId),
    /// A log of another format version.
    OtherVersion(u32),
    /// Begins like a log and goes on like none.
    Malformed,
    /// Has nothing to do with logs.
    Unrelated,
}

/// Reads a file name. Only names that this module would build are accepted.
pub(crate) fn parse(name: &OsStr) -> FileName {
    let text = name.to_string_lossy();
    let Some(rest) = text.strip_prefix(PREFIX) else {
        return FileName::Unrelated;
    };
    match version_of(rest) {
        Some((1, rest)) => parse_version_1(rest).unwrap_or(FileName::Malformed),
        Some((version, _)) => FileName::OtherVersion(version),
        None => FileName::Malformed,
    }
}

fn version_of(rest: &str) -> Option<(u32, &str)> {
    let (version, rest) = rest.strip_prefix('v')?.split_once('-')?;
    Some((number(version)?, rest))
}

fn parse_version_1(rest: &str) -> Option<FileName> {
    let (id, rest) = rest.split_at_checked(ID_DIGITS)?;
    let id = id.parse().ok()?;
    if let Some(suffix) = rest.strip_prefix(".lock") {
        return if suffix.is_empty() { Some(FileName::Lock(id)) } else { quarantined(id, suffix) };
    }
    let (digits, rest) = rest.strip_prefix('-')?.split_at_checked(SEQUENCE_DIGITS)?;
    let sequence = number(digits).filter(|&sequence| sequence > 0)?;
    match rest.strip_prefix(".log")? {
        "" => Some(FileName::Segment(id, sequence)),
        suffix => quarantined(id, suffix),
    }
}

fn quarantined(id: WalId, suffix: &str) -> Option<FileName> {
    let offset = suffix.strip_prefix(".damaged-")?;
    let offset = offset.strip_suffix(".tmp").unwrap_or(offset);
    offset.parse::<u64>().ok().map(|_| FileName::Quarantined(id))
}

/// Decimal digits and nothing else: no sign, no blank.
fn number(digits: &str) -> Option<u32> {
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190b2c4d5e67f8091a2b3c4d5e6f708";

    #[test]
    fn names_are_read_back_as_they_were_built() {
        let id: WalId = ID.parse().unwrap();
        assert_eq!(id.to_string(), ID);
        assert_eq!(parse(lock_file_name(id).as_ref()), FileName::Lock(id));
        for sequence in [1, 42, u32::MAX] {
            let name = segment_file_name(id, sequence);
            assert_eq!(parse(name.as_ref()), FileName::Segment(id, sequence));
            assert_eq!(parse(format!("{name}.damaged-64").as_ref()), FileName::Quarantined(id));
        }
        let lock = lock_file_name(id);
        assert_eq!(parse(format!("{lock}.damaged-0").as_ref()), FileName::Quarantined(id));
        assert_eq!(parse(format!("{lock}x").as_ref()), FileName::Malformed);
    }

    #[test]
    fn other_names_are_told_apart() {
        let cases = [
            ("wal-v2-whatever".to_owned(), FileName::OtherVersion(2)),
            ("notes.txt".to_owned(), FileName::Unrelated),
            ("wal-v1-short.lock".to_owned(), FileName::Malformed),
            (format!("wal-v1-{ID}-0000000000.log"), FileName::Malformed),
            (format!("wal-v1-{ID}-1.log"), FileName::Malformed),
            (format!("wal-v1-{ID}-+000000001.log"), FileName::Malformed),
            (format!("wal-v1-{}.lock", ID.to_uppercase()), FileName::Malformed),
            ("wal-".to_owned(), FileName::Malformed),
        ];
        for (name, expected) in cases {
            assert_eq!(parse(name.as_ref()), expected, "{name}");
        }
    }

    #[test]
    fn an_id_is_exactly_32_lower_case_hex_digits() {
        for text in ["", "0", &ID.to_uppercase(), &format!("{ID}0"), "+190b2c4d5e67f8091a2b3c4d5e6f708"] {
            assert!(text.parse::<WalId>().is_err(), "{text}");
        }
    }
}
