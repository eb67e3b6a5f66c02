//! `wasmq dlq groups`: dead tasks that failed alike.

use serde_json::{Value, json};
use wasmq_core::Verdict;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::cli::render::attempts::first_line;
use crate::cli::render::failure::{tone_of, why};
use crate::clock;
use crate::queue::{DeadTasks, Group, Selection};

/// Group dead tasks that failed alike.
///
/// Alike means: same task, same verdict, same error code, and the same functions in the backtrace or
/// the same message apart from its digits. The largest group comes first, of equal ones the latest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wasmq dlq groups\n  wasmq dlq retry --group 2f1c9a7b30e4d586")]
pub struct Args {}

/// Shows the groups.
///
/// # Errors
/// When the dead letter queue cannot be read, or nothing is kept.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let dead = context.queue()?.dead_tasks();
    let groups = dead.groups()?;
    if context.out.is_json() {
        groups.iter().try_for_each(|group| context.out.json(&as_json(group)))?;
        return Ok(Exit::Ok);
    }
    if groups.is_empty() {
        context.out.note("no dead tasks");
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let mut table =
        Table::new(&["GROUP", ">COUNT", "TASK", "VERDICT", "FIRST", "LATEST", ">COMPONENTS", "LATEST ID", "WHY"]);
    for group in &groups {
        table.row([
            Cell::plain(&group.fingerprint),
            Cell::new(group.count, Tone::Strong),
            Cell::plain(&group.task),
            Cell::new(&group.verdict, tone_of(&group.verdict)),
            Cell::plain(time::relative(group.first, now)),
            Cell::plain(time::relative(group.last, now)),
            Cell::plain(group.digests.len()),
            Cell::plain(group.samples.first().map(ToString::to_string).unwrap_or_default()),
            Cell::plain(reason(group, &dead)),
        ]);
    }
    context.out.table(&table)?;
    Ok(Exit::Ok)
}

/// One line of why. A trap is looked at in its latest dead task, as it is stored: looking for the symbols of
/// each would take long.
fn reason(group: &Group, dead: &DeadTasks) -> String {
    let sample = group.samples.first().filter(|_| matches!(group.verdict, Verdict::Trap(_)));
    let sample = sample.and_then(|id| dead.latest(&Selection::Ids(vec![*id]), 1).ok()?.pop());
    sample.map_or_else(
        || first_line(&group.summary).to_owned(),
        |sample| why(sample.summary(), &sample.failure).into_owned(),
    )
}

fn as_json(group: &Group) -> Value {
    json!({
        "group": group.fingerprint,
        "task": group.task,
        "verdict": group.verdict,
        "why": group.summary,
        "count": group.count,
        "first_at": group.first,
        "last_at": group.last,
        "samples": group.samples,
        "components": group.digests,
    })
}
