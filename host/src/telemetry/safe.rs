//! Makes text of guests and users harmless for a terminal.
//!
//! Invariants: no control character (C0, DEL, C1), no line or paragraph separator and no character
//! that reorders or hides text leaves this file unescaped; everything else stays as it is. Every
//! text that a person did not type into the source of wasmq passes through here exactly once on its
//! way to a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes a text that must stay on one line: line breaks and tabs too.
#[must_use]
pub fn safe(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Escapes a text that is shown as a block: line feeds and tabs stay.
#[must_use]
pub fn safe_block(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes bytes that are shown as a block. Bytes that are not UTF-8 become `\xff`.
#[must_use]
pub fn safe_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&safe_block(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Escapes a line of JSON. JSON escapes the C0 controls itself; the other characters that drive a
/// terminal can only stand inside texts, where `\u` means them too.
#[must_use]
pub fn escape_json(line: String) -> String {
    if !line.contains(is_dangerous) {
        return line;
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        if is_dangerous(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let dangerous = |c: char| is_dangerous(c) && !keep(c);
    if !text.contains(dangerous) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if !keep(c) => out.push_str("\\n"),
            '\t' if !keep(c) => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            c if dangerous(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Controls; separators that end a line for some programs; marks that reorder text; invisible tags,
/// annotation marks and the byte-order mark.
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
            | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_that_drive_a_terminal_are_shown_and_not_obeyed() {
        assert_eq!(safe("\x1b[2J\x1b]0;pwn\x07"), "\\u{1b}[2J\\u{1b}]0;pwn\\u{7}");
        assert_eq!(safe("a\rb\0c\x7f"), "a\\rb\\0c\\u{7f}");
        assert_eq!(safe("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(safe("x\u{202e}gpj.exe\u{2066}"), "x\\u{202e}gpj.exe\\u{2066}");
        assert_eq!(safe("one\u{2028}two\u{2029}"), "one\\u{2028}two\\u{2029}");
    }

    #[test]
    fn line_breaks_stay_only_in_blocks() {
        assert_eq!(safe("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(safe_block("a\nb\tc\r\n"), "a\nb\tc\\r\n");
    }

    #[test]
    fn ordinary_text_of_any_script_is_left_alone() {
        for text in ["", "plain", "größe", "数据", "🦀 👩‍🔬", "עברית", "C:\\temp"] {
            assert!(matches!(safe(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn no_dangerous_character_of_unicode_gets_through() {
        for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let shown = safe_block(c.encode_utf8(&mut [0; 4])).into_owned();
            assert!(shown.chars().all(|c| !is_dangerous(c) || matches!(c, '\n' | '\t')), "U+{:x}", u32::from(c));
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_shown_as_hex() {
        assert_eq!(safe_bytes(b"ok \xff\xfe\n\x1b"), "ok \\xff\\xfe\n\\u{1b}");
    }
}
