//! Points in time and durations, both in whole milliseconds; all arithmetic saturates.
//!
//! Deliberately absent: reading a clock, and rounded text forms for people (the command line has those).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z, as UUIDv7 counts them (RFC 9562).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// One point in time on two clocks: the one that people set, and one that nobody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time of day.
    pub wall: Timestamp,
    /// What has passed since some moment before this process; it only ever grows.
    pub steady: Millis,
}

impl Timestamp {
    /// This point plus a duration; the end of time if it would overflow.
    #[must_use]
    pub const fn after(self, delay: Millis) -> Self {
        Self(self.0.saturating_add(delay.0))
    }

    /// The time since an earlier point; zero if the clock was set back in between.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Millis {
    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// This span and another; the longest there is if they overflow.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// What is left of this span after another; none if that is longer.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The same as the standard library's type.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

/// The exact value in the largest unit that divides it: `40d`, `25h`, `90s`, `1500ms`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
        let unit = UNITS.iter().find(|(_, factor)| self.0 > 0 && self.0.is_multiple_of(*factor));
        let (name, factor) = unit.copied().unwrap_or(("ms", 1));
        write!(f, "{}{name}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_exactly_in_its_largest_unit() {
        for (ms, text) in
            [(0, "0ms"), (1500, "1500ms"), (90_000, "90s"), (25 * 3_600_000, "25h"), (40 * 86_400_000, "40d")]
        {
            assert_eq!(Millis(ms).to_string(), text);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_gives_no_negative_duration() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Millis(0));
    }

    #[test]
    fn adding_saturates_at_the_end_of_time() {
        assert_eq!(Timestamp(u64::MAX - 1).after(Millis(7)), Timestamp(u64::MAX));
    }
}
