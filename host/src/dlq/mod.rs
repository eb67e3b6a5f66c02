//! The dead letter queue: dead tasks, kept until somebody retries or deletes them.
//!
//! [`DeadTaskStore`] is the port. [`DiskDlq`] keeps the queue in `data/dlq/` as JSON lines
//! (`FORMAT.md` has every byte and every crash); [`NoDlq`] keeps nothing and says so.
//!
//! Invariants:
//! - what [`DeadTaskStore::add`] acknowledged is durable; there is one dead task per invocation;
//! - a death that was retried or deleted does not come back when a worker adds it again;
//! - nothing leaves the queue but by [`LockedDlq::removed`] and [`LockedDlq::drop_superseded`];
//! - damage is reported with file, line and offset, stops nothing, and is never thrown away;
//! - no content of a dead task can make an operation fail.
//!
//! Deliberately absent: enqueueing a retry (the caller does it between [`LockedDlq::intend`] and
//! [`LockedDlq::removed`]), the archive, the clock, async.

mod check;
mod compact;
mod disk;
mod error;
mod head;
mod index;
mod kinds;
mod line;
mod log;
mod none;
mod query;
mod reader;
mod slots;
#[cfg(test)]
mod tests;
mod types;
mod write;

use std::fmt;

use wasmq_core::{DeadTask, InvocationId, Timestamp};

pub use check::{check, mend};
pub use disk::{DiskDlq, files};
pub use error::DlqError;
pub use none::NoDlq;
pub use types::{Added, Counts, Cursor, Damage, Filter, Found, Group, Intent, Page, RemovalReason, Standing};

/// Where dead tasks are kept. All calls block; none panics.
///
/// Calls that change something wait for the exclusive lock as long as it takes. A thread that holds
/// a [`LockedDlq`] must not call [`DeadTaskStore::add`] or [`DeadTaskStore::compact`], which would
/// wait for itself; the guard has what it needs.
pub trait DeadTaskStore: Send + Sync + fmt::Debug {
    /// Adds dead tasks; one that is there with fewer replays is replaced. When this returns, all
    /// that were taken are durable. A death that has left the queue is ignored as stale, and one
    /// that is there already stays as it is.
    ///
    /// # Errors
    /// The disk is full or fails; then none was added, and the caller keeps them and tries later.
    fn add(&self, dead: &[DeadTask]) -> Result<Added, DlqError>;

    /// At most `limit` entries behind a cursor (`None`: from the front), in the order of their
    /// death. Entries may be added, retried and deleted between two calls, and the file compacted:
    /// every entry that stays is seen exactly once.
    ///
    /// # Errors
    /// The disk fails, or nothing is kept. Damaged entries are no error.
    fn batch(&self, cursor: Option<Cursor>, limit: usize, filter: &Filter) -> Result<Page, DlqError>;

    /// At most `limit` entries before a cursor (`None`: from the end), the latest first.
    ///
    /// # Errors
    /// As [`DeadTaskStore::batch`].
    fn latest(&self, before: Option<Cursor>, limit: usize, filter: &Filter) -> Result<Page, DlqError>;

    /// The place behind the last entry, for [`Filter::until`].
    ///
    /// # Errors
    /// As [`DeadTaskStore::batch`].
    fn end(&self) -> Result<Cursor, DlqError>;

    /// How many entries a filter lets through, without reading them.
    ///
    /// # Errors
    /// As [`DeadTaskStore::batch`].
    fn count(&self, filter: &Filter) -> Result<u64, DlqError>;

    /// A dead task by its id.
    ///
    /// # Errors
    /// The disk fails, nothing is kept, or exactly this entry is damaged.
    fn get(&self, id: InvocationId) -> Result<Option<DeadTask>, DlqError>;

    /// Dead tasks by the first 8 to 32 hex digits of an id; dashes do not matter.
    ///
    /// # Errors
    /// As [`DeadTaskStore::get`], or the text is no such prefix.
    fn find(&self, prefix: &str) -> Result<Found, DlqError>;

    /// How many dead tasks there are.
    ///
    /// # Errors
    /// As [`DeadTaskStore::batch`].
    fn counts(&self) -> Result<Counts, DlqError>;

    /// Failures that are alike, the largest group first. All entries are in one.
    ///
    /// # Errors
    /// As [`DeadTaskStore::batch`].
    fn groups(&self) -> Result<Vec<Group>, DlqError>;

    /// Every damaged line.
    ///
    /// # Errors
    /// As [`DeadTaskStore::batch`].
    fn damage(&self) -> Result<Vec<Damage>, DlqError>;

    /// Waits for the lock and holds it until the guard is dropped.
    ///
    /// # Errors
    /// The lock file cannot be made or opened, or nothing is kept.
    fn lock(&self) -> Result<Box<dyn LockedDlq>, DlqError>;
}

/// The queue under its lock: no other process changes it meanwhile.
///
/// To retry, exactly once, a batch at a time: settle [`LockedDlq::dangling`]; ask
/// [`LockedDlq::current`]; resolve the version; [`LockedDlq::intend`]; enqueue durably in that WAL with one
/// replay more; [`LockedDlq::removed`].
pub trait LockedDlq: Send + fmt::Debug {
    /// Where each id stands, in the order asked.
    ///
    /// # Errors
    /// The disk fails, or one of the entries is damaged.
    fn current(&mut self, ids: &[InvocationId]) -> Result<Vec<(InvocationId, Standing)>, DlqError>;

    /// Notes durably that these deaths are about to be enqueued in a WAL (its id, 32 hex digits).
    ///
    /// # Errors
    /// The disk is full or fails; nothing must be enqueued then.
    fn intend(&mut self, wal: &str, ids: &[(InvocationId, u32)], now: Timestamp) -> Result<(), DlqError>;

    /// Removes deaths durably, and compacts when garbage outweighs the rest. Those that are gone
    /// already do not matter. Returns how many were there. Deleting works on a full disk too.
    ///
    /// # Errors
    /// The disk is full or fails; they are still there then.
    fn removed(
        &mut self,
        ids: &[(InvocationId, u32)],
        reason: RemovalReason,
        now: Timestamp,
    ) -> Result<usize, DlqError>;

    /// Retries that were begun, whose entries are still there with the same replays, the earliest
    /// first. Whoever began them is gone, as the lock is here. If that WAL holds (id, replays + 1), the
    /// retry happened: call [`LockedDlq::removed`]. If not, it did not: nothing is to be done.
    ///
    /// # Errors
    /// The disk fails.
    fn dangling(&mut self) -> Result<Vec<Intent>, DlqError>;

    /// For who adopts the log of a crashed retrier: removes every entry whose replays are fewer
    /// than those given, which live on in the log. Returns how many there were; doing it again is harmless.
    ///
    /// # Errors
    /// The disk is full or fails.
    fn drop_superseded(&mut self, ids: &[(InvocationId, u32)], now: Timestamp) -> Result<usize, DlqError>;
}
