//! Mending the logs of a directory: what damaged logs hold that can be read moves into a new log, exactly as
//! when a worker takes them over, and what cannot be read is set aside beside them.
//!
//! Invariants: a log with an owner is left alone; nothing is deleted that is not elsewhere; a crash at any
//! step leaves what mending again, or any worker, goes on with; mending a sound directory does nothing.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use wasmq_core::Timestamp;
use wasmq_wal::disk::Disk;
use wasmq_wal::{Claim, Listing, Stranger, StrangerKind, WalId};

use super::adopt::{Step, adopt_listed, adopter_of, lock_text};
use super::check::{is_leftover, is_owned, read_through};
use super::reserve;
use super::{Adopted, DiskJournal, JournalError, JournalOptions, LiveStore as _, ReplayHook};
use crate::findings::{Mended, clear_place, move_aside};

/// Mends the logs in a directory. `replayed` as for [`super::LiveStore::adopt`].
///
/// # Errors
/// The disk is full or fails; what was done by then is in `done`.
pub fn mend(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
    done: &mut Vec<Mended>,
) -> Result<(), JournalError> {
    let io = |doing| {
        let path = dir.to_owned();
        move |source| JournalError::Io { doing, path, source }
    };
    if disk.stat(dir).map_err(io("look at"))?.is_none() {
        return Ok(());
    }
    clear_place(disk.as_ref(), &dir.join(reserve::FILE_NAME), done).map_err(io("clear the place of the reserve in"))?;
    let listing = wasmq_wal::list(disk.as_ref(), dir)?;
    clear_locks(disk.as_ref(), &listing, done).map_err(io("set aside what is not a file in"))?;
    adopt_damaged(disk, dir, now, replayed, done)?;
    let listing = wasmq_wal::list(disk.as_ref(), dir)?;
    clear_segments(disk, dir, &listing, done)?;
    sweep(disk, dir, &listing, done)
}

fn not_files(listing: &Listing) -> impl Iterator<Item = &Path> {
    let is_no_file = |stranger: &&Stranger| stranger.kind == StrangerKind::NotAFile;
    listing.strangers.iter().filter(is_no_file).map(|stranger| stranger.path.as_path())
}

fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lock")
}

/// What is not a file in place of a lock file keeps everybody from taking the log over.
fn clear_locks(disk: &dyn Disk, listing: &Listing, done: &mut Vec<Mended>) -> std::io::Result<()> {
    not_files(listing).filter(|path| is_lock(path)).try_for_each(|path| clear_place(disk, path, done))
}

/// Takes over the damaged logs that nobody owns, into one new log.
fn adopt_damaged(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
    done: &mut Vec<Mended>,
) -> Result<(), JournalError> {
    let mut damaged = damaged_logs(disk.as_ref(), dir)?;
    if damaged.is_empty() {
        return Ok(());
    }
    let owner = format!("repair, pid {}", std::process::id());
    let options = JournalOptions { log: wasmq_wal::Options::short_lived(), ..JournalOptions::default() };
    let mut journal = DiskJournal::create(Arc::clone(disk), dir, &owner, options)?;
    let mut result = Ok(true);
    // A log that another has to go before is taken in a later round.
    while matches!(result, Ok(true)) && !damaged.is_empty() {
        result = adopt_round(&mut journal, &mut damaged, now, replayed, done);
    }
    let closed = Box::new(journal).close();
    result.map(|_| ()).and(closed)
}

/// The logs that have damage and no owner and can be read.
fn damaged_logs(disk: &dyn Disk, dir: &Path) -> Result<HashSet<WalId>, JournalError> {
    let listing = wasmq_wal::list(disk, dir)?;
    let is_damaged = |log: &&wasmq_wal::WalListing| {
        let is_void = lock_text(disk, dir, log.id).is_some_and(|text| adopter_of(&text).is_some());
        let report = || read_through(disk, dir, log);
        !is_void
            && !is_owned(disk, dir, log.id)
            && report().is_ok_and(|report| report.torn.is_some() || !report.damaged.is_empty())
    };
    Ok(listing.wals.iter().filter(is_damaged).map(|log| log.id).collect())
}

/// One look at the directory. Returns whether any was taken over.
fn adopt_round(
    journal: &mut DiskJournal,
    damaged: &mut HashSet<WalId>,
    now: Timestamp,
    replayed: &mut ReplayHook<'_>,
    done: &mut Vec<Mended>,
) -> Result<bool, JournalError> {
    let listing = wasmq_wal::list(journal.disk.as_ref(), &journal.dir)?;
    let known: HashSet<WalId> = listing.wals.iter().map(|log| log.id).collect();
    let mut taken = false;
    for log in listing.wals.iter().filter(|log| damaged.contains(&log.id)) {
        let mut adopted = Adopted::default();
        if adopt_listed(journal, log, &known, now, replayed, &mut adopted)? == Step::Taken {
            taken = true;
            let path = journal.dir.join(wasmq_wal::lock_file_name(log.id));
            let what = format!(
                "the damaged bytes of the log were set aside; {} invocations moved to the log {}",
                adopted.invocations, journal.id
            );
            done.push(Mended::new(&path, what));
        }
    }
    let after = wasmq_wal::list(journal.disk.as_ref(), &journal.dir)?;
    damaged.retain(|id| has(&after, *id));
    Ok(taken)
}

fn has(listing: &Listing, id: WalId) -> bool {
    listing.wals.iter().any(|log| log.id == id)
}

/// The log that a file belongs to.
fn log_of(path: &Path) -> Option<WalId> {
    path.file_name()?.to_str()?.strip_prefix("wal-v1-")?.get(..32)?.parse().ok()
}

/// Sets aside what is not a file in place of a segment, unless the log has an owner.
fn clear_segments(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    listing: &Listing,
    done: &mut Vec<Mended>,
) -> Result<(), JournalError> {
    for path in not_files(listing).filter(|path| !is_lock(path)) {
        let Some(id) = log_of(path) else { continue };
        let claim = wasmq_wal::claim(Arc::clone(disk), dir, id)?;
        if matches!(claim, Claim::Held) {
            continue;
        }
        let io = |source| JournalError::Io { doing: "set aside", path: path.to_owned(), source };
        let target = move_aside(disk.as_ref(), path).map_err(io)?;
        done.push(Mended::new(path, format!("what lay in place of the file was moved to {}", target.display())));
        if let Claim::Claimed(orphan) = claim
            && !has(listing, id)
        {
            // Claiming it made a lock file for a log of which nothing is left.
            orphan.delete()?;
        }
    }
    Ok(())
}

/// Removes copies of damaged bytes that were never finished, unless their writer lives.
fn sweep(disk: &Arc<dyn Disk>, dir: &Path, listing: &Listing, done: &mut Vec<Mended>) -> Result<(), JournalError> {
    for path in listing.quarantined.iter().filter(|path| is_leftover(path)) {
        let Some(id) = log_of(path) else { continue };
        if has(listing, id) && matches!(wasmq_wal::claim(Arc::clone(disk), dir, id)?, Claim::Held) {
            continue;
        }
        let io = |source| JournalError::Io { doing: "remove", path: path.clone(), source };
        disk.remove(path).and_then(|()| disk.sync_dir(dir)).map_err(io)?;
        done.push(Mended::new(path, "a leftover was removed"));
    }
    Ok(())
}
