//! A page made of headings, facts, blocks and tables.
//!
//! Invariant: a page is only lines in memory, so making one cannot fail; whoever shows it decides
//! where. Titles, facts and sentences are made safe here, blocks by who hands them over.

use crate::cli::output::paint::{Paint, Tone};
use crate::cli::output::safe::safe;
use crate::cli::output::table::{Cell, Table};

/// The most lines of a block that a page shows.
const MAX_BLOCK_LINES: usize = 60;
/// The most characters of a line of a block that a page shows.
const MAX_LINE_CHARS: usize = 2000;

/// A page that grows piece by piece.
#[derive(Debug)]
pub struct Sheet {
    lines: Vec<String>,
    paint: Paint,
    columns: Option<usize>,
    rest: Option<&'static str>,
}

impl Sheet {
    /// An empty page for a stream with these colours and this width.
    #[must_use]
    pub const fn new(paint: Paint, columns: Option<usize>) -> Self {
        Self { lines: Vec::new(), paint, columns, rest: Some("--json") }
    }

    /// The same page, but what it leaves out is shown by this option or command; with none it leaves
    /// out nothing.
    #[must_use]
    pub fn with_rest(self, rest: Option<&'static str>) -> Self {
        Self { rest, ..self }
    }

    /// What shows the rest; absent when this page leaves out nothing.
    #[must_use]
    pub const fn rest(&self) -> Option<&'static str> {
        self.rest
    }

    /// The finished page.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// A heading with something beside it.
    pub fn heading(&mut self, title: &str, beside: &str) {
        if !self.lines.is_empty() {
            self.lines.push(String::new());
        }
        let title = self.paint.apply(Tone::Strong, &safe(title));
        self.lines.push(format!("{title}  {}", safe(beside)).trim_end().to_owned());
    }

    /// A sentence of the page.
    pub fn sentence(&mut self, tone: Tone, text: &str) {
        self.lines.push(format!("  {}", self.paint.apply(tone, &safe(text))));
    }

    /// Facts, aligned: a label and a value with its tone. Nothing of them is cut.
    pub fn facts(&mut self, facts: &[(&str, String, Tone)]) {
        let mut table = Table::new(&["", "", ""]).uncut();
        for (label, value, tone) in facts {
            table.row([Cell::default(), Cell::new(label, Tone::Faint), Cell::new(value, *tone)]);
        }
        self.table(&table);
    }

    /// A block of text that is safe already, each line behind a bar; of a long one both ends, and of a long line
    /// its beginning, unless nothing is left out.
    pub fn block(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let half = MAX_BLOCK_LINES / 2;
        let (left_out, rest) = match self.rest {
            Some(rest) => (lines.len().saturating_sub(MAX_BLOCK_LINES), rest),
            None => (0, ""),
        };
        let bar = self.paint.apply(Tone::Faint, "│");
        for (at, line) in lines.iter().enumerate() {
            if left_out > 0 && at == half {
                self.sentence(Tone::Faint, &format!("… {left_out} lines are left out here; {rest} shows them …"));
            }
            if left_out == 0 || at < half || at >= half + left_out {
                let (line, cut_chars) = self.beginning(line);
                self.lines.push(format!("  {bar} {line}").trim_end().to_owned());
                if cut_chars > 0 {
                    self.sentence(
                        Tone::Faint,
                        &format!("… {cut_chars} characters are left out here; {rest} shows them …"),
                    );
                }
            }
        }
    }

    /// As much of a line as is shown, and how many characters are not.
    fn beginning<'l>(&self, line: &'l str) -> (&'l str, usize) {
        let end = line.char_indices().nth(MAX_LINE_CHARS).filter(|_| self.rest.is_some());
        let (shown, left_out) = line.split_at(end.map_or(line.len(), |(at, _)| at));
        (shown, left_out.chars().count())
    }

    /// A numbered line: its number, a text in its tone, and something beside it.
    pub fn numbered(&mut self, number: u64, tone: Tone, text: &str, beside: &str) {
        let number = self.paint.apply(Tone::Faint, &format!("{number:>4}"));
        let text = self.paint.apply(tone, &safe(text));
        let beside = self.paint.apply(Tone::Faint, &safe(beside));
        self.lines.push(format!("{number}  {text}  {beside}"));
    }

    /// A table. Its rows begin with an empty cell, which indents it.
    pub fn table(&mut self, table: &Table) {
        self.lines.extend(table.lines(self.paint, self.columns));
    }

    /// Commands to type, each with what it does. Nothing of them is cut.
    pub fn commands(&mut self, commands: &[(String, &str)]) {
        let mut table = Table::new(&["", "", ""]).uncut();
        for (command, effect) in commands {
            table.row([Cell::default(), Cell::new(command, Tone::Command), Cell::new(effect, Tone::Faint)]);
        }
        self.table(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_block_keeps_both_ends() {
        let mut sheet = Sheet::new(Paint::off(), None);
        let text: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        sheet.block(&text.join("\n"));
        let lines = sheet.into_lines();
        assert_eq!(lines.len(), 61);
        assert_eq!((lines[0].as_str(), lines[60].as_str()), ("  │ 0", "  │ 99"));
        assert_eq!(lines[30], "  … 40 lines are left out here; --json shows them …");
        let mut whole = Sheet::new(Paint::off(), None).with_rest(None);
        whole.block(&text.join("\n"));
        assert_eq!(whole.into_lines().len(), 100);
    }

    #[test]
    fn a_long_line_keeps_its_beginning_and_says_so() {
        let line = "é".repeat(2100);
        let mut sheet = Sheet::new(Paint::off(), None);
        sheet.block(&format!("{}\n{line}\nend", "é".repeat(2000)));
        let lines = sheet.into_lines();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[0], lines[1], "the first 2000 characters");
        assert_eq!(lines[2], "  … 100 characters are left out here; --json shows them …");
        let mut whole = Sheet::new(Paint::off(), None).with_rest(None);
        whole.block(&line);
        assert_eq!(whole.into_lines(), [format!("  │ {line}")]);
    }
}
