//! A dead task: an invocation that was given up, with its whole story.
//!
//! Invariant: building one from an invocation and its last report cannot fail, whatever they hold.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::id::{Digest, InvocationId};
use crate::invocation::{Invocation, MAX_DEATHS_KEPT};
use crate::name::{TaskName, VersionNumber};
use crate::report::{Attempt, FailureReport, Usage};
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// An earlier death of an invocation that was replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// When it was given up.
    pub dead_at: Timestamp,
    /// How often it had been replayed before.
    pub replays: u32,
    /// How many attempts it had.
    pub attempts: u32,
    /// The last verdict.
    pub verdict: Verdict,
    /// The version that ran last.
    pub version: VersionNumber,
    /// The component that ran last.
    pub digest: Digest,
    /// One line of why.
    pub summary: String,
}

/// An invocation that was given up (DESIGN, section "The DLQ").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadTask {
    /// The invocation's id.
    pub id: InvocationId,
    /// The task.
    pub task: TaskName,
    /// The version of the last attempt.
    pub version: VersionNumber,
    /// The component of the last attempt.
    pub component: Digest,
    /// The version of the WIT package the host spoke.
    pub wit: String,
    /// The last verdict.
    pub verdict: Verdict,
    /// Groups failures that are alike: 16 hex digits.
    pub fingerprint: String,
    /// When it was first enqueued.
    pub enqueued_at: Timestamp,
    /// When it was given up.
    pub dead_at: Timestamp,
    /// How many attempts it had since the last replay.
    pub attempts: u32,
    /// The budget it had.
    pub max_attempts: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// 0 to 9.
    #[serde(default)]
    pub priority: u8,
    /// Its own budget of attempts, when the enqueuer gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_max_attempts: Option<std::num::NonZeroU32>,
    /// Key-value pairs of the enqueuer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<(String, String)>,
    /// The failure of the last attempt: error, trap, backtrace, stdout, stderr.
    pub failure: FailureReport,
    /// Every attempt since the last replay, within a cap.
    pub history: Vec<Attempt>,
    /// Its earlier deaths, within a cap, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Death>,
    /// What the last attempt used.
    pub usage: Usage,
    /// The limits it had.
    pub limits: DeadLimits,
    /// What it was granted; nothing yet in this version.
    #[serde(default)]
    pub grants: Vec<String>,
    /// The worker that gave it up.
    pub worker: String,
    /// Name and version of the engine.
    pub engine: String,
    /// The payload, byte for byte.
    pub payload: Bytes,
}

/// The limits of the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLimits {
    /// Wall-clock limit, in milliseconds.
    pub timeout_ms: u64,
    /// Memory limit, in bytes.
    pub memory_bytes: u64,
    /// Output limit, in bytes.
    pub output_bytes: u64,
}

impl From<&Settings> for DeadLimits {
    fn from(settings: &Settings) -> Self {
        Self {
            timeout_ms: settings.timeout.0,
            memory_bytes: settings.memory_bytes,
            output_bytes: settings.output_bytes,
        }
    }
}

impl DeadTask {
    /// One line of why it died.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.history.last().map_or("", |attempt| attempt.summary.as_str())
    }

    /// The death this dead task is, as it will stand in the history of a replay.
    #[must_use]
    pub fn death(&self) -> Death {
        Death {
            dead_at: self.dead_at,
            replays: self.replays,
            attempts: self.attempts,
            verdict: self.verdict.clone(),
            version: self.version,
            digest: self.component,
            summary: self.summary().to_owned(),
        }
    }

    /// The invocation that a replay enqueues: same id, first enqueue time, payload and history, one
    /// replay more, a fresh budget, due at once.
    #[must_use]
    pub fn replay(&self) -> Invocation {
        let mut deaths = self.deaths.clone();
        deaths.push(self.death());
        if deaths.len() > MAX_DEATHS_KEPT {
            deaths.remove(1);
        }
        Invocation {
            id: self.id,
            task: self.task.clone(),
            pin: crate::invocation::Pin::Current,
            enqueued_at: self.enqueued_at,
            due_at: self.enqueued_at,
            is_delay: false,
            priority: self.priority,
            max_attempts: self.own_max_attempts,
            replays: self.replays.saturating_add(1),
            metadata: self.metadata.clone(),
            deaths,
        }
    }
}
