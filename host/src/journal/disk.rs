//! Live invocations in a write-ahead log: the store `dir`.
//!
//! Invariants: every change is appended before the schedule knows of it, so a change that could not
//! be written did not happen; a payload is either in memory or in a segment that still exists,
//! because compaction copies live records forward before it drops a segment.
//!
//! Deliberately absent: threads, the registry, what follows an attempt.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmq_core::event::{self, Exhausted, Outcome, Started, kind};
use wasmq_core::state::Entry;
use wasmq_core::{Attempt, Event, Invocation, InvocationId, TaskName, Timestamp};
use wasmq_wal::disk::Disk;
use wasmq_wal::{RecordRef, Wal, WalId};

use super::schedule::{Schedule, inline};
use super::{Adopted, Claim, Counts, Enqueued, JournalError, LiveStore, Payload, ReplayHook};
use crate::clock::{self, Stopwatch};

/// When an acknowledged change is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    Always,
    /// At most this long after it was acknowledged.
    Interval(Duration),
    /// When the operating system gets to it.
    Never,
}

/// How a journal writes.
#[derive(Debug, Clone, Copy)]
pub struct JournalOptions {
    /// When changes are on the disk.
    pub durability: Durability,
    /// Sizes of segments and buffers.
    pub log: wasmq_wal::Options,
}

impl Default for JournalOptions {
    fn default() -> Self {
        let log = wasmq_wal::Options { segment_bytes: 32 << 20, ..wasmq_wal::Options::default() };
        Self { durability: Durability::Always, log }
    }
}

/// The live invocations of one worker and the log that holds them.
#[derive(Debug)]
pub struct DiskJournal {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) wal: Wal,
    pub(super) id: WalId,
    pub(super) schedule: Schedule,
    pub(super) scratch: Vec<u8>,
    options: JournalOptions,
    /// Since when something waits for a sync.
    dirty_since: Option<Stopwatch>,
    /// The log of the last hand-over, which is for others.
    pub(super) handed_over: Option<(WalId, Stopwatch)>,
}

impl DiskJournal {
    /// Starts a new log in `dir` (the `journal/` of a data directory) and owns it. `owner` is a line
    /// for people who look into the lock file.
    ///
    /// # Errors
    /// When the log cannot be created.
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, owner: &str, options: JournalOptions) -> Result<Self, JournalError> {
        let id = new_log_id();
        let wal = Wal::create(Arc::clone(&disk), dir, id, owner, options.log)?;
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            wal,
            id,
            schedule: Schedule::default(),
            scratch: Vec::with_capacity(1024),
            options,
            dirty_since: None,
            handed_over: None,
        })
    }

    /// The id of this log.
    #[must_use]
    pub const fn id(&self) -> WalId {
        self.id
    }

    pub(super) fn append(&mut self, kind: u8, payload: &[u8]) -> Result<RecordRef, JournalError> {
        let at = self.wal.append(kind, &[&self.scratch, payload])?;
        self.dirty_since.get_or_insert_with(Stopwatch::start);
        Ok(at)
    }

    /// Appends the whole state of an entry and says where its payload is from now on.
    pub(super) fn append_entry<P>(
        &mut self,
        kind: u8,
        entry: &Entry<P>,
        payload: &[u8],
    ) -> Result<Payload, JournalError> {
        self.scratch.clear();
        event::encode_entry(&mut self.scratch, entry);
        let at = self.append(kind, payload)?;
        Ok(inline(payload).unwrap_or(Payload::InLog(at, kind)))
    }

    /// Appends the record that makes copies from another log valid.
    pub(super) fn append_adopted(&mut self, log: WalId) -> Result<(), JournalError> {
        self.scratch.clear();
        self.scratch.extend_from_slice(log.as_bytes());
        self.append(kind::ADOPTED, &[]).map(|_| ())
    }

    pub(super) fn sync(&mut self) -> Result<(), JournalError> {
        let _proof = self.wal.sync()?;
        self.dirty_since = None;
        Ok(())
    }

    /// Copies what is live in the oldest segment forward, then drops it. Records that end an
    /// invocation are always younger than those they end, so dropping from the old end never
    /// brings one back.
    fn drop_oldest_segment(&mut self, sequence: u32) -> Result<(), JournalError> {
        if !self.schedule.is_empty() {
            for id in self.ids_in_segment(sequence)? {
                self.copy_forward(id)?;
            }
            self.sync()?;
        }
        self.wal.drop_oldest()?;
        Ok(())
    }

    fn ids_in_segment(&mut self, sequence: u32) -> Result<Vec<InvocationId>, JournalError> {
        let mut ids = Vec::new();
        wasmq_wal::scan_one_segment(self.disk.as_ref(), &self.dir, self.id, sequence, &mut |record| {
            if let Ok(Some(Event::Enqueued(invocation, _))) = event::decode(record.kind, record.body) {
                ids.push(invocation.id);
            } else if let Ok(Some(Event::Snapshot(entry, _) | Event::Copied(entry, _))) =
                event::decode(record.kind, record.body)
            {
                ids.push(entry.invocation.id);
            }
            ControlFlow::Continue(())
        })?;
        Ok(ids)
    }

    fn copy_forward(&mut self, id: InvocationId) -> Result<(), JournalError> {
        if self.schedule.get(&id).is_none() {
            return Ok(());
        }
        let payload = self.payload(&id)?;
        let Some(entry) = self.schedule.get(&id) else { return Ok(()) };
        self.scratch.clear();
        event::encode_entry(&mut self.scratch, entry);
        let at = self.append(kind::SNAPSHOT, &payload)?;
        if payload.len() > super::INLINE_PAYLOAD_BYTES {
            self.schedule.moved(&id, Payload::InLog(at, kind::SNAPSHOT));
        }
        Ok(())
    }
}

/// A new log id: a UUIDv7 without dashes.
pub(super) fn new_log_id() -> WalId {
    WalId::from_bytes(uuid::Uuid::now_v7().into_bytes())
}

/// The payload inside the body of a record that has one.
pub(super) fn payload_in(kind: u8, body: &[u8], at: RecordRef) -> Result<&[u8], JournalError> {
    event::payload_of(kind, body).map_err(|reason| JournalError::Record {
        kind,
        segment: at.segment,
        offset: at.offset,
        reason,
    })
}

impl LiveStore for DiskJournal {
    fn enqueue(&mut self, invocation: Invocation, payload: &[u8]) -> Result<Enqueued, JournalError> {
        if self.schedule.knows(&invocation.id, invocation.replays) {
            return Ok(Enqueued::Known);
        }
        self.scratch.clear();
        invocation.encode(&mut self.scratch);
        let at = self.append(kind::ENQUEUED, payload)?;
        let place = inline(payload).unwrap_or(Payload::InLog(at, kind::ENQUEUED));
        Ok(self.schedule.insert(Entry::new(invocation, place), clock::now()))
    }

    fn claim(&mut self, now: Timestamp) -> Option<Claim> {
        self.schedule.claim(now)
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
            Some(Payload::InLog(at, kind)) => {
                let (at, kind) = (*at, *kind);
                let body = self.wal.read(at)?;
                payload_in(kind, &body, at).map(Arc::from)
            }
            None => Err(JournalError::Unknown(*id)),
        }
    }

    fn started(&mut self, id: InvocationId, started: Started) -> Result<(), JournalError> {
        self.scratch.clear();
        event::encode_started(&mut self.scratch, id, &started);
        self.append(kind::STARTED, &[])?;
        self.schedule.started(id, started);
        Ok(())
    }

    fn retry(&mut self, id: InvocationId, due: Timestamp, attempt: Attempt) -> Result<(), JournalError> {
        self.scratch.clear();
        event::encode_retry(&mut self.scratch, id, due, &attempt);
        self.append(kind::RETRY, &[])?;
        self.schedule.retry(id, due, attempt);
        Ok(())
    }

    fn released(&mut self, id: InvocationId) -> Result<(), JournalError> {
        self.scratch.clear();
        event::encode_released(&mut self.scratch, id);
        self.append(kind::RELEASED, &[])?;
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
        self.scratch.clear();
        event::encode_exhausted(&mut self.scratch, id, &exhausted);
        self.append(kind::EXHAUSTED, &[])?;
        self.schedule.exhausted(id, exhausted);
        Ok(())
    }

    fn pending_dead(&self, limit: usize) -> Vec<InvocationId> {
        self.schedule.pending_dead(limit)
    }

    fn done(&mut self, id: InvocationId, outcome: Outcome) -> Result<(), JournalError> {
        self.scratch.clear();
        event::encode_done(&mut self.scratch, id, outcome);
        self.append(kind::DONE, &[])?;
        self.schedule.done(&id);
        Ok(())
    }

    fn postpone(&mut self, id: InvocationId, due: Timestamp) {
        self.schedule.postpone(id, due);
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        Ok(self.wal.flush()?)
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        let waited = self.dirty_since.map(Stopwatch::elapsed).unwrap_or_default();
        match self.options.durability {
            Durability::Always => self.sync(),
            Durability::Interval(longest) if waited >= longest => self.sync(),
            Durability::Interval(_) | Durability::Never => self.flush(),
        }
    }

    fn is_dirty(&self) -> bool {
        self.dirty_since.is_some() && self.options.durability != Durability::Never
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.schedule.next_due()
    }

    fn counts(&self) -> Counts {
        self.schedule.counts()
    }

    fn adopt(&mut self, now: Timestamp, replayed: &mut ReplayHook<'_>) -> Result<Adopted, JournalError> {
        super::adopt::adopt_free_logs(self, now, replayed)
    }

    fn hand_over(&mut self, limit: usize) -> Result<usize, JournalError> {
        super::hand_over::hand_over(self, limit)
    }

    fn compact(&mut self) -> Result<(), JournalError> {
        let slack = 2 * self.options.log.segment_bytes;
        if self.wal.total_bytes() <= 2 * self.schedule.live_bytes() + slack {
            return Ok(());
        }
        match self.wal.oldest_sealed() {
            Some(sequence) => self.drop_oldest_segment(sequence),
            None => Ok(()),
        }
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        if self.schedule.is_empty() { Ok(self.wal.delete()?) } else { Ok(self.wal.close()?) }
    }
}
