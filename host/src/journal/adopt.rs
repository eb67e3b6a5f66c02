//! Taking over logs that nobody owns: crash recovery, out-of-band enqueue and out-of-band retry
//! are all this one mechanism.
//!
//! The steps of one adoption of log A by log B, and what a crash after each leaves behind:
//!
//! 1. Lock A, read it.
//! 2. Append A's live entries to B as copies, sync B. The copies are not valid yet, A is whole.
//! 3. Append the line `adopted-by B` to A's lock file and sync it. From here on A is void and the
//!    copies are valid.
//! 4. Append `ADOPTED A` to B, sync.
//! 5. Delete A, its lock file last.
//!
//! Whoever reads A first looks for the line; whoever reads B without an `ADOPTED` record looks for
//! a lock file that names B. So a void log is deleted by others only after its adopter is gone.
//!
//! On a full disk there may be no room for copies. A worker whose own log holds nothing that lives then
//! goes on in A itself (`take_over.rs`); otherwise A waits until there is room.
//!
//! Invariants: no invocation is lost or doubled by a crash between any two steps; a log that cannot
//! be read is left where it is and reported; damaged places are kept beside it before it goes.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmq_core::state::{Entry, Ledger};
use wasmq_core::{InvocationId, Timestamp, event};
use wasmq_wal::disk::{Disk, OpenMode};
use wasmq_wal::{Claim as LogClaim, Orphan, Record, RecordRef, ScanReport, WalId, WalListing};

use super::disk::{DiskJournal, NO_ROOM_PAUSE, payload_in};
use super::hand_over::{is_for_others, pending_from, settle_pending};
use super::schedule::inline;
use super::take_over::{has_room_for_copies, take_over};
use super::{Adopted, Enqueued, JournalError, Payload, ReplayHook};
use crate::clock::Stopwatch;

/// How long one call adopts before it lets the worker do something else.
const AT_A_TIME: Duration = Duration::from_millis(100);

/// How the lock file of a worker begins. Nobody else hands work over.
pub(crate) const WORKER: &str = "worker";

/// Logs that are as long as this wait for a moment when they found no room, in bytes.
const NO_ROOM_FROM_BYTES: u64 = 64 << 10;

/// The word in a lock file that makes its log void.
const ADOPTED_BY: &str = "adopted-by ";

/// Who has adopted a log, by the text of its lock file.
pub(super) fn adopter_of(lock_text: &str) -> Option<WalId> {
    lock_text.lines().find_map(|line| line.strip_prefix(ADOPTED_BY)?.parse().ok())
}

/// What the lock file of a log says, read without the lock.
pub(super) fn lock_text(disk: &dyn Disk, dir: &Path, id: WalId) -> Option<String> {
    let file = disk.open(&dir.join(wasmq_wal::lock_file_name(id)), OpenMode::Read).ok()?;
    Some(String::from_utf8_lossy(&file.read_all().ok()?).into_owned())
}

/// A log as its records tell it.
pub(super) struct Replayed {
    pub(super) ledger: Ledger<Payload>,
    pub(super) report: ScanReport,
    /// It is whole and its records alone say what lives in it.
    pub(super) is_plain: bool,
}

/// Applies one record to a ledger that keeps small payloads and remembers where large ones are.
pub(super) fn apply(ledger: &mut Ledger<Payload>, record: &Record<'_>) {
    match event::decode(record.kind, record.body) {
        Ok(Some(event)) => {
            ledger.apply(event, |payload| inline(payload).unwrap_or(Payload::InLog(record.at, record.kind)));
        }
        Ok(None) => tracing::warn!(kind = record.kind, "a record of a later version was skipped"),
        Err(error) => {
            let RecordRef { segment, offset, .. } = record.at;
            tracing::error!(kind = record.kind, segment, offset, %error, "a record cannot be understood and was skipped");
        }
    }
}

/// Adopts every log in the journal's directory whose lock is free, for a moment at a time: what was
/// adopted should start before a thousand further logs are.
pub(super) fn adopt_free_logs(
    journal: &mut DiskJournal,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
) -> Result<Adopted, JournalError> {
    let mut adopted = Adopted::default();
    let since = Stopwatch::start();
    while adopt_pass(journal, now, replayed, since, &mut adopted)? {}
    Ok(adopted)
}

/// One look at the directory. Returns whether another can do more, because a void log waited for the
/// one that had adopted it.
fn adopt_pass(
    journal: &mut DiskJournal,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
    since: Stopwatch,
    adopted: &mut Adopted,
) -> Result<bool, JournalError> {
    let listing = wasmq_wal::list(journal.disk.as_ref(), &journal.dir)?;
    let known: HashSet<WalId> = listing.wals.iter().map(|log| log.id).collect();
    let (mut waiting, mut taken) = (false, false);
    for log in &listing.wals {
        if log.id == journal.id || is_for_others(journal, log.id) || waits_for_room(journal, log) {
            continue;
        }
        if taken && since.elapsed() > AT_A_TIME {
            adopted.more = true;
            return Ok(false);
        }
        let text = lock_text(journal.disk.as_ref(), &journal.dir, log.id).unwrap_or_default();
        if is_evidence(journal, &text, &known) || awaits_its_source(&text, &known) {
            waiting = true;
            continue;
        }
        match wasmq_wal::claim_listed(Arc::clone(&journal.disk), &journal.dir, log) {
            Ok(LogClaim::Claimed(orphan)) => taken |= adopt_one(journal, orphan, log.bytes, now, replayed, adopted)?,
            Ok(LogClaim::Held | LogClaim::Gone) => {}
            Err(error) => tracing::error!(log = %log.id, %error, "a log cannot be taken over and was left alone"),
        }
    }
    Ok(waiting && taken)
}

fn waits_for_room(journal: &DiskJournal, log: &WalListing) -> bool {
    log.bytes >= NO_ROOM_FROM_BYTES && journal.no_room.is_some_and(|since| since.elapsed() < NO_ROOM_PAUSE)
}

/// Whether the lock file of a void log is still needed: it says that the copies in another log, which
/// is still there, are valid.
fn is_evidence(journal: &DiskJournal, lock_text: &str, known: &HashSet<WalId>) -> bool {
    adopter_of(lock_text).is_some_and(|adopter| adopter != journal.id && known.contains(&adopter))
}

/// Whether a log was written by a hand-over that is not complete, and its source, which decides, is
/// still there.
fn awaits_its_source(lock_text: &str, known: &HashSet<WalId>) -> bool {
    pending_from(lock_text).is_some_and(|source| known.contains(&source))
}

fn adopt_one(
    journal: &mut DiskJournal,
    mut orphan: Orphan,
    bytes: u64,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
    adopted: &mut Adopted,
) -> Result<bool, JournalError> {
    if adopter_of(orphan.lock_text()).is_some() {
        delete(orphan);
        return Ok(true);
    }
    if may_have_handed_over(orphan.lock_text()) && !settle_pending(&journal.disk, &journal.dir, orphan.id())? {
        return Ok(false);
    }
    let Replayed { ledger, report, is_plain } = match replay(&journal.disk, &journal.dir, &orphan) {
        Ok(replayed) => replayed,
        Err(error) => {
            tracing::error!(log = %orphan.id(), %error, "a log cannot be read and was left where it is");
            return Ok(false);
        }
    };
    let kept =
        keep_damage(journal, &orphan, &report) || (journal.give_up_reserve() && keep_damage(journal, &orphan, &report));
    if !kept {
        return Ok(false);
    }
    let entries = ledger.into_recovered(now);
    let replays: Vec<_> = entries
        .iter()
        .filter(|entry| entry.invocation.replays > 0)
        .map(|entry| (entry.invocation.id, entry.invocation.replays))
        .collect();
    if !replays.is_empty()
        && let Err(error) = replayed(&replays)
    {
        tracing::error!(log = %orphan.id(), error, "a log with replays waits until the dead letter queue can be written");
        return Ok(false);
    }
    if !has_room_for_copies(journal, &entries, bytes) {
        let taken = is_plain && take_over(journal, orphan, entries, now, adopted)?;
        adopted.logs += u32::from(taken);
        journal.no_room = Some(Stopwatch::start());
        return Ok(taken);
    }
    adopted.logs += 1;
    copy_and_commit(journal, &mut orphan, entries, now, adopted)?;
    delete(orphan);
    Ok(true)
}

/// Whether a log was ever written by a worker: nobody else hands work over.
pub(super) fn may_have_handed_over(lock_text: &str) -> bool {
    lock_text.lines().any(|line| line.starts_with(WORKER))
}

fn delete(orphan: Orphan) {
    let id = orphan.id();
    if let Err(error) = orphan.delete() {
        tracing::warn!(log = %id, %error, "a log that has been taken over could not be deleted; that is tried again");
    }
}

/// Reads a whole log. Copies in it that were never confirmed count when the log they came from says
/// that it was adopted by this one.
pub(super) fn replay(disk: &Arc<dyn Disk>, dir: &Path, orphan: &Orphan) -> Result<Replayed, JournalError> {
    let mut ledger = Ledger::default();
    let report = orphan.scan(&mut |record: Record<'_>| {
        apply(&mut ledger, &record);
        ControlFlow::Continue(())
    })?;
    let is_plain = !ledger.has_open_copies() && report.damaged.is_empty();
    if ledger.has_open_copies() && is_named_as_adopter(disk.as_ref(), dir, orphan.id())? {
        ledger.accept_copies();
    }
    Ok(Replayed { ledger, report, is_plain })
}

fn is_named_as_adopter(disk: &dyn Disk, dir: &Path, id: WalId) -> Result<bool, JournalError> {
    let listing = wasmq_wal::list(disk, dir)?;
    let is_named = |log: &WalListing| lock_text(disk, dir, log.id).is_some_and(|text| adopter_of(&text) == Some(id));
    Ok(listing.wals.iter().any(is_named))
}

/// Sets damaged places aside. Returns whether the log may go: not if all that was missing is space.
fn keep_damage(journal: &DiskJournal, orphan: &Orphan, report: &ScanReport) -> bool {
    let mut kept_all = true;
    if let Some(torn) = &report.torn {
        let kept = wasmq_wal::quarantine(journal.disk.as_ref(), &torn.path, torn.offset, torn.bytes);
        kept_all &= !matches!(&kept, Err(error) if error.is_no_space());
        tracing::warn!(log = %orphan.id(), offset = torn.offset, bytes = torn.bytes, ?kept,
            "the end of a log is no whole record, as a cut write leaves it or damage; it was set aside and the rest was read");
    }
    for damage in &report.damaged {
        match wasmq_wal::quarantine(journal.disk.as_ref(), &damage.path, damage.offset, damage.bytes) {
            Ok(kept) => {
                tracing::error!(%damage, kept = ?kept, "a damaged place in a log was set aside; the rest was read")
            }
            Err(error) => {
                kept_all &= !error.is_no_space();
                tracing::error!(%damage, %error, "a damaged place in a log could not be set aside");
            }
        }
    }
    kept_all
}

/// Steps 2 to 4.
fn copy_and_commit(
    journal: &mut DiskJournal,
    orphan: &mut Orphan,
    entries: Vec<Entry<Payload>>,
    now: Timestamp,
    adopted: &mut Adopted,
) -> Result<(), JournalError> {
    let mut copies = Vec::with_capacity(entries.len());
    for entry in entries {
        if journal.schedule.knows(&entry.invocation.id, entry.invocation.replays) {
            continue;
        }
        match payload_of(journal, orphan, &entry) {
            Ok(payload) => {
                let place = journal.append_entry(event::kind::COPIED, &entry, &payload)?;
                copies.push(entry.with_payload(place));
            }
            Err(error) => {
                tracing::error!(id = %entry.invocation.id, %error, "the payload of an invocation cannot be read; its damaged record was set aside")
            }
        }
    }
    if !copies.is_empty() {
        journal.sync()?;
    }
    orphan.mark(&format!("{ADOPTED_BY}{}", journal.id))?;
    if !copies.is_empty() {
        journal.append_adopted(orphan.id())?;
        journal.sync()?;
    }
    take_in(journal, copies, now, adopted);
    Ok(())
}

pub(super) fn take_in(journal: &mut DiskJournal, copies: Vec<Entry<Payload>>, now: Timestamp, adopted: &mut Adopted) {
    for entry in copies {
        let id: InvocationId = entry.invocation.id;
        let suspect = entry.suspicion != wasmq_core::state::Suspicion::None;
        if journal.schedule.insert(entry, now) == Enqueued::Taken {
            adopted.invocations += 1;
            if suspect {
                adopted.suspects.push(id);
            }
        }
    }
}

pub(super) fn payload_of(
    journal: &DiskJournal,
    orphan: &Orphan,
    entry: &Entry<Payload>,
) -> Result<Arc<[u8]>, JournalError> {
    match &entry.payload {
        Payload::Inline(bytes) => Ok(Arc::clone(bytes)),
        Payload::InLog(at, kind) => {
            let body = wasmq_wal::read(journal.disk.as_ref(), &journal.dir, orphan.id(), *at)?;
            payload_in(*kind, &body, *at).map(Arc::from)
        }
    }
}
