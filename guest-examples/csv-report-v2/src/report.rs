//! Reads a CSV file row by row and describes it. Knows nothing of tasks, so it is tested natively.

use serde::Serialize;

use crate::column::{Column, Tally};

/// How many bad rows a report lists; the rest are only counted.
const BAD_ROWS_LISTED: usize = 100;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// What is known about a file after one pass over it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Rows that fit the header.
    pub rows: usize,
    pub columns: Vec<Column>,
    /// Rows that do not fit the header; they count in no column.
    pub bad_row_count: usize,
    /// The first hundred of them.
    pub bad_rows: Vec<BadRow>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct BadRow {
    /// The line on which the row starts, counted from 1.
    pub line: usize,
    pub reason: String,
}

/// Why there is no report.
#[derive(Debug)]
pub struct Refusal {
    /// Short and stable, so that failures of one kind can be grouped.
    pub code: &'static str,
    pub message: String,
}

impl Report {
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a report has only text keys and finite numbers")
    }
}

/// The report on a file whose first row is the header.
pub fn of(bytes: &[u8]) -> Result<Report, Refusal> {
    let text = str::from_utf8(bytes).map_err(|error| Refusal {
        code: "not-utf8",
        message: format!("the file is not UTF-8 at byte offset {}", error.valid_up_to()),
    })?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());

    let header = reader.headers().map_err(unreadable)?;
    if header.is_empty() {
        return Err(Refusal { code: "empty-file", message: "the file has no header".to_owned() });
    }
    let mut tallies: Vec<Tally> = header.iter().map(Tally::new).collect();
    let mut rows = 0;
    let mut bad_row_count = 0;
    let mut bad_rows = Vec::new();
    for row in reader.records() {
        let row = row.map_err(unreadable)?;
        if row.len() == tallies.len() {
            rows += 1;
            tallies.iter_mut().zip(&row).for_each(|(tally, cell)| tally.add(cell));
            continue;
        }
        bad_row_count += 1;
        if bad_rows.len() < BAD_ROWS_LISTED {
            bad_rows.push(BadRow {
                line: first_line(text, &row),
                reason: format!("expected {} fields as in the header, found {}", tallies.len(), row.len()),
            });
        }
    }
    let columns = tallies.into_iter().map(Tally::finish).collect();
    Ok(Report { rows, columns, bad_row_count, bad_rows })
}

/// The line on which a row starts. The reader's own count is of the end of the row before, which
/// blank lines and the second half of a CRLF may still follow.
fn first_line(text: &str, row: &csv::StringRecord) -> usize {
    let start = row.position().map_or(0, |position| position.byte() as usize);
    let (before, rest) = text.as_bytes().split_at(start.min(text.len()));
    let blank = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    let newlines = before.iter().chain(blank).filter(|byte| **byte == b'\n').count();
    newlines + 1
}

fn unreadable(error: csv::Error) -> Refusal {
    Refusal { code: "bad-csv", message: format!("the file cannot be read as CSV: {error}") }
}

#[cfg(test)]
mod tests {
    use super::{BadRow, of};

    fn names(text: &str) -> Vec<String> {
        of(text.as_bytes()).unwrap().columns.into_iter().map(|column| column.name).collect()
    }

    #[test]
    fn a_quoted_newline_belongs_to_its_cell() {
        let report = of(b"city,note\nOslo,\"cold,\nwet\"\nRome,\"\"\"warm\"\"\"\n").unwrap();
        assert_eq!((report.rows, report.bad_row_count), (2, 0));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_name() {
        assert_eq!(names("\u{feff}city,note\r\nOslo,cold\r\n"), ["city", "note"]);
        assert_eq!(names("\u{feff}\"city\",note\n"), ["city", "note"]);
    }

    #[test]
    fn a_ragged_row_is_listed_with_its_line_and_counts_in_no_column() {
        let report = of(b"a,b\n1,\"x\ny\"\n2\n\n3,4,5\n6,7\n").unwrap();
        assert_eq!(report.rows, 2);
        assert_eq!(report.columns[0].sum.unwrap().to_string(), "7");
        let reason = |fields| format!("expected 2 fields as in the header, found {fields}");
        assert_eq!(report.bad_rows, [BadRow { line: 4, reason: reason(1) }, BadRow { line: 6, reason: reason(3) }]);
    }

    #[test]
    fn lines_are_counted_alike_with_crlf() {
        let report = of(b"a,b\r\n1,2\r\n3\r\n").unwrap();
        assert_eq!(report.bad_rows[0].line, 3);
    }

    #[test]
    fn only_the_first_bad_rows_are_listed_but_all_are_counted() {
        let report = of(format!("a,b\n{}", "1\n".repeat(250)).as_bytes()).unwrap();
        assert_eq!((report.bad_row_count, report.bad_rows.len()), (250, 100));
    }

    #[test]
    fn other_encodings_are_refused_with_the_offset() {
        let refusal = of(b"city\nM\xfcnchen\n").unwrap_err();
        assert_eq!(refusal.code, "not-utf8");
        assert!(refusal.message.ends_with("byte offset 6"), "{}", refusal.message);
    }

    #[test]
    fn an_empty_file_is_refused() {
        for nothing in ["", "\n\n", "\u{feff}"] {
            assert_eq!(of(nothing.as_bytes()).unwrap_err().code, "empty-file");
        }
    }

    #[test]
    fn a_header_alone_is_a_file_without_rows() {
        let report = of(b"a,b").unwrap();
        assert_eq!((report.rows, report.columns.len()), (0, 2));
    }

    #[test]
    fn the_json_has_the_documented_shape() {
        let json = of(b"n,t\n1,x\n2,\n").unwrap().to_json();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "rows": 2,
                "columns": [
                    { "name": "n", "type": "integer", "empty": 0, "min": 1, "max": 2, "sum": 3 },
                    { "name": "t", "type": "text", "empty": 1 },
                ],
                "bad_row_count": 0,
                "bad_rows": [],
            })
        );
    }
}
