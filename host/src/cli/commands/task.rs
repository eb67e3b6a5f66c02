//! `wasmq task`: tasks and their versions.

use std::collections::BTreeMap;

use clap::Subcommand;
use serde_json::{Value, json};
use wasmq_core::settings::{Action, Backoff, Settings};
use wasmq_core::{Digest, Millis, TaskName};

use super::symbols::{words, words_of};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::cli::values;
use crate::clock;
use crate::config::units::{write_duration, write_size};
use crate::queue::{Explained, Queue, Task, Version};

/// The commands about tasks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the tasks with their current versions.
    #[command(after_help = "Examples:\n  wasmq task list\n  wasmq task list --json | jq -r .name")]
    List,
    /// Show a task with all its versions and their settings.
    #[command(after_help = "Example:\n  wasmq task show resize")]
    Show {
        /// The name of the task.
        task: TaskName,
    },
    /// Make another version the current one.
    ///
    /// New attempts use it from now on, also those of invocations that are already enqueued.
    #[command(after_help = "Examples:\n  wasmq task activate resize v1\n  wasmq task activate resize hotfix")]
    Activate {
        /// The name of the task.
        task: TaskName,
        /// The version: v1, a label, or sha256:….
        #[arg(value_parser = values::version)]
        version: String,
    },
    /// Remove a task.
    ///
    /// Its live invocations wait until it is deployed again. Numbers of versions go on, so those that were
    /// enqueued for a version of it by its number wait until they are cancelled. Its dead tasks stay, and so
    /// do the files of its components, in components/sha256/ of the data directory: to retry a dead task of
    /// it, even with the component that failed, deploy that file again first.
    #[command(after_help = "Example:\n  wasmq task remove resize")]
    Remove {
        /// The name of the task.
        task: TaskName,
    },
}

/// Runs one of the commands about tasks.
///
/// # Errors
/// When there is no such task or version, or the registry fails.
pub fn run(command: &Command, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    match command {
        Command::List => list(&queue.tasks()?, context)?,
        Command::Show { task } => show(&queue.task(task)?, &queue, context)?,
        Command::Activate { task, version } => {
            let now = queue.activate(task, version)?;
            let line = format!("{now} of {task} is current now");
            answer(context, &json!({ "task": task, "current": now }), &line)?;
        }
        Command::Remove { task } => {
            queue.remove_task(task)?;
            answer(context, &json!({ "task": task, "removed": true }), &format!("removed {task}"))?;
        }
    }
    Ok(Exit::Ok)
}

fn answer(context: &mut Context, value: &Value, line: &str) -> Result<(), CliError> {
    if context.out.is_json() { context.out.json(value) } else { context.out.line(line) }
}

fn as_json(task: &Task) -> Value {
    json!({ "name": task.name, "current": task.current, "versions": task.versions })
}

fn list(tasks: &[Task], context: &mut Context) -> Result<(), CliError> {
    if context.out.is_json() {
        return tasks.iter().try_for_each(|task| context.out.json(&as_json(task)));
    }
    let now = clock::now();
    let mut table =
        Table::new(&["TASK", "CURRENT", ">VERSIONS", "KIND", ">SIZE", "DEPLOYED", "LABEL", "COMPONENT"]).uncut();
    for task in tasks {
        let current = task.current.and_then(|number| task.version(number));
        let about = |show: &dyn Fn(&Version) -> String| current.map(show).unwrap_or_default();
        table.row([
            Cell::new(&task.name, Tone::Strong),
            task.current.map_or_else(|| Cell::new("none", Tone::Warn), Cell::plain),
            Cell::plain(task.versions.len()),
            Cell::plain(about(&|version| version.shape.clone())),
            Cell::plain(about(&|version| time::bytes(version.size_bytes))),
            Cell::plain(about(&|version| time::relative(version.deployed_at, now))),
            Cell::plain(about(&|version| version.label.as_ref().map(ToString::to_string).unwrap_or_default())),
            Cell::new(about(&|version| version.digest.short()), Tone::Faint),
        ]);
    }
    if tasks.is_empty() {
        context
            .out
            .next_step("no task is deployed; to deploy one", &format!("{} deploy NAME FILE.wasm", context.program()));
        return Ok(());
    }
    context.out.table(&table)
}

/// What the backtraces of each component of a task have.
fn explained(task: &Task, queue: &Queue) -> BTreeMap<Digest, Explained> {
    let mut found = BTreeMap::new();
    for version in &task.versions {
        found.entry(version.digest).or_insert_with(|| queue.explained(&version.digest));
    }
    found
}

/// The versions as they are stored, each with what its backtraces have.
fn with_backtraces(task: &Task, explained: &BTreeMap<Digest, Explained>) -> Value {
    let mut value = as_json(task);
    let versions = value.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten();
    for (fields, version) in versions.filter_map(Value::as_object_mut).zip(&task.versions) {
        let Explained { own, symbols } = explained.get(&version.digest).copied().unwrap_or_default();
        let (names, lines) = (own.map(|own| own.names), own.map(|own| own.lines));
        fields.insert("backtraces".to_owned(), json!({ "names": names, "lines": lines, "symbols": symbols }));
    }
    value
}

/// What backtraces have, and from where.
fn backtraces(explained: Explained) -> String {
    let own = match explained.own.map(words) {
        None => "not known: the component cannot be read, `wasmq store verify` says why",
        Some("nothing") => "no names: it was built without them",
        Some(words) => words,
    };
    match explained.symbols {
        Some(symbols) => format!("{own}; symbols were added, with {}", words_of(symbols)),
        None => own.to_owned(),
    }
}

fn show(task: &Task, queue: &Queue, context: &mut Context) -> Result<(), CliError> {
    let explained = explained(task, queue);
    if context.out.is_json() {
        return context.out.json(&with_backtraces(task, &explained));
    }
    let now = clock::now();
    let mut sheet = context.out.sheet();
    sheet.heading("TASK", task.name.as_str());
    let current = task.current.map_or_else(|| "none".to_owned(), |number| number.to_string());
    sheet.facts(&[("current", current, Tone::Strong)]);
    for version in task.versions.iter().rev() {
        let label = version.label.as_ref().map(|label| format!("label {label}")).unwrap_or_default();
        let current = if task.current == Some(version.number) { "current  " } else { "" };
        sheet.heading(&version.number.to_string(), &format!("{current}{label}"));
        let mut facts = vec![
            ("component", version.digest.to_string(), Tone::Plain),
            ("kind", format!("{}, {}", version.shape, time::bytes(version.size_bytes)), Tone::Plain),
            ("backtraces", backtraces(explained.get(&version.digest).copied().unwrap_or_default()), Tone::Plain),
            (
                "deployed",
                format!("{}  ({})", time::local(version.deployed_at), time::relative(version.deployed_at, now)),
                Tone::Plain,
            ),
        ];
        facts.extend(version.module.iter().map(|module| ("made of", module.to_string(), Tone::Plain)));
        facts.extend(settings(&version.settings));
        sheet.facts(&facts);
    }
    context.out.page(sheet)
}

/// The settings in the words of the options of `wasmq deploy`.
fn settings(settings: &Settings) -> Vec<(&'static str, String, Tone)> {
    let mut facts = vec![
        ("timeout", write_duration(settings.timeout), Tone::Plain),
        ("memory", write_size(settings.memory_bytes), Tone::Plain),
        ("output-limit", write_size(settings.output_bytes), Tone::Plain),
        ("max-attempts", settings.max_attempts.to_string(), Tone::Plain),
        ("backoff", backoff(settings.backoff), Tone::Plain),
        ("jitter", settings.jitter.to_string(), Tone::Plain),
    ];
    facts.extend(settings.policy.iter().map(|(verdict, action)| {
        let action = match action {
            Action::Retry => "retry",
            Action::Dead => "dead",
        };
        ("policy", format!("{verdict}={action}"), Tone::Plain)
    }));
    facts.extend(settings.args.iter().map(|arg| ("arg", arg.clone(), Tone::Plain)));
    facts
}

fn backoff(backoff: Backoff) -> String {
    match backoff {
        Backoff::Polynomial => "polynomial".to_owned(),
        Backoff::Fixed { delay_ms } => format!("fixed:{}", write_duration(Millis(delay_ms))),
        Backoff::Exponential { base_ms, factor, cap_ms } => {
            format!("exponential:{},{factor},{}", write_duration(Millis(base_ms)), write_duration(Millis(cap_ms)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_is_shown_as_it_is_typed() {
        for text in ["polynomial", "fixed:10s", "exponential:1s,2.5,5m"] {
            assert_eq!(backoff(values::backoff(text).unwrap()), text);
        }
    }
}
