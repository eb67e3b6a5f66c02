//! `wasmq run`: one attempt in the sandbox, without a store, or the same one many times.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use wasmq_core::report::AttemptReport;
use wasmq_core::settings::RawSettings;
use wasmq_core::{Bytes, FollowUp, TaskName, Verdict};

use super::deploy::LimitArgs;
use crate::cli::context::{Context, Flags};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::{Source, read_component, read_payload};
use crate::cli::output::{Output, time};
use crate::cli::render::{failure, progress};
use crate::cli::values;
use crate::queue::{OnceRequest, Repeated, Signals, run_once, run_repeatedly};
use crate::runtime::MAX_COMPONENT_BYTES;

/// Run a component once in the sandbox, without a store.
///
/// The sandbox and the limits are those of a worker. Nothing is stored but the compiled code, for the next run, in $XDG_CACHE_HOME/wasmq or ~/.cache/wasmq. The output goes to stdout; how the attempt ended, and why, to stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq run resize.wasm --payload @photo.png > small.png
  echo hello | wasmq run echo.wasm --payload -
  wasmq run report.wasm --payload @data.csv --timeout 5s --memory 64MiB --json
  wasmq run thumbnail.wasm --payload @photo.png --repeat 1000 > small.png

Leaves with 0 when the attempt completed and with 20 to 26 otherwise; see `wasmq --help`.")]
pub struct Args {
    /// The .wasm file.
    pub file: PathBuf,
    /// The payload: a text, @FILE, or - for stdin. [default: no bytes]
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<OsString>,
    /// The largest payload that is accepted, up to 64MiB. [env: WASMQ_PAYLOAD_LIMIT] [default: 1MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub payload_limit: Option<OsString>,
    /// The number of the attempt that the task is told, from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::attempt, allow_negative_numbers = true)]
    pub attempt: u32,
    /// Metadata that the task can read. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub meta: Vec<(String, String)>,
    /// Run the same attempt so many times, each in a fresh instance, as a worker that is warm does. Says on stderr how long they took. Ends with the first that does not complete; the output is that of the last.
    #[arg(long, value_name = "N", value_parser = values::repeat, allow_negative_numbers = true)]
    pub repeat: Option<NonZeroU32>,
    /// Leave out nothing: every frame of the backtrace, every line of what the task wrote.
    #[arg(long)]
    pub full: bool,
    /// An argument for a command-line program. May be given several times.
    #[arg(long = "arg", value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub args: Vec<String>,
    /// The limits of the attempt.
    #[command(flatten)]
    pub limits: LimitArgs,
}

impl Args {
    /// The settings that its options give.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.payload_limit.clone().map(|limit| ("payload_limit", limit)).into_iter().collect()
    }
}

/// Runs the component and shows how the attempt ended.
///
/// # Errors
/// When a file cannot be read, or the component would be refused.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let settings = RawSettings { args: args.args.clone(), ..args.limits.to_raw() };
    settings.check()?;
    let component = read_component(&args.file, MAX_COMPONENT_BYTES)?;
    let payload = read_payload(&Source::from_argument(args.payload.as_deref()), context.config.payload_limit)?;
    let request = OnceRequest {
        task: task_name(&args.file)?,
        payload,
        settings,
        attempt: args.attempt,
        metadata: args.meta.clone(),
        cache_dir: cache_dir(),
    };
    let times = args.repeat.map(|count| format!(" {count} times")).unwrap_or_default();
    let what = format!("compiling {} and running it{times}", time::bytes(component.len() as u64));
    let signals = Signals::default();
    let said = signals.clone();
    let bar = context.out.busy_with(what, move || said.progress().as_ref().map(progress::in_words).unwrap_or_default());
    let ran = match args.repeat {
        None => run_once(&component, &request, &signals).map(|report| (report, None)),
        Some(count) => {
            run_repeatedly(&component, &request, &signals, count).map(|(report, times)| (report, Some((times, count))))
        }
    };
    bar.finish_and_clear();
    let (report, repeated) = ran?;
    show(&report, repeated.as_ref().map(|(times, _)| times), args.full, context)?;
    if let Some((times, wanted)) = repeated {
        context.out.note(in_words(&times, wanted));
    }
    Ok(Exit::of_verdict(&report.verdict))
}

/// Where compiled code is kept between two runs: large components take seconds to compile.
fn cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("wasmq"))
}

/// The name that the task sees: that of the file where it can be one.
fn task_name(file: &Path) -> Result<TaskName, CliError> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    Ok(stem.parse().or_else(|_| "task".parse())?)
}

fn in_json(repeated: &Repeated) -> Value {
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    json!({
        "count": repeated.count,
        "first_us": micros(repeated.first),
        "median_us": micros(repeated.median),
        "p99_us": micros(repeated.p99),
        "max_us": micros(repeated.max),
    })
}

fn follow_up_json(follow_up: &FollowUp) -> Value {
    let FollowUp { id, task, payload, delay, metadata } = follow_up;
    json!({ "id": id, "task": task, "delay_ms": delay.0, "metadata": metadata, "payload": Bytes(payload.clone()) })
}

/// Says what a queue would have done further.
fn note_follow_ups(follow_ups: &[FollowUp], out: &mut Output) {
    let mut tasks: Vec<&str> = follow_ups.iter().map(|follow_up| follow_up.task.as_str()).collect();
    tasks.sort_unstable();
    tasks.dedup();
    if !tasks.is_empty() {
        let what = time::count(follow_ups.len() as u64, "follow-up", "follow-ups");
        out.note(format_args!("{what} for {} not enqueued: `wasmq run` has no queue", tasks.join(", ")));
    }
}

fn in_words(repeated: &Repeated, wanted: NonZeroU32) -> String {
    let Repeated { count, first, median, p99, max } = repeated;
    let of = if *count < wanted.get() { format!(" of {wanted}") } else { String::new() };
    let [first, median, p99, max] = [first, median, p99, max].map(|time| time::measured_finely(*time));
    format!("ran {count}{of} in one process: the first in {first}, median {median}, p99 {p99}, max {max}")
}

fn show(
    report: &AttemptReport,
    repeated: Option<&Repeated>,
    full: bool,
    context: &mut Context,
) -> Result<(), CliError> {
    let out = &mut context.out;
    if out.is_json() {
        let mut shown = json!({
            "verdict": report.verdict,
            "failure": report.failure,
            "usage": report.usage,
            "said": report.said,
            "follow_ups": report.follow_ups.iter().map(follow_up_json).collect::<Vec<_>>(),
            "output": Bytes(report.output.clone()),
        });
        if let (Some(repeated), Some(fields)) = (repeated, shown.as_object_mut()) {
            fields.insert("repeat".to_owned(), in_json(repeated));
        }
        return out.json(&shown);
    }
    out.content(&report.output)?;
    out.flush()?;
    let usage = &report.usage;
    let used = format!("in {}, {} of memory", time::measured(usage.wall_us), time::bytes(usage.memory_peak_bytes));
    let rest = (!full).then_some("--full");
    if report.verdict == Verdict::Completed {
        failure::note_said(out, report.said.as_deref(), rest);
        out.note(format_args!("{} {used}", report.verdict));
        note_follow_ups(&report.follow_ups, out);
    } else {
        failure::note(out, &report.verdict, &used, report.failure.as_deref(), rest);
    }
    Ok(())
}
