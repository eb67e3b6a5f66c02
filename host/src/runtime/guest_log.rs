//! The last words of a guest: its structured log records and its progress, a line each.
//!
//! Invariants: at most [`MAX_LINES`] lines of at most [`MAX_LINE_BYTES`] are kept, the newest ones;
//! a line is one line, whatever the guest puts into it.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// How many lines are kept.
pub(super) const MAX_LINES: usize = 64;
/// The longest line that is kept, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 1024;

/// A ring of lines.
#[derive(Debug, Default)]
pub(super) struct GuestLog {
    lines: VecDeque<String>,
    last_was_progress: bool,
}

impl GuestLog {
    /// Keeps a log record as `LEVEL message key=value`.
    pub(super) fn record(&mut self, level: &str, message: &str, fields: &[(String, String)]) {
        let mut line = String::with_capacity(64);
        append(&mut line, level);
        line.push(' ');
        append(&mut line, message);
        for (key, value) in fields {
            line.push(' ');
            append(&mut line, key);
            line.push('=');
            append(&mut line, value);
        }
        self.last_was_progress = false;
        self.push(line);
    }

    /// Keeps the latest progress; of several in a row only the last one.
    pub(super) fn progress(&mut self, done: u64, total: u64, note: &str) {
        if self.last_was_progress {
            self.lines.pop_back();
        }
        let mut line = String::with_capacity(64);
        // Writing to a String cannot fail.
        let _ = write!(line, "PROGRESS {done}/{total} ");
        append(&mut line, note);
        self.last_was_progress = true;
        self.push(line);
    }

    fn push(&mut self, line: String) {
        if self.lines.len() >= MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The lines, oldest first.
    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

/// Adds a text up to the cap, with line ends and other controls escaped.
fn append(line: &mut String, text: &str) {
    for character in text.chars() {
        if line.len() >= MAX_LINE_BYTES - '\u{10ffff}'.len_utf8() * 3 {
            return;
        }
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
}
