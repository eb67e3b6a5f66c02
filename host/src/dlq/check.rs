//! Looking at the dead letter queue for damage, and mending it: every line, also what an index does not need.
//!
//! Invariants: looking changes nothing and takes no lock; mending holds the lock of all writers and does
//! nothing the second time; damaged bytes are moved to the file beside and never thrown away.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmq_core::Timestamp;
use wasmq_wal::disk::{DirEntry, Disk, EntryKind, LockAttempt, Wait};

use super::compact::{COPY_NAME, DAMAGED_NAME};
use super::disk::{LOCK_NAME, is_of_another_version, refuse_other_versions};
use super::error::DlqError;
use super::index::Gap;
use super::line;
use super::log::{FILE_NAME, Log};
use crate::findings::{Check, Effect, Finding, Mended, Place, REPAIR, clear_place, is_set_aside};

/// How long mending waits for a writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is wrong with the dead letter queue of a data directory.
pub fn check(disk: &Arc<dyn Disk>, data_dir: &Path) -> Check {
    Check::twice(|| look(disk, data_dir))
}

fn look(disk: &Arc<dyn Disk>, data_dir: &Path) -> Check {
    let dir = data_dir.join("dlq");
    let mut check = Check::default();
    let entries = check.entries(disk.as_ref(), &dir);
    let is_written = matches!(disk.try_lock_existing(&dir.join(LOCK_NAME)), Ok(LockAttempt::Held));
    for entry in &entries {
        by_name(entry, &dir, &mut check);
        if entry.name == FILE_NAME && entry.kind == EntryKind::File {
            check.files += 1;
            lines(disk, &dir, is_written, &mut check);
        }
    }
    check
}

/// What the name of an entry says.
fn by_name(entry: &DirEntry, dir: &Path, check: &mut Check) {
    let (name, path) = (entry.name.to_string_lossy(), dir.join(&entry.name));
    let is_file = entry.kind == EntryKind::File;
    if is_of_another_version(&name) {
        check.add(Finding::other_version(&path));
    } else if name == COPY_NAME {
        check.add(Finding::leftover(&path));
    } else if name == DAMAGED_NAME || is_set_aside(&name) {
        check.add(Finding::set_aside(&path));
    } else if name == FILE_NAME && !is_file {
        check.add(Finding::new(&path, Effect::Lost, "it is not a file, so no dead task can be read or kept", REPAIR));
    } else if name == LOCK_NAME && !is_file {
        check.add(Finding::new(&path, Effect::Waits, "it is not a file, so nothing can be written", REPAIR));
    }
}

fn lines(disk: &Arc<dyn Disk>, dir: &Path, is_written: bool, check: &mut Check) {
    let mut log = Log::new(Arc::clone(disk), dir);
    let path = log.path.clone();
    if let Err(error) = log.refresh() {
        return check.add(Finding::unreadable(&path, error));
    }
    check.records += log.index.lines();
    if matches!(disk.stat(&path), Ok(Some(found)) if found.len == 0) {
        let what = "it has no bytes, as after an interrupted first write, or when it was emptied";
        check.add(Finding::new(&path, Effect::Harmless, what, "nothing"));
    }
    for place in log.damage() {
        let what = format!("{} bytes are damaged: {}", place.len, place.reason);
        let at = Place::Line { line: place.line, offset: place.offset };
        check.add(Finding::new(&path, Effect::Lost, what, REPAIR).at(at));
    }
    for &Gap { line, offset, expected, found } in log.index.gaps() {
        let what = format!("lines are missing before it: it has the number {found} instead of {expected}");
        check.add(Finding::new(&path, Effect::Lost, what, REPAIR).at(Place::Line { line, offset }));
    }
    entries(&log, check);
    match log.unended() {
        Ok(Some(bytes)) if !is_written => {
            let what = format!("the last {bytes} bytes are no whole line, as a cut write leaves it or damage");
            let at = Place::Offset(log.index.seen());
            check.add(Finding::new(&path, Effect::Lost, what, format!("{REPAIR}, or the next writer does it")).at(at));
        }
        Ok(_) => {}
        Err(error) => check.add(Finding::unreadable(&path, error)),
    }
}

/// Reads every dead task in full; the index has looked at the beginning of each only.
fn entries(log: &Log, check: &mut Check) {
    for slot in log.index.slots.live() {
        let reason = match log.read_line(slot) {
            Ok(bytes) => line::parse_dead_task(&bytes).err(),
            Err(error) => return check.add(Finding::unreadable(&log.path, error)),
        };
        if let Some(reason) = reason {
            let what = format!("a dead task of {} bytes is damaged: {reason}", slot.len);
            check.add(Finding::new(&log.path, Effect::Lost, what, REPAIR).at(Place::Offset(slot.offset)));
        }
    }
}

/// Moves damaged lines aside, ends the last line or moves it aside, removes leftovers and clears the places
/// of files.
///
/// # Errors
/// The disk is full or fails; what was done by then is in `done`.
pub fn mend(disk: &Arc<dyn Disk>, data_dir: &Path, now: Timestamp, done: &mut Vec<Mended>) -> Result<(), DlqError> {
    let dir = data_dir.join("dlq");
    if refuse_other_versions(disk.as_ref(), &dir).is_err() {
        return Ok(());
    }
    if !look(disk, data_dir).findings.iter().any(|finding| finding.effect != Effect::SetAside) {
        return Ok(());
    }
    let lock_path = dir.join(LOCK_NAME);
    clear_place(disk.as_ref(), &lock_path, done).map_err(DlqError::io("clearing", &lock_path))?;
    let lock = disk.lock(&lock_path, Wait::UpTo(PATIENCE)).map_err(DlqError::io("locking", &lock_path))?;
    let Some(_lock) = lock else { return Ok(()) };
    let leftover = dir.join(COPY_NAME);
    if matches!(disk.stat(&leftover), Ok(Some(_))) {
        disk.remove(&leftover).map_err(DlqError::io("removing", &leftover))?;
        done.push(Mended::new(&leftover, "a leftover was removed"));
    }
    let mut log = Log::new(Arc::clone(disk), &dir);
    clear_place(disk.as_ref(), &log.path, done).map_err(DlqError::io("clearing", &log.path))?;
    mend_lines(&mut log, now, done)
}

fn mend_lines(log: &mut Log, now: Timestamp, done: &mut Vec<Mended>) -> Result<(), DlqError> {
    log.refresh()?;
    if let Some(bytes) = log.unended()? {
        let offset = log.index.seen();
        log.prepare_write()?;
        let what =
            format!("{bytes} bytes at its end, offset {offset}, were ended as a line or moved to {DAMAGED_NAME}");
        done.push(Mended::new(&log.path, what));
    }
    let mut found = Check::default();
    entries(log, &mut found);
    let places = log.index.damage().len() + log.index.gaps().len() + found.findings.len();
    if places > 0 {
        log.compact(now)?;
        let what =
            format!("it was written anew; what was damaged was moved to {DAMAGED_NAME}, from so many places: {places}");
        done.push(Mended::new(&log.path, what));
    }
    Ok(())
}
