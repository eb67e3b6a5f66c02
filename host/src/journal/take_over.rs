//! Going on in the log of a dead owner where it lies, when a full disk has no room for copies of it.
//!
//! The steps for a worker with the log B that takes over the log A, and what a crash after each leaves:
//!
//! 1. Lock A, read it. Nothing lives in B.
//! 2. Reopen A: its torn tail is cut off, a new segment is begun. A holds what it held.
//! 3. Append the suspects to A as they are now, sync. A holds the same; they stay suspects.
//! 4. Add the worker's line to A's lock file. A is free again after a crash, as after 2.
//! 5. Delete B. From here on the worker owns A as if it had created it.
//!
//! What ends is then recorded behind what it ends, and compaction drops A's segments from the old end, so
//! the disk gets emptier with every one.
//!
//! Invariants: nothing is copied, so nothing can be doubled; only a log that is whole and has no copies
//! that wait for a decision is taken over, because a later adoption would decide on those too.

use wasmq_core::Timestamp;
use wasmq_core::event;
use wasmq_core::state::{Entry, Suspicion};
use wasmq_wal::{Orphan, RECORD_HEADER_BYTES, Wal};

use super::adopt::{payload_of, take_in};
use super::disk::DiskJournal;
use super::{Adopted, JournalError, Payload};
use crate::causes::error_chain;

/// What a log needs beside its records, in bytes: blocks that are not full, zeros ahead.
const MARGIN_BYTES: u64 = 64 << 10;

/// Whether copies of these entries fit on the disk, if need be with the reserve. `bytes` is the length of
/// the log they are from.
pub(super) fn has_room_for_copies(journal: &mut DiskJournal, entries: &[Entry<Payload>], bytes: u64) -> bool {
    // Most of the time there is room for everything, and nothing has to be counted.
    if has_room(journal, bytes.saturating_mul(2).saturating_add(MARGIN_BYTES)) {
        return true;
    }
    let needed = sum_of_records(&mut journal.scratch, entries.iter());
    has_room(journal, needed) || can_free(journal, needed.saturating_sub(journal.wal.room()))
}

/// Whether records of so many bytes fit. A disk that cannot say what is free is asked by writing.
pub(super) fn has_room(journal: &DiskJournal, needed: u64) -> bool {
    is_free(journal, needed.saturating_sub(journal.wal.room()))
}

fn is_free(journal: &DiskJournal, needed: u64) -> bool {
    needed == 0 || journal.reserve.free_bytes().map_or(true, |free| needed <= free)
}

/// Whether so many bytes are free, if need be without the reserve, which is not given up for nothing.
fn can_free(journal: &mut DiskJournal, needed: u64) -> bool {
    is_free(journal, needed)
        || (is_free(journal, needed.saturating_sub(journal.reserve.bytes()))
            && journal.give_up_reserve()
            && is_free(journal, needed))
}

/// What the records of entries take, with a margin; 0 for none.
pub(super) fn sum_of_records<'a>(scratch: &mut Vec<u8>, entries: impl Iterator<Item = &'a Entry<Payload>>) -> u64 {
    let record = |entry: &Entry<Payload>| {
        scratch.clear();
        event::encode_entry(scratch, entry);
        let payload = match &entry.payload {
            Payload::Inline(bytes) => bytes.len() as u64,
            Payload::InLog(at, _) => u64::from(at.len),
        };
        RECORD_HEADER_BYTES + scratch.len() as u64 + payload
    };
    match entries.map(record).sum() {
        0 => 0,
        sum => sum + MARGIN_BYTES,
    }
}

/// Steps 2 to 5. Returns whether the log is ours now; if not, it is as it was.
pub(super) fn take_over(
    journal: &mut DiskJournal,
    orphan: Orphan,
    entries: Vec<Entry<Payload>>,
    now: Timestamp,
    adopted: &mut Adopted,
) -> Result<bool, JournalError> {
    let log = orphan.id();
    if !journal.schedule.is_empty() {
        tracing::warn!(%log, "a log waits until there is room on the disk or a worker without work");
        return Ok(false);
    }
    let suspects: Vec<_> = entries.iter().filter(|entry| entry.suspicion != Suspicion::None).collect();
    // Every try leaves a segment, so none is begun that would break off.
    let needed = MARGIN_BYTES + sum_of_records(&mut journal.scratch, suspects.iter().copied());
    if !can_free(journal, needed) {
        tracing::warn!(%log, "a log waits until there is room on the disk");
        return Ok(false);
    }
    // Nothing that has ended in the old log may come back if that cannot be deleted.
    journal.sync()?;
    let wal = match go_on_in(journal, orphan, &suspects) {
        Ok(wal) => wal,
        Err(error) => {
            tracing::warn!(%log, error = error_chain(&error), "a log could not be taken over and was left as it was");
            return Ok(false);
        }
    };
    tracing::warn!(%log, invocations = entries.len(), "there is no room for a copy of a log; this worker goes on in it");
    exchange(journal, wal);
    take_in(journal, entries, now, adopted);
    Ok(true)
}

/// Steps 2 to 4.
fn go_on_in(journal: &mut DiskJournal, orphan: Orphan, suspects: &[&Entry<Payload>]) -> Result<Wal, JournalError> {
    let payloads = suspects.iter().map(|entry| payload_of(journal, &orphan, entry)).collect::<Result<Vec<_>, _>>()?;
    let mut wal = orphan.reopen(journal.modest_log())?;
    for (entry, payload) in suspects.iter().zip(payloads) {
        journal.scratch.clear();
        event::encode_entry(&mut journal.scratch, entry);
        wal.append(event::kind::SNAPSHOT, &[&journal.scratch, &payload])?;
    }
    let _proof = wal.sync()?;
    wal.mark(&journal.owner)?;
    Ok(wal)
}

/// Makes `wal` the log of the journal and deletes the one before, in which nothing lives.
fn exchange(journal: &mut DiskJournal, wal: Wal) {
    journal.id = wal.id();
    let before = std::mem::replace(&mut journal.wal, wal);
    let log = before.id();
    if let Err(error) = before.delete() {
        tracing::warn!(%log, error = error_chain(&error), "a log without live invocations could not be deleted; whoever finds it does that");
    }
}
