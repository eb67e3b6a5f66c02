//! Points in time and amounts as people and programs read them.
//!
//! Invariant: nothing here panics for any value; a point in time that no calendar holds is shown as
//! its number of milliseconds.

use jiff::tz::TimeZone;
use wasmq_core::{Millis, Timestamp};

use crate::config::units::write_duration;

/// RFC 3339 in UTC with milliseconds, for programs.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    calendar(at).map_or_else(|| format!("{}ms", at.0), |at| format!("{at:.3}"))
}

/// Date and time in the zone of the reader, for details.
#[must_use]
pub fn local(at: Timestamp) -> String {
    let zoned = calendar(at).map(|at| at.to_zoned_datetime(TimeZone::system()));
    zoned.map_or_else(|| rfc3339(at), |at| at.strftime("%Y-%m-%d %H:%M:%S%.3f %Z").to_string())
}

/// Only the time of day, for tables whose rows lie close together.
#[must_use]
pub fn time_of_day(at: Timestamp) -> String {
    let zoned = calendar(at).map(|at| at.to_zoned_datetime(TimeZone::system()));
    zoned.map_or_else(|| rfc3339(at), |at| at.strftime("%H:%M:%S%.3f").to_string())
}

fn calendar(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

/// "3 min ago", "just now", "in 2 h".
#[must_use]
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    if now.0.abs_diff(at.0) < 1000 {
        return if at > now { "now" } else { "just now" }.to_owned();
    }
    if at <= now {
        return format!("{} ago", rough(now.since(at)));
    }
    // A wait that is just short of a whole minute reads as that minute.
    let wait = at.since(now);
    let whole = if wait.0 > 60_000 { Millis(wait.0.div_ceil(60_000).saturating_mul(60_000)) } else { wait };
    format!("in {}", rough(whole))
}

/// A duration in its largest unit: "45 s", "3 min", "2 h", "5 days".
#[must_use]
pub fn rough(duration: Millis) -> String {
    match duration.0 / 1000 {
        0 => format!("{} ms", duration.0),
        secs @ 1..60 => format!("{secs} s"),
        secs @ 60..3600 => format!("{} min", secs / 60),
        secs @ 3600..172_800 => format!("{} h", secs / 3600),
        secs => format!("{} days", secs / 86_400),
    }
}

/// A measured time: "740 µs", "12.3 ms", "1.25 s", "2m5s".
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn measured(micros: u64) -> String {
    match micros {
        0..1000 => format!("{micros} µs"),
        1000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.2} s", micros as f64 / 1e6),
        _ => write_duration(Millis(micros / 1_000_000 * 1000)),
    }
}

/// An amount of bytes: "0 B", "1.5 KiB", "64 MiB".
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn bytes(amount: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, factor)| amount >= *factor) {
        None => format!("{amount} B"),
        Some((unit, factor)) if amount.is_multiple_of(*factor) => format!("{} {unit}", amount / factor),
        Some((unit, factor)) => format!("{:.1} {unit}", amount as f64 / *factor as f64),
    }
}

/// "1 file", "2 files".
#[must_use]
pub fn count(amount: u64, one: &str, many: &str) -> String {
    format!("{amount} {}", if amount == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_programs_are_rfc_3339_with_milliseconds() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(1_764_498_451_123)), "2025-11-30T10:27:31.123Z");
        assert_eq!(rfc3339(Timestamp(u64::MAX)), "18446744073709551615ms");
    }

    #[test]
    fn times_for_people_are_relative_in_both_directions() {
        let now = Timestamp(1_000_000_000);
        let at = |ms: i64| Timestamp(now.0.saturating_add_signed(ms));
        for (ms, text) in [
            (0, "just now"),
            (500, "now"),
            (-999, "just now"),
            (-3 * 60_000, "3 min ago"),
            (2 * 3_600_000, "in 2 h"),
            (2 * 3_600_000 - 7, "in 2 h"),
            (-47 * 3_600_000, "47 h ago"),
            (-5 * 86_400_000, "5 days ago"),
        ] {
            assert_eq!(relative(at(ms), now), text);
        }
        assert_eq!(relative(Timestamp(u64::MAX), now), "in 213503982323 days");
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!((bytes(0).as_str(), bytes(1536).as_str(), bytes(64 << 20).as_str()), ("0 B", "1.5 KiB", "64 MiB"));
        assert_eq!(bytes(u64::MAX), "17179869184.0 GiB");
        assert_eq!(
            (measured(740).as_str(), measured(12_300).as_str(), measured(125_000_000).as_str()),
            ("740 µs", "12.3 ms", "2m5s")
        );
        assert_eq!((count(1, "task", "tasks"), count(0, "task", "tasks")), ("1 task".into(), "0 tasks".into()));
    }
}
