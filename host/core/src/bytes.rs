//! Bytes that came from outside and have to be shown and stored without ever failing.
//!
//! Invariants: what goes in comes out byte for byte, whatever it is; the JSON form is always valid
//! UTF-8 (`{"text": …}` when the bytes are UTF-8, `{"base64": …}` otherwise).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Opaque bytes with a JSON form that `grep` and `jq` can read where that is possible.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form<'a> {
    #[serde(borrow)]
    Text(std::borrow::Cow<'a, str>),
    Base64(std::borrow::Cow<'a, str>),
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Form::Text(text.into()),
            Err(_) => Form::Base64(STANDARD.encode(&self.0).into()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Form::deserialize(deserializer)? {
            Form::Text(text) => text.into_owned().into_bytes(),
            Form::Base64(text) => STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)?,
        }))
    }
}

/// The end of a stream of which only the last bytes were kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tail {
    /// The bytes that were kept.
    #[serde(flatten)]
    pub bytes: Bytes,
    /// How many bytes there were in all.
    pub total_bytes: u64,
}

impl Tail {
    /// Whether something was dropped in front.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.total_bytes > self.bytes.0.len() as u64
    }
}

/// Shortens a text to at most `limit` bytes, keeping head and tail and never splitting a
/// character. Returns the text and whether anything was cut.
#[must_use]
pub fn cap_text(text: &str, limit: usize) -> (String, bool) {
    if text.len() <= limit {
        return (text.to_owned(), false);
    }
    let mark = format!("\n… {} bytes in all, the middle was cut …\n", text.len());
    let room = limit.saturating_sub(mark.len());
    let head = floor_boundary(text, room.div_ceil(2));
    let tail = ceil_boundary(text, text.len() - room / 2);
    let head = text.get(..head).unwrap_or_default();
    let tail = text.get(tail..).unwrap_or_default();
    (format!("{head}{mark}{tail}"), true)
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// A size exactly, in the largest unit that divides it: `5GiB`, `65537 bytes`.
#[must_use]
pub fn exact_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes} bytes"), |(name, factor)| format!("{}{name}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_json() {
        for bytes in [&b"plain"[..], b"", b"\xff\xfe\0\x80", b"nul\0inside", "\u{2028}\u{1b}[2J".as_bytes()] {
            let json = serde_json::to_string(&Bytes(bytes.to_vec())).unwrap();
            assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap().0, bytes);
        }
    }

    #[test]
    fn a_text_at_the_limit_is_kept_and_one_over_it_is_cut_between_characters() {
        let four_bytes = "🦀".repeat(100);
        assert_eq!(cap_text(&four_bytes, 400), (four_bytes.clone(), false));
        for limit in 60..399 {
            let (short, cut) = cap_text(&four_bytes, limit);
            assert!(cut && short.len() <= limit, "limit {limit} gave {} bytes", short.len());
            assert!(short.contains("400 bytes in all"));
        }
    }
}
