//! Points in time and durations, both in whole milliseconds; all arithmetic saturates.
//!
//! Deliberately absent: reading a clock, and the text forms for people (the command line has those).

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z, as UUIDv7 counts them (RFC 9562).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

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

    /// The same as the standard library's type.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_gives_no_negative_duration() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Millis(0));
    }

    #[test]
    fn adding_saturates_at_the_end_of_time() {
        assert_eq!(Timestamp(u64::MAX - 1).after(Millis(7)), Timestamp(u64::MAX));
    }
}
