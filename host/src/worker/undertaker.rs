//! Writes dead tasks on a thread of its own, because the dead letter queue is shared and its lock
//! may be held by somebody else for a while.
//!
//! Invariant: a batch is either durable as a whole or reported as failed; the keeper keeps the
//! invocations until it hears of success.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use wasmq_core::DeadTask;

use super::keeper::Command;
use crate::causes::error_chain;
use crate::dlq::DeadTaskStore;

/// The most dead tasks written with one sync.
pub(super) const BATCH: usize = 256;
/// How long a failed write waits before it is tried again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// What came of a batch.
#[derive(Debug)]
pub struct Buried {
    /// The batch.
    pub(super) tasks: Vec<DeadTask>,
    /// Whether it is durable; else why not.
    pub(super) result: Result<(), String>,
}

/// Runs until the keeper is gone.
pub(super) fn run(dlq: &Arc<dyn DeadTaskStore>, batches: &Receiver<Vec<DeadTask>>, keeper: &Sender<Command>) {
    for tasks in batches {
        let result = dlq.add(&tasks).map(|_| ()).map_err(|error| error_chain(&error));
        if keeper.send(Command::Buried(Buried { tasks, result })).is_err() {
            return;
        }
    }
}
