//! `wasmq status`: what runs, what waits and what is dead.

use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::cli::render::sheet::Sheet;
use crate::clock;
use crate::journal::Counts as LiveCounts;
use crate::queue::{ServerFigures, Status, StoreKind};

/// Show what runs, what waits and what is dead.
///
/// Servers and workers, how many invocations wait, run and are dead, and the same per task.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wasmq status\n  wasmq status --json | jq .live.ready")]
pub struct Args {}

/// Shows the state of the queue.
///
/// # Errors
/// When the store cannot be read.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let status = context.queue()?.status()?;
    if context.out.is_json() {
        context.out.json(&as_json(&status))?;
        return Ok(Exit::Ok);
    }
    let mut sheet = context.out.sheet();
    sheet.heading("QUEUE", &context.config.data.to_string_lossy());
    sheet.facts(&totals(&status, context.store()));
    tasks(&mut sheet, &status);
    servers(&mut sheet, &status);
    if !status.problems.is_empty() {
        sheet.heading("PROBLEMS", "");
        status.problems.iter().for_each(|problem| sheet.sentence(Tone::Bad, problem));
    }
    context.out.page(sheet)?;
    if status.servers.is_empty() && !status.has_unknown_servers {
        let store = if context.store() == StoreKind::None { " --store none" } else { "" };
        context.out.next_step("no server runs; to start one", &format!("{} serve{store}", context.program()));
    }
    Ok(Exit::Ok)
}

fn counts_json(counts: &LiveCounts) -> Value {
    let LiveCounts { ready, delayed, running, awaiting_deploy, exhausted, orphaned, suspects, alone } = counts;
    json!({
        "ready": ready,
        "delayed": delayed,
        "running": running,
        "awaiting_deploy": awaiting_deploy,
        "exhausted": exhausted,
        "orphaned": orphaned,
        "suspects": suspects,
        "alone": alone,
    })
}

fn as_json(status: &Status) -> Value {
    let server = |server: &ServerFigures| {
        let workers: Vec<Value> = server
            .workers
            .iter()
            .map(|worker| {
                let figures = &worker.figures;
                json!({
                    "pid": figures.pid,
                    "alive": worker.alive,
                    "restarts": worker.restarts,
                    "log": figures.log,
                    "counts": counts_json(&figures.counts),
                    "completed": figures.completed,
                    "failed_attempts": figures.failed_attempts,
                    "dead": figures.dead,
                    "dlq_error": figures.dlq_error,
                })
            })
            .collect();
        json!({ "pid": server.pid, "started_at": server.since, "draining": server.draining, "workers": workers })
    };
    let by_task: serde_json::Map<String, Value> =
        status.by_task.iter().map(|(task, counts)| (task.to_string(), counts_json(counts))).collect();
    json!({
        "servers": status.servers.iter().map(server).collect::<Vec<_>>(),
        "live": counts_json(&status.counts),
        "by_task": by_task,
        "dead": status.dead,
        "free_logs": status.free_logs,
        "problems": status.problems,
    })
}

fn totals(status: &Status, store: StoreKind) -> Vec<(&'static str, String, Tone)> {
    let counts = &status.counts;
    let attention = |count: u64| if count > 0 { Tone::Warn } else { Tone::Plain };
    let mut facts = vec![
        ("ready", counts.ready.to_string(), Tone::Plain),
        ("running", counts.running.to_string(), Tone::Plain),
        ("delayed", counts.delayed.to_string(), Tone::Plain),
        ("awaiting a deploy", counts.awaiting_deploy.to_string(), attention(counts.awaiting_deploy)),
        ("given up, not in the dead letter queue yet", counts.exhausted.to_string(), attention(counts.exhausted)),
    ];
    if counts.orphaned > 0 {
        facts.push((
            "orphaned by a worker that died, until another takes over",
            counts.orphaned.to_string(),
            Tone::Warn,
        ));
    }
    let suspects = counts.suspects + counts.alone;
    if suspects > 0 {
        facts.push(("suspects of a crash, which run alone", suspects.to_string(), Tone::Warn));
    }
    facts.push(match status.dead {
        Some(dead) => ("dead", dead.to_string(), attention(dead)),
        None if store == StoreKind::None => ("dead", "not kept: the store is none".to_owned(), Tone::Faint),
        None => ("dead", "not known: the dead letter queue cannot be read".to_owned(), Tone::Bad),
    });
    facts
}

fn tasks(sheet: &mut Sheet, status: &Status) {
    if status.by_task.is_empty() {
        return;
    }
    sheet.heading("TASKS", "");
    let mut table =
        Table::new(&["", "TASK", ">READY", ">RUNNING", ">DELAYED", ">AWAITING DEPLOY", ">ORPHANED", ">GIVEN UP"]);
    for (task, counts) in &status.by_task {
        table.row([
            Cell::default(),
            Cell::new(task, Tone::Strong),
            Cell::plain(counts.ready),
            Cell::plain(counts.running),
            Cell::plain(counts.delayed),
            Cell::plain(counts.awaiting_deploy),
            Cell::plain(counts.orphaned),
            Cell::plain(counts.exhausted),
        ]);
    }
    sheet.table(&table);
}

fn servers(sheet: &mut Sheet, status: &Status) {
    let now = clock::now();
    for server in &status.servers {
        let started = time::relative(server.since, now);
        sheet.heading("SERVER", &format!("process {}, started {started}", server.pid));
        if server.draining {
            sheet.sentence(Tone::Warn, "it stops: it takes nothing new and waits for what runs");
        }
        let mut table = Table::new(&[
            "",
            ">WORKER",
            "STATE",
            ">RESTARTS",
            ">RUNNING",
            ">WAITING",
            ">COMPLETED",
            ">FAILED ATTEMPTS",
            ">DEAD",
            "TROUBLE",
        ]);
        for worker in &server.workers {
            let figures = &worker.figures;
            let state = match (worker.alive, server.draining) {
                (true, _) => Cell::new("runs", Tone::Good),
                (false, true) => Cell::plain("ended"),
                (false, false) => Cell::new("starts again", Tone::Warn),
            };
            table.row([
                Cell::default(),
                Cell::plain(figures.pid),
                state,
                Cell::plain(worker.restarts),
                Cell::plain(figures.counts.running),
                Cell::plain(figures.counts.ready),
                Cell::plain(figures.completed),
                Cell::plain(figures.failed_attempts),
                Cell::plain(figures.dead),
                Cell::new(figures.dlq_error.as_deref().unwrap_or_default(), Tone::Bad),
            ]);
        }
        sheet.table(&table);
    }
}
