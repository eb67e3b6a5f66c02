//! The imports of `wit/host.wit`: attempt number, log, progress, cancellation, follow-ups.
//!
//! Invariants: none of them blocks, none of them traps, and what a guest hands over is capped
//! before it is kept. Follow-ups are only buffered here; they become durable with the completion
//! of the attempt, elsewhere.

use wasmq_core::invocation::{DEFAULT_PAYLOAD_BYTES, MAX_METADATA_BYTES, MAX_METADATA_PAIRS};
use wasmq_core::{FollowUp, Millis, TaskName};

use super::bindings::wasmq::task::{host, types};
use super::observed::Observation;
use super::signals::Signals;
use super::state::State;

/// How many follow-ups an attempt may ask for.
pub(super) const MAX_FOLLOW_UPS: usize = 1000;
/// How much all payloads of them may come to, in bytes.
pub(super) const MAX_FOLLOW_UP_BYTES: usize = 32 * 1024 * 1024;

impl types::Host for State {}

impl host::Host for State {
    fn attempt_number(&mut self) -> u32 {
        self.observe(Observation::AttemptNumber);
        self.attempt
    }

    fn log(&mut self, level: host::Level, message: String, fields: Vec<(String, String)>) {
        tracing::debug!(target: "wasmq::guest", id = %self.id, level = level_name(level), ?message, ?fields);
        self.log.record(level_name(level), &message, &fields);
    }

    fn progress(&mut self, done: u64, total: u64, note: String) {
        self.log.progress(done, total, &note);
        if let Some(signals) = &self.signals {
            signals.advance(done, total, &note);
        }
    }

    fn cancelled(&mut self) -> bool {
        self.observe(Observation::Cancelled);
        self.signals.as_ref().is_some_and(Signals::ask)
    }

    fn enqueue(&mut self, follow_up: host::FollowUp) -> Result<String, String> {
        let follow_up = self.check(follow_up)?;
        let id = follow_up.id.to_string();
        self.follow_up_bytes += follow_up.payload.len();
        self.follow_ups.push(follow_up);
        Ok(id)
    }
}

impl State {
    fn check(&self, wish: host::FollowUp) -> Result<FollowUp, String> {
        let task: TaskName = wish.task.parse().map_err(|error| format!("cannot enqueue a follow-up: {error}"))?;
        if wish.payload.len() as u64 > DEFAULT_PAYLOAD_BYTES {
            let found = wish.payload.len();
            return Err(format!(
                "the payload of a follow-up has at most {DEFAULT_PAYLOAD_BYTES} bytes, this one has {found}"
            ));
        }
        if self.follow_ups.len() >= MAX_FOLLOW_UPS {
            return Err(format!(
                "an attempt may enqueue at most {MAX_FOLLOW_UPS} follow-ups; let a follow-up enqueue the rest"
            ));
        }
        if self.follow_up_bytes + wish.payload.len() > MAX_FOLLOW_UP_BYTES {
            return Err(format!(
                "the payloads of all follow-ups of an attempt may come to at most {MAX_FOLLOW_UP_BYTES} bytes"
            ));
        }
        let metadata_bytes: usize = wish.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        if wish.metadata.len() > MAX_METADATA_PAIRS || metadata_bytes > MAX_METADATA_BYTES {
            return Err(format!(
                "the metadata of a follow-up has at most {MAX_METADATA_PAIRS} pairs and {MAX_METADATA_BYTES} bytes"
            ));
        }
        let index = u32::try_from(self.follow_ups.len()).unwrap_or(u32::MAX);
        let id = self.id.follow_up(self.replays, index);
        Ok(FollowUp { id, task, payload: wish.payload, delay: Millis(wish.delay_ms), metadata: wish.metadata })
    }
}

const fn level_name(level: host::Level) -> &'static str {
    match level {
        host::Level::Trace => "TRACE",
        host::Level::Debug => "DEBUG",
        host::Level::Info => "INFO",
        host::Level::Warn => "WARN",
        host::Level::Error => "ERROR",
    }
}
