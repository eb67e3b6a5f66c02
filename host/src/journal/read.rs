//! Looking at all logs of a directory without owning any, and enqueueing from outside a worker.
//!
//! Invariant: reading takes no lock and changes nothing, so it works beside running workers; what it
//! returns was true at some moment during the call.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use wasmq_core::event::Outcome;
use wasmq_core::state::Entry;
use wasmq_core::{Invocation, InvocationId, event};
use wasmq_wal::disk::{Disk, LockAttempt};
use wasmq_wal::{
    Claim as LogClaim, Listing, Options, Orphan, Record, ScanReport, Stranger, StrangerKind, Wal, WalId, WalListing,
};

use super::adopt::{Replay, Replayed, adopter_of, lock_text, may_have_handed_over, replay};
use super::disk::{new_log_id, payload_in};
use super::hand_over::{pending_from, settle_pending};
use super::reserve::{RESERVE_BYTES, Reserve};
use super::{JournalError, Payload};

/// A live invocation as a reader sees it.
#[derive(Debug)]
pub struct LiveEntry {
    /// Its state.
    pub entry: Entry<Payload>,
    /// The log that holds it.
    pub log: WalId,
    /// Whether a process owns that log.
    pub owned: bool,
}

/// All live invocations of a directory at some moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By id; where two logs hold the same one, the state that went further.
    pub entries: HashMap<InvocationId, LiveEntry>,
    /// How many logs a process owns.
    pub owned_logs: u32,
    /// How many logs wait to be adopted.
    pub free_logs: u32,
    /// Damage and strangers found on the way, a sentence each.
    pub problems: Vec<String>,
}

/// How often a directory is read whose logs move meanwhile.
const MOST_LOOKS: usize = 8;

/// Which logs there are, and which of them count.
#[derive(Debug)]
struct Look {
    listing: Listing,
    /// Void logs, and who adopted each.
    adopters: HashMap<WalId, WalId>,
    /// Logs of hand-overs that are not decided yet.
    pending: HashSet<WalId>,
}

impl Look {
    fn take(disk: &dyn Disk, dir: &Path) -> Result<Self, JournalError> {
        let listing = wasmq_wal::list(disk, dir)?;
        let (mut adopters, mut pending) = (HashMap::new(), HashSet::new());
        for log in &listing.wals {
            let text = lock_text(disk, dir, log.id).unwrap_or_default();
            if let Some(adopter) = adopter_of(&text) {
                adopters.insert(log.id, adopter);
            }
            if pending_from(&text).is_some() {
                pending.insert(log.id);
            }
        }
        Ok(Self { listing, adopters, pending })
    }

    fn is_same(&self, other: &Self) -> bool {
        let ids = |look: &Self| look.listing.wals.iter().map(|log| log.id).collect::<HashSet<_>>();
        self.adopters == other.adopters && self.pending == other.pending && ids(self) == ids(other)
    }

    fn read(&self, disk: &Arc<dyn Disk>, dir: &Path) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.problems.extend(self.listing.strangers.iter().map(describe_stranger));
        snapshot.problems.extend(self.listing.quarantined.iter().map(|path| {
            let path = path.display();
            format!("{path} holds bytes of a damaged log that were set aside; look at them and remove the file")
        }));
        for log in &self.listing.wals {
            if !self.adopters.contains_key(&log.id) && !self.pending.contains(&log.id) {
                let named = self.adopters.values().any(|adopter| *adopter == log.id);
                read_one(disk, dir, log, named, &mut snapshot);
            }
        }
        snapshot
    }
}

/// Reads every log in `dir`. What moves from one log to another meanwhile could be missed in both, so the
/// logs are read again until none came, went or changed its standing; after a few times what was found
/// then is returned.
///
/// # Errors
/// When the directory cannot be listed. A log that cannot be read becomes a problem of the snapshot.
pub fn read_all(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Snapshot, JournalError> {
    let mut look = Look::take(disk.as_ref(), dir)?;
    for _ in 1..MOST_LOOKS {
        let snapshot = look.read(disk, dir);
        let after = Look::take(disk.as_ref(), dir)?;
        if look.is_same(&after) {
            return Ok(snapshot);
        }
        look = after;
    }
    Ok(look.read(disk, dir))
}

fn describe_stranger(stranger: &Stranger) -> String {
    let path = stranger.path.display();
    match stranger.kind {
        StrangerKind::OtherVersion(version) => {
            let known = wasmq_wal::FORMAT_VERSION;
            format!(
                "{path} has format {version}, this wasmq knows format {known}: it was not touched; use a wasmq that knows it"
            )
        }
        StrangerKind::NotAFile => format!("{path} has the name of a log but is not a file; it was not touched"),
        StrangerKind::BadName => format!("{path} looks like a log by its name but is none; it was not touched"),
    }
}

fn read_one(disk: &Arc<dyn Disk>, dir: &Path, log: &WalListing, named_as_adopter: bool, snapshot: &mut Snapshot) {
    let id = log.id;
    let lock_path = dir.join(wasmq_wal::lock_file_name(id));
    let owned = matches!(disk.try_lock_existing(&lock_path), Ok(LockAttempt::Held));
    if owned {
        snapshot.owned_logs += 1;
    } else {
        snapshot.free_logs += 1;
    }
    let listed: Vec<u32> = log.segments.iter().map(|segment| segment.sequence).collect();
    let mut replay = Replay::new(dir, id);
    let visit = &mut |record: Record<'_>| replay.visit(&record);
    let report = wasmq_wal::scan_listed(disk.as_ref(), dir, id, &listed, visit).unwrap_or_else(|error| {
        snapshot.problems.push(error.to_string());
        ScanReport::default()
    });
    snapshot.problems.extend(replay.newer.take().map(|newer| newer.to_string()));
    let (mut ledger, report) = replay.end(report);
    snapshot.problems.extend(report.damaged.iter().map(ToString::to_string));
    snapshot.problems.extend(report.torn.iter().filter(|_| !owned).map(|torn| {
        let (path, offset, bytes) = (torn.path.display(), torn.offset, torn.bytes);
        format!("{path}, offset {offset}, {bytes} bytes: no whole record, as a cut write leaves it or damage")
    }));
    if named_as_adopter {
        ledger.accept_copies();
    }
    for (invocation_id, entry) in ledger.into_entries() {
        let newer = snapshot.entries.get(&invocation_id).is_none_or(|known| progress(&known.entry) < progress(&entry));
        if newer {
            snapshot.entries.insert(invocation_id, LiveEntry { entry, log: id, owned });
        }
    }
}

fn progress(entry: &Entry<Payload>) -> (u32, u32) {
    (entry.invocation.replays, entry.attempts)
}

/// The payload of a live invocation that a snapshot found.
///
/// # Errors
/// When its log has moved on meanwhile or cannot be read.
pub fn read_payload(disk: &dyn Disk, dir: &Path, live: &LiveEntry) -> Result<Arc<[u8]>, JournalError> {
    match &live.entry.payload {
        Payload::Inline(bytes) => Ok(Arc::clone(bytes)),
        Payload::InLog(at, kind) => {
            let body = wasmq_wal::read(disk, dir, live.log, *at)?;
            payload_in(*kind, &body, *at).map(Arc::from)
        }
    }
}

/// A log written by a process that is no worker: it holds enqueues until a worker adopts it, which
/// no worker can while this value lives.
#[derive(Debug)]
pub struct OutsideLog {
    wal: Wal,
    id: WalId,
    scratch: Vec<u8>,
}

impl OutsideLog {
    /// Creates the log.
    ///
    /// # Errors
    /// When it cannot be created, or when the space that is left is kept for what is queued already.
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, owner: &str) -> Result<Self, JournalError> {
        if reserve_of(&disk, dir).is_short() {
            return Err(JournalError::Reserved { bytes: RESERVE_BYTES });
        }
        let id = new_log_id();
        let wal = Wal::create(disk, dir, id, owner, Options::short_lived())?;
        Ok(Self { wal, id, scratch: Vec::new() })
    }

    /// The id of the log.
    #[must_use]
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Appends an enqueue.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn enqueue(&mut self, invocation: &Invocation, payload: &[u8]) -> Result<(), JournalError> {
        self.scratch.clear();
        invocation.encode(&mut self.scratch);
        self.wal.append(event::kind::ENQUEUED, &[&self.scratch, payload])?;
        Ok(())
    }

    /// Appends an enqueue whose record is encoded already: an invocation and its payload.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, record: &[u8]) -> Result<(), JournalError> {
        self.wal.append(event::kind::ENQUEUED, &[record])?;
        Ok(())
    }

    /// Lets go of a log that failed, without another write. What it holds is adopted as far as it
    /// can be read.
    pub fn abandon(self) {
        drop(self.wal);
    }

    /// Makes everything appended durable.
    ///
    /// # Errors
    /// When it cannot be; nothing of it may be acknowledged then.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        let _proof = self.wal.sync()?;
        Ok(())
    }

    /// Lets go: from here on any worker may adopt the log.
    ///
    /// # Errors
    /// When the last changes cannot be made durable.
    pub fn let_go(self) -> Result<(), JournalError> {
        Ok(self.wal.close()?)
    }

    /// Deletes the log with everything in it, when nothing of it was acknowledged.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn discard(self) -> Result<(), JournalError> {
        Ok(self.wal.delete()?)
    }
}

/// Whether a log holds an invocation with at least so many replays; `None` when there is no such log.
///
/// # Errors
/// When the log is there but cannot be read.
pub fn log_holds_replay(
    disk: &dyn Disk,
    dir: &Path,
    log: &str,
    wanted: &[(InvocationId, u32)],
) -> Result<Option<Vec<InvocationId>>, JournalError> {
    let Ok(id) = log.parse::<WalId>() else { return Ok(None) };
    let listing = wasmq_wal::list(disk, dir)?;
    if !listing.wals.iter().any(|known| known.id == id) {
        return Ok(None);
    }
    let mut found = Vec::new();
    wasmq_wal::scan(disk, dir, id, &mut |record: Record<'_>| {
        if let Ok(Some(wasmq_core::Event::Enqueued(invocation, _))) = event::decode(record.kind, record.body) {
            let hit = wanted.iter().any(|(id, replays)| *id == invocation.id && invocation.replays > *replays);
            if hit {
                found.push(invocation.id);
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(Some(found))
}

/// Ends an invocation as cancelled in a log that nobody owns. Returns whether such a log held it. A log in
/// which nothing else lives is deleted, which needs no space.
///
/// # Errors
/// When the log is there but cannot be written.
pub fn end_in_free_log(disk: &Arc<dyn Disk>, dir: &Path, id: InvocationId) -> Result<bool, JournalError> {
    let snapshot = read_all(disk, dir)?;
    let Some(log) = snapshot.entries.get(&id).map(|live| live.log) else { return Ok(false) };
    let LogClaim::Claimed(orphan) = wasmq_wal::claim(Arc::clone(disk), dir, log)? else { return Ok(false) };
    if adopter_of(orphan.lock_text()).is_some() {
        return Ok(false);
    }
    if may_have_handed_over(orphan.lock_text()) && !settle_pending(disk, dir, log)? {
        return Err(JournalError::Unclaimed { log });
    }
    let Replayed { ledger, report, .. } = replay(disk, dir, &orphan)?;
    if ledger.get(&id).is_none() {
        return Ok(false);
    }
    if ledger.len() == 1 && report.damaged.is_empty() && report.torn.is_none() {
        orphan.delete()?;
        return Ok(true);
    }
    let mut wal = reopen(disk, dir, orphan)?;
    let mut body = Vec::new();
    event::encode_done(&mut body, id, Outcome::Cancelled);
    wal.append(event::kind::DONE, &[&body])?;
    let _proof = wal.sync()?;
    wal.close()?;
    Ok(true)
}

/// Makes a free log ours to write, with the help of the reserve if the disk is full.
fn reopen(disk: &Arc<dyn Disk>, dir: &Path, orphan: Orphan) -> Result<Wal, JournalError> {
    let id = orphan.id();
    match orphan.reopen(Options::short_lived()) {
        Err(error) if error.is_no_space() && reserve_of(disk, dir).give_up() => {}
        other => return Ok(other?),
    }
    match wasmq_wal::claim(Arc::clone(disk), dir, id)? {
        LogClaim::Claimed(orphan) => Ok(orphan.reopen(Options::short_lived())?),
        LogClaim::Held | LogClaim::Gone => Err(JournalError::Unclaimed { log: id }),
    }
}

fn reserve_of(disk: &Arc<dyn Disk>, dir: &Path) -> Reserve {
    Reserve::new(Arc::clone(disk), dir, RESERVE_BYTES)
}
