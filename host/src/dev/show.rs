//! How the rounds look: lines for people, an object per round for programs.
//!
//! Invariant: nothing of a guest, and no name of a file, reaches a terminal unescaped; only the build writes
//! there itself.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use wasmq_core::{Bytes, Millis, Verdict};

use crate::cli::error::{CliError, Description};
use crate::cli::output::Output;
use crate::cli::output::paint::Tone;
use crate::cli::output::safe::{safe, safe_block};
use crate::cli::output::time;
use crate::cli::render::failure;
use crate::cli::render::payload::hex_dump;
use crate::queue::{Completion, Deployment};

/// How many names of changed files are shown.
const MAX_NAMES: usize = 5;
/// How many bytes of an output that is no text are shown.
const HEX_BYTES: usize = 32;

/// What is known of a round so far.
#[derive(Debug, Default)]
pub struct Round {
    /// Its number, from 1.
    pub number: u64,
    /// The files that it was started for; none for the first.
    pub changed: Vec<String>,
    /// How long the build took, once it has ended.
    pub build: Option<Duration>,
    /// What was deployed.
    pub deployed: Option<Deployment>,
}

impl Round {
    /// The round for a program, with what is known of its end. `ended` is `ran`, `failed` or `restarted`.
    fn to_json(&self, ended: &str, more: Value) -> Value {
        let deployed = self.deployed.as_ref().map(|deployed| {
            json!({
                "task": deployed.task,
                "version": deployed.version,
                "component": deployed.digest,
                "unchanged": deployed.unchanged,
                "previous": deployed.previous,
                "compile_ms": deployed.compile_ms,
            })
        });
        let mut round = json!({
            "round": self.number,
            "changed": self.changed,
            "build_ms": self.build.map(millis),
            "deployed": deployed,
            "ended": ended,
        });
        if let (Value::Object(round), Value::Object(more)) = (&mut round, more) {
            round.extend(more);
        }
        round
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What the reader may type about dead tasks; absent when none are kept.
pub type DlqCommand<'a> = Option<&'a str>;

fn faint(out: &mut Output, text: &str) {
    let text = out.notes_paint().apply(Tone::Faint, &safe(text));
    out.note(text);
}

/// Says what is watched.
pub fn greeting(out: &mut Output, folder: &Path, data: &Path) {
    faint(out, &format!("watching {}; everything is stored in {}", folder.display(), data.display()));
}

/// Begins a round.
pub fn begin(out: &mut Output, round: &Round, build: &str) {
    let title = out.notes_paint().apply(Tone::Strong, &format!("round {}", round.number));
    out.note(format_args!("\n{title}  {}", safe(&names(&round.changed))).to_string().trim_end());
    faint(out, &format!("$ {build}"));
}

fn names(changed: &[String]) -> String {
    let shown = changed.get(..MAX_NAMES).unwrap_or(changed).join(", ");
    match changed.len().saturating_sub(MAX_NAMES) {
        0 if shown.is_empty() => String::new(),
        0 => format!("{shown} changed"),
        more => format!("{shown} and {more} more changed"),
    }
}

/// Says that the build is done.
pub fn built(out: &mut Output, round: &Round) {
    if let Some(took) = round.build {
        faint(out, &format!("built in {}", time::span(Millis(millis(took)))));
    }
}

/// Says what was deployed.
pub fn deployed(out: &mut Output, deployed: &Deployment) {
    let Deployment { task, version, .. } = deployed;
    if let Some(previous) = deployed.previous.filter(|previous| deployed.unchanged && previous != version) {
        let text = out.notes_paint().apply(Tone::Good, &format!("deployed {task} {version} again"));
        return out.note(format_args!("{text}  the same component as then; {previous} was current before"));
    }
    if deployed.unchanged {
        let text = out.notes_paint().apply(Tone::Warn, &format!("unchanged, {version} of {task}"));
        return out.note(text);
    }
    let text = out.notes_paint().apply(Tone::Good, &format!("deployed {task} {version}"));
    let (size, compiled) = (time::bytes(deployed.size_bytes), time::span(Millis(deployed.compile_ms)));
    out.note(format_args!("{text}  {size}, ready to run after {compiled}"));
}

/// Shows how the task ended.
///
/// # Errors
/// When stdout cannot be written.
pub fn ran(out: &mut Output, round: &Round, completion: &Completion, dlq: DlqCommand<'_>) -> Result<(), CliError> {
    if out.is_json() {
        let more = json!({
            "id": completion.id,
            "verdict": completion.verdict,
            "usage": completion.usage,
            "dead": completion.dead,
            "failure": completion.failure,
            "said": completion.said,
            "follow_ups": completion.follow_ups,
            "output": Bytes(completion.output.clone()),
        });
        return out.json(&round.to_json("ran", more)).and_then(|()| out.flush());
    }
    output(out, &completion.output)?;
    let used = completion.usage.map_or_else(String::new, |usage| {
        format!("in {}, {} of memory", time::measured(usage.wall_us), time::bytes(usage.memory_peak_bytes))
    });
    if completion.verdict == Verdict::Completed {
        let mut sheet = out.notes_sheet();
        sheet.sentence(Tone::Good, &format!("{} {used}", completion.verdict));
        if let Some(said) = &completion.said {
            failure::said(&mut sheet, &said.stdout, &said.stderr, &said.log);
        }
        out.note_page(sheet);
    } else {
        let rest = Some(if completion.dead && dlq.is_some() { "`wasmq dlq show --full`" } else { "--json" });
        failure::note(out, &completion.verdict, &used, completion.failure.as_deref(), rest);
    }
    if completion.follow_ups > 0 {
        let what = time::count(completion.follow_ups, "follow-up", "follow-ups");
        faint(out, &format!("{what} of it went into the queue; only a server runs them"));
    }
    if let Some(command) = dlq.filter(|_| completion.dead) {
        out.next_step("the dead tasks of all rounds", command);
    }
    Ok(())
}

/// Shows what the task gave back: as it is for a program, and for a person as far as it is text.
fn output(out: &mut Output, bytes: &[u8]) -> Result<(), CliError> {
    if !out.is_for_terminal() || bytes.is_empty() {
        out.content(bytes)?;
        return out.flush();
    }
    let mut sheet = out.sheet();
    let size = time::bytes(bytes.len() as u64);
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains('\0')
    {
        sheet.heading("OUTPUT", &size);
        sheet.block(&safe_block(text));
    } else {
        sheet.heading("OUTPUT", &format!("{size}, binary"));
        sheet.block(&hex_dump(bytes.get(..HEX_BYTES).unwrap_or(bytes)));
    }
    out.page(sheet)?;
    out.flush()
}

/// Tells of a round that a change has overtaken.
///
/// # Errors
/// When stdout cannot be written.
pub fn restarted(out: &mut Output, round: &Round) -> Result<(), CliError> {
    if out.is_json() {
        return out.json(&round.to_json("restarted", Value::Null)).and_then(|()| out.flush());
    }
    let what = if round.build.is_none() { "the build" } else { "the task" };
    let text = out.notes_paint().apply(Tone::Warn, &format!("a change came before {what} had ended; it was stopped"));
    out.note(text);
    Ok(())
}

/// Tells of a round that did not come to an attempt. Programs get it with the round.
///
/// # Errors
/// When stdout cannot be written.
pub fn failed_round(out: &mut Output, round: &Round, error: &Description) -> Result<(), CliError> {
    if !out.is_json() {
        return Ok(());
    }
    let error = json!({ "code": error.code, "message": error.message, "hint": error.hint });
    out.json(&round.to_json("failed", json!({ "error": error }))).and_then(|()| out.flush())
}

/// Tells a person what stands in the way of a round, and that it goes on all the same.
pub fn failed(out: &mut Output, error: &Description) {
    if error.code == "gone" {
        let text = format!("{}; waiting until it is back, Ctrl-C ends", safe(&error.message));
        let text = out.notes_paint().apply(Tone::Warn, &text);
        return out.note(text);
    }
    if error.code == "build" {
        // The compiler has said the rest.
        let text = format!("{}; waiting for the next change", safe(&error.message));
        let text = out.notes_paint().apply(Tone::Bad, &text);
        return out.note(text);
    }
    if !out.is_json() {
        out.error(error, None);
    }
    waiting(out);
}

/// Says that it is anybody else's turn.
pub fn waiting(out: &mut Output) {
    faint(out, "waiting for the next change; Ctrl-C ends");
}

/// Tells of files that are not looked at any more.
pub fn recognised(out: &mut Output, names: &[String]) {
    let names = names.join(", ");
    let text = format!(
        "{names} changed during each of the last builds: the build writes it itself, so it starts none; \
         `watch` in task.toml says what to watch"
    );
    let text = out.notes_paint().apply(Tone::Warn, &safe(&text));
    out.note(text);
}

/// Says that what was gone is there again.
pub fn back(out: &mut Output, name: &str) {
    faint(out, &format!("{name} is back"));
}

/// Says that somebody removed the store.
pub fn made_anew(out: &mut Output, data: &Path) {
    let text = format!("{} was removed, or a part of it; what is missing is made anew", data.display());
    let text = out.notes_paint().apply(Tone::Warn, &safe(&text));
    out.note(text);
}

/// Says that the store grows.
pub fn untidy(out: &mut Output, error: &Description) {
    out.note(format_args!("warning: old versions could not be removed: {}", safe(&error.message)));
}

/// Tells that the system watches no more folders.
pub fn polls(out: &mut Output) {
    out.note(
        "warning: the system watches no more folders for this user, so changes are looked for twice a second; raise \
         fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_a_few_and_a_number() {
        let changed: Vec<String> = (0..7).map(|n| format!("f{n}")).collect();
        assert_eq!(names(&changed), "f0, f1, f2, f3, f4 and 2 more changed");
        assert_eq!((names(&changed[..1]), names(&[])), ("f0 changed".to_owned(), String::new()));
    }

    #[test]
    fn a_round_for_a_program_says_how_far_it_came() {
        let round = Round { number: 3, changed: vec!["a".to_owned()], ..Round::default() };
        let json = round.to_json("restarted", Value::Null);
        assert_eq!((&json["round"], &json["ended"], &json["deployed"]), (&3.into(), &"restarted".into(), &Value::Null));
    }
}
