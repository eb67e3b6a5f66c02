//! Infers what a column holds from its cells, one at a time.

use std::fmt;

use serde::Serialize;

/// What is known about a column.
#[derive(Debug, Serialize)]
pub struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Cells without a value: nothing but white space, or `NA` among values that are no text.
    pub empty: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<Figure>,
}

/// The narrowest type that fits all cells that are not empty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Integer,
    Number,
    Boolean,
    /// A day as in 2026-02-28 or 2026/02/28.
    Date,
    Text,
    /// No cell has anything in it.
    Empty,
}

/// A minimum, maximum or sum; exact for columns of integers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    Integer(i128),
    Number(f64),
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// A column while its cells are being read.
pub struct Tally {
    name: String,
    empty: usize,
    /// Cells that say `NA`, as statistics programs write a missing value. Beside text it is text:
    /// it is also the code of Namibia and of sodium.
    not_available: usize,
    /// The type of the cells so far; `None` until one has anything in it.
    kind: Option<Kind>,
    integers: Range<i128>,
    numbers: Range<f64>,
}

impl Tally {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            empty: 0,
            not_available: 0,
            kind: None,
            integers: Range::default(),
            numbers: Range::default(),
        }
    }

    pub fn add(&mut self, cell: &str) {
        let cell = cell.trim();
        if cell.is_empty() {
            self.empty += 1;
            return;
        }
        if cell == "NA" {
            self.not_available += 1;
            return;
        }
        let kind = kind_of(cell);
        self.kind = Some(self.kind.map_or(kind, |so_far| common(so_far, kind)));
        if kind == Kind::Integer
            && let Ok(integer) = cell.parse::<i64>()
        {
            self.integers.add(integer.into());
        }
        if matches!(kind, Kind::Integer | Kind::Number)
            && let Ok(number) = cell.parse()
        {
            self.numbers.add(number);
        }
    }

    pub fn finish(self) -> Column {
        let (kind, empty) = match self.kind {
            None if self.not_available == 0 => (Kind::Empty, self.empty),
            None | Some(Kind::Text) => (Kind::Text, self.empty),
            Some(kind) => (kind, self.empty + self.not_available),
        };
        let figures = match kind {
            Kind::Integer => self.integers.0.map(|figures| figures.map(Figure::Integer)),
            Kind::Number => self.numbers.0.map(|figures| figures.map(Figure::Number)),
            _ => None,
        };
        let [min, max, sum] = figures.map_or([None; 3], |figures| figures.map(Some));
        Column { name: self.name, kind, empty, min, max, sum }
    }
}

/// Minimum, maximum and sum of what was added, once anything was.
#[derive(Default)]
struct Range<T>(Option<[T; 3]>);

impl<T: Copy + PartialOrd + std::ops::Add<Output = T>> Range<T> {
    fn add(&mut self, value: T) {
        let [min, max, sum] = match self.0 {
            None => [value; 3],
            Some([min, max, sum]) => {
                [if value < min { value } else { min }, if value > max { value } else { max }, sum + value]
            }
        };
        self.0 = Some([min, max, sum]);
    }
}

fn kind_of(cell: &str) -> Kind {
    if cell.parse::<i64>().is_ok() {
        Kind::Integer
    } else if is_number(cell) {
        Kind::Number
    } else if cell.eq_ignore_ascii_case("true") || cell.eq_ignore_ascii_case("false") {
        Kind::Boolean
    } else if is_date(cell) {
        Kind::Date
    } else {
        Kind::Text
    }
}

/// The narrowest type that holds both.
fn common(one: Kind, other: Kind) -> Kind {
    match (one, other) {
        _ if one == other => one,
        (Kind::Integer, Kind::Number) | (Kind::Number, Kind::Integer) => Kind::Number,
        _ => Kind::Text,
    }
}

/// Not `inf`, `nan` and `infinity`, which Rust reads as numbers too, and nothing that overflows.
fn is_number(cell: &str) -> bool {
    cell.bytes().any(|byte| byte.is_ascii_digit()) && cell.parse().is_ok_and(f64::is_finite)
}

fn is_date(cell: &str) -> bool {
    let bytes = cell.as_bytes();
    if bytes.len() != 10 || bytes[4] != bytes[7] || !matches!(bytes[4], b'-' | b'/') {
        return false;
    }
    let digits = |from: usize, to: usize| {
        bytes[from..to]
            .iter()
            .try_fold(0, |number: u16, byte| byte.is_ascii_digit().then(|| number * 10 + u16::from(byte - b'0')))
    };
    match (digits(0, 4), digits(5, 7), digits(8, 10)) {
        (Some(year), Some(month), Some(day)) => (1..=days_in(year, month)).contains(&day),
        _ => false,
    }
}

/// The days of a month of the Gregorian calendar; none for a month that there is not.
fn days_in(year: u16, month: u16) -> u16 {
    let is_leap_year = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap_year => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Figure, Kind, Tally};

    fn column(cells: &[&str]) -> Column {
        let mut tally = Tally::new("c");
        cells.iter().for_each(|cell| tally.add(cell));
        tally.finish()
    }

    #[test]
    fn the_narrowest_type_that_fits_all_cells_wins() {
        let cases: [(&[&str], Kind); 12] = [
            (&["1", "-2", "+3"], Kind::Integer),
            (&["1", "2.5", "1e3"], Kind::Number),
            (&["true", "FALSE"], Kind::Boolean),
            (&["2024-02-29", "1999-12-31"], Kind::Date),
            (&["2012/01/01"], Kind::Date),
            (&["2012/01-01"], Kind::Text),
            (&["2023-02-29"], Kind::Text),
            (&["2023-13-01"], Kind::Text),
            (&["1", "true"], Kind::Text),
            (&["nan", "inf"], Kind::Text),
            (&["", "  "], Kind::Empty),
            (&["", "7"], Kind::Integer),
        ];
        for (cells, kind) in cases {
            assert_eq!(column(cells).kind, kind, "{cells:?}");
        }
    }

    #[test]
    fn empty_cells_are_counted_and_change_no_figure() {
        let column = column(&["", "4", "", "-6"]);
        assert_eq!(column.empty, 2);
        assert_eq!(column.min, Some(Figure::Integer(-6)));
        assert_eq!(column.max, Some(Figure::Integer(4)));
        assert_eq!(column.sum, Some(Figure::Integer(-2)));
    }

    #[test]
    fn a_value_that_is_not_available_is_empty_unless_beside_text() {
        let numbers = column(&["NA", "4"]);
        assert_eq!((numbers.kind, numbers.empty), (Kind::Integer, 1));
        let codes = column(&["NA", "NO"]);
        assert_eq!((codes.kind, codes.empty), (Kind::Text, 0));
        assert_eq!(column(&["NA"]).kind, Kind::Text);
    }

    #[test]
    fn sums_of_integers_do_not_overflow() {
        let largest = i64::MAX.to_string();
        let sum = column(&[&largest, &largest]).sum;
        assert_eq!(sum, Some(Figure::Integer(2 * i128::from(i64::MAX))));
    }

    #[test]
    fn integers_count_in_the_figures_of_a_column_of_numbers() {
        let column = column(&["1", "0.5"]);
        assert_eq!((column.min, column.sum), (Some(Figure::Number(0.5)), Some(Figure::Number(1.5))));
    }

    #[test]
    fn text_has_no_figures() {
        assert!(column(&["1", "one"]).sum.is_none());
    }
}
