//! The page about a dead task, for the person who was woken up by it: what died and why on top,
//! the story below, and what to type next at the end.

use wasmq_core::{DeadTask, Timestamp};

use super::failure::{self, repeatability, tone_of};
use super::sheet::Sheet;
use super::{attempts, payload};
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;

/// Adds the page. `wasmq` is how the reader calls the program, with the options that matter.
pub fn show(sheet: &mut Sheet, dead: &DeadTask, now: Timestamp, wasmq: &str) {
    top(sheet, dead, now);
    let since = if dead.replays > 0 { " since the last replay" } else { "" };
    sheet.heading("ATTEMPTS", &format!("{} of {}{since}", dead.attempts, dead.max_attempts));
    sheet.table(&attempts::table(&dead.history));
    failure::show(sheet, &dead.failure);
    limits(sheet, dead);
    payload_part(sheet, dead, wasmq);
    deaths(sheet, dead, now);
    next(sheet, dead, wasmq);
}

fn top(sheet: &mut Sheet, dead: &DeadTask, now: Timestamp) {
    sheet.heading("DEAD TASK", &dead.id.to_string());
    sheet.sentence(tone_of(&dead.verdict), &format!("{} in {}@{}", dead.verdict, dead.task, dead.version));
    if !dead.summary().is_empty() {
        sheet.sentence(Tone::Strong, attempts::first_line(dead.summary()));
    }
    if let Some(why) = repeatability(&dead.failure) {
        sheet.sentence(Tone::Plain, &why);
    }
    let when = |at: Timestamp| format!("{}  ({})", time::local(at), time::relative(at, now));
    let mut facts = vec![
        ("died", when(dead.dead_at), Tone::Plain),
        ("enqueued", when(dead.enqueued_at), Tone::Plain),
        ("component", dead.component.to_string(), Tone::Plain),
        ("replays", dead.replays.to_string(), Tone::Plain),
        ("group", dead.fingerprint.clone(), Tone::Plain),
        ("ran on", format!("{}, wasmq:task@{}, worker {}", dead.engine, dead.wit, dead.worker), Tone::Plain),
    ];
    if dead.priority > 0 {
        facts.push(("priority", dead.priority.to_string(), Tone::Plain));
    }
    facts.extend(dead.metadata.iter().map(|(key, value)| ("metadata", format!("{key}={value}"), Tone::Plain)));
    sheet.facts(&facts);
}

fn limits(sheet: &mut Sheet, dead: &DeadTask) {
    sheet.heading("LIMITS", "and what the last attempt used");
    let mut table = Table::new(&["", "", ">USED", ">LIMIT"]);
    let mut row = |what: &str, used: String, limit: String| {
        table.row([Cell::plain(""), Cell::new(what, Tone::Faint), Cell::plain(used), Cell::plain(limit)]);
    };
    let (usage, limits) = (&dead.usage, &dead.limits);
    row("time", time::measured(usage.wall_us), time::measured(limits.timeout_ms.saturating_mul(1000)));
    row("of it on a core", time::measured(usage.cpu_us), String::new());
    row("memory", time::bytes(usage.memory_peak_bytes), time::bytes(limits.memory_bytes));
    row("output", String::new(), time::bytes(limits.output_bytes));
    sheet.table(&table);
    let grants = if dead.grants.is_empty() { "nothing".to_owned() } else { dead.grants.join(", ") };
    sheet.facts(&[("granted", grants, Tone::Plain)]);
}

fn payload_part(sheet: &mut Sheet, dead: &DeadTask, wasmq: &str) {
    let preview = payload::preview(&dead.payload.0);
    sheet.heading("PAYLOAD", &preview.about);
    sheet.block(&preview.text);
    if preview.cut {
        sheet.commands(&[(format!("{wasmq} dlq show {} --payload > payload", dead.id), "all of it, byte for byte")]);
    }
}

fn deaths(sheet: &mut Sheet, dead: &DeadTask, now: Timestamp) {
    if dead.deaths.is_empty() {
        return;
    }
    sheet.heading("EARLIER DEATHS", &format!("it was replayed {}", time::count(dead.replays.into(), "time", "times")));
    let mut table = Table::new(&["", "DIED", ">ATTEMPTS", "VERSION", "COMPONENT", "VERDICT", "WHY"]);
    for death in &dead.deaths {
        table.row([
            Cell::plain(""),
            Cell::plain(time::relative(death.dead_at, now)),
            Cell::plain(death.attempts),
            Cell::plain(death.version),
            Cell::new(death.digest.short(), Tone::Faint),
            Cell::new(&death.verdict, tone_of(&death.verdict)),
            Cell::plain(attempts::first_line(&death.summary)),
        ]);
    }
    sheet.table(&table);
}

fn next(sheet: &mut Sheet, dead: &DeadTask, wasmq: &str) {
    let DeadTask { id, task, fingerprint, .. } = dead;
    sheet.heading("NEXT", "");
    sheet.commands(&[
        (format!("{wasmq} deploy {task} FIXED.wasm"), "deploy a repaired version"),
        (format!("{wasmq} dlq retry {id}"), "try again with the current version"),
        (format!("{wasmq} dlq retry {id} --component original"), "try again with what failed"),
        (format!("{wasmq} dlq retry --group {fingerprint}"), "try all again that failed alike"),
        (format!("{wasmq} dlq delete {id}"), "give it up for good"),
    ]);
}
