//! `wasmq enqueue`: durable invocations, one or many.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde_json::json;
use wasmq_core::{Bytes, Millis, TaskName, Timestamp};

use crate::cli::args::Global;
use crate::cli::context::{Context, Flags};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::{Lines, Source, read_payload};
use crate::cli::output::Output;
use crate::cli::output::safe::safe;
use crate::cli::output::time;
use crate::cli::render::failure;
use crate::cli::values;
use crate::clock;
use crate::config::close::close_names;
use crate::queue::{Completion, FailedAttempt, NewInvocation, Queue, StoreKind, Waiting};

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

A payload that begins with @, is a single - or looks like an option can be given through stdin. --wait leaves with 0 when
the invocation completed and with 20 to 26 otherwise; see `wasmq --help`.")]
pub struct Args {
    /// The name of the task.
    pub task: TaskName,
    /// The payload: a text, @FILE, or - for stdin. [default: no bytes]
    #[arg(value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<OsString>,
    /// Enqueue one invocation for every line of a file, or of stdin with -. The line break, LF or CRLF, is
    /// not part of the payload.
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["payload", "wait"])]
    pub batch: Option<PathBuf>,
    /// Start no earlier than after this time, from 0s to 3650d, such as 30s, 5m or 1h30m.
    #[arg(long, value_name = "DURATION", value_parser = values::delay, allow_hyphen_values = true, conflicts_with = "at")]
    pub delay: Option<Millis>,
    /// Start no earlier than at this time: RFC 3339 such as 2030-01-31T09:00:00Z, or date and time
    /// in local time such as '2030-01-31 09:00'.
    #[arg(long, value_name = "TIME", value_parser = values::point_in_time, allow_hyphen_values = true)]
    pub at: Option<Timestamp>,
    /// From 0 to 9. Among invocations that are due, the higher one starts first.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::priority, allow_negative_numbers = true)]
    pub priority: u8,
    /// The version that runs it: current, v2, a label, or sha256:…. A version that is named here
    /// is used by every attempt, whatever is current then.
    #[arg(long, value_name = "VERSION", default_value = "current", value_parser = values::version)]
    pub component: String,
    /// Attempts including the first, from 1 to 1000. [default: the setting of the task]
    #[arg(long, value_name = "N", value_parser = values::own_max_attempts, allow_negative_numbers = true)]
    pub max_attempts: Option<NonZeroU32>,
    /// Metadata that the task can read. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub meta: Vec<(String, String)>,
    /// Wait until it is done or given up; print its output. Without a server it is run by this command itself.
    #[arg(long)]
    pub wait: bool,
    /// The largest payload that is accepted, up to 64MiB. [env: WASMQ_PAYLOAD_LIMIT] [default: 1MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub payload_limit: Option<OsString>,
    /// When the invocation is forced to the disk: before its id is printed (always), at the latest
    /// 100 ms after that (interval), or when the system likes (never). [env: WASMQ_FSYNC] [default:
    /// always]
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

    fn invocation(&self, payload: Vec<u8>) -> NewInvocation {
        NewInvocation {
            due_at: self.at,
            delay: self.delay,
            priority: self.priority,
            component: Some(self.component.clone()),
            max_attempts: self.max_attempts,
            metadata: self.meta.clone(),
            ..NewInvocation::new(self.task.clone(), payload)
        }
    }
}

/// A payload that is a mistyped option rather than a payload, with the option that was meant.
fn mistyped_option(payload: &OsStr) -> Option<CliError> {
    let text = payload.to_str()?;
    let name = text.strip_prefix("--")?.split('=').next()?;
    let command = <Global as clap::Args>::augment_args(<Args as clap::Args>::augment_args(clap::Command::new("")));
    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    if known.contains(&name) {
        return None;
    }
    let close = close_names(name, known).first().map(|close| format!("--{close}"))?;
    Some(CliError::MistypedOption { text: text.to_owned(), close })
}

/// Enqueues and prints the id, or with `--wait` the output.
///
/// # Errors
/// When the payload cannot be read or the queue refuses or fails; then nothing was enqueued.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    if let Some(error) = args.payload.as_deref().and_then(mistyped_option) {
        return Err(error);
    }
    let queue = context.queue()?;
    if let Some(path) = &args.batch {
        return batch(args, &Source::from_path(path), &queue, context);
    }
    let payload = read_payload(&Source::from_argument(args.payload.as_deref()), context.config.payload_limit)?;
    let new = args.invocation(payload);
    if args.wait {
        let completion = queue.enqueue_and_wait(new, &mut |waiting| note_waiting(&waiting, &mut context.out))?;
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

/// Says what whoever waits would like to know meanwhile.
fn note_waiting(waiting: &Waiting, out: &mut Output) {
    match waiting {
        Waiting::Accepted(id) => out.note(format!("waiting for {id}")),
        Waiting::Failed(FailedAttempt { attempt, max_attempts, verdict, summary, next_at }) => {
            let again = time::relative(*next_at, clock::now());
            let verdict = verdict.to_string();
            let why = if summary.is_empty() { String::new() } else { format!(" ({})", safe(summary)) };
            out.note(format!("attempt {attempt} of {max_attempts}: {verdict}{why}; the next one {again}"));
        }
    }
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
    while new.len() < BATCH_LINES && bytes < BATCH_BYTES {
        match lines.next_line() {
            Ok(Some(line)) => {
                bytes += line.len();
                new.push(args.invocation(line));
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
    let kept = context.store() == StoreKind::Dir;
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
            "said": completion.said,
            "follow_ups": completion.follow_ups,
            "output": Bytes(completion.output.clone()),
        }))?;
        return Ok(exit);
    }
    out.content(&completion.output)?;
    out.flush()?;
    failure::note_said(out, completion.said.as_deref(), Some("--json"));
    if exit != Exit::Ok {
        let attempts = time::count(completion.attempts.into(), "attempt", "attempts");
        let rest = (completion.dead && kept).then_some("`wasmq dlq show --full`");
        failure::note(out, &completion.verdict, &format!("after {attempts}"), completion.failure.as_deref(), rest);
    }
    if completion.dead && !kept {
        context.out.note("it was given up; the store none keeps no dead tasks");
    } else if completion.dead {
        let command = format!("{} dlq show {}", context.program(), completion.id);
        context.out.next_step("it is a dead task now", &command);
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_is_a_slip_for_an_option_is_told_apart_from_other_dashes() {
        let meant = |text: &str| mistyped_option(OsStr::new(text)).map(|error| error.describe().hint.unwrap());
        for (text, option) in [("--wiat", "--wait"), ("--jsno", "--json"), ("--dealy=5m", "--delay")] {
            assert!(meant(text).is_some_and(|hint| hint.contains(option)), "{text}");
        }
        for text in ["-5", "--", "---", "--wait", "-- a note", "--- a/file", "--unheard-of", "wiat"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }
}
