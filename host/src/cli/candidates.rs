//! What an ambiguous beginning of an id may have meant.
//!
//! Deliberately absent: choosing one; the reader gives more of the id.

use wasmq_core::{InvocationId, TaskName};

use super::error::CliError;
use super::output::paint::Paint;
use super::output::table::{Cell, Table};
use crate::queue::{Queue, QueueError, Selection, Shown};

/// One of those that the beginning fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The whole id.
    pub id: InvocationId,
    /// Its task and where it stands; absent when it ended in the meantime.
    pub known: Option<(TaskName, String)>,
}

/// The error with what is known of the candidates, when it is about an ambiguous beginning.
pub fn explained(error: QueueError, queue: &Queue) -> CliError {
    match error {
        QueueError::AmbiguousId { prefix, ids, total } => {
            CliError::Ambiguous { prefix, candidates: look_up(&ids, queue), total }
        }
        other => other.into(),
    }
}

fn look_up(ids: &[InvocationId], queue: &Queue) -> Vec<Candidate> {
    // All dead ones with one look; only a live one needs a look of its own.
    let dead = queue.dead_tasks().latest(&Selection::Ids(ids.to_vec()), ids.len()).unwrap_or_default();
    let known = |id| match dead.iter().find(|dead| dead.id == id) {
        Some(dead) => Some((dead.task.clone(), format!("dead, {}", dead.verdict))),
        None => match queue.show(&id.to_string()).ok()? {
            Shown::Live(live) => Some((live.task, live.phase.name().to_owned())),
            Shown::Dead(dead) => Some((dead.task, format!("dead, {}", dead.verdict))),
        },
    };
    ids.iter().map(|&id| Candidate { id, known: known(id) }).collect()
}

/// The candidates, a line each, aligned.
#[must_use]
pub fn listed(candidates: &[Candidate], total: usize) -> String {
    let mut table = Table::new(&["", "", "", ""]);
    for Candidate { id, known } in candidates {
        let (task, state) = known.as_ref().map_or(("", "gone by now"), |(task, state)| (task.as_str(), state));
        table.row([Cell::default(), Cell::plain(id), Cell::plain(task), Cell::plain(state)]);
    }
    let mut lines = table.lines(Paint::off(), None);
    if let Some(more) = total.checked_sub(candidates.len()).filter(|more| *more > 0) {
        lines.push(format!("  … and {more} more"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn the_candidates_are_listed_with_task_and_state_and_counted() {
        let candidate = |n, known: Option<(&str, &str)>| Candidate {
            id: InvocationId::from_u128(n),
            known: known.map(|(task, state)| (task.parse().unwrap(), state.to_owned())),
        };
        let candidates = vec![
            candidate(1, Some(("csv-report", "delayed"))),
            candidate(2, Some(("csv", "dead, trap.unreachable"))),
            candidate(3, None),
        ];
        let error = CliError::Ambiguous { prefix: "00000000".to_owned(), candidates, total: 12 }.describe();
        assert_eq!((error.code, error.exit), ("ambiguous-id", Exit::Ambiguous));
        assert_eq!(error.message, "\"00000000\" is the beginning of 12 ids");
        assert_eq!(
            error.hint.unwrap(),
            "give more of it; these begin like that:
  00000000-0000-0000-0000-000000000001  csv-report  delayed
  00000000-0000-0000-0000-000000000002  csv         dead, trap.unreachable
  00000000-0000-0000-0000-000000000003              gone by now
  … and 9 more"
        );
    }
}
