//! `wasmq enqueue`: durable invocations, one or many.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde_json::json;
use wasmq_core::invocation::MAX_PRIORITY;
use wasmq_core::{Bytes, Millis, TaskName, Timestamp};

use crate::cli::context::{Context, Flags};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::{Lines, Source, read_payload};
use crate::cli::output::time;
use crate::cli::render::failure;
use crate::cli::values;
use crate::clock;
use crate::queue::{Completion, NewInvocation, Queue, StoreKind};

/// How many lines of a batch are enqueued with one sync.
const BATCH_LINES: usize = 1000;
/// How many bytes of a batch are enqueued with one sync, about.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Enqueue an invocation of a task, durably.
///
/// Prints its id. Once the id is printed the invocation is durable, and it runs at least once as
/// soon as a server runs; no server is needed to enqueue.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq enqueue resize @photo.png
  wasmq enqueue greet '{\"name\":\"Ada\"}' --meta tenant=42
  pg_dump app | wasmq enqueue archive - --payload-limit 64MiB
  wasmq enqueue report @q1.csv --wait > report.json
  wasmq enqueue mail \"$text\" --at '2030-01-31 09:00' --priority 5
  wasmq enqueue mail --batch addresses.txt

A payload that begins with @ or is a single - can be given through stdin. --wait leaves with 0 when
the invocation completed and with 20 to 26 otherwise; see `wasmq --help`.")]
pub struct Args {
    /// The name of the task.
    pub task: TaskName,
    /// The payload: a text, @FILE, or - for stdin. [default: no bytes]
    #[arg(value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<OsString>,
    /// Enqueue one invocation for every line of a file, or of stdin with -. The line break is not
    /// part of the payload.
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["payload", "wait"])]
    pub batch: Option<PathBuf>,
    /// Start no earlier than after this time, up to 3650d.
    #[arg(long, value_name = "DURATION", value_parser = values::delay, conflicts_with = "at")]
    pub delay: Option<Millis>,
    /// Start no earlier than at this time: RFC 3339, or date and time in local time.
    #[arg(long, value_name = "TIME", value_parser = values::point_in_time)]
    pub at: Option<Timestamp>,
    /// From 0 to 9. Among invocations that are due, the higher one starts first.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=i64::from(MAX_PRIORITY)))]
    pub priority: u8,
    /// The version that runs it: current, v2, a label, or sha256:…. A version that is named here
    /// is used by every attempt, whatever is current then.
    #[arg(long, value_name = "VERSION", default_value = "current", value_parser = values::version)]
    pub component: String,
    /// Attempts including the first, over the setting of the task.
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<NonZeroU32>,
    /// Metadata that the task can read. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub meta: Vec<(String, String)>,
    /// Wait until it is done or given up; print its output.
    #[arg(long)]
    pub wait: bool,
    /// The largest payload that is accepted, up to 64MiB. [env: WASMQ_PAYLOAD_LIMIT] [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    pub payload_limit: Option<OsString>,
    /// When the acknowledgement is durable: always, interval or never forced to the disk. [env:
    /// WASMQ_FSYNC] [default: always]
    #[arg(long, value_name = "MODE", value_parser = ["always", "interval", "never"])]
    pub fsync: Option<String>,
}

impl Args {
    /// The settings that its options give.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        flags.extend(self.payload_limit.clone().map(|limit| ("payload_limit", limit)));
        flags.extend(self.fsync.clone().map(|mode| ("fsync", mode.into())));
        flags
    }

    fn invocation(&self, payload: Vec<u8>, now: Timestamp) -> NewInvocation {
        NewInvocation {
            due_at: self.at.or_else(|| self.delay.map(|delay| now.after(delay))),
            priority: self.priority,
            component: Some(self.component.clone()),
            max_attempts: self.max_attempts,
            metadata: self.meta.clone(),
            ..NewInvocation::new(self.task.clone(), payload)
        }
    }
}

/// Enqueues and prints the id, or with `--wait` the output.
///
/// # Errors
/// When the payload cannot be read or the queue refuses or fails; then nothing was enqueued.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    if let Some(path) = &args.batch {
        return batch(args, &Source::from_path(path), &queue, context);
    }
    let payload = read_payload(&Source::from_argument(args.payload.as_deref()), context.config.payload_limit)?;
    let new = args.invocation(payload, clock::now());
    if args.wait {
        let mut waiting = |id| context.out.note(format!("waiting for {id}"));
        let completion = queue.enqueue_and_wait(new, &mut waiting)?;
        return finished(&completion, context);
    }
    let id = queue.enqueue(new)?;
    queue.flush()?;
    if context.out.is_json() {
        context.out.json(&json!({ "id": id }))?
    } else {
        context.out.line(id)?
    }
    Ok(Exit::Ok)
}

/// Enqueues a payload a line, many with one sync, and prints the ids of what is durable.
fn batch(args: &Args, source: &Source, queue: &Queue, context: &mut Context) -> Result<Exit, CliError> {
    let mut lines = Lines::open(source, context.config.payload_limit)?;
    let bar = context.out.progress(0, "enqueued");
    let mut enqueued = 0;
    loop {
        let ended = send(args, &mut lines, queue, &mut enqueued, context);
        bar.set_length(enqueued);
        bar.set_position(enqueued);
        match ended {
            Ok(false) => {}
            Ok(true) => break,
            Err(error) if enqueued > 0 => {
                bar.finish_and_clear();
                context.out.flush()?;
                return Err(CliError::Batch { enqueued, source: Box::new(error) });
            }
            Err(error) => return Err(error),
        }
    }
    bar.finish_and_clear();
    queue.flush()?;
    context.out.note(format_args!("{} enqueued", time::count(enqueued, "invocation", "invocations")));
    Ok(Exit::Ok)
}

/// Enqueues the next lines; true when there are no more.
fn send(
    args: &Args,
    lines: &mut Lines<'_>,
    queue: &Queue,
    enqueued: &mut u64,
    context: &mut Context,
) -> Result<bool, CliError> {
    let (mut new, mut bytes, mut ended) = (Vec::new(), 0, Ok(false));
    let now = clock::now();
    while new.len() < BATCH_LINES && bytes < BATCH_BYTES {
        match lines.next_line() {
            Ok(Some(line)) => {
                bytes += line.len();
                new.push(args.invocation(line, now));
            }
            Ok(None) => {
                ended = Ok(true);
                break;
            }
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
    }
    let ids = if new.is_empty() { Vec::new() } else { queue.enqueue_all(new)? };
    *enqueued += ids.len() as u64;
    for id in &ids {
        if context.out.is_json() { context.out.json(&json!({ "id": id }))? } else { context.out.line(id)? }
    }
    ended
}

/// Shows how it ended.
fn finished(completion: &Completion, context: &mut Context) -> Result<Exit, CliError> {
    let out = &mut context.out;
    let exit = Exit::of_verdict(&completion.verdict);
    if out.is_json() {
        out.json(&json!({
            "id": completion.id,
            "verdict": completion.verdict,
            "version": completion.version,
            "component": completion.component,
            "attempts": completion.attempts,
            "dead": completion.dead,
            "failure": completion.failure,
            "output": Bytes(completion.output.clone()),
        }))?;
        return Ok(exit);
    }
    out.content(&completion.output)?;
    out.flush()?;
    if exit != Exit::Ok {
        let attempts = time::count(completion.attempts.into(), "attempt", "attempts");
        failure::note(out, &completion.verdict, &format!("after {attempts}"), completion.failure.as_deref());
    }
    if completion.dead && context.store() == StoreKind::None {
        context.out.note("it was given up; the store none keeps no dead tasks");
    } else if completion.dead {
        let command = format!("{} dlq show {}", context.program(), completion.id);
        context.out.next_step("it is a dead task now", &command);
    }
    Ok(exit)
}
