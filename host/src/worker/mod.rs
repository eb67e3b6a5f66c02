//! A worker: the process that owns exactly one log and runs invocations.
//!
//! The [`keeper`] owns the live store and decides everything. It has a thread, which alone commits; the
//! executor, which runs guests, acts for it between guests. The others get messages: the loader compiles
//! or loads components, the undertaker writes dead tasks, the link speaks with the supervisor.
//!
//! Invariants: guests never run on the thread that syncs; an attempt starts only after its
//! `started` record has been handed to the operating system; nothing is acknowledged before the
//! store has committed it. After a failed write the worker stops, and the supervisor starts another
//! that adopts its log.

mod attention;
mod dispatch;
mod draining;
mod executor;
mod figures;
mod intake;
mod keeper;
mod link;
mod loader;
mod obituaries;
mod outcome;
mod process;
mod undertaker;

pub use figures::{AttemptProgress, Completion, FailedAttempt, WorkerFigures};
#[cfg(test)]
pub(crate) use keeper::stepped::{Beside, Ending, SteppedWorker};
pub use process::{EmbeddedWorker, FrameSender, WorkerConfig, WorkerError, run_process};
