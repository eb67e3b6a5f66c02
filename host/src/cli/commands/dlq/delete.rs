//! `wasmq dlq delete`: dead tasks go for good.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stderr, stdin};

use serde_json::json;

use super::select::{NOTHING_MEANT, SelectArgs};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::time;
use crate::cli::several::Several;
use crate::queue::Selection;

/// Delete dead tasks for good.
///
/// For more than one it says how many, and asks on a terminal or wants
/// --yes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq dlq delete 01935d2c-7b3e-7cc0-98c4-dc0c0c07398f
  wasmq dlq delete --task resize --yes")]
pub struct Args {
    /// Which dead tasks.
    #[command(flatten)]
    pub which: SelectArgs,
    /// Delete without asking.
    #[arg(short, long)]
    pub yes: bool,
}

/// Deletes them, after a confirmation when they are several.
///
/// # Errors
/// When it was not confirmed, the dead letter queue cannot be used, or the only one that was asked
/// for was refused.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    let dead = queue.dead_tasks();
    let mut several = Several::default();
    let selection = args.which.resolve(&queue, &mut several)?;
    let count = match &selection {
        Selection::Ids(ids) => ids.len() as u64,
        _ => dead.count(&selection)?,
    };
    if count == 0 && args.which.ids.is_empty() {
        context.out.note(NOTHING_MEANT);
        return Ok(Exit::Ok);
    }
    confirm(args, count, context)?;
    let bar = context.out.progress(count, "deleted");
    let report = dead.delete(&selection, &mut |seen| bar.set_position(seen));
    bar.finish_and_clear();
    let report = report?;
    for id in &report.deleted {
        several.done();
        if context.out.is_json() {
            context.out.json(&json!({ "id": id, "deleted": true }))?
        }
    }
    let in_vain = report.deleted.is_empty() && !args.which.ids.is_empty();
    if !context.out.is_json() && !in_vain {
        context
            .out
            .line(format_args!("deleted {}", time::count(report.deleted.len() as u64, "dead task", "dead tasks")))?;
    }
    for refused in report.refused {
        several.refused(refused.id.to_string(), refused.error.into());
    }
    several.finish(context)
}

fn confirm(args: &Args, count: u64, context: &Context) -> Result<(), CliError> {
    if args.yes || count <= 1 {
        return Ok(());
    }
    let what = time::count(count, "dead task", "dead tasks");
    let refusal = || CliError::NotConfirmed(format!("this would delete {what} for good, and was not confirmed"));
    if context.out.is_json() || !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(refusal());
    }
    let _ = write!(stderr().lock(), "Delete {what} for good? [y/N] ");
    let mut answer = String::new();
    let read = stdin().lock().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(refusal()) }
}
