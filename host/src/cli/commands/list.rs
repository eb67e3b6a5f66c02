//! `wasmq list`: live invocations.

use serde_json::{Value, json};
use wasmq_core::{TaskName, Timestamp};

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::cli::render::attempts::first_line;
use crate::cli::render::progress;
use crate::cli::values;
use crate::clock;
use crate::queue::{Live, LiveFilter, LivePhase};

/// How many a person is shown unless asked otherwise.
const LISTED: usize = 50;

/// List live invocations.
///
/// They wait, run, or could not be moved to the dead letter queue yet. What is done is not kept; what is dead is in `wasmq dlq list`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wasmq list\n  wasmq list --task resize --limit 1000\n  wasmq list --json | jq -r .id"
)]
pub struct Args {
    /// Only invocations of this task.
    #[arg(long, value_name = "NAME")]
    pub task: Option<TaskName>,
    /// The most invocations to list. [default: 50; with --json all]
    #[arg(long, value_name = "N", value_parser = values::limit, allow_negative_numbers = true)]
    pub limit: Option<usize>,
}

/// Lists them, the oldest first.
///
/// # Errors
/// When there is no such task, or the store cannot be read or is `none`.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    // One more than asked for tells whether there are more.
    let limit = args.limit.unwrap_or(if context.out.is_json() { usize::MAX } else { LISTED });
    let filter = LiveFilter { task: args.task.clone(), limit: Some(limit.saturating_add(1)) };
    let queue = context.queue()?;
    let mut found = queue.list(&filter)?;
    if let (Some(task), true) = (&args.task, found.is_empty()) {
        // A slip of the pen is told from a task with nothing to do.
        queue.task(task)?;
    }
    let more = found.len() > limit;
    found.truncate(limit);
    if context.out.is_json() {
        found.iter().try_for_each(|live| context.out.json(&as_json(live)))?;
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        context.out.note("no live invocations");
        context.note_absence()?;
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let mut table =
        Table::new(&["ID", "TASK", "PHASE", "DUE", ">ATTEMPTS", ">REPLAYS", ">PRIORITY", "ENQUEUED", "LAST FAILURE"]);
    found.iter().for_each(|live| table.row(row(live, now)));
    context.out.table(&table)?;
    if found.iter().any(|live| live.suspect_since.is_some()) {
        context.out.note("suspect: its worker died during its last attempt; it runs alone next");
    }
    if more {
        context.out.note(format_args!("there are more than {limit}; --limit N shows more"));
    }
    Ok(Exit::Ok)
}

/// The JSON form of a live invocation.
#[must_use]
pub fn as_json(live: &Live) -> Value {
    let running_since = match live.phase {
        LivePhase::Running { since } => Some(time::rfc3339(since)),
        _ => None,
    };
    json!({
        "state": "live",
        "id": live.id,
        "task": live.task,
        "phase": live.phase.name(),
        "running_since": running_since,
        "due_at": live.due_at,
        "enqueued_at": live.enqueued_at,
        "attempts": live.attempts,
        "max_attempts": live.max_attempts,
        "replays": live.replays,
        "priority": live.priority,
        "history": live.history,
        "metadata": live.metadata,
        "payload_bytes": live.payload_bytes,
        "pinned": live.pinned,
        "lacks": live.lacks,
        "progress": live.progress,
        "suspect": live.suspect_since.is_some(),
        "suspect_since_attempt": live.suspect_since,
    })
}

/// "2 of 3", or "2" when the budget is not known.
#[must_use]
pub fn attempts(live: &Live) -> String {
    live.max_attempts.map_or_else(|| live.attempts.to_string(), |most| format!("{} of {most}", live.attempts))
}

/// The tone of a phase.
#[must_use]
pub const fn tone_of(phase: &LivePhase) -> Tone {
    match phase {
        LivePhase::Running { .. } => Tone::Good,
        LivePhase::Ready | LivePhase::Delayed => Tone::Plain,
        LivePhase::AwaitingDeploy | LivePhase::Orphaned | LivePhase::Exhausted => Tone::Warn,
    }
}

/// The phase, how far it is, and whether it is a suspect.
fn standing(live: &Live) -> Cell {
    match live.suspect_since {
        Some(_) => Cell::new(format_args!("{}, suspect", live.phase.name()), Tone::Warn),
        None => {
            let progress = live.progress.as_ref().map(|said| format!(", {}", progress::short(said)));
            let phase = format!("{}{}", live.phase.name(), progress.unwrap_or_default());
            Cell::new(phase, tone_of(&live.phase))
        }
    }
}

fn row(live: &Live, now: Timestamp) -> [Cell; 9] {
    let last = live.history.last();
    let why = last.map(|attempt| format!("{} {}", attempt.verdict, first_line(&attempt.summary)));
    [
        Cell::plain(live.id),
        Cell::new(&live.task, Tone::Strong),
        standing(live),
        Cell::plain(live.due_at.filter(|due| *due > now).map(|due| time::relative(due, now)).unwrap_or_default()),
        Cell::plain(attempts(live)),
        Cell::plain(live.replays),
        Cell::plain(live.priority),
        Cell::plain(time::relative(live.enqueued_at, now)),
        Cell::plain(why.unwrap_or_default()),
    ]
}
