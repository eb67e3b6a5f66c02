//! One attempt in the sandbox, without any store, or the same one many times: what `wasmq run` does.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wasmq_core::invocation::check_metadata;
use wasmq_core::settings::RawSettings;
use wasmq_core::{AttemptReport, Settings, TaskName, Verdict};

use super::QueueError;
use super::deploy::no_args;
use crate::clock::{self, Stopwatch};
use crate::runtime::{Facts, Input, Limits, Options, Prepared, Purpose, Runtime, Shape, Signals, accept};

/// How long compiled code is kept.
const CACHE_FOR: Duration = Duration::from_hours(24 * 30);

/// What to run once.
#[derive(Debug, Clone, PartialEq)]
pub struct OnceRequest {
    /// The name that the task sees.
    pub task: TaskName,
    /// Any bytes.
    pub payload: Vec<u8>,
    /// The limits.
    pub settings: RawSettings,
    /// The number of the attempt that the task sees.
    pub attempt: u32,
    /// Key-value pairs that the task sees.
    pub metadata: Vec<(String, String)>,
    /// Where compiled code is kept for the next call, for a month; it is compiled each time without.
    pub cache_dir: Option<PathBuf>,
}

/// How long the attempts of a repetition took, from before the instance was made until it was gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// How many ran; less than asked for when one did not complete.
    pub count: u32,
    /// The first one, which finds no memory that was used before.
    pub first: Duration,
    /// The middle one; the mean of the two middle ones of an even number.
    pub median: Duration,
    /// Only one in a hundred took longer.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

/// Runs a component once on a payload. `signals` tells meanwhile how far it is, and asks a task that
/// listens to come to an end.
///
/// # Errors
/// When the metadata is over the limits that [`Queue::enqueue`](super::Queue::enqueue) has, or the component is
/// refused or cannot be prepared. A task that fails is a report.
pub fn run_once(file: &[u8], request: &OnceRequest, signals: &Signals) -> Result<AttemptReport, QueueError> {
    let settings = request.settings.check()?;
    let ready = Ready::new(file, request, Purpose::Once)?;
    Ok(ready.tokio.block_on(ready.runtime.run(&ready.prepared, input(request, &settings, signals))))
}

/// Runs the same attempt so many times in one process, each in a fresh instance, as a worker does
/// that is warm. Ends with the first that does not complete; the report is that of the last.
///
/// # Errors
/// As [`run_once`].
pub fn run_repeatedly(
    file: &[u8],
    request: &OnceRequest,
    signals: &Signals,
    count: NonZeroU32,
) -> Result<(AttemptReport, Repeated), QueueError> {
    let settings = request.settings.check()?;
    let ready = Ready::new(file, request, Purpose::Serve)?;
    let input = input(request, &settings, signals);
    let timed = async || {
        let clock = Stopwatch::start();
        let report = ready.runtime.run(&ready.prepared, input.clone()).await;
        (report, clock.elapsed())
    };
    ready.tokio.block_on(async {
        let (mut report, first) = timed().await;
        let mut times = vec![first];
        for _ in 1..count.get() {
            if report.verdict != Verdict::Completed {
                break;
            }
            let (next, took) = timed().await;
            report = next;
            times.push(took);
        }
        Ok((report, repeated(first, times)))
    })
}

fn repeated(first: Duration, mut times: Vec<Duration>) -> Repeated {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    Repeated {
        count: u32::try_from(times.len()).unwrap_or(u32::MAX),
        first,
        median: (at(last / 2) + at(times.len() / 2)) / 2,
        p99: at((times.len() * 99).div_ceil(100).saturating_sub(1)),
        max: at(last),
    }
}

/// Everything that an attempt needs besides its input.
struct Ready {
    runtime: Runtime,
    prepared: Arc<Prepared>,
    tokio: tokio::runtime::Runtime,
}

impl Ready {
    fn new(file: &[u8], request: &OnceRequest, purpose: Purpose) -> Result<Self, QueueError> {
        check_metadata(&request.metadata)?;
        let accepted = accept(file)?;
        if accepted.shape == Shape::Typed && !request.settings.args.is_empty() {
            return Err(no_args());
        }
        let options =
            Options { cache_dir: request.cache_dir.clone(), cache_for: Some(CACHE_FOR), max_concurrent: 1, purpose };
        let runtime = Runtime::new(&options).map_err(|error| QueueError::Prepare(error.to_string()))?;
        let mut load = || Ok(accepted.component.to_vec());
        let prepared =
            runtime.prepare(accepted.digest, &mut load).map_err(|error| QueueError::Prepare(error.to_string()))?;
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| QueueError::Worker(error.into()))?;
        Ok(Self { runtime, prepared, tokio })
    }
}

fn input<'a>(request: &'a OnceRequest, settings: &'a Settings, signals: &'a Signals) -> Input<'a> {
    let facts = Facts {
        id: clock::new_invocation_id(),
        task: request.task.as_str(),
        enqueued_at_ms: clock::now().0,
        replays: 0,
        max_attempts: settings.max_attempts,
        metadata: &request.metadata,
    };
    Input {
        facts,
        payload: &request.payload,
        attempt: request.attempt,
        args: &settings.args,
        limits: Limits::from(settings),
        signals: Some(signals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_has_the_limits_of_an_invocation() {
        let request = |metadata| OnceRequest {
            task: "echo".parse().unwrap(),
            payload: Vec::new(),
            settings: RawSettings::default(),
            attempt: 1,
            metadata,
            cache_dir: None,
        };
        let request = request(vec![("k".repeat(20 << 10), String::new())]);
        let signals = Signals::default();
        assert!(matches!(run_once(b"", &request, &signals), Err(QueueError::Metadata(_))));
        assert!(matches!(run_repeatedly(b"", &request, &signals, NonZeroU32::MIN), Err(QueueError::Metadata(_))));
    }

    #[test]
    fn the_figures_of_a_repetition_are_those_of_its_times() {
        let of = |times: &[u64]| {
            let times: Vec<Duration> = times.iter().copied().map(Duration::from_nanos).collect();
            let repeated = repeated(times[0], times);
            [repeated.first, repeated.median, repeated.p99, repeated.max].map(|time| time.as_nanos())
        };
        assert_eq!(of(&[7]), [7, 7, 7, 7]);
        assert_eq!(of(&[9, 1, 4]), [9, 4, 9, 9]);
        assert_eq!(of(&[9, 1, 5, 4]), [9, 4, 9, 9], "4.5 ns, rounded down");
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(of(&hundred), [100, 50, 99, 100]);
        let thousand: Vec<u64> = (1..=1000).collect();
        assert_eq!(of(&thousand), [1, 500, 990, 1000]);
    }
}
