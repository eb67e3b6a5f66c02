//! The table of attempts of an invocation.

use wasmq_core::Attempt;

use super::failure::tone_of;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;

/// One row an attempt. A gap in the numbers says how many were left out.
#[must_use]
pub fn table(history: &[Attempt]) -> Table {
    let mut table = Table::new(&["", ">#", "STARTED", ">TOOK", "VERSION", "COMPONENT", "VERDICT", "WHY"]);
    let mut expected = 1;
    for attempt in history {
        if attempt.number > expected {
            let gap =
                format!("… {} left out …", time::count(u64::from(attempt.number - expected), "attempt", "attempts"));
            table.row([Cell::plain(""), Cell::plain(""), Cell::new(gap, Tone::Faint)]);
        }
        expected = attempt.number.saturating_add(1);
        table.row([
            Cell::plain(""),
            Cell::plain(attempt.number),
            Cell::plain(time::time_of_day(attempt.started_at)),
            Cell::plain(took(attempt)),
            Cell::plain(attempt.version),
            Cell::new(attempt.digest.short(), Tone::Faint),
            Cell::new(&attempt.verdict, tone_of(&attempt.verdict)),
            Cell::plain(first_line(&attempt.summary)),
        ]);
    }
    table
}

fn took(attempt: &Attempt) -> String {
    time::span(attempt.ended_at.since(attempt.started_at))
}

/// A summary as one line for a table.
#[must_use]
pub fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default().trim_end()
}
