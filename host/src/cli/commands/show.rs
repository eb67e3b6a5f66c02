//! `wasmq show`: one invocation, live or dead.

use wasmq_core::{DeadTask, Timestamp};

use super::list;
use crate::cli::candidates::explained;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::json::object;
use crate::cli::output::paint::Tone;
use crate::cli::output::safe::safe;
use crate::cli::output::time;
use crate::cli::render::sheet::Sheet;
use crate::cli::render::{attempts, dead_task, progress};
use crate::cli::values::IdArg;
use crate::clock;
use crate::queue::{Live, LivePhase, Shown};

/// Show one invocation, live or dead.
///
/// Where it stands, and every attempt it had. A dead one is shown as `wasmq dlq show` shows it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wasmq show 01935d2c-7b3e-7cc0-98c4-dc0c0c07398f\n  wasmq show 01935d2c-7b3e --json"
)]
pub struct Args {
    /// The id, or at least its first 8 characters.
    pub id: IdArg,
    /// Leave out nothing of a dead one: every frame of the backtrace, every line of what the task wrote.
    #[arg(long)]
    pub full: bool,
}

/// Shows it.
///
/// # Errors
/// When the id is unknown or ambiguous, or the store cannot be read.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    match queue.show(&args.id.to_string()).map_err(|error| explained(error, &queue))? {
        Shown::Dead(dead) => show_dead(&dead, args.full, context)?,
        Shown::Live(live) => show_live(&live, context)?,
    }
    Ok(Exit::Ok)
}

/// Shows a dead task, with `full` without leaving anything out.
///
/// # Errors
/// When stdout cannot be written, or the data directory cannot be used.
pub fn show_dead(dead: &DeadTask, full: bool, context: &mut Context) -> Result<(), CliError> {
    if context.out.is_json() {
        return context.out.json(&object("state", &"dead", dead));
    }
    let mut sheet = context.out.sheet().with_rest((!full).then_some("--full"));
    let task = context.queue()?.task(&dead.task);
    let has_original = task.is_ok_and(|task| task.versions.iter().any(|version| version.digest == dead.component));
    dead_task::show(&mut sheet, dead, clock::now(), &context.program(), has_original);
    context.out.page(sheet)
}

fn show_live(live: &Live, context: &mut Context) -> Result<(), CliError> {
    if context.out.is_json() {
        return context.out.json(&list::as_json(live));
    }
    let mut sheet = context.out.sheet();
    live_page(&mut sheet, live, clock::now(), &context.program());
    context.out.page(sheet)
}

fn live_page(sheet: &mut Sheet, live: &Live, now: Timestamp, wasmq: &str) {
    sheet.heading("INVOCATION", &live.id.to_string());
    let when = |at: Timestamp| format!("{}  ({})", time::local(at), time::relative(at, now));
    let mut facts = vec![
        ("task", live.task.to_string(), Tone::Strong),
        ("phase", phase(live, now), list::tone_of(&live.phase)),
        ("enqueued", when(live.enqueued_at), Tone::Plain),
    ];
    facts.extend(live.pinned.clone().map(|version| ("version", version, Tone::Plain)));
    facts.extend(live.progress.as_ref().map(|said| {
        let text = format!("{}  ({})", progress::in_words(said), time::relative(said.said_at, now));
        ("progress", text, Tone::Plain)
    }));
    facts.extend(live.due_at.filter(|due| *due > now).map(|due| ("due", when(due), Tone::Plain)));
    facts.push(("attempts", list::attempts(live), Tone::Plain));
    facts.push(("replays", live.replays.to_string(), Tone::Plain));
    facts.push(("priority", live.priority.to_string(), Tone::Plain));
    facts.extend(live.payload_bytes.map(|bytes| ("payload", time::bytes(bytes), Tone::Plain)));
    facts.extend(live.metadata.iter().map(|(key, value)| ("metadata", format!("{key}={value}"), Tone::Plain)));
    sheet.facts(&facts);
    if !live.history.is_empty() {
        sheet.heading("ATTEMPTS", "");
        sheet.table(&attempts::table(&live.history));
    }
    sheet.heading("NEXT", "");
    sheet.commands(&[(format!("{wasmq} cancel {}", live.id), "end it, whatever it does now")]);
}

/// What the phase means.
fn phase(live: &Live, now: Timestamp) -> String {
    let name = live.phase.name();
    let meaning = match live.phase {
        LivePhase::Ready => "due; it waits for a free place in a worker".to_owned(),
        LivePhase::Delayed => "not due yet".to_owned(),
        LivePhase::AwaitingDeploy => {
            let lacks = live.lacks.as_deref().unwrap_or("no deployed version can run it");
            format!("due, but {}", safe(lacks))
        }
        LivePhase::Running { since } => format!("since {}", time::relative(since, now)),
        LivePhase::Orphaned => "its worker died; another one takes it over".to_owned(),
        LivePhase::Exhausted => "given up; the dead letter queue has not taken it yet".to_owned(),
    };
    let suspect = live.suspect_since.map_or_else(String::new, |attempt| {
        format!("; a suspect: its worker died during attempt {attempt}, it runs alone next")
    });
    format!("{name}: {meaning}{suspect}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_json_of_dead_and_live_can_be_told_apart() {
        let value: Value = object("state", &"dead", &json!({ "id": 1 }));
        assert_eq!(value, json!({ "state": "dead", "id": 1 }));
    }
}
