//! What a worker tells of itself and of finished invocations, in the JSON of its socket.

use serde::{Deserialize, Serialize};
use wasmq_core::report::{FailureReport, Said, Usage};
use wasmq_core::{Digest, InvocationId, Timestamp, Verdict, VersionNumber};

use crate::journal::Counts;
use crate::runtime::Progress;

/// The figures of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkerFigures {
    /// Its process id.
    pub pid: u32,
    /// The id of its log; empty with the store `none`.
    pub log: String,
    /// What its store holds.
    pub counts: Counts,
    /// Invocations that completed since it started.
    pub completed: u64,
    /// Attempts that ended in another verdict since it started.
    pub failed_attempts: u64,
    /// Invocations that became dead tasks since it started.
    pub dead: u64,
    /// The last failure to write the dead letter queue, while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dlq_error: Option<String>,
    /// Components that it cannot use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<BrokenComponent>,
    /// Logs that nobody owns and that it cannot take over, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_alone: Vec<String>,
    /// Whether it stops once what runs has ended.
    #[serde(default)]
    pub draining: bool,
    /// How far running attempts say they have come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<AttemptProgress>,
}

impl WorkerFigures {
    /// Attempts that ended since it started.
    pub(crate) const fn ended(&self) -> u64 {
        self.completed.saturating_add(self.failed_attempts)
    }
}

/// How far a running attempt says it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptProgress {
    /// The invocation.
    pub id: InvocationId,
    /// The number of the attempt.
    pub attempt: u32,
    /// How far.
    #[serde(flatten)]
    pub progress: Progress,
}

/// A component that a worker cannot use. What needs it waits for a deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenComponent {
    /// Which one.
    pub digest: Digest,
    /// Why.
    pub reason: String,
}

/// A failed attempt that will be followed by another, as whoever waits for the end is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// How it ended.
    pub verdict: Verdict,
    /// The first line of what was wrong.
    pub summary: String,
    /// When the next attempt is due.
    pub next_at: Timestamp,
}

/// How an invocation that somebody waited for came to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// Which one.
    pub id: InvocationId,
    /// The verdict of the last attempt.
    pub verdict: Verdict,
    /// The version that ran last; absent if none ran.
    pub version: Option<VersionNumber>,
    /// The component that ran last.
    pub component: Option<Digest>,
    /// How many attempts there were.
    pub attempts: u32,
    /// Whether it is in the dead letter queue now.
    pub dead: bool,
    /// What is known of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<FailureReport>>,
    /// What the last attempt used; absent if none ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it said besides its output, when it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Box<Said>>,
    /// How many follow-ups it enqueued.
    #[serde(default)]
    pub follow_ups: u64,
    /// The output; travels beside the JSON.
    #[serde(skip)]
    pub output: Vec<u8>,
}

impl Completion {
    /// The body of a `Finished` frame: the JSON with its length in front, then the output.
    #[must_use]
    pub fn to_body(&self) -> Vec<u8> {
        let head = serde_json::to_vec(self).unwrap_or_default();
        let mut body = Vec::with_capacity(head.len() + self.output.len() + 5);
        let mut encoder = wasmq_core::codec::Encoder(&mut body);
        encoder.bytes(&head);
        encoder.raw(&self.output);
        body
    }

    /// Reads what [`Completion::to_body`] wrote.
    #[must_use]
    pub fn from_body(body: &[u8]) -> Option<Self> {
        let mut decoder = wasmq_core::codec::Decoder::new(body);
        let mut completion: Self = serde_json::from_slice(decoder.bytes("head").ok()?).ok()?;
        completion.output = decoder.rest().to_vec();
        Some(completion)
    }
}
