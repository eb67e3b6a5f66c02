//! The words in which the dead letter queue is asked and answers.
//!
//! Deliberately absent: JSON forms of the answers for people and HTTP; the edges have those.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wasmq_core::{DeadTask, Digest, InvocationId, TaskName, Timestamp, Verdict};

/// A place in the queue: behind the entry with this sequence number. It stays valid while entries
/// are added, retried and deleted and while the file is compacted, also over restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub u64);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Which entries are meant. What is `None` does not restrict; the empty filter means every entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this task.
    pub task: Option<TaskName>,
    /// With this verdict, or of this family of verdicts (`trap`).
    pub verdict: Option<String>,
    /// With this fingerprint.
    pub fingerprint: Option<String>,
    /// One of these.
    pub ids: Option<BTreeSet<InvocationId>>,
    /// Not behind this place: with [`DeadTaskStore::end`](super::DeadTaskStore::end) taken at the
    /// start, a loop over everything ends although new failures stream in.
    pub until: Option<Cursor>,
}

/// A part of the queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The entries, in the order that was asked for.
    pub entries: Vec<DeadTask>,
    /// Where the next page begins; `None` when nothing was left.
    pub next: Option<Cursor>,
    /// How many damaged lines the file has. [`DeadTaskStore::damage`](super::DeadTaskStore::damage) says where.
    pub damaged: u64,
}

/// What a prefix of an id means.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// Exactly one dead task.
    One(Box<DeadTask>),
    /// None.
    None,
    /// More than one.
    Many {
        /// The first of them, at most 20, in the order of their ids.
        ids: Vec<InvocationId>,
        /// How many there are.
        total: usize,
    },
}

/// How many dead tasks there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub total: u64,
    /// By task.
    pub by_task: BTreeMap<TaskName, u64>,
    /// By verdict.
    pub by_verdict: BTreeMap<Verdict, u64>,
    /// When the oldest died.
    pub oldest: Option<Timestamp>,
    /// Damaged lines, which are not counted above.
    pub damaged: u64,
}

/// Failures that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What they have in common: 16 hex digits.
    pub fingerprint: String,
    /// Their task.
    pub task: TaskName,
    /// Their verdict.
    pub verdict: Verdict,
    /// One line of why, from the latest.
    pub summary: String,
    /// How many.
    pub count: u64,
    /// When the first died.
    pub first: Timestamp,
    /// When the latest died.
    pub last: Timestamp,
    /// The latest of them, at most 5.
    pub samples: Vec<InvocationId>,
    /// The components they ran, in the order of their first death.
    pub digests: Vec<Digest>,
}

/// Why an entry left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RemovalReason {
    /// It was put back into a WAL.
    Retried,
    /// An operator said delete.
    Deleted,
}

/// Where an id stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// It is a dead task.
    Dead(Box<DeadTask>),
    /// It was one, and was retried.
    AlreadyRetried {
        /// When.
        at: Timestamp,
        /// The replays that death had; the retried invocation has one more.
        replays: u32,
    },
    /// It was one, and was deleted.
    Deleted {
        /// When; 0 when it was deleted on a full disk, which has no room for the time.
        at: Timestamp,
    },
    /// It never was one, or left more than 30 days ago.
    Unknown,
}

/// A retry that was begun and not ended: its process died, or is still at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The id of the WAL that was to take them: 32 hex digits.
    pub wal: String,
    /// When it was begun.
    pub at: Timestamp,
    /// The entries that are still in the queue, with the replays of their death.
    pub ids: Vec<(InvocationId, u32)>,
}

/// What came of adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// How many are in the queue now, durably.
    pub taken: usize,
    /// How many were ignored: that death was retried or deleted already, or a later one is there.
    pub stale: usize,
}

/// A line that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
    /// Where the damaged bytes begin, in bytes.
    pub offset: u64,
    /// How many bytes they are.
    pub len: u64,
    /// What is wrong.
    pub reason: DamageReason,
}

/// What is wrong with a damaged line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageReason {
    /// It does not begin as a line does.
    NotALine,
    /// Its checksum is wrong.
    Checksum,
    /// Its checksum is right, but a field is missing or of another type.
    Content,
    /// Its checksum is right, but this version does not know the operation.
    UnknownOperation,
    /// It is longer than any line.
    TooLong,
    /// The line at the end has no end.
    NotWhole,
}

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotALine => "it does not begin as a line does",
            Self::Checksum => "its checksum is wrong",
            Self::Content => "a field is missing or of another type",
            Self::UnknownOperation => "this version does not know the operation",
            Self::TooLong => "it is longer than any line",
            Self::NotWhole => "it has no end, as a cut write leaves it or damage",
        })
    }
}
