//! `wasmq run`: one attempt in the sandbox, without a store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::json;
use wasmq_core::report::AttemptReport;
use wasmq_core::{Bytes, TaskName, Verdict};

use super::deploy::LimitArgs;
use crate::cli::context::{Context, Flags};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::{Source, read_component, read_payload};
use crate::cli::output::time;
use crate::cli::render::failure;
use crate::cli::values;
use crate::queue::{OnceRequest, run_once};
use crate::runtime::MAX_COMPONENT_BYTES;

/// Run a component once in the sandbox, without a store.
///
/// The sandbox and the limits are those of a worker. Nothing is stored. The output goes to stdout; how the attempt ended, and why, to stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq run resize.wasm --payload @photo.png > small.png
  echo hello | wasmq run echo.wasm --payload -
  wasmq run report.wasm --payload @data.csv --timeout 5s --memory 64MiB --json

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
    /// Leave out nothing: every frame of the backtrace, every line of what the task wrote.
    #[arg(long)]
    pub full: bool,
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
    let settings = args.limits.to_raw();
    settings.check()?;
    let component = read_component(&args.file, MAX_COMPONENT_BYTES)?;
    let payload = read_payload(&Source::from_argument(args.payload.as_deref()), context.config.payload_limit)?;
    let request = OnceRequest {
        task: task_name(&args.file)?,
        payload,
        settings,
        attempt: args.attempt,
        metadata: args.meta.clone(),
    };
    let report = run_once(&component, &request)?;
    show(&report, args.full, context)?;
    Ok(Exit::of_verdict(&report.verdict))
}

/// The name that the task sees: that of the file where it can be one.
fn task_name(file: &Path) -> Result<TaskName, CliError> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    Ok(stem.parse().or_else(|_| "task".parse())?)
}

fn show(report: &AttemptReport, full: bool, context: &mut Context) -> Result<(), CliError> {
    let out = &mut context.out;
    if out.is_json() {
        return out.json(&json!({
            "verdict": report.verdict,
            "failure": report.failure,
            "usage": report.usage,
            "output": Bytes(report.output.clone()),
        }));
    }
    out.content(&report.output)?;
    out.flush()?;
    let usage = &report.usage;
    let used = format!("in {}, {} of memory", time::measured(usage.wall_us), time::bytes(usage.memory_peak_bytes));
    if report.verdict == Verdict::Completed {
        out.note(format_args!("{} {used}", report.verdict));
    } else {
        failure::note(out, &report.verdict, &used, report.failure.as_deref(), (!full).then_some("--full"));
    }
    Ok(())
}
