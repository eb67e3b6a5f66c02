//! `wasmq deploy`: a component becomes the next version of a task.

use std::path::PathBuf;

use serde_json::json;
use wasmq_core::settings::{Action, Backoff, RawSettings};
use wasmq_core::{Label, Millis, TaskName};

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::read_component;
use crate::cli::output::Output;
use crate::cli::output::paint::Tone;
use crate::cli::output::time;
use crate::cli::values;
use crate::queue::{DeployRequest, Deployment};
use crate::runtime::MAX_COMPONENT_BYTES;

/// The heading over the limits.
const LIMITS: &str = "Limits of an attempt";

/// Deploy a component as the next version of a task.
///
/// The component is checked, stored and compiled before the version becomes current. The same bytes
/// with the same settings again make no new version, but the one there is becomes current again.
///
/// Accepted are components that export wasmq:task/handler, and command-line programs: payload on stdin,
/// output from stdout, exit code as verdict. A program is a component that exports wasi:cli/run (wasm32-wasip2)
/// or a core module for wasm32-wasip1, which is turned into one. `wasmq check` says what a file is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq deploy resize resize.wasm
  wasmq deploy resize resize.wasm --label hotfix --timeout 10s --memory 64MiB
  wasmq deploy resize resize.wasm --max-attempts 5 --backoff exponential:1s,2,5m --policy trap=dead
  wasmq deploy resize resize.wasm --no-activate     then: wasmq task activate resize v2

A task name has 1 to 63 characters of a-z, 0-9, '.', '_' and '-', and begins and ends with a letter
or digit. A retry repeats the whole execution; --max-attempts counts the first one too.")]
pub struct Args {
    /// The name of the task.
    pub task: TaskName,
    /// The .wasm file.
    pub file: PathBuf,
    /// A word to remember the version by, in the letters of a task name.
    #[arg(long)]
    pub label: Option<Label>,
    /// Store and compile the version, but leave the current one in place.
    #[arg(long)]
    pub no_activate: bool,
    /// An argument for a command-line program, which reads its payload from stdin. May be given several times.
    #[arg(long = "arg", value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub args: Vec<String>,
    /// The limits of an attempt.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// What follows a failed attempt.
    #[command(flatten)]
    pub retries: RetryArgs,
}

/// The limits of an attempt.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LimitArgs {
    /// The longest an attempt may take, from 1ms to 24h; waiting for other guests of its worker does not count. [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true, help_heading = LIMITS)]
    pub timeout: Option<Millis>,
    /// The most memory an attempt may use, from 64KiB to 4GiB. [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true, help_heading = LIMITS)]
    pub memory: Option<u64>,
    /// The largest output, from 0 to 64MiB. [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true, help_heading = LIMITS)]
    pub output_limit: Option<u64>,
}

impl LimitArgs {
    /// The limits among settings that are all default.
    #[must_use]
    pub fn to_raw(&self) -> RawSettings {
        RawSettings {
            timeout_ms: self.timeout.map(|timeout| timeout.0),
            memory_bytes: self.memory,
            output_bytes: self.output_limit,
            ..RawSettings::default()
        }
    }
}

/// When and how often a failed attempt is followed by another.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Retries")]
pub struct RetryArgs {
    /// Attempts including the first, from 1 to 1000. [default: 3]
    #[arg(long, value_name = "N", value_parser = values::max_attempts, allow_negative_numbers = true)]
    pub max_attempts: Option<u32>,
    /// The time between attempts: polynomial (attempt^4 + 10 seconds), fixed:DELAY, or
    /// exponential:BASE,FACTOR,CAP. At most 30 days. [default: polynomial]
    #[arg(long, value_name = "FORMULA", value_parser = values::backoff)]
    pub backoff: Option<Backoff>,
    /// How much of the backoff is added at random, from 0 to 1. [default: 0.25]
    #[arg(long, value_name = "FRACTION", value_parser = values::fraction, allow_hyphen_values = true)]
    pub jitter: Option<f64>,
    /// What to do on a verdict, or on the family trap, exit or error: retry or dead, such as
    /// trap=dead or exit.64=retry. May be given several times.
    #[arg(long, value_name = "VERDICT=ACTION", value_parser = values::policy)]
    pub policy: Vec<(String, Action)>,
}

impl Args {
    /// The settings as the core takes and checks them.
    fn settings(&self) -> RawSettings {
        RawSettings {
            max_attempts: self.retries.max_attempts,
            backoff: self.retries.backoff,
            jitter: self.retries.jitter,
            policy: self.retries.policy.iter().cloned().collect(),
            args: self.args.clone(),
            ..self.limits.to_raw()
        }
    }
}

/// Deploys and says which version it is now.
///
/// # Errors
/// When the file cannot be read, a setting is outside its range, the component is refused, or the
/// store fails; then everything is as before.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let settings = args.settings();
    settings.check()?;
    let component = read_component(&args.file, MAX_COMPONENT_BYTES)?;
    let request = DeployRequest { settings, label: args.label.clone(), activate: !args.no_activate };
    let bar = context.out.busy(format!("compiling {}", time::bytes(component.len() as u64)));
    let deployed = context.queue()?.deploy(&args.task, &component, &request);
    bar.finish_and_clear();
    let deployed = deployed?;
    if context.out.is_json() {
        context.out.json(&as_json(&deployed))?;
        return Ok(Exit::Ok);
    }
    show(&deployed, &mut context.out)?;
    if let Some(previous) = deployed.previous.filter(|_| !deployed.settings_changed.is_empty()) {
        let names = deployed.settings_changed.join(", ");
        context.out.note(format_args!(
            "other settings than {previous}: {names}; they are not taken over, `{} task show {}` has them all",
            context.program(),
            deployed.task
        ));
    }
    if let Some(label) = &args.label {
        context.out.note(format_args!("{} has the label {label}", deployed.version));
    }
    if deployed.repaired {
        context.out.note("the file of its component was missing or damaged; it is whole again");
    }
    if !deployed.active {
        let command = format!("{} task activate {} {}", context.program(), deployed.task, deployed.version);
        context.out.next_step("it is not current; to make it so", &command);
    }
    Ok(Exit::Ok)
}

fn as_json(deployed: &Deployment) -> serde_json::Value {
    json!({
        "task": deployed.task,
        "version": deployed.version,
        "component": deployed.digest,
        "unchanged": deployed.unchanged,
        "repaired": deployed.repaired,
        "current": deployed.active,
        "previous": deployed.previous,
        "settings_changed": deployed.settings_changed,
        "shape": deployed.shape.to_string(),
        "module": deployed.module,
        "size_bytes": deployed.size_bytes,
        "compile_ms": deployed.compile_ms,
    })
}

fn show(deployed: &Deployment, out: &mut Output) -> Result<(), CliError> {
    let Deployment { task, version, .. } = deployed;
    let paint = out.paint();
    let what = if deployed.unchanged {
        paint.apply(Tone::Warn, &format!("unchanged, {version} of {task}"))
    } else {
        paint.apply(Tone::Good, &format!("deployed {task} {version}"))
    };
    let compiled = time::span(Millis(deployed.compile_ms));
    out.line(format_args!("{what}  {}, ready to run after {compiled}", time::bytes(deployed.size_bytes)))?;
    out.line(paint.apply(Tone::Faint, &deployed.digest.to_string()))?;
    if let Some(module) = &deployed.module {
        out.line(paint.apply(Tone::Faint, &format!("made of the core module {module}")))?;
    }
    match deployed.previous.filter(|previous| *previous != deployed.version) {
        Some(previous) if deployed.active => out.line(format_args!("{version} is current now, {previous} was before")),
        _ if deployed.active => out.line(format_args!("{version} is current")),
        Some(previous) => out.line(format_args!("{previous} stays current")),
        None => out.line("no version is current"),
    }
}
