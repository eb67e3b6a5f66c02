//! The pure decisions of wasmq: names, invocations, verdicts, retry policy, state transitions.
//!
//! Invariants: nothing here reads a clock, a disk or a die. `now`, jitter and random bits are
//! arguments, so every decision can be tested with plain values. Nothing here panics on content.
//!
//! Deliberately absent: tokio, files, wasmtime, the command line.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::cast_possible_truncation
    )
)]

pub mod bytes;
pub mod codec;
pub mod dead_task;
pub mod event;
pub mod fingerprint;
pub mod id;
pub mod invocation;
pub mod name;
pub mod report;
pub mod retry;
pub mod settings;
pub mod state;
pub mod time;
pub mod verdict;
pub mod wait;

pub use bytes::{Bytes, Tail};
pub use dead_task::{DeadTask, Death};
pub use event::Event;
pub use id::{Digest, IdMap, IdSet, InvocationId};
pub use invocation::{Invocation, Pin};
pub use name::{Label, TaskName, VersionNumber};
pub use report::{Attempt, AttemptReport, FollowUp, Problem, TrapInfo, Usage};
pub use settings::Settings;
pub use time::{Millis, Moment, Timestamp};
pub use verdict::{TrapCode, Verdict};
pub use wait::Wait;
