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
//! a lock file that names B. So a void log is deleted by others only after its adopter is gone, as they see
//! it while they hold A: what they saw before may be older than B.
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
use wasmq_wal::{
    Claim as LogClaim, Damage, DamageReason, Orphan, RECORD_HEADER_BYTES, Record, ScanReport, WalId, WalListing,
};

use super::disk::{DiskJournal, NO_ROOM_PAUSE, payload_in};
use super::hand_over::{is_for_others, pending_from, settle_pending};
use super::schedule::inline;
use super::take_over::{has_room_for_copies, take_over};
use super::{Adopted, Enqueued, JournalError, Payload, ReplayHook};
use crate::causes::error_chain;
use crate::clock::Stopwatch;

/// How long one call adopts before it lets the worker do something else.
const AT_A_TIME: Duration = Duration::from_millis(100);

/// How the lock file of a worker begins. Nobody else hands work over.
pub(crate) const WORKER: &str = "worker";

/// How long a log that cannot be taken over is not tried again.
const LEFT_ALONE: Duration = Duration::from_secs(5);

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

/// A record that passed its checksum and still cannot be applied.
enum Odd {
    /// A later version wrote it, so the log is of that version.
    Newer,
    /// Its body is not what its kind promises.
    Unclear(DamageReason),
}

/// Applies one record to a ledger that keeps small payloads and remembers where large ones are.
fn apply(ledger: &mut Ledger<Payload>, record: &Record<'_>) -> Result<(), Odd> {
    let kind = record.kind;
    let event = match event::decode(kind, record.body) {
        Ok(Some(event)) => event,
        Ok(None) => return Err(Odd::Newer),
        Err(error) => {
            let what = format!("a record of kind {kind} cannot be understood: {error}");
            return Err(Odd::Unclear(DamageReason::Content(what)));
        }
    };
    ledger.apply(event, |payload| inline(payload).unwrap_or(Payload::InLog(record.at, kind)));
    Ok(())
}

/// Applies the records of a log one by one and collects those that nothing can be made of as damage.
pub(super) struct Replay<'d> {
    dir: &'d Path,
    id: WalId,
    pub(super) ledger: Ledger<Payload>,
    damaged: Vec<Damage>,
    /// The first record that only a later version knows.
    pub(super) newer: Option<JournalError>,
}

impl<'d> Replay<'d> {
    pub(super) fn new(dir: &'d Path, id: WalId) -> Self {
        Self { dir, id, ledger: Ledger::default(), damaged: Vec::new(), newer: None }
    }

    pub(super) fn visit(&mut self, record: &Record<'_>) -> ControlFlow<()> {
        if let Err(odd) = apply(&mut self.ledger, record) {
            let path = self.dir.join(wasmq_wal::segment_file_name(self.id, record.at.segment));
            let offset = record.at.offset.saturating_sub(RECORD_HEADER_BYTES);
            match odd {
                Odd::Unclear(reason) => {
                    self.damaged.push(Damage { path, offset, bytes: record.at.stored_bytes(), reason });
                }
                Odd::Newer => {
                    let (kind, known) = (record.kind, event::kind::LAST);
                    self.newer.get_or_insert(JournalError::NewerRecord { path, kind, offset, known });
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The ledger, and the report of the scan with what nothing could be made of.
    pub(super) fn end(self, mut report: ScanReport) -> (Ledger<Payload>, ScanReport) {
        report.damaged.extend(self.damaged);
        (self.ledger, report)
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
    journal.left_alone.retain(|id, _| known.contains(id));
    let (mut waiting, mut taken) = (false, false);
    for log in &listing.wals {
        let is_left = journal.left_alone.get(&log.id).is_some_and(LeftAlone::is_recent);
        if log.id == journal.id || is_for_others(journal, log.id) || waits_for_room(journal, log) || is_left {
            continue;
        }
        if taken && since.elapsed() > AT_A_TIME {
            adopted.more = true;
            return Ok(false);
        }
        match adopt_listed(journal, log, &known, now, replayed, adopted)? {
            Step::Taken => taken = true,
            Step::Waits => waiting = true,
            Step::Left => {}
        }
    }
    Ok(waiting && taken)
}

/// What came of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It was taken over.
    Taken,
    /// Another log has to be taken over first.
    Waits,
    /// It has an owner, or cannot be taken over now.
    Left,
}

/// Takes over one of the logs that a listing showed, if that is possible.
pub(super) fn adopt_listed(
    journal: &mut DiskJournal,
    log: &WalListing,
    known: &HashSet<WalId>,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
    adopted: &mut Adopted,
) -> Result<Step, JournalError> {
    let text = lock_text(journal.disk.as_ref(), &journal.dir, log.id).unwrap_or_default();
    if is_evidence(journal, &text, known) || awaits_its_source(&text, known) {
        return Ok(Step::Waits);
    }
    match wasmq_wal::claim_listed(Arc::clone(&journal.disk), &journal.dir, log) {
        Ok(LogClaim::Claimed(orphan)) => {
            let taken = adopt_one(journal, orphan, log.bytes, now, replayed, adopted)?;
            return Ok(if taken { Step::Taken } else { Step::Left });
        }
        Ok(LogClaim::Held | LogClaim::Gone) => _ = journal.left_alone.remove(&log.id),
        Err(error) => leave(journal, log.id, error_chain(&error), Some(Stopwatch::start())),
    }
    Ok(Step::Left)
}

/// Why a log could not be taken over or read. It is tried again, but not all the time, and told of once.
#[derive(Debug)]
pub(super) struct LeftAlone {
    pub(super) why: String,
    /// Absent when it is tried again at the next look.
    since: Option<Stopwatch>,
}

impl LeftAlone {
    pub(super) fn is_recent(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < LEFT_ALONE)
    }
}

fn leave(journal: &mut DiskJournal, log: WalId, why: String, since: Option<Stopwatch>) {
    if journal.left_alone.get(&log).is_none_or(|left| left.why != why) {
        tracing::error!(%log, why, "a log cannot be taken over and was left where it is; `wasmq store verify` says more");
    }
    journal.left_alone.insert(log, LeftAlone { why, since });
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

/// The same two questions about a log that was claimed. The listing is made anew: the log of an adopter, and
/// the words in a lock file, can be younger than the listing that showed the log.
fn is_decided_elsewhere(journal: &DiskJournal, lock_text: &str) -> Result<bool, JournalError> {
    if adopter_of(lock_text).is_none() && pending_from(lock_text).is_none() {
        return Ok(false);
    }
    let listing = wasmq_wal::list(journal.disk.as_ref(), &journal.dir)?;
    let known = listing.wals.iter().map(|log| log.id).collect();
    Ok(is_evidence(journal, lock_text, &known) || awaits_its_source(lock_text, &known))
}

fn adopt_one(
    journal: &mut DiskJournal,
    mut orphan: Orphan,
    bytes: u64,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
    adopted: &mut Adopted,
) -> Result<bool, JournalError> {
    if is_decided_elsewhere(journal, orphan.lock_text())? {
        return Ok(false);
    }
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
            leave(journal, orphan.id(), error_chain(&error), Some(Stopwatch::start()));
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
        leave(journal, orphan.id(), format!("its replays wait for the dead letter queue: {error}"), None);
        return Ok(false);
    }
    if !has_room_for_copies(journal, &entries, bytes) {
        let taken = is_plain && take_over(journal, orphan, entries, now, adopted)?;
        adopted.logs += u32::from(taken);
        journal.no_room = Some(Stopwatch::start());
        return Ok(taken);
    }
    adopted.logs += 1;
    journal.left_alone.remove(&orphan.id());
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
        tracing::warn!(log = %id, error = error_chain(&error), "a log that has been taken over could not be deleted; that is tried again");
    }
}

/// Reads a whole log. One with a record of a later version is that version's and is refused; a record that
/// cannot be understood counts as damage. Copies in it that were never confirmed count when the log they came from says
/// that it was adopted by this one.
pub(super) fn replay(disk: &Arc<dyn Disk>, dir: &Path, orphan: &Orphan) -> Result<Replayed, JournalError> {
    let mut replay = Replay::new(dir, orphan.id());
    let report = orphan.scan(&mut |record: Record<'_>| replay.visit(&record))?;
    if let Some(newer) = replay.newer.take() {
        return Err(newer);
    }
    let (mut ledger, report) = replay.end(report);
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
        let kept = kept.map_or_else(|error| error_chain(&error), |path| path.display().to_string());
        tracing::warn!(log = %orphan.id(), offset = torn.offset, bytes = torn.bytes, kept,
            "the end of a log is no whole record, as a cut write leaves it or damage; it was set aside and the rest was read");
    }
    for damage in &report.damaged {
        if !damage.reason.has_bytes() {
            tracing::error!(%damage, "a part of a log is gone; the rest was read");
            continue;
        }
        match wasmq_wal::quarantine(journal.disk.as_ref(), &damage.path, damage.offset, damage.bytes) {
            Ok(kept) => {
                tracing::error!(%damage, kept = %kept.display(), "a damaged place in a log was set aside; the rest was read")
            }
            Err(error) => {
                kept_all &= !error.is_no_space();
                tracing::error!(%damage, error = error_chain(&error), "a damaged place in a log could not be set aside");
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
                tracing::error!(id = %entry.invocation.id, error = error_chain(&error), "the payload of an invocation cannot be read; its damaged record was set aside")
            }
        }
    }
    // Also without copies: what was known here already may be known from a record that is not durable yet,
    // and the other log, which has it durably, is about to go.
    journal.sync()?;
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
        if journal.schedule.insert(entry, crate::clock::at(now)) == Enqueued::Taken {
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
