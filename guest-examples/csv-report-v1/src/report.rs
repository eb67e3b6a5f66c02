//! Splits a CSV text at its commas and newlines and describes its columns.

use serde::Serialize;

/// What the task returns, as JSON.
#[derive(Serialize)]
struct Report {
    rows: usize,
    columns: Vec<Column>,
}

/// One column: what its header says and what its cells are.
#[derive(Serialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    empty: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<f64>,
}

/// The report on a CSV text whose first line is the header.
pub fn of(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let header = read_header(lines.next().expect("the file has a header"));
    let rows: Vec<Vec<&str>> = lines.enumerate().map(|(index, line)| read_row(line, index + 2, header.len())).collect();

    let columns =
        header.iter().enumerate().map(|(index, name)| describe(name, rows.iter().map(|row| row[index]))).collect();
    let report = Report { rows: rows.len(), columns };
    serde_json::to_vec_pretty(&report).expect("a report is always JSON")
}

// The three steps are kept out of line so that the backtrace of a trap names the one that failed.

#[inline(never)]
fn read_header(line: &str) -> Vec<&str> {
    let names: Vec<&str> = split(line);
    for (index, name) in names.iter().enumerate() {
        let odd = name.chars().find(|c| c.is_control() || !c.is_ascii() && !c.is_alphabetic());
        if let Some(odd) = odd {
            panic!("line 1: the name of column {} has {odd:?} in it", index + 1);
        }
    }
    names
}

#[inline(never)]
fn read_row(line: &str, number: usize, width: usize) -> Vec<&str> {
    let cells = split(line);
    assert!(cells.len() == width, "line {number}: expected {width} fields as in the header, found {}", cells.len());
    cells
}

#[inline(never)]
fn describe<'a>(name: &str, cells: impl Iterator<Item = &'a str>) -> Column {
    let (filled, empty): (Vec<&str>, Vec<&str>) = cells.partition(|cell| !cell.is_empty());
    let numbers: Option<Vec<f64>> = filled.iter().map(|cell| cell.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| !numbers.is_empty());
    let kind = match &numbers {
        _ if filled.is_empty() => "empty",
        Some(numbers) if numbers.iter().all(|number| number.fract() == 0.0) => "integer",
        Some(_) => "number",
        None if filled.iter().all(|cell| matches!(*cell, "true" | "false")) => "boolean",
        None => "text",
    };
    let fold = |with: fn(f64, f64) -> f64| numbers.iter().flatten().copied().reduce(with);
    Column {
        name: name.to_owned(),
        kind,
        empty: empty.len(),
        min: fold(f64::min),
        max: fold(f64::max),
        sum: fold(|a, b| a + b),
    }
}

fn split(line: &str) -> Vec<&str> {
    line.split(',').map(|cell| cell.trim_matches('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_tidy_file_is_described() {
        let report = String::from_utf8(of("city,people\nOslo,7\nRome,28\n")).unwrap();
        assert!(report.contains(r#""rows": 2"#), "{report}");
        assert!(report.contains(r#""sum": 35.0"#), "{report}");
    }

    #[test]
    #[should_panic(expected = "line 3: expected 2 fields as in the header, found 1")]
    fn a_quoted_newline_is_taken_for_the_end_of_a_row() {
        of("city,note\nOslo,\"cold\nand wet\"\n");
    }

    #[test]
    #[should_panic(expected = "'\\u{feff}'")]
    fn a_byte_order_mark_is_taken_for_a_part_of_the_header() {
        of("\u{feff}city,note\nOslo,cold\n");
    }
}
