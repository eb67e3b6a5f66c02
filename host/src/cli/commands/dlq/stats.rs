//! `wasmq dlq stats`: how many dead tasks there are.

use serde_json::{Map, Value, json};

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::time;
use crate::cli::render::failure::tone_of;
use crate::clock;
use crate::queue::DeadCounts;

/// Count dead tasks by task and verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wasmq dlq stats\n  wasmq dlq stats --json")]
pub struct Args {}

/// Shows the counts.
///
/// # Errors
/// When the dead letter queue cannot be read, or nothing is kept.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let counts = context.queue()?.dead_tasks().counts()?;
    if context.out.is_json() {
        context.out.json(&as_json(&counts))?;
        return Ok(Exit::Ok);
    }
    let mut sheet = context.out.sheet();
    sheet.heading("DEAD TASKS", &counts.total.to_string());
    let mut facts = Vec::new();
    if let Some(oldest) = counts.oldest {
        facts.push((
            "oldest",
            format!("{}  ({})", time::local(oldest), time::relative(oldest, clock::now())),
            Tone::Plain,
        ));
    }
    if counts.damaged > 0 {
        facts.push(("damaged lines, not counted", counts.damaged.to_string(), Tone::Bad));
    }
    sheet.facts(&facts);
    if counts.total > 0 {
        sheet.heading("BY TASK", "");
        let tasks: Vec<_> = counts.by_task.iter().collect();
        sheet.facts(
            &tasks.iter().map(|(task, count)| (task.as_str(), count.to_string(), Tone::Plain)).collect::<Vec<_>>(),
        );
        sheet.heading("BY VERDICT", "");
        let verdicts: Vec<_> =
            counts.by_verdict.iter().map(|(verdict, count)| (verdict.to_string(), count, tone_of(verdict))).collect();
        sheet.facts(
            &verdicts
                .iter()
                .map(|(verdict, count, tone)| (verdict.as_str(), count.to_string(), *tone))
                .collect::<Vec<_>>(),
        );
    }
    context.out.page(sheet)?;
    Ok(Exit::Ok)
}

fn as_json(counts: &DeadCounts) -> Value {
    let by_task: Map<String, Value> =
        counts.by_task.iter().map(|(task, count)| (task.to_string(), json!(count))).collect();
    let by_verdict: Map<String, Value> =
        counts.by_verdict.iter().map(|(verdict, count)| (verdict.to_string(), json!(count))).collect();
    json!({
        "total": counts.total,
        "by_task": by_task,
        "by_verdict": by_verdict,
        "oldest_at": counts.oldest,
        "damaged": counts.damaged,
    })
}
