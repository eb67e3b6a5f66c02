//! The first bytes of a payload, as text or as a hex dump.

use std::fmt::Write as _;

use crate::cli::output::safe::{safe, safe_block};
use crate::cli::output::table::cut;
use crate::cli::output::time;

/// How many bytes of a text are shown.
const TEXT_BYTES: usize = 1024;
/// How many lines of a text are shown.
const TEXT_LINES: usize = 12;
/// How many columns of a line of text are shown.
const TEXT_COLUMNS: usize = 160;
/// How many bytes of anything else are shown.
const HEX_BYTES: usize = 128;

/// What is known of a payload at a glance.
#[derive(Debug, PartialEq, Eq)]
pub struct Preview {
    /// Its size and kind in words.
    pub about: String,
    /// Its first bytes; safe, several lines.
    pub text: String,
    /// Whether there is more than is shown.
    pub cut: bool,
}

/// Looks at a payload.
#[must_use]
pub fn preview(bytes: &[u8]) -> Preview {
    let size = time::bytes(bytes.len() as u64);
    let exact = if bytes.len() < 1024 { String::new() } else { format!(" ({} bytes)", bytes.len()) };
    if bytes.is_empty() {
        return Preview { about: "empty".to_owned(), text: String::new(), cut: false };
    }
    if let Some(text) = as_text(bytes) {
        let (shown, cut) = first_lines(text);
        return Preview { about: format!("{size}{exact}, text"), text: shown, cut };
    }
    let first = bytes.get(..HEX_BYTES).unwrap_or(bytes);
    Preview { about: format!("{size}{exact}, binary"), text: hex_dump(first), cut: bytes.len() > HEX_BYTES }
}

/// The bytes as text, when they are UTF-8 without controls other than line breaks and tabs. A
/// byte-order mark, often the culprit, still is text and is shown escaped.
fn as_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut start = text.chars().take(TEXT_BYTES);
    (!start.any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))).then_some(text)
}

fn first_lines(text: &str) -> (String, bool) {
    let mut shown = String::new();
    let mut cut_off = false;
    let mut lines = text.split_inclusive('\n');
    for line in lines.by_ref().take(TEXT_LINES) {
        let line = safe(line.trim_end_matches('\n'));
        let short = cut(&line, TEXT_COLUMNS.min(TEXT_BYTES.saturating_sub(shown.len()).max(1)));
        cut_off |= short != line;
        shown.push_str(&safe_block(&short));
        shown.push('\n');
    }
    cut_off |= lines.next().is_some();
    (shown, cut_off)
}

/// Offset, 16 bytes, and the same as ASCII, a line each.
#[must_use]
pub fn hex_dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(out, "{:08x}  ", row * 16);
        for at in 0..16 {
            match chunk.get(at) {
                Some(byte) => {
                    let _ = write!(out, "{byte:02x} ");
                }
                None => out.push_str("   "),
            }
            if at == 7 {
                out.push(' ');
            }
        }
        let ascii =
            chunk.iter().map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' });
        out.push(' ');
        out.extend(ascii);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_text_with_its_odd_characters_visible() {
        let preview = preview("\u{feff}id,name\r\n1,\"a\"\n".as_bytes());
        assert_eq!(preview.about, "18 B, text");
        assert_eq!(preview.text, "\\u{feff}id,name\\r\n1,\"a\"\n");
        assert!(!preview.cut);
    }

    #[test]
    fn anything_else_is_a_hex_dump() {
        let preview = preview(b"\x89PNG\r\n\x1a\n\xff");
        assert_eq!(preview.about, "9 B, binary");
        assert_eq!(preview.text, "00000000  89 50 4e 47 0d 0a 1a 0a  ff                       .PNG.....\n");
    }

    #[test]
    fn long_payloads_are_cut_and_say_so() {
        for bytes in [vec![b'x'; 5000], b"line\n".repeat(50), vec![0; 200]] {
            let preview = preview(&bytes);
            assert!(preview.cut && preview.text.len() < 1200, "{}", preview.text);
        }
        assert_eq!(preview(b"").about, "empty");
        assert_eq!(preview(&[b'x'; 2048]).about, "2 KiB (2048 bytes), text");
    }
}
