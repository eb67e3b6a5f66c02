//! The JSON form of everything: one value a line, times as RFC 3339 texts.
//!
//! Rule: a number under a key that ends in `_at` is a point in time and becomes a text such as
//! `2025-11-30T10:27:31.123Z`. Bytes are `{"text": …}`, or `{"base64": …}` when they are no UTF-8.
//!
//! Invariant: a line holds no character that drives a terminal; such characters are `\uXXXX`.

use serde::Serialize;
use serde_json::Value;
use wasmq_core::Timestamp;

use super::time::rfc3339;
use crate::telemetry::safe::escape_json;

/// The line that stands for a value.
///
/// # Errors
/// When the value has a map whose keys are no texts; none of ours has.
pub fn line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut value = serde_json::to_value(value)?;
    spell_times(&mut value);
    serde_json::to_string(&value).map(escape_json)
}

/// A value with one field more in front; the value itself when it is no object.
#[must_use]
pub fn object(name: &str, field: &impl Serialize, value: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert(name.to_owned(), serde_json::to_value(field).unwrap_or_default());
    }
    value
}

fn spell_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                match field.as_u64().filter(|_| key.ends_with("_at")) {
                    Some(ms) => *field = Value::String(rfc3339(Timestamp(ms))),
                    None => spell_times(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell_times),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_spelled_out_at_any_depth_and_other_numbers_stay() {
        let value = json!({"dead_at": 0, "n": 5, "history": [{"ended_at": 1}], "stat": 3, "due_at": null});
        assert_eq!(
            line(&value).unwrap(),
            r#"{"dead_at":"1970-01-01T00:00:00.000Z","due_at":null,"history":[{"ended_at":"1970-01-01T00:00:00.001Z"}],"n":5,"stat":3}"#
        );
    }

    #[test]
    fn characters_that_drive_a_terminal_are_escaped_and_come_back() {
        let text = "\u{9b}31m \u{202e} \u{2028} \u{e0041} \u{7f} \u{1b}";
        let line = line(&json!({ "error": text })).unwrap();
        assert!(line.is_ascii(), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["error"], text);
    }

    #[test]
    fn large_numbers_are_not_rounded() {
        assert_eq!(line(&json!({"n": u64::MAX})).unwrap(), r#"{"n":18446744073709551615}"#);
    }
}
