//! Where live invocations are: the store port, and its implementations on disk and in memory.
//!
//! Invariants: an invocation that [`LiveStore::enqueue`] took and [`LiveStore::commit`] confirmed
//! survives the process; everything else a store says can be lost at most as far as its durability
//! setting documents. A store has one owner; nothing in here is shared between threads.
//!
//! Deliberately absent: the dead letter queue, the registry, threads, and the decision what happens
//! after an attempt (that is `wasmq_core::retry`).

pub(crate) mod adopt;
mod check;
#[cfg(test)]
mod clock_tests;
mod disk;
mod error;
#[cfg(test)]
mod full_disk_tests;
mod hand_over;
mod memory;
mod mend;
mod read;
mod reserve;
mod schedule;
mod take_over;
#[cfg(test)]
mod tests;

pub use check::check;
pub use disk::{DiskJournal, Durability, JournalOptions};
pub use error::JournalError;
pub use memory::MemoryJournal;
pub use mend::mend;
pub use read::{LiveEntry, OutsideLog, Snapshot, end_in_free_log, log_holds_replay, read_all, read_payload};
pub use reserve::refuses_new_work;

use std::sync::Arc;

use wasmq_core::event::{Exhausted, Outcome, Started};
use wasmq_core::state::Entry;
use wasmq_core::{Attempt, Invocation, InvocationId, Millis, TaskName, Timestamp};
use wasmq_wal::{PendingSync, SyncOutcome};

/// What an enqueue did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// It is new.
    Taken,
    /// The id is live already; nothing was written.
    Known,
}

/// An invocation that may start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Which one.
    pub id: InvocationId,
    /// Whether it must run alone because it may have killed a worker.
    pub alone: bool,
}

/// How many invocations a store holds, by where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Due, waiting for a free place.
    pub ready: u64,
    /// Not due yet.
    pub delayed: u64,
    /// Running.
    pub running: u64,
    /// Waiting for a deploy.
    pub awaiting_deploy: u64,
    /// Given up, waiting for the dead letter queue.
    pub exhausted: u64,
    /// Running when their worker died, and not taken over yet. A worker knows of none.
    #[serde(default)]
    pub orphaned: u64,
    /// Of the ready: those that ran when a worker died, and run alone.
    pub suspects: u64,
    /// Of the running: such a one, beside which nothing else runs in its worker.
    pub alone: u64,
}

impl Counts {
    /// All that live.
    #[must_use]
    pub const fn live(&self) -> u64 {
        self.ready + self.delayed + self.running + self.awaiting_deploy + self.exhausted + self.orphaned
    }
}

/// The port to whatever holds live invocations, in the words of invocations.
///
/// Changes are buffered; they reach the operating system at the latest with [`LiveStore::flush`]
/// and are durable after [`LiveStore::commit`]. A change about an unknown id does nothing.
pub trait LiveStore: Send {
    /// Takes a new invocation in, unless its id is live with as many replays.
    ///
    /// # Errors
    /// When it cannot be written; then it was not taken. What is kept for ending what is queued is
    /// never used for it.
    fn enqueue(&mut self, invocation: Invocation, payload: &[u8]) -> Result<Enqueued, JournalError>;

    /// Takes in what a completed attempt asked for, as [`LiveStore::enqueue`] does. It belongs to the
    /// end of that attempt and may use what is kept for ends.
    ///
    /// # Errors
    /// When it cannot be written; then it was not taken.
    fn follow_up(&mut self, invocation: Invocation, payload: &[u8]) -> Result<Enqueued, JournalError> {
        self.enqueue(invocation, payload)
    }

    /// The next invocation that may start: suspects first and alone, then by priority and order of
    /// arrival. It must be followed by [`LiveStore::started`], [`LiveStore::await_deploy`],
    /// [`LiveStore::exhausted`] or [`LiveStore::put_back`].
    fn claim(&mut self, now: Timestamp) -> Option<Claim>;

    /// Puts a claim back at the front, untouched.
    fn put_back(&mut self, claim: Claim);

    /// A live invocation.
    fn get(&self, id: &InvocationId) -> Option<&Entry<Payload>>;

    /// The payload of a live invocation.
    ///
    /// # Errors
    /// When it cannot be read back.
    fn payload(&mut self, id: &InvocationId) -> Result<Arc<[u8]>, JournalError>;

    /// Records that an attempt starts.
    ///
    /// # Errors
    /// When it cannot be written; then it must not start.
    fn started(&mut self, id: InvocationId, started: Started) -> Result<(), JournalError>;

    /// Records a failed attempt that will be followed by another at `due`.
    ///
    /// # Errors
    /// When it cannot be written.
    fn retry(&mut self, id: InvocationId, due: Timestamp, attempt: Attempt) -> Result<(), JournalError>;

    /// Records that a started attempt was put back without counting.
    ///
    /// # Errors
    /// When it cannot be written.
    fn released(&mut self, id: InvocationId) -> Result<(), JournalError>;

    /// Parks a claimed invocation until [`LiveStore::deployed`] is told of its task.
    fn await_deploy(&mut self, id: InvocationId);

    /// Makes the parked invocations of a task (or of all) ready again.
    fn deployed(&mut self, task: Option<&TaskName>);

    /// Records that an invocation is given up and has to go to the dead letter queue.
    ///
    /// # Errors
    /// When it cannot be written.
    fn exhausted(&mut self, id: InvocationId, exhausted: Exhausted) -> Result<(), JournalError>;

    /// Given-up invocations that the dead letter queue has not confirmed, at most `limit`.
    fn pending_dead(&self, limit: usize) -> Vec<InvocationId>;

    /// Records that an invocation is over.
    ///
    /// # Errors
    /// When it cannot be written.
    fn done(&mut self, id: InvocationId, outcome: Outcome) -> Result<(), JournalError>;

    /// Lets a queued suspect of an earlier crash wait, so that repeat crashers back off.
    ///
    /// # Errors
    /// When it cannot be written.
    fn postpone(&mut self, id: InvocationId, delay: Millis) -> Result<(), JournalError>;

    /// Hands all changes to the operating system: they survive the death of the process.
    ///
    /// # Errors
    /// When they cannot be written; the store is then poisoned.
    fn flush(&mut self) -> Result<(), JournalError>;

    /// Begins to make all changes until now as durable as the setting says. The slow part is returned: it
    /// touches nothing of the store, which may go on to change meanwhile, and its outcome has to be given
    /// to [`LiveStore::finish_commit`] before another commit begins. `None` when there is no slow part.
    ///
    /// # Errors
    /// When the changes cannot be written; the store is then poisoned.
    fn begin_commit(&mut self) -> Result<Option<PendingSync>, JournalError>;

    /// Ends a commit. Acknowledge what it covers only after it.
    ///
    /// # Errors
    /// When the changes could not be made durable; the store is then poisoned.
    fn finish_commit(&mut self, outcome: SyncOutcome) -> Result<(), JournalError>;

    /// Makes all changes as durable as the setting says, in one go.
    ///
    /// # Errors
    /// When they cannot be made durable; the store is then poisoned.
    fn commit(&mut self) -> Result<(), JournalError> {
        match self.begin_commit()? {
            Some(slow) => self.finish_commit(slow.run()),
            None => Ok(()),
        }
    }

    /// What could not be adopted at the last look, each with the reason.
    fn left_alone(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether changes wait for a commit.
    fn is_dirty(&self) -> bool;

    /// How long it is until the next delayed invocation is due.
    fn until_due(&self, now: Timestamp) -> Option<Millis>;

    /// How many there are.
    fn counts(&self) -> Counts;

    /// Takes over the logs that nobody owns. `replayed` is told of every replay found in a log
    /// before the log counts as taken over, so that a retry that crashed half-way is completed;
    /// when it fails, that log is left for later.
    ///
    /// # Errors
    /// When this store itself cannot be written.
    fn adopt(&mut self, now: Timestamp, replayed: &mut ReplayHook<'_>) -> Result<Adopted, JournalError>;

    /// Keeps an invocation out of every hand-over: somebody waits here for its end.
    fn hold(&mut self, id: InvocationId);

    /// Moves up to `limit` ready invocations into a log of their own and lets go of it, so that a
    /// worker with nothing to do can adopt it. Returns how many.
    ///
    /// # Errors
    /// When the logs cannot be written; the store is then unusable.
    fn hand_over(&mut self, limit: usize) -> Result<usize, JournalError>;

    /// Bounds the disk use by live data; does a bounded piece of work.
    ///
    /// # Errors
    /// When the log cannot be rewritten.
    fn compact(&mut self) -> Result<(), JournalError>;

    /// Ends the ownership in an orderly way; what is live stays for the next owner.
    ///
    /// # Errors
    /// When the last changes cannot be made durable.
    fn close(self: Box<Self>) -> Result<(), JournalError>;
}

/// What an adoption brought.
#[derive(Debug, Default)]
pub struct Adopted {
    /// How many logs were taken over.
    pub logs: u32,
    /// How many live invocations they held.
    pub invocations: u64,
    /// Those that were running when their worker died.
    pub suspects: Vec<InvocationId>,
    /// Whether more logs wait; the call took long enough.
    pub more: bool,
}

/// Is told of the replays (id and how often it has been replayed) that an adopted log holds.
pub type ReplayHook<'a> = dyn FnMut(&[(InvocationId, u32)]) -> Result<(), String> + 'a;

/// The payload of a live invocation, or where it lies.
#[derive(Debug, Clone)]
pub enum Payload {
    /// Small ones stay in memory.
    Inline(Arc<[u8]>),
    /// Large ones stay in the log, in a record of this kind.
    InLog(wasmq_wal::RecordRef, u8),
}

/// Payloads up to this size stay in memory, in bytes.
pub const INLINE_PAYLOAD_BYTES: usize = 4096;
