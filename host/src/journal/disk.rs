//! Live invocations in a write-ahead log: the store `dir`.
//!
//! Invariants: every change is appended before the schedule knows of it, so a change that could not
//! be written did not happen; a payload is either in memory or in a segment that still exists,
//! because compaction copies live records forward before it drops a segment.
//!
//! Deliberately absent: threads, the registry, what follows an attempt.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmq_core::event::{self, Exhausted, Outcome, Started, kind};
use wasmq_core::state::Entry;
use wasmq_core::{Attempt, Event, Invocation, InvocationId, Millis, TaskName, Timestamp};
use wasmq_wal::disk::Disk;
use wasmq_wal::{Options, PendingSync, RecordRef, SyncOutcome, Wal, WalError, WalId};

use super::adopt::LeftAlone;
use super::reserve::{RESERVE_BYTES, Reserve, make_room};
use super::schedule::{Schedule, inline};
use super::take_over::{has_room, sum_of_records};
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
    pub log: Options,
    /// Room that is kept for ending what is queued, in bytes; 0 keeps none.
    pub reserve_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        let log = Options { segment_bytes: 32 << 20, ..Options::default() };
        Self { durability: Durability::Always, log, reserve_bytes: RESERVE_BYTES }
    }
}

/// A log on a full disk takes no more ahead than this, in bytes.
pub(super) const MODEST_EXTENSION_BYTES: u64 = 64 << 10;

/// How long an adoption or a compaction that found no room is put off: to read what does not fit over and
/// over would keep the worker from ending what it has.
pub(super) const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Room that a running attempt has for its end, in bytes. A completion takes a tenth of it.
const ROOM_FOR_AN_END: u64 = 512;

/// The live invocations of one worker and the log that holds them.
#[derive(Debug)]
pub struct DiskJournal {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) wal: Wal,
    pub(super) id: WalId,
    pub(super) schedule: Schedule,
    pub(super) scratch: Vec<u8>,
    pub(super) reserve: Reserve,
    /// The reserve was used and is not there again: nothing new is taken in.
    pub(super) is_short: bool,
    /// When an adoption or a compaction was last put off for want of room.
    pub(super) no_room: Option<Stopwatch>,
    /// Logs that were free and could not be adopted, and why. Each reason is told once.
    pub(super) left_alone: BTreeMap<WalId, LeftAlone>,
    /// The line for people in the lock file.
    pub(super) owner: String,
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
        let reserve = Reserve::new(Arc::clone(&disk), dir, options.reserve_bytes);
        let create = |log| Wal::create(Arc::clone(&disk), dir, id, owner, log);
        let wal = match create(options.log) {
            Err(error) if error.is_no_space() && make_room(&disk, dir, &reserve) => create(modest(options.log))?,
            other => other?,
        };
        let is_short = reserve.is_short();
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            wal,
            id,
            schedule: Schedule::default(),
            scratch: Vec::with_capacity(1024),
            reserve,
            is_short,
            no_room: None,
            left_alone: BTreeMap::new(),
            owner: owner.to_owned(),
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

    /// Appends a record of what is queued already. It may use the reserve.
    pub(super) fn append(&mut self, kind: u8, payload: &[u8]) -> Result<RecordRef, JournalError> {
        let at = match self.wal.append(kind, &[&self.scratch, payload]) {
            Err(WalError::NoSpace { .. }) if self.give_up_reserve() => {
                self.wal.append(kind, &[&self.scratch, payload])?
            }
            other => other?,
        };
        self.dirty_since.get_or_insert_with(Stopwatch::start);
        Ok(at)
    }

    /// Appends a new invocation. It never uses the reserve.
    fn append_new(&mut self, payload: &[u8]) -> Result<RecordRef, JournalError> {
        self.is_short = self.is_short && self.reserve.is_short();
        if self.is_short {
            return Err(JournalError::Reserved { bytes: self.reserve.bytes() });
        }
        let at = self.wal.append(kind::ENQUEUED, &[&self.scratch, payload])?;
        self.dirty_since.get_or_insert_with(Stopwatch::start);
        Ok(at)
    }

    pub(super) fn give_up_reserve(&mut self) -> bool {
        let given_up = self.reserve.give_up();
        self.is_short |= given_up;
        given_up
    }

    /// Sees to it that the end of one more attempt can be written, whatever happens to the disk.
    fn make_room_for_ends(&mut self) -> Result<(), JournalError> {
        let bytes = ROOM_FOR_AN_END * (self.schedule.running() + 2);
        match self.wal.reserve(bytes) {
            Err(WalError::NoSpace { .. }) if self.give_up_reserve() => Ok(self.wal.reserve(bytes)?),
            other => Ok(other?),
        }
    }

    /// The sizes of a log that is created while the disk is full.
    pub(super) fn modest_log(&self) -> Options {
        modest(self.options.log)
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

    /// Takes an invocation in whose record `append` writes; it finds all but the payload in `scratch`.
    fn take_in(
        &mut self,
        invocation: Invocation,
        payload: &[u8],
        append: impl FnOnce(&mut Self, &[u8]) -> Result<RecordRef, JournalError>,
    ) -> Result<Enqueued, JournalError> {
        if self.schedule.knows(&invocation.id, invocation.replays) {
            return Ok(Enqueued::Known);
        }
        self.scratch.clear();
        invocation.encode(&mut self.scratch);
        let at = append(self, payload)?;
        let place = inline(payload).unwrap_or(Payload::InLog(at, kind::ENQUEUED));
        Ok(self.schedule.insert(Entry::new(invocation, place), clock::moment()))
    }

    /// Copies what is live in the oldest segment forward, then drops it. Records that end an
    /// invocation are always younger than those they end, so dropping from the old end never
    /// brings one back.
    fn drop_oldest_segment(&mut self, sequence: u32) -> Result<(), JournalError> {
        if !self.schedule.is_empty() {
            let ids = self.ids_in_segment(sequence)?;
            if self.is_short && !self.has_room_to_copy(&ids) {
                self.no_room = Some(Stopwatch::start());
                return Ok(());
            }
            for id in ids {
                self.copy_forward(id)?;
            }
            self.sync()?;
        }
        self.wal.drop_oldest()?;
        Ok(())
    }

    /// Whether what lives of these can be copied forward as a whole; a part would only use up room.
    fn has_room_to_copy(&mut self, ids: &[InvocationId]) -> bool {
        let live: Vec<_> = ids.iter().filter_map(|id| self.schedule.get(id)).collect();
        let needed = sum_of_records(&mut self.scratch, live.into_iter());
        has_room(self, needed)
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
        ids.sort_unstable();
        ids.dedup();
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

fn modest(log: Options) -> Options {
    Options { extend_bytes: log.extend_bytes.min(MODEST_EXTENSION_BYTES), ..log }
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
        self.take_in(invocation, payload, Self::append_new)
    }

    fn follow_up(&mut self, invocation: Invocation, payload: &[u8]) -> Result<Enqueued, JournalError> {
        self.take_in(invocation, payload, |journal, payload| journal.append(kind::ENQUEUED, payload))
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
            Some(Payload::InLog(at, kind)) => {
                let (at, kind) = (*at, *kind);
                let body = self.wal.read(at)?;
                payload_in(kind, &body, at).map(Arc::from)
            }
            None => Err(JournalError::Unknown(*id)),
        }
    }

    fn started(&mut self, id: InvocationId, started: Started) -> Result<(), JournalError> {
        self.make_room_for_ends()?;
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
        self.schedule.retry(id, due, attempt, clock::moment());
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

    fn postpone(&mut self, id: InvocationId, delay: Millis) -> Result<(), JournalError> {
        self.schedule.postpone(id, delay, clock::moment());
        // Written down, so that everybody sees what it waits for, and the next owner too.
        match self.copy_forward(id) {
            Err(error) if error.is_no_space() => Ok(()),
            other => other,
        }
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        Ok(self.wal.flush()?)
    }

    fn begin_commit(&mut self) -> Result<Option<PendingSync>, JournalError> {
        let waited = self.dirty_since.map(Stopwatch::elapsed).unwrap_or_default();
        let syncs = match self.options.durability {
            Durability::Always => true,
            Durability::Interval(longest) => waited >= longest,
            Durability::Never => false,
        };
        if !syncs {
            self.flush()?;
            return Ok(None);
        }
        let slow = self.wal.begin_sync()?;
        // What is appended from now on waits anew. Should this sync fail, nothing more is ever written.
        self.dirty_since = None;
        Ok(slow)
    }

    fn finish_commit(&mut self, outcome: SyncOutcome) -> Result<(), JournalError> {
        let _proof = self.wal.finish_sync(outcome)?;
        Ok(())
    }

    fn left_alone(&self) -> Vec<String> {
        self.left_alone.values().map(|left| left.why.clone()).collect()
    }

    fn is_dirty(&self) -> bool {
        self.dirty_since.is_some() && self.options.durability != Durability::Never
    }

    fn until_due(&self, now: Timestamp) -> Option<Millis> {
        self.schedule.until_due(clock::at(now))
    }

    fn counts(&self) -> Counts {
        self.schedule.counts()
    }

    fn adopt(&mut self, now: Timestamp, replayed: &mut ReplayHook<'_>) -> Result<Adopted, JournalError> {
        super::adopt::adopt_free_logs(self, now, replayed)
    }

    fn hold(&mut self, id: InvocationId) {
        self.schedule.hold(id);
    }

    fn hand_over(&mut self, limit: usize) -> Result<usize, JournalError> {
        super::hand_over::hand_over(self, limit)
    }

    fn compact(&mut self) -> Result<(), JournalError> {
        self.reserve.keep();
        self.is_short = self.reserve.is_short();
        // What is dead is worth nothing on a disk that is full.
        let slack = if self.is_short { MODEST_EXTENSION_BYTES } else { 2 * self.options.log.segment_bytes };
        let waits = self.is_short && self.no_room.is_some_and(|since| since.elapsed() < NO_ROOM_PAUSE);
        if waits || self.wal.total_bytes() <= 2 * self.schedule.live_bytes() + slack {
            return Ok(());
        }
        let compacted = match self.wal.oldest_sealed() {
            Some(sequence) => self.drop_oldest_segment(sequence),
            None if self.is_short => self.wal.rotate().map_err(JournalError::from),
            None => Ok(()),
        };
        match compacted {
            Err(error) if error.is_no_space() => Ok(()),
            other => other,
        }
    }

    fn close(self: Box<Self>) -> Result<(), JournalError> {
        if self.schedule.is_empty() { Ok(self.wal.delete()?) } else { Ok(self.wal.close()?) }
    }
}
