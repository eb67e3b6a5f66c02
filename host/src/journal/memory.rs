//! Live invocations in memory: the store `none`. Nothing survives the process, and nothing claims to.
//!
//! Invariant: behaves like the journal on disk in every respect but durability.

use std::sync::Arc;

use wasmq_core::event::{Exhausted, Outcome, Started};
use wasmq_core::state::Entry;
use wasmq_core::{Attempt, Invocation, InvocationId, Millis, TaskName, Timestamp};
use wasmq_wal::{PendingSync, SyncOutcome};

use super::schedule::Schedule;
use super::{Adopted, Claim, Counts, Enqueued, JournalError, LiveStore, Payload, ReplayHook};
use crate::clock;

/// The store `none`.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    schedule: Schedule,
}

impl LiveStore for MemoryJournal {
    fn enqueue(&mut self, invocation: Invocation, payload: &[u8]) -> Result<Enqueued, JournalError> {
        let entry = Entry::new(invocation, Payload::Inline(payload.into()));
        Ok(self.schedule.insert(entry, clock::moment()))
    }

    fn claim(&mut self, now: Timestamp) -> Option<Claim> {
        self.schedule.claim(clock::at(now))
    }

    fn put_back(&mut self, claim: Claim) {
        self.schedule.put_back(claim);
    }

    fn get(&self, id: &InvocationId) -> Option<&Entry<Payload>> {
        self.schedule.get(id)
    }

    fn payload(&mut self, id: &InvocationId) -> Result<Arc<[u8]>, JournalError> {
        match self.schedule.get(id).map(|entry| &entry.payload) {
            Some(Payload::Inline(bytes)) => Ok(Arc::clone(bytes)),
            _ => Err(JournalError::Unknown(*id)),
        }
    }

    fn started(&mut self, id: InvocationId, started: Started) -> Result<(), JournalError> {
        self.schedule.started(id, started);
        Ok(())
    }

    fn retry(&mut self, id: InvocationId, due: Timestamp, attempt: Attempt) -> Result<(), JournalError> {
        self.schedule.retry(id, due, attempt, clock::moment());
        Ok(())
    }

    fn released(&mut self, id: InvocationId) -> Result<(), JournalError> {
        self.schedule.released(id);
        Ok(())
    }

    fn await_deploy(&mut self, id: InvocationId) {
        self.schedule.await_deploy(id);
    }

    fn deployed(&mut self, task: Option<&TaskName>) {
        self.schedule.deployed(task);
    }

    fn exhausted(&mut self, id: InvocationId, exhausted: Exhausted) -> Result<(), JournalError> {
        self.schedule.exhausted(id, exhausted);
        Ok(())
    }

    fn pending_dead(&self, limit: usize) -> Vec<InvocationId> {
        self.schedule.pending_dead(limit)
    }

    fn done(&mut self, id: InvocationId, _outcome: Outcome) -> Result<(), JournalError> {
        self.schedule.done(&id);
        Ok(())
    }

    fn postpone(&mut self, id: InvocationId, delay: Millis) -> Result<(), JournalError> {
        self.schedule.postpone(id, delay, clock::moment());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn begin_commit(&mut self) -> Result<Option<PendingSync>, JournalError> {
        Ok(None)
    }

    fn finish_commit(&mut self, _outcome: SyncOutcome) -> Result<(), JournalError> {
        Ok(())
    }

    fn is_dirty(&self) -> bool {
        false
    }

    fn until_due(&self, now: Timestamp) -> Option<Millis> {
        self.schedule.until_due(clock::at(now))
    }

    fn counts(&self) -> Counts {
        self.schedule.counts()
    }

    fn adopt(&mut self, _now: Timestamp, _replayed: &mut ReplayHook<'_>) -> Result<Adopted, JournalError> {
        Ok(Adopted::default())
    }

    fn hold(&mut self, _id: InvocationId) {}

    fn hand_over(&mut self, _limit: usize) -> Result<usize, JournalError> {
        Ok(0)
    }

    fn compact(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        Ok(())
    }
}
