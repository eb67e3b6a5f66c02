//! Parsers for the values of options, each with an error that says what is expected.
//!
//! Invariants: nothing here clamps or guesses: a value is what it says or it is refused. The ranges
//! of task settings are checked by [`wasmq_core::settings::RawSettings::check`] and not again here.
//!
//! Deliberately absent: looking anything up; whether a task, version or id exists is the queue's
//! answer.

use std::num::NonZeroU32;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use wasmq_core::invocation::MAX_PRIORITY;
use wasmq_core::settings::{Action, Backoff, MAX_ATTEMPTS};
use wasmq_core::{InvocationId, Label, Millis, Timestamp, VersionNumber};

use crate::config::units::{parse_duration, parse_size};

/// The longest delay of an invocation: ten years.
pub const MAX_DELAY: Millis = Millis(3650 * 86_400_000);
/// The fewest characters of an id that are taken as its beginning.
pub const MIN_PREFIX_LEN: usize = 8;
/// How often the same attempt can be run in one process: the time of each is kept.
pub const MAX_REPEAT: u32 = 1_000_000;

/// A whole id, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdArg {
    /// All of it.
    Whole(InvocationId),
    /// At least [`MIN_PREFIX_LEN`] hex digits, in the usual form with dashes.
    Prefix(String),
}

impl FromStr for IdArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Whole(id));
        }
        let digits = text.bytes().filter(|byte| *byte != b'-').count();
        let fine = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !fine || text.starts_with('-') || !(MIN_PREFIX_LEN..32).contains(&digits) {
            return Err(format!(
                "expected an id such as 01935d2c-7b3e-7cc0-98c4-dc0c0c07398f, or at least its first {MIN_PREFIX_LEN} characters"
            ));
        }
        Ok(Self::Prefix(with_dashes(text)))
    }
}

/// The usual form of the beginning of an id.
fn with_dashes(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    for (at, digit) in text.chars().filter(|c| *c != '-').enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            out.push('-');
        }
        out.push(digit.to_ascii_lowercase());
    }
    out
}

impl std::fmt::Display for IdArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(id) => id.fmt(f),
            Self::Prefix(text) => f.write_str(text),
        }
    }
}

/// Whether a text is a number, or begins with one, below zero.
fn is_negative(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// A duration.
///
/// # Errors
/// When the text is none.
pub fn duration(text: &str) -> Result<Millis, String> {
    let negative = if is_negative(text) { "a duration cannot be negative; " } else { "" };
    parse_duration(text).map_err(|error| format!("{negative}{error}"))
}

/// A delay of an invocation.
///
/// # Errors
/// When the text is no duration, or longer than ten years.
pub fn delay(text: &str) -> Result<Millis, String> {
    let expected = "expected a duration from 0s to 3650d, such as 30s, 5m or 1h30m";
    if is_negative(text) {
        return Err(format!("a delay cannot be negative; {expected}"));
    }
    parse_duration(text).ok().filter(|delay| *delay <= MAX_DELAY).ok_or_else(|| expected.to_owned())
}

/// A size in bytes.
///
/// # Errors
/// When the text is none.
pub fn size(text: &str) -> Result<u64, String> {
    let negative = if is_negative(text) { "a size cannot be negative; " } else { "" };
    parse_size(text).map_err(|error| format!("{negative}{error}"))
}

/// A whole number inside a range.
///
/// # Errors
/// When the text is none, or outside the range.
fn whole<T: FromStr + PartialOrd + Copy + std::fmt::Display>(text: &str, from: T, to: T) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| (from..=to).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {from} to {to}"))
}

/// The most rows of a list.
///
/// # Errors
/// When the text is no number from 1.
pub fn limit(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number from 1, such as 1000".to_owned())
}

/// A priority.
///
/// # Errors
/// When the text is no number from 0 to 9.
pub fn priority(text: &str) -> Result<u8, String> {
    whole(text, 0, MAX_PRIORITY)
}

/// The number of an attempt, counted from 1.
///
/// # Errors
/// When the text is no such number.
pub fn attempt(text: &str) -> Result<u32, String> {
    whole(text, 1, u32::MAX)
}

/// How often to run the same attempt.
///
/// # Errors
/// When the text is no number from 1 to [`MAX_REPEAT`].
pub fn repeat(text: &str) -> Result<NonZeroU32, String> {
    let expected = || format!("expected a whole number from 1 to {MAX_REPEAT}");
    text.parse().ok().filter(|count: &NonZeroU32| count.get() <= MAX_REPEAT).ok_or_else(expected)
}

/// The budget of attempts of a task. Its range is checked with the other settings.
///
/// # Errors
/// When the text is no number.
pub fn max_attempts(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected a whole number from 1 to {MAX_ATTEMPTS}"))
}

/// The budget of attempts of one invocation.
///
/// # Errors
/// When the text is no number from 1 to 1000.
pub fn own_max_attempts(text: &str) -> Result<NonZeroU32, String> {
    let most = NonZeroU32::new(MAX_ATTEMPTS).unwrap_or(NonZeroU32::MAX);
    whole(text, NonZeroU32::MIN, most)
}

/// A share of something.
///
/// # Errors
/// When the text is no number; the range is checked with the other settings.
pub fn fraction(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number between 0 and 1, such as 0.25".to_owned())
}

/// A point in time: RFC 3339 with an offset, or date and time in the zone of this machine.
///
/// # Errors
/// When the text is neither, or before 1970.
pub fn point_in_time(text: &str) -> Result<Timestamp, String> {
    let expected =
        "expected a time such as 2030-01-31T09:00:00Z, 2030-01-31T09:00:00+02:00, or 2030-01-31 09:00 in local time";
    let local = || {
        let date_time: DateTime = text.parse().ok().filter(|_| text.contains(':'))?;
        date_time.to_zoned_datetime(TimeZone::system()).ok().map(|zoned| zoned.timestamp())
    };
    let zoned = || text.parse::<jiff::ZonedDateTime>().ok().map(|zoned| zoned.timestamp());
    let at = text.parse::<jiff::Timestamp>().ok().or_else(zoned).or_else(local).ok_or(expected)?;
    u64::try_from(at.as_millisecond()).map(Timestamp).map_err(|_| "expected a time after 1970".to_owned())
}

/// A backoff: `polynomial`, `fixed:10s` or `exponential:1s,2,5m`.
///
/// # Errors
/// When the text is none of these.
pub fn backoff(text: &str) -> Result<Backoff, String> {
    let wrong = || {
        "expected polynomial, fixed:DELAY such as fixed:10s, or exponential:BASE,FACTOR,CAP such as exponential:1s,2,5m"
            .to_owned()
    };
    match text.split_once(':') {
        None if text == "polynomial" => Ok(Backoff::Polynomial),
        Some(("fixed", delay)) => Ok(Backoff::Fixed { delay_ms: duration(delay)?.0 }),
        Some(("exponential", rest)) => {
            let mut parts = rest.split(',');
            let (Some(base), Some(factor), Some(cap), None) = (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(wrong());
            };
            let factor = factor.parse().map_err(|_| "the factor must be a number from 1 to 100".to_owned())?;
            Ok(Backoff::Exponential { base_ms: duration(base)?.0, factor, cap_ms: duration(cap)?.0 })
        }
        _ => Err(wrong()),
    }
}

/// A policy for a verdict or a family: `trap=dead`.
///
/// # Errors
/// When the text has another form; the verdict itself is checked with the settings.
pub fn policy(text: &str) -> Result<(String, Action), String> {
    let expected = "expected VERDICT=ACTION with retry or dead as the action, such as trap=dead or exit.64=retry";
    let (verdict, action) = text.split_once('=').ok_or(expected)?;
    let action = match action {
        "retry" => Action::Retry,
        "dead" => Action::Dead,
        _ => return Err(expected.to_owned()),
    };
    Ok((verdict.to_owned(), action))
}

/// A pair of metadata: `key=value`.
///
/// # Errors
/// When there is no `=` or no key.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected key=value")?;
    if key.is_empty() {
        Err("expected key=value; the key is empty".to_owned())
    } else {
        Ok((key.to_owned(), value.to_owned()))
    }
}

/// A version of a task: `current`, `v2`, a label or `sha256:…`.
///
/// # Errors
/// When the text can be none of these.
pub fn version(text: &str) -> Result<String, String> {
    let digest = text.strip_prefix("sha256:");
    let fine = match digest {
        Some(digits) => (12..=64).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => text == "current" || text.parse::<VersionNumber>().is_ok() || text.parse::<Label>().is_ok(),
    };
    let expected = match digest {
        _ if fine => return Ok(text.to_owned()),
        Some(_) => "expected sha256: and at least the first 12 hex digits",
        None => "expected current, a version such as v2, a label, or sha256:…",
    };
    Err(expected.to_owned())
}

/// As [`version`], or `original`.
///
/// # Errors
/// When the text can be none of these.
pub fn component(text: &str) -> Result<String, String> {
    if text == "original" {
        Ok(text.to_owned())
    } else {
        version(text).map_err(|error| error.replace("expected current", "expected original, current"))
    }
}

/// The fingerprint of a group: 16 hex digits.
///
/// # Errors
/// When the text is something else.
pub fn group(text: &str) -> Result<String, String> {
    if text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err("expected 16 hex digits, as `wasmq dlq groups` shows them".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_or_at_least_eight_characters_and_never_a_pattern() {
        let whole = "01935d2c-7b3e-7cc0-98c4-dc0c0c07398f";
        assert_eq!(whole.parse(), Ok(IdArg::Whole(whole.parse().unwrap())));
        assert_eq!("01935D2C-7b".parse(), Ok(IdArg::Prefix("01935d2c-7b".to_owned())));
        assert_eq!("01935d2c7b3e7".parse(), Ok(IdArg::Prefix("01935d2c-7b3e-7".to_owned())));
        for text in ["", "%", "*", "01935d2", "01935d2%", "01935d2c_", "0193-5d2", "-01935d2c", "{\"id\":1}"] {
            assert!(text.parse::<IdArg>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn times_have_an_offset_or_are_local() {
        assert_eq!(point_in_time("1970-01-01T00:00:01Z"), Ok(Timestamp(1000)));
        assert_eq!(point_in_time("1970-01-01T02:00:01.5+02:00"), Ok(Timestamp(1500)));
        assert!(point_in_time("2030-01-31 09:00").is_ok() && point_in_time("2030-01-31T09:00:00").is_ok());
        for text in
            ["", "tomorrow", "2030-01-31", "1969-12-31T23:59:59Z", "2030-02-30T00:00:00Z", "99999-01-01T00:00:00Z"]
        {
            assert!(point_in_time(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn backoffs_have_three_forms() {
        assert_eq!(backoff("polynomial"), Ok(Backoff::Polynomial));
        assert_eq!(backoff("fixed:10s"), Ok(Backoff::Fixed { delay_ms: 10_000 }));
        assert_eq!(
            backoff("exponential:1s,2.5,5m"),
            Ok(Backoff::Exponential { base_ms: 1000, factor: 2.5, cap_ms: 300_000 })
        );
        for text in
            ["", "fixed", "fixed:-1s", "exponential:1s,2", "exponential:1s,2,5m,1", "exponential:1s,x,5m", "linear:1s"]
        {
            assert!(backoff(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn pairs_and_policies_need_both_sides() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("a").is_err() && pair("=b").is_err());
        assert_eq!(policy("trap=dead"), Ok(("trap".into(), Action::Dead)));
        assert!(policy("trap").is_err() && policy("trap=die").is_err());
    }

    #[test]
    fn versions_are_checked_before_anything_is_asked() {
        for text in ["current", "v2", "hotfix"] {
            assert_eq!(version(text).as_deref(), Ok(text));
        }
        assert!(component("original").is_ok() && version("original").is_err());
        for text in ["", "V2", "sha256:12", "a b", "../x"] {
            assert!(component(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_negative_says_so_and_what_is_expected() {
        assert_eq!(
            delay("-5s").unwrap_err(),
            "a delay cannot be negative; expected a duration from 0s to 3650d, such as 30s, 5m or 1h30m"
        );
        assert!(duration("-5s").unwrap_err().starts_with("a duration cannot be negative; expected a duration such as"));
        assert!(size("-5MiB").unwrap_err().starts_with("a size cannot be negative; expected a size such as"));
        assert!(backoff("fixed:-5s").unwrap_err().starts_with("a duration cannot be negative"));
        assert!(!duration("--wait").unwrap_err().contains("negative"));
    }

    #[test]
    fn numbers_outside_their_range_are_told_the_range() {
        assert_eq!(priority("10").unwrap_err(), "expected a whole number from 0 to 9");
        for text in ["0", "-1", "1001", "99999999999", "x", ""] {
            assert_eq!(own_max_attempts(text).unwrap_err(), "expected a whole number from 1 to 1000", "{text:?}");
        }
        assert_eq!((own_max_attempts("1000").map(NonZeroU32::get), attempt("1")), (Ok(1000), Ok(1)));
        assert_eq!(repeat("1000001").unwrap_err(), "expected a whole number from 1 to 1000000");
        assert_eq!((repeat("1000000").map(NonZeroU32::get), repeat("0").is_err()), (Ok(MAX_REPEAT), true));
        assert_eq!(fraction("x").unwrap_err(), "expected a number between 0 and 1, such as 0.25");
        assert!(attempt("0").is_err() && limit("-1").is_err() && max_attempts("many").is_err());
    }

    #[test]
    fn delays_end_at_ten_years() {
        assert!(delay("3650d").is_ok() && delay("3651d").is_err() && delay("-5m").is_err());
    }
}
