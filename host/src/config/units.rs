//! Durations and sizes as people write them: `250ms`, `1h30m`, `64MiB`, `1MB`.
//!
//! Invariants: parsing is strict (no signs, fractions, blanks or unknown units) and never overflows;
//! what [`write_duration`] and [`write_size`] print is parsed back to the same value.

use wasmq_core::Millis;

const DURATION_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("KB", 1000),
    ("B", 1),
];

/// Why a text is no duration or size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not the grammar of a duration.
    #[error("expected a duration such as 250ms, 10s, 5m, 1h30m or 7d")]
    Duration,
    /// Not the grammar of a size.
    #[error("expected a size such as 65536, 64KiB, 16MiB or 1MB")]
    Size,
    /// Does not fit 64 bits.
    #[error("the number is too large")]
    TooLarge,
}

/// Parses a duration: one or more numbers with a unit, the larger units first.
///
/// # Errors
/// When the text is something else, or does not fit.
pub fn parse_duration(text: &str) -> Result<Millis, UnitError> {
    if text == "0" {
        return Ok(Millis(0));
    }
    let mut rest = text;
    let mut total = 0u64;
    let mut smaller_than = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest, &UnitError::Duration)?;
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let factor = factor_of(&DURATION_UNITS, unit).ok_or(UnitError::Duration)?;
        if factor >= smaller_than {
            return Err(UnitError::Duration);
        }
        let part = number.checked_mul(factor).ok_or(UnitError::TooLarge)?;
        total = total.checked_add(part).ok_or(UnitError::TooLarge)?;
        (smaller_than, rest) = (factor, next);
    }
    if smaller_than == u64::MAX { Err(UnitError::Duration) } else { Ok(Millis(total)) }
}

/// Parses a size in bytes: a number, with or without a unit.
///
/// # Errors
/// When the text is something else, or does not fit.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = leading_number(text, &UnitError::Size)?;
    let factor = if unit.is_empty() { Some(1) } else { factor_of(&SIZE_UNITS, unit) };
    number.checked_mul(factor.ok_or(UnitError::Size)?).ok_or(UnitError::TooLarge)
}

fn leading_number<'a>(text: &'a str, wrong: &UnitError) -> Result<(u64, &'a str), UnitError> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Err(wrong.clone());
    }
    digits.parse().map(|number| (number, rest)).map_err(|_| UnitError::TooLarge)
}

fn factor_of(units: &[(&str, u64)], unit: &str) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// Writes a duration so that [`parse_duration`] gives it back.
#[must_use]
pub fn write_duration(duration: Millis) -> String {
    let mut rest = duration.0;
    let mut text = String::new();
    for (unit, factor) in DURATION_UNITS {
        let count = rest / factor;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
        rest %= factor;
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Writes a size exactly, in the largest binary unit that divides it.
#[must_use]
pub fn write_size(bytes: u64) -> String {
    let unit = SIZE_UNITS.iter().take(3).find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes}B"), |(name, factor)| format!("{}{name}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_strictly() {
        for (text, ms) in
            [("250ms", 250), ("10s", 10_000), ("1h30m", 5_400_000), ("7d", 604_800_000), ("0", 0), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Millis(ms)), "{text}");
        }
        for text in ["", "10", "-1s", "+1s", "1.5h", "NaN", "inf", "1s ", "s", "30m1h", "1s1s", "1h 30m", "５s"] {
            assert_eq!(parse_duration(text), Err(UnitError::Duration), "{text:?}");
        }
        assert_eq!(parse_duration("99999999999999999999s"), Err(UnitError::TooLarge));
        assert_eq!(parse_duration("18446744073709551615d"), Err(UnitError::TooLarge));
    }

    #[test]
    fn sizes_are_parsed_strictly() {
        for (text, bytes) in [("0", 0), ("7B", 7), ("64KiB", 65_536), ("1MB", 1_000_000), ("2GiB", 2 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1 MiB", "1.5MiB", "1mib", "NaN", "1M"] {
            assert_eq!(parse_size(text), Err(UnitError::Size), "{text:?}");
        }
        assert_eq!(parse_size("18446744073709551615GiB"), Err(UnitError::TooLarge));
    }

    #[test]
    fn what_is_written_is_parsed_back() {
        for ms in [0, 1, 999, 1000, 61_001, 90_061_001, u64::MAX] {
            assert_eq!(parse_duration(&write_duration(Millis(ms))), Ok(Millis(ms)));
        }
        for bytes in [0, 1, 1023, 1024, 1_000_000, 1 << 20, 3 << 30, u64::MAX] {
            assert_eq!(parse_size(&write_size(bytes)), Ok(bytes));
        }
    }
}
