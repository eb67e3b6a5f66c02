//! How a worker comes to its end: what runs may finish within the grace time, and the rest is put back.

use super::executor::ToExecutor;
use super::keeper::Keeper;
use crate::clock::Stopwatch;

impl Keeper {
    pub(super) fn drain(&mut self) {
        if self.draining.is_none() {
            let (pid, running) = (self.figures.pid, self.running.len());
            tracing::info!(pid, running, grace = ?self.options.grace, "draining");
            self.draining = Some(Stopwatch::start());
            self.more_to_adopt = false;
            self.running.values().for_each(|running| running.signals.cancel());
        }
    }

    /// Nobody waits for this worker any more: it drains, and what somebody killed while it drained is not to go on.
    pub(super) fn supervisor_gone(&mut self) {
        if self.draining.is_some() {
            return self.abort_all();
        }
        self.drain();
    }

    fn abort_all(&mut self) {
        if !std::mem::replace(&mut self.aborted, true) {
            let _ = self.executor.send(ToExecutor::AbortAll);
        }
    }

    /// Whether a drain is complete; ends the grace time when it is over.
    pub(super) fn drained(&mut self) -> bool {
        let Some(since) = self.draining else { return false };
        if since.elapsed() >= self.options.grace && !self.running.is_empty() {
            self.abort_all();
        }
        self.running.is_empty() && self.burying.is_empty() && self.intake.is_empty() && self.answers.is_empty()
    }
}
