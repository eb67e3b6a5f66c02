//! One attempt from start to report: a fresh store, an instance, a call, a verdict.
//!
//! Invariants: whatever the guest does, the result is an [`AttemptReport`]. The attempt ends at its
//! deadline wherever it is, in its start functions too. A completed attempt pays for nothing that
//! only a failure needs.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;
use wasmq_core::report::{FailureReport, Said, Usage};
use wasmq_core::{AttemptReport, InvocationId, Millis, Settings, Verdict};
use wasmtime::{PoolConcurrencyLimitError, Store, UpdateDeadline};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;

use super::Runtime;
use super::bindings::wasmq::task::types::{Failure, Invocation};
use super::drive::{Driven, Elapsed, interrupted};
use super::failure;
use super::limits::MemoryLimiter;
use super::prepare::{Prepared, Program};
use super::signals::Signals;
use super::state::{Command, State};
use super::ticker::Running;

/// What an attempt may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Wall-clock time from start to end, without the time it had to wait for other guests.
    pub timeout: Millis,
    /// All linear memories and tables together, in bytes.
    pub memory_bytes: u64,
    /// The output, in bytes.
    pub output_bytes: u64,
}

impl From<&Settings> for Limits {
    fn from(settings: &Settings) -> Self {
        Self { timeout: settings.timeout, memory_bytes: settings.memory_bytes, output_bytes: settings.output_bytes }
    }
}

/// The facts of an invocation, the same in every attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The invocation.
    pub id: InvocationId,
    /// The name of the task.
    pub task: &'a str,
    /// When it was first enqueued, in milliseconds since 1970.
    pub enqueued_at_ms: u64,
    /// How often it was put back from the dead letter queue.
    pub replays: u32,
    /// Attempts including the first.
    pub max_attempts: u32,
    /// Key-value pairs of the enqueuer.
    pub metadata: &'a [(String, String)],
}

/// Everything that goes into one attempt.
#[derive(Clone)]
pub(crate) struct Input<'a> {
    /// The facts of the invocation.
    pub facts: Facts<'a>,
    /// The payload.
    pub payload: &'a [u8],
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The arguments of a command, behind its name.
    pub args: &'a [String],
    /// What it may use.
    pub limits: Limits,
    /// What goes between it and whoever runs it.
    pub signals: Option<&'a Signals>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("facts", &self.facts).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// How the guest's code came to an end.
pub(super) enum Ended {
    /// The handler returned its output.
    Output(Vec<u8>),
    /// The handler returned a failure.
    Failed(Failure),
    /// A command's `run` returned.
    Exited(u32),
    /// Something in the start functions, or the component does not fit.
    NotInstantiated(wasmtime::Error),
    /// A trap, an exit, or a breach of the component model's rules.
    Stopped(wasmtime::Error),
    /// The deadline passed.
    TimedOut,
}

/// A place in the pool. Given up after the store is gone, also when the attempt's future is dropped.
struct Place<'a> {
    running: Option<Running<'a>>,
    freed: Option<&'a Notify>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.running = None;
        if let Some(freed) = self.freed {
            freed.notify_waiters();
        }
    }
}

/// What one turn at the pool gave.
enum Turn {
    Done(AttemptReport),
    NoPlace,
}

impl Runtime {
    /// Runs one attempt. Drive it on a tokio runtime with timers; as many as wanted may run at once
    /// on one thread. Dropping the future stops the guest.
    pub(crate) async fn run(&self, prepared: &Prepared, input: Input<'_>) -> AttemptReport {
        let started = Instant::now();
        loop {
            // Made before the try, so that a place that is freed during it is noticed.
            let freed = self.place_freed.notified();
            match self.turn(prepared, &input, started).await {
                Turn::Done(report) => return report,
                Turn::NoPlace => {
                    if let Some(report) = wait(freed, &input, started).await {
                        return report;
                    }
                }
            }
        }
    }

    async fn turn(&self, prepared: &Prepared, input: &Input<'_>, started: Instant) -> Turn {
        let mut place = Place { running: Some(self.ticker.running()), freed: Some(&self.place_freed) };
        let mut store = self.store(prepared, input);
        let mut busy = Duration::ZERO;
        let deadline = started + input.limits.timeout.to_std();
        let ended = {
            let call = pin!(call(prepared, &mut store, input));
            Driven::new(call, deadline, &mut busy).await.unwrap_or_else(|Elapsed| Ended::TimedOut)
        };
        let state = store.into_data();
        place.running = None;
        if let Ended::NotInstantiated(error) = &ended
            && error.is::<PoolConcurrencyLimitError>()
            && self.ticker.count() > 0
        {
            // Nothing was freed here: ringing now would only wake those who wait to fail again.
            place.freed = None;
            return Turn::NoPlace;
        }
        drop(place);
        let usage = Usage {
            memory_peak_bytes: state.limiter.peak_bytes(),
            cpu_us: micros(busy),
            wall_us: micros(started.elapsed()),
        };
        Turn::Done(report(ended, state, usage, &input.limits))
    }

    fn store(&self, prepared: &Prepared, input: &Input<'_>) -> Store<State> {
        let mut state = State::new(input.facts.id, MemoryLimiter::new(input.limits.memory_bytes));
        state.replays = input.facts.replays;
        state.attempt = input.attempt;
        state.signals = input.signals.cloned();
        if let Program::Command(_) = prepared.program {
            state.command = Some(command(input));
        }
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|_| Ok(UpdateDeadline::YieldCustom(1, Box::pin(interrupted()))));
        store
    }
}

/// The facts of an invocation as a command sees them.
fn command(input: &Input<'_>) -> Command {
    let facts = &input.facts;
    let metadata: BTreeMap<&str, &str> =
        facts.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let environment = [
        ("WASMQ_ID", facts.id.to_string()),
        ("WASMQ_TASK", facts.task.to_owned()),
        ("WASMQ_ATTEMPT", input.attempt.to_string()),
        ("WASMQ_MAX_ATTEMPTS", facts.max_attempts.to_string()),
        ("WASMQ_REPLAYS", facts.replays.to_string()),
        ("WASMQ_ENQUEUED_AT_MS", facts.enqueued_at_ms.to_string()),
        ("WASMQ_METADATA", serde_json::to_string(&metadata).unwrap_or_default()),
    ];
    let environment = environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    // Programs expect their own name in front and some fail without it.
    let arguments = std::iter::once("task").chain(input.args.iter().map(String::as_str)).map(str::to_owned).collect();
    let output_bytes = usize::try_from(input.limits.output_bytes).unwrap_or(usize::MAX);
    Command { arguments, environment, stdin: MemoryInputPipe::new(input.payload.to_vec()), output_bytes }
}

async fn call(prepared: &Prepared, store: &mut Store<State>, input: &Input<'_>) -> Ended {
    match &prepared.program {
        Program::Typed(program) => {
            let task = match program.instantiate_async(&mut *store).await {
                Ok(task) => task,
                Err(error) => return Ended::NotInstantiated(error),
            };
            let mut id = [0; wasmq_core::id::TEXT_BYTES];
            let id = input.facts.id.as_text(&mut id);
            let metadata: Vec<(&str, &str)> =
                input.facts.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let facts = Invocation {
                id,
                task: input.facts.task,
                enqueued_at_ms: input.facts.enqueued_at_ms,
                replays: input.facts.replays,
                max_attempts: input.facts.max_attempts,
                metadata: &metadata,
            };
            match task.wasmq_task_handler().call_handle(store, facts, input.payload).await {
                Ok(Ok(output)) => Ended::Output(output),
                Ok(Err(failure)) => Ended::Failed(failure),
                Err(error) => Ended::Stopped(error),
            }
        }
        Program::Command(program) => {
            let command = match program.instantiate_async(&mut *store).await {
                Ok(command) => command,
                Err(error) => return Ended::NotInstantiated(error),
            };
            match command.wasi_cli_run().call_run(store).await {
                Ok(status) => Ended::Exited(u32::from(status.is_err())),
                Err(error) => failure::exit_code(&error).map_or(Ended::Stopped(error), Ended::Exited),
            }
        }
    }
}

/// Waits for a place in the pool, at most until the attempt's deadline.
async fn wait(freed: Notified<'_>, input: &Input<'_>, started: Instant) -> Option<AttemptReport> {
    let deadline = started + input.limits.timeout.to_std();
    tokio::time::timeout_at(deadline, freed).await.err()?;
    let state = State::new(input.facts.id, MemoryLimiter::new(input.limits.memory_bytes));
    let usage = Usage { wall_us: micros(started.elapsed()), ..Usage::default() };
    Some(report(Ended::TimedOut, state, usage, &input.limits))
}

fn report(ended: Ended, mut state: State, usage: Usage, limits: &Limits) -> AttemptReport {
    let ended = match ended {
        Ended::Output(output) if output.len() as u64 <= limits.output_bytes => {
            return completed(output, &mut state, usage);
        }
        Ended::Exited(0) => {
            let output = state.stdout.as_ref().map(super::stdio::Capture::take).unwrap_or_default();
            return completed(output, &mut state, usage);
        }
        other => other,
    };
    let (verdict, failure): (Verdict, FailureReport) = failure::explain(ended, state, limits);
    let failure = Some(Box::new(failure));
    AttemptReport { verdict, output: Vec::new(), failure, usage, follow_ups: Vec::new(), said: None }
}

fn completed(output: Vec<u8>, state: &mut State, usage: Usage) -> AttemptReport {
    let follow_ups = std::mem::take(&mut state.follow_ups);
    AttemptReport { verdict: Verdict::Completed, output, failure: None, usage, follow_ups, said: said(state) }
}

/// What a completed attempt said; one that was silent pays nothing for it.
fn said(state: &mut State) -> Option<Box<Said>> {
    let log = std::mem::take(&mut state.log).into_lines();
    // What a command writes to stdout is its output.
    let stdout = state.stdout.as_ref().filter(|_| state.command.is_none());
    let is_silent = log.is_empty() && state.stderr.is_none() && stdout.is_none();
    let stdout = stdout.map(super::stdio::Capture::to_tail).unwrap_or_default();
    (!is_silent).then(|| Box::new(Said { stdout, stderr: state.stderr_tail(), log }))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
