//! `wasmq dlq list`: dead tasks, the latest first.

use serde_json::{Value, json};
use wasmq_core::{DeadTask, TaskName, Timestamp};

use super::select::{refuse_unknown, several_at_once};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::cli::render::failure::{tone_of, why};
use crate::cli::values;
use crate::clock;
use crate::queue::Selection;

/// How many a person is shown unless asked otherwise.
const LISTED: usize = 50;

/// List dead tasks, the latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq dlq list
  wasmq dlq list --task resize --limit 1000
  wasmq dlq list --group 2f1c9a7b30e4d586
  wasmq dlq list --json | jq -r 'select(.verdict==\"timeout\") | .id'")]
pub struct Args {
    /// Only dead tasks of this task.
    #[arg(long, value_name = "NAME")]
    pub task: Option<TaskName>,
    /// Only dead tasks of this group, as `wasmq dlq groups` shows it.
    #[arg(long, value_name = "FINGERPRINT", value_parser = values::group, conflicts_with = "task")]
    pub group: Option<String>,
    /// The most dead tasks to list. [default: 50; with --json all]
    #[arg(long, value_name = "N", value_parser = values::limit, allow_negative_numbers = true)]
    pub limit: Option<usize>,
}

/// Lists them.
///
/// # Errors
/// When there is no such task or group, the dead letter queue cannot be read, or nothing is kept.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let chosen = several_at_once(args.task.as_ref(), args.group.as_deref(), true);
    let selection = chosen.unwrap_or(Selection::All);
    let queue = context.queue()?;
    refuse_unknown(&selection, &queue)?;
    let dead = queue.dead_tasks();
    if context.out.is_json() {
        dead.each_latest(&selection, args.limit.unwrap_or(usize::MAX), |dead| context.out.json(&as_json(&dead)))?;
        return Ok(Exit::Ok);
    }
    let found = dead.latest(&selection, args.limit.unwrap_or(LISTED))?;
    let total = dead.count(&selection)?;
    if found.is_empty() {
        context.out.note("no dead tasks");
        return Ok(Exit::Ok);
    }
    context.out.table(&table(&found, clock::now()))?;
    if total > found.len() as u64 {
        context.out.note(format_args!("the latest {} of {total}; --limit N shows more", found.len()));
    }
    Ok(Exit::Ok)
}

/// The short JSON form of a dead task; `dlq show` has everything.
fn as_json(dead: &DeadTask) -> Value {
    json!({
        "id": dead.id,
        "task": dead.task,
        "version": dead.version,
        "component": dead.component,
        "verdict": dead.verdict,
        "deterministic": dead.failure.deterministic,
        "why": dead.summary(),
        "group": dead.fingerprint,
        "attempts": dead.attempts,
        "max_attempts": dead.max_attempts,
        "replays": dead.replays,
        "enqueued_at": dead.enqueued_at,
        "dead_at": dead.dead_at,
        "payload_bytes": dead.payload.0.len(),
    })
}

fn table(found: &[DeadTask], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "TASK", "VERSION", "VERDICT", ">ATTEMPTS", ">REPLAYS", "DIED", "WHY"]);
    for dead in found {
        table.row([
            Cell::plain(dead.id),
            Cell::new(&dead.task, Tone::Strong),
            Cell::plain(dead.version),
            Cell::new(&dead.verdict, tone_of(&dead.verdict)),
            Cell::plain(format_args!("{} of {}", dead.attempts, dead.max_attempts)),
            Cell::plain(dead.replays),
            Cell::plain(time::relative(dead.dead_at, now)),
            Cell::plain(why(dead.summary(), &dead.failure)),
        ]);
    }
    table
}
