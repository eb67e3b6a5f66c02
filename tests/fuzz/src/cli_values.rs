//! The values of options, each given the same text: a value or an error that says what is expected, and a
//! value is written as a text that means the same.

use wasmq_core::Millis;

use crate::config::units::{parse_duration, parse_size, write_duration, write_size};
use crate::values;

/// See the module.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(duration) = parse_duration(text) {
        assert_eq!(parse_duration(&write_duration(duration)), Ok(duration));
    }
    if let Ok(size) = parse_size(text) {
        assert_eq!(parse_size(&write_size(size)), Ok(size));
    }
    if let Ok(delay) = values::delay(text) {
        assert!(delay <= values::MAX_DELAY && parse_duration(text) == Ok(delay));
    }
    if let Ok(id) = text.parse::<values::IdArg>() {
        assert_eq!(id.to_string().parse::<values::IdArg>(), Ok(id));
    }
    if let Ok(at) = values::point_in_time(text) {
        let written = jiff::Timestamp::from_millisecond(at.0 as i64).unwrap().to_string();
        assert_eq!(values::point_in_time(&written), Ok(at));
    }
    if let Ok(group) = values::group(text) {
        assert_eq!(values::group(&group), Ok(group));
    }
    says_what_is_expected(text);
}

/// Of the parsers without a way back: an error is one short sentence.
fn says_what_is_expected(text: &str) {
    let errors = [
        values::duration(text).err(),
        values::size(text).err(),
        values::limit(text).err(),
        values::priority(text).err(),
        values::attempt(text).err(),
        values::max_attempts(text).err(),
        values::own_max_attempts(text).err(),
        values::fraction(text).err(),
        values::backoff(text).err(),
        values::policy(text).err(),
        values::pair(text).err(),
        values::version(text).err(),
        values::component(text).err(),
    ];
    for error in errors.into_iter().flatten() {
        assert!(!error.is_empty() && error.len() < 250 && !error.contains('\n'), "{error:?}");
    }
}
