//! `wasmq dlq retry`: dead tasks go back into the queue.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Value, json};

use super::select::{NOTHING_MEANT, SelectArgs};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::cli::several::Several;
use crate::cli::values;
use crate::queue::{Component, DeadTasks, Retried, RetryReport, Watch};

/// How often replays are looked at while somebody waits for them.
const LOOK: Duration = Duration::from_millis(200);
/// Up to this many are listed for a person one by one; more are summed up.
const MAX_LISTED: usize = 20;

/// Put dead tasks back into the queue.
///
/// They keep their id, their first enqueue time and their history, and get a fresh budget of
/// attempts. The output says which version failed and which one will run.
///
/// A dead task leaves the dead letter queue only once its replay is durable. When the version does
/// not exist, it stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq dlq retry 01935d2c-7b3e-7cc0-98c4-dc0c0c07398f
  wasmq dlq retry --task resize --component v2 --wait
  wasmq dlq retry --group 2f1c9a7b30e4d586 --dry-run
  wasmq dlq retry --all --component original

Leaves with 0 when all were put back, with 7 when only some were, and with the code of the first
error when none was. With --wait, 7 too when some are dead again, and with the code of the last
verdict (20 to 26) when all are.")]
pub struct Args {
    /// Which dead tasks.
    #[command(flatten)]
    pub which: SelectArgs,
    /// The version that will run: current (when an attempt starts), original (the component that
    /// failed), v2, a label, or sha256:….
    #[arg(long, value_name = "VERSION", default_value = "current", value_parser = values::component)]
    pub component: String,
    /// Attempts including the first, from 1 to 1000. [default: what it was enqueued with, else the setting of the task]
    #[arg(long, value_name = "N", value_parser = values::own_max_attempts, allow_negative_numbers = true)]
    pub max_attempts: Option<NonZeroU32>,
    /// Wait until all have ended, and say how many are done and which are dead again. Without a server it waits for
    /// one.
    #[arg(long, conflicts_with = "dry_run")]
    pub wait: bool,
    /// Only say what would be done.
    #[arg(long)]
    pub dry_run: bool,
}

/// Puts them back.
///
/// # Errors
/// When the dead letter queue cannot be used, or the only one that was asked for was refused.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    let dead = queue.dead_tasks();
    let mut several = Several::default();
    let selection = args.which.resolve(&queue, &mut several)?;
    let Ok(component) = args.component.parse::<Component>();
    let bar = context.out.progress(dead.count(&selection)?, "retried");
    let report =
        dead.retry(&selection, &component, args.max_attempts, args.dry_run, &mut |seen| bar.set_position(seen));
    bar.finish_and_clear();
    let mut report = report?;
    show(args, &report, context)?;
    report.retried.iter().for_each(|_| several.done());
    for refused in report.refused.drain(..) {
        several.refused(refused.id.to_string(), refused.error.into());
    }
    let retried = report.retried;
    match several.finish(context)? {
        exit @ (Exit::Ok | Exit::Partly) if args.wait && !retried.is_empty() => wait(&dead, &retried, exit, context),
        exit => Ok(exit),
    }
}

/// Waits for the end of all replays.
fn wait(dead: &DeadTasks, retried: &[Retried], exit: Exit, context: &mut Context) -> Result<Exit, CliError> {
    let bar = context.out.progress(retried.len() as u64, "ended");
    let mut watch = dead.watch(retried);
    let mut is_first_look = true;
    while watch.look()? > 0 {
        bar.set_position(watch.done() + watch.dead().len() as u64);
        if is_first_look && context.queue()?.status()?.servers.is_empty() {
            context.out.note("no server runs on this data directory; waiting for one (`wasmq serve`)");
        }
        is_first_look = false;
        pause();
    }
    bar.finish_and_clear();
    tell_end(&watch, context)?;
    Ok(match watch.last_dead() {
        None => exit,
        Some(last) if watch.done() == 0 && exit == Exit::Ok => Exit::of_verdict(&last.verdict),
        Some(_) => Exit::Partly,
    })
}

/// Other processes do the work that is waited for, and nothing wakes this one.
#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(LOOK);
}

fn tell_end(watch: &Watch, context: &mut Context) -> Result<(), CliError> {
    let (done, dead) = (watch.done(), watch.dead());
    if context.out.is_json() {
        return context.out.json(&json!({ "done": done, "dead": dead }));
    }
    let Some(last) = watch.last_dead() else {
        context.out.note(format_args!("{done} done"));
        return Ok(());
    };
    context.out.note(format_args!("{done} done, {} dead again, the last one of {}", dead.len(), last.verdict));
    let command = format!("{} dlq show {}", context.program(), last.id);
    context.out.next_step("see why", &command);
    Ok(())
}

fn show(args: &Args, report: &RetryReport, context: &mut Context) -> Result<(), CliError> {
    let retried = &report.retried;
    if context.out.is_json() {
        return retried.iter().try_for_each(|one| context.out.json(&as_json(one, args.dry_run)));
    }
    if retried.is_empty() {
        if report.refused.is_empty() && args.which.ids.is_empty() {
            context.out.note(NOTHING_MEANT);
        }
        return Ok(());
    }
    let table = if retried.len() <= MAX_LISTED { one_by_one(retried) } else { summed_up(retried) };
    context.out.table(&table)?;
    let what = time::count(retried.len() as u64, "dead task", "dead tasks");
    let did = if args.dry_run { "would be put back; this was a dry run" } else { "put back" };
    context.out.note(format_args!("{what} {did}"));
    Ok(())
}

fn as_json(one: &Retried, dry_run: bool) -> Value {
    json!({
        "id": one.id,
        "task": one.task,
        "failed": { "version": one.failed_version, "component": one.failed_component },
        "runs": { "version": one.version, "component": one.component },
        "replays": one.replays,
        "dry_run": dry_run,
    })
}

fn failed(one: &Retried) -> String {
    format!("{} {}", one.failed_version, one.failed_component.short())
}

fn runs(one: &Retried) -> String {
    let same = if one.component == one.failed_component { ", the component that failed" } else { "" };
    format!("{} {}{same}", one.version, one.component.short())
}

fn runs_tone(one: &Retried) -> Tone {
    if one.component == one.failed_component { Tone::Warn } else { Tone::Good }
}

fn one_by_one(retried: &[Retried]) -> Table {
    let mut table = Table::new(&["ID", "TASK", "FAILED", ">REPLAY", "WILL RUN"]).uncut();
    for one in retried {
        table.row([
            Cell::plain(one.id),
            Cell::new(&one.task, Tone::Strong),
            Cell::plain(failed(one)),
            Cell::plain(one.replays),
            Cell::new(runs(one), runs_tone(one)),
        ]);
    }
    table
}

fn summed_up(retried: &[Retried]) -> Table {
    let mut sums: BTreeMap<(&str, String, String), (u64, Tone)> = BTreeMap::new();
    for one in retried {
        let key = (one.task.as_str(), failed(one), runs(one));
        sums.entry(key).or_insert((0, runs_tone(one))).0 += 1;
    }
    let mut table = Table::new(&[">COUNT", "TASK", "FAILED", "WILL RUN"]).uncut();
    for ((task, failed, runs), (count, tone)) in sums {
        table.row([Cell::plain(count), Cell::new(task, Tone::Strong), Cell::plain(failed), Cell::new(runs, tone)]);
    }
    table
}
