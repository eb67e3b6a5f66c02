//! The page about a dead task, for the person who was woken up by it: what died and why on top,
//! the story below, and what to type next at the end.

use wasmq_core::{DeadTask, Millis, Timestamp, Verdict};

use super::failure::{self, repeatability, tone_of};
use super::sheet::Sheet;
use super::{attempts, payload};
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;

/// Adds the page. `wasmq` is how the reader calls the program, with the options that matter; `has_original` says
/// that what failed can be run again.
pub fn show(sheet: &mut Sheet, dead: &DeadTask, now: Timestamp, wasmq: &str, has_original: bool) {
    top(sheet, dead, now);
    let since = if dead.replays > 0 { " since the last replay" } else { "" };
    sheet.heading("ATTEMPTS", &format!("{} of {}{since}", dead.attempts, dead.max_attempts));
    sheet.table(&attempts::table(&dead.history));
    failure::show(sheet, &dead.failure);
    limits(sheet, dead);
    payload_part(sheet, dead, wasmq);
    deaths(sheet, dead, now);
    next(sheet, dead, wasmq, has_original);
}

fn top(sheet: &mut Sheet, dead: &DeadTask, now: Timestamp) {
    sheet.heading("DEAD TASK", &dead.id.to_string());
    sheet.sentence(tone_of(&dead.verdict), &format!("{} in {}@{}", dead.verdict, dead.task, dead.version));
    if !dead.summary().is_empty() {
        sheet.sentence(Tone::Strong, &failure::why(dead.summary(), &dead.failure));
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
    row("time", time::measured(usage.wall_us), time::span(Millis(limits.timeout_ms)));
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

fn next(sheet: &mut Sheet, dead: &DeadTask, wasmq: &str, has_original: bool) {
    let DeadTask { id, task, fingerprint, .. } = dead;
    sheet.heading("NEXT", "");
    let repair = match dead.verdict {
        Verdict::Timeout => (format!("{wasmq} deploy {task} FILE.wasm --timeout LONGER"), "give it more time"),
        Verdict::MemoryLimit => (format!("{wasmq} deploy {task} FILE.wasm --memory MORE"), "give it more memory"),
        _ => (format!("{wasmq} deploy {task} FIXED.wasm"), "deploy a repaired version"),
    };
    let mut commands = Vec::new();
    if failure::lacks_names(&dead.failure) {
        let command = format!("{wasmq} symbols add {} UNSTRIPPED.wasm", dead.component.short());
        commands.push((command, "see where it trapped"));
    }
    commands.extend([repair, (format!("{wasmq} dlq retry {id}"), "try again with the current version")]);
    if has_original {
        commands.push((format!("{wasmq} dlq retry {id} --component original"), "try again with what failed"));
    }
    commands.extend([
        (format!("{wasmq} dlq retry --group {fingerprint}"), "try all again that failed alike"),
        (format!("{wasmq} dlq delete {id}"), "give it up for good"),
    ]);
    sheet.commands(&commands);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use wasmq_core::dead_task::DeadLimits;
    use wasmq_core::report::{FailureReport, Frame, TrapInfo};
    use wasmq_core::{Bytes, Digest, InvocationId, Problem, Tail, TrapCode, Usage, VersionNumber};

    use super::*;
    use crate::cli::output::paint::Paint;

    const EVIL: &str = "\u{1b}[2J\u{202e}\u{9b}\0";

    fn hostile_failure() -> FailureReport {
        let frame = Frame { function: Some(format!("dive{EVIL}")), source: Some(EVIL.to_owned()), ..Frame::default() };
        FailureReport {
            problem: Problem::new(EVIL, &format!("line one\nline two {EVIL}"), Some(EVIL)),
            trap: Some(TrapInfo::new(TrapCode::StackOverflow, EVIL, vec![frame; 500])),
            stderr: Tail { bytes: Bytes(b"\xff\x1b[31mred".to_vec()), total_bytes: 9000 },
            deterministic: true,
            ..FailureReport::default()
        }
    }

    fn hostile() -> DeadTask {
        DeadTask {
            id: InvocationId::from_u128(7),
            task: "csv-report".parse().unwrap(),
            version: VersionNumber(NonZeroU32::MIN),
            component: Digest::new([7; 32]),
            wit: "0.1.0".to_owned(),
            verdict: Verdict::Trap(TrapCode::StackOverflow),
            fingerprint: "0123456789abcdef".to_owned(),
            enqueued_at: Timestamp(1000),
            dead_at: Timestamp(u64::MAX),
            attempts: 1,
            max_attempts: 3,
            replays: 0,
            priority: 3,
            own_max_attempts: None,
            metadata: vec![(EVIL.to_owned(), EVIL.to_owned())],
            failure: hostile_failure(),
            history: Vec::new(),
            deaths: Vec::new(),
            usage: Usage::default(),
            limits: DeadLimits { timeout_ms: u64::MAX, memory_bytes: 1 << 28, output_bytes: 0 },
            grants: Vec::new(),
            worker: EVIL.to_owned(),
            engine: EVIL.to_owned(),
            payload: Bytes(EVIL.as_bytes().to_vec()),
        }
    }

    #[test]
    fn nothing_of_a_hostile_task_reaches_the_terminal_raw_and_the_page_stays_short() {
        let mut sheet = Sheet::new(Paint::off(), Some(80));
        show(&mut sheet, &hostile(), Timestamp(0), "wasmq", true);
        let lines = sheet.into_lines();
        assert!(lines.iter().all(|line| !line.chars().any(|c| c.is_control() || c == '\u{202e}')), "{lines:#?}");
        assert!(lines.len() < 80, "{} lines", lines.len());
        let page = lines.join("\n");
        for needle in ["… and 31 more frames of the same …", "… 436 frames left out …", "the last 9 B of 8.8 KiB"]
        {
            assert!(page.contains(needle), "{needle} is missing in\n{page}");
        }
    }

    #[test]
    fn what_to_type_next_names_the_whole_id_and_the_data_directory() {
        let mut sheet = Sheet::new(Paint::off(), None);
        show(&mut sheet, &hostile(), Timestamp(0), "wasmq --data /var/q", false);
        let page = sheet.into_lines().join("\n");
        assert!(page.contains("wasmq --data /var/q dlq retry 00000000-0000-0000-0000-000000000007 "), "{page}");
        assert!(!page.contains("original"), "what failed is not there any more:\n{page}");
    }

    #[test]
    fn numbers_in_a_backtrace_can_be_turned_into_names_by_a_command_that_is_shown() {
        let page = |dead: &DeadTask| {
            let mut sheet = Sheet::new(Paint::off(), None);
            show(&mut sheet, dead, Timestamp(0), "wasmq", true);
            sheet.into_lines().join("\n")
        };
        let mut dead = hostile();
        assert!(!page(&dead).contains("symbols add"));
        dead.failure.trap.as_mut().unwrap().frames.iter_mut().for_each(|frame| frame.function = None);
        assert!(page(&dead).contains("wasmq symbols add sha256:070707070707 UNSTRIPPED.wasm"), "{}", page(&dead));
    }
}
