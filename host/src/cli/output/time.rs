//! Points in time and amounts as people and programs read them.
//!
//! Invariant: nothing here panics for any value; a point in time that no calendar holds is shown as
//! its number of milliseconds.

use std::time::Duration;

use jiff::tz::TimeZone;
use wasmq_core::{Millis, Timestamp};

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

/// A time that was measured in microseconds: "740 µs", "1.4 ms", "126 ms", "1.3 s", "2 min 5 s".
#[must_use]
pub fn measured(micros: u64) -> String {
    match micros {
        0..1000 => format!("{micros} µs"),
        1000..9950 => one_decimal(micros, 1000, "ms"),
        _ => span(Millis(micros.saturating_add(500) / 1000)),
    }
}

/// The same of a time that was measured in nanoseconds, with tenths of microseconds where they count: "6.3 µs".
#[must_use]
pub fn measured_finely(time: Duration) -> String {
    match u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) {
        nanos @ 0..99_950 => one_decimal(nanos, 1000, "µs"),
        nanos => measured(nanos.saturating_add(500) / 1000),
    }
}

/// A duration as exact as a person wants to know it: "7 ms", "1.3 s", "45 s", "2 min 5 s", "3 days 2 h".
#[must_use]
pub fn span(duration: Millis) -> String {
    let secs = duration.0.saturating_add(500) / 1000;
    match duration.0 {
        0..1000 => format!("{} ms", duration.0),
        1000..9950 => one_decimal(duration.0, 1000, "s"),
        _ => match secs {
            0..60 => format!("{secs} s"),
            60..3600 => two_units((secs / 60, "min"), (secs % 60, "s")),
            3600..172_800 => two_units((secs / 3600, "h"), (secs % 3600 / 60, "min")),
            _ => two_units((secs / 86_400, "days"), (secs % 86_400 / 3600, "h")),
        },
    }
}

/// With one digit behind the point, unless that is a zero.
fn one_decimal(amount: u64, per_unit: u64, unit: &str) -> String {
    let tenths = (amount + per_unit / 20) * 10 / per_unit;
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        digit => format!("{}.{digit} {unit}", tenths / 10),
    }
}

fn two_units((large, large_unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    if small == 0 { format!("{large} {large_unit}") } else { format!("{large} {large_unit} {small} {small_unit}") }
}

/// An amount of bytes: "0 B", "1.5 KiB", "64 MiB".
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn bytes(amount: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    // What rounds to 1024.0 of a unit is one of the next.
    match UNITS.iter().find(|(_, factor)| amount >= factor - factor / 20_480) {
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
    fn durations_are_no_more_exact_than_a_person_wants_to_know() {
        for (micros, text) in [
            (0, "0 µs"),
            (740, "740 µs"),
            (1000, "1 ms"),
            (1440, "1.4 ms"),
            (9949, "9.9 ms"),
            (9950, "10 ms"),
            (126_000, "126 ms"),
            (999_499, "999 ms"),
            (999_500, "1 s"),
            (1_349_000, "1.3 s"),
            (9_949_000, "9.9 s"),
            (9_950_000, "10 s"),
            (59_499_000, "59 s"),
            (59_500_000, "1 min"),
            (125_000_000, "2 min 5 s"),
            (3_600_000_000, "1 h"),
            (86_400_000_000, "24 h"),
            (176_400_000_000, "2 days 1 h"),
        ] {
            assert_eq!(measured(micros), text, "{micros} µs");
        }
        assert_eq!((span(Millis(2)).as_str(), span(Millis(90_000)).as_str()), ("2 ms", "1 min 30 s"));
        assert_eq!(
            (measured(u64::MAX), span(Millis(u64::MAX))),
            ("213503982 days 8 h".into(), "213503982334 days 14 h".into())
        );
    }

    #[test]
    fn short_times_are_shown_in_tenths_of_microseconds() {
        let shown = |nanos: u64| measured_finely(Duration::from_nanos(nanos));
        assert_eq!((shown(0), shown(49), shown(6_340)), ("0 µs".into(), "0 µs".into(), "6.3 µs".into()));
        assert_eq!(
            (shown(99_949), shown(99_950), shown(999_499)),
            ("99.9 µs".into(), "100 µs".into(), "999 µs".into())
        );
        assert_eq!((shown(1_440_000), shown(u64::MAX)), ("1.4 ms".into(), "213503 days 23 h".into()));
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!((bytes(0).as_str(), bytes(1536).as_str(), bytes(64 << 20).as_str()), ("0 B", "1.5 KiB", "64 MiB"));
        assert_eq!(bytes(u64::MAX), "17179869184.0 GiB");
        assert_eq!((bytes(1023).as_str(), bytes((1 << 20) - 1).as_str()), ("1023 B", "1.0 MiB"));
        assert_eq!((count(1, "task", "tasks"), count(0, "task", "tasks")), ("1 task".into(), "0 tasks".into()));
    }
}
