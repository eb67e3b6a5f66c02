//! Aligned columns without borders.
//!
//! Invariants: only the last column may be long; it is cut to the width of a terminal and never cut
//! when there is none, or when the table says so. Columns that a narrow terminal has no room for go on below,
//! each row on as many lines. Every cell is made safe when it is made.

use super::paint::{Paint, Tone};
use super::safe::safe;

/// How far the lines are indented on which a row goes on.
const INDENT: usize = 4;
/// The last column is worth reading from so many columns of the terminal on.
const READABLE: usize = 40;

/// One cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell in a tone.
    #[must_use]
    pub fn new(text: impl ToString, tone: Tone) -> Self {
        Self { text: safe(&text.to_string()).into_owned(), tone }
    }

    /// A plain cell.
    #[must_use]
    pub fn plain(text: impl ToString) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// Rows under titles.
#[derive(Debug)]
pub struct Table {
    titles: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    cut: bool,
    fold: bool,
}

impl Table {
    /// A table. A title that begins with `>` aligns its column to the right.
    #[must_use]
    pub fn new(titles: &[&'static str]) -> Self {
        Self { titles: titles.to_vec(), rows: Vec::new(), cut: true, fold: true }
    }

    /// The same table, but a line a row, of which nothing is cut: for what a reader must be able to copy.
    #[must_use]
    pub fn uncut(self) -> Self {
        Self { cut: false, fold: false, ..self }
    }

    /// The same table, but nothing is cut; it goes on below all the same.
    #[must_use]
    pub fn unabridged(self) -> Self {
        Self { cut: false, ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, with the titles first when there are any. `terminal` is its width in columns.
    #[must_use]
    pub fn lines(&self, paint: Paint, terminal: Option<usize>) -> Vec<String> {
        let titles: Vec<Cell> =
            self.titles.iter().map(|title| Cell::new(title.trim_start_matches('>'), Tone::Faint)).collect();
        let head = titles.iter().any(|title| !title.text.is_empty()).then_some(&titles);
        let widths: Vec<usize> = (0..self.titles.len()).map(|at| self.width_of(at)).collect();
        let breaks = terminal.filter(|_| self.fold).map(|columns| breaks(&widths, columns)).unwrap_or_default();
        let rows = head.into_iter().chain(&self.rows);
        let cut_at = terminal.filter(|_| self.cut);
        rows.flat_map(|row| self.row_lines(row, &widths, &breaks, paint, cut_at)).collect()
    }

    fn width_of(&self, at: usize) -> usize {
        let title = self.titles.get(at).map_or(0, |title| width(title.trim_start_matches('>')));
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| width(&cell.text));
        cells.fold(title, usize::max)
    }

    /// A row, begun anew before each of the columns in `breaks`.
    fn row_lines(
        &self,
        row: &[Cell],
        widths: &[usize],
        breaks: &[usize],
        paint: Paint,
        terminal: Option<usize>,
    ) -> Vec<String> {
        let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
        for (at, (cell, column)) in row.iter().zip(widths).enumerate() {
            if breaks.contains(&at) {
                lines.push(std::mem::replace(&mut line, " ".repeat(INDENT)));
                used = INDENT;
            }
            let last = at + 1 == row.len();
            let right = self.titles.get(at).is_some_and(|title| title.starts_with('>'));
            let room = terminal.map_or(usize::MAX, |terminal| terminal.saturating_sub(used).max(16));
            let text = if last { cut(&cell.text, room) } else { cell.text.clone() };
            let blanks = " ".repeat(column.saturating_sub(width(&text)));
            let painted = paint.apply(cell.tone, &text);
            match (right, last) {
                (true, _) => line.extend([blanks.as_str(), &painted]),
                (false, true) => line.push_str(&painted),
                (false, false) => line.extend([painted.as_str(), &blanks]),
            }
            if !last {
                line.push_str("  ");
            }
            used += column + 2;
        }
        lines.push(line);
        lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
        // What goes on with nothing does not go on; an empty row is a line all the same.
        let mut at = 0..;
        lines.retain(|line| at.next() == Some(0) || !line.is_empty());
        lines
    }
}

/// The columns that a line of a terminal has no room for and that begin a new one. The last column is content
/// with room to be read.
fn breaks(widths: &[usize], terminal: usize) -> Vec<usize> {
    let (mut breaks, mut used, mut is_blank) = (Vec::new(), 0, true);
    for (at, width) in widths.iter().enumerate() {
        let last = at + 1 == widths.len();
        let needed = if last { (*width).min(READABLE) } else { *width };
        if used + needed > terminal && !is_blank {
            breaks.push(at);
            (used, is_blank) = (INDENT, true);
        }
        used += width + 2;
        is_blank &= *width == 0;
    }
    breaks
}

/// Shortens a text to a number of columns, with an ellipsis.
#[must_use]
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += char_width(c);
        if used > columns {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

/// How many columns a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// 0 for marks that combine, 2 for the wide blocks of East Asian scripts and pictures. Coarse: it
/// only decides where a long text is cut.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["TASK", ">SIZE", "WHY"]);
        table.row([Cell::plain("resize"), Cell::plain(7), Cell::plain("a long reason\nwith a break")]);
        table.row([Cell::plain("csv"), Cell::plain(1200), Cell::plain("")]);
        table
    }

    #[test]
    fn columns_are_aligned_and_cells_are_safe() {
        let lines = table().lines(Paint::off(), None);
        assert_eq!(lines, ["TASK    SIZE  WHY", "resize     7  a long reason\\nwith a break", "csv     1200"]);
    }

    #[test]
    fn only_the_last_column_is_cut_to_the_terminal() {
        let mut table = table();
        table.row([Cell::plain("mail"), Cell::plain(3), Cell::plain("long ".repeat(20))]);
        let lines = table.lines(Paint::off(), Some(54));
        assert_eq!(lines[1], "resize     7  a long reason\\nwith a break");
        assert_eq!(lines[3], format!("mail       3  {}long…", "long ".repeat(7)));
        assert_eq!(table.lines(Paint::off(), Some(200))[3].len(), 14 + 99);
    }

    #[test]
    fn what_a_narrow_terminal_has_no_room_for_goes_on_below_in_columns_of_its_own() {
        let mut table = Table::new(&["ID", "TASK", ">SIZE", "WHY"]);
        table.row(["0123456789", "csv-report", "7", "a reason that is longer than it may be"].map(Cell::plain));
        table.row(["9876543210", "csv", "1200", ""].map(Cell::plain));
        let lines = table.lines(Paint::off(), Some(24));
        let all = 30 + 38;
        let wanted = [
            "ID          TASK",
            "    SIZE",
            "    WHY",
            "0123456789  csv-report",
            "       7",
            "    a reason that is lo…",
            "9876543210  csv",
            "    1200",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(table.lines(Paint::off(), Some(all)).len(), 3, "it has room");
        assert_eq!(table.lines(Paint::off(), Some(all - 1)).len(), 5);
        assert_eq!(table.lines(Paint::off(), None).len(), 3);
    }

    #[test]
    fn an_indented_row_does_not_begin_with_a_blank_line() {
        let table = |uncut: bool| {
            let mut table = Table::new(&["", "", ""]);
            table.row([Cell::default(), Cell::plain("a command that is longer than the line"), Cell::plain("what")]);
            if uncut { table.uncut() } else { table.unabridged() }.lines(Paint::off(), Some(20))
        };
        assert_eq!(table(false), ["  a command that is longer than the line", "    what"]);
        assert_eq!(table(true), ["  a command that is longer than the line  what"]);
    }

    #[test]
    fn wide_characters_are_cut_by_columns() {
        assert_eq!(cut("数据数据", 5), "数据…");
        assert_eq!(cut("e\u{301}e\u{301}", 2), "e\u{301}e\u{301}");
    }
}
