//! Taking over a log that nobody holds: after a crash, or because its writer let go of it.
//!
//! Invariants: an [`Orphan`] holds the lock, so nobody else reads it as theirs; nothing is changed
//! before `mark`, `trim`, `reopen` or `delete`; a torn tail is cut off, durably, before anything is appended.

use crate::disk::{Disk, DiskLock, LockAttempt, OpenMode, Wait};
use crate::error::{IoFailure, WalError};
use crate::listing::{Found, SegmentInfo, WalListing, segments_as_listed, segments_of};
use crate::name::{WalId, lock_file_name, segment_file_name};
use crate::options::Options;
use crate::report::{Record, ScanReport};
use crate::scan::{open_and_scan, scan_listed};
use crate::segment_scan::{Outcome, Task};
use crate::wal::{Predecessor, Wal, delete_files, mark, unlink};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What came of [`claim`].
#[derive(Debug)]
pub enum Claim {
    /// It is ours.
    Claimed(Orphan),
    /// Its owner lives.
    Held,
    /// There is no such log, or no longer.
    Gone,
}

/// A log that we hold and do not write to.
#[derive(Debug)]
pub struct Orphan {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    id: WalId,
    lock: Box<dyn DiskLock>,
    lock_text: String,
    /// The segments that a listing showed before the log was claimed.
    listed: Vec<u32>,
}

/// Tries to take over a log that a listing has just shown, as [`claim`] does; reading and deleting it
/// then need no listing of their own.
///
/// # Errors
/// As [`claim`].
pub fn claim_listed(disk: Arc<dyn Disk>, dir: &Path, log: &WalListing) -> Result<Claim, WalError> {
    let claimed = claim(disk, dir, log.id)?;
    Ok(match claimed {
        Claim::Claimed(mut orphan) => {
            orphan.listed = log.segments.iter().map(|segment| segment.sequence).collect();
            Claim::Claimed(orphan)
        }
        other => other,
    })
}

/// Tries to take over a log, without waiting. A log whose lock file vanished gets a new one.
///
/// # Errors
/// `Io` when the directory or the lock file cannot be used.
pub fn claim(disk: Arc<dyn Disk>, dir: &Path, id: WalId) -> Result<Claim, WalError> {
    let path = dir.join(lock_file_name(id));
    let io = |error| IoFailure::new("lock", &path, error);
    let lock = match disk.try_lock_existing(&path).map_err(io)? {
        LockAttempt::Acquired(lock) => lock,
        LockAttempt::Held => return Ok(Claim::Held),
        LockAttempt::Gone if segments_of(&*disk, dir, id)?.is_empty() => return Ok(Claim::Gone),
        LockAttempt::Gone => {
            let Some(lock) = disk.lock(&path, Wait::No).map_err(io)? else {
                return Ok(Claim::Held);
            };
            // Whoever deleted the log may have finished between the two looks.
            if segments_of(&*disk, dir, id)?.is_empty() {
                lock.remove().map_err(io)?;
                return Ok(Claim::Gone);
            }
            lock
        }
    };
    let lock_text = lock.read().map_err(|error| IoFailure::new("read", &path, error))?;
    let dir = dir.to_owned();
    Ok(Claim::Claimed(Orphan { disk, dir, id, lock, lock_text, listed: Vec::new() }))
}

/// What is to be done with the last segment before the log goes on.
struct Tail {
    next: u32,
    previous_bytes: u64,
    /// Length of the segment that stays the last one, if it was cut.
    cut: Option<(u32, u64)>,
    /// What is cut off is a torn record and not zeros alone.
    is_torn: bool,
    removed: Option<u32>,
}

impl Tail {
    /// Nothing is to be done but to go on with this sequence.
    const fn untouched(next: u32) -> Self {
        Self { next, previous_bytes: 0, cut: None, is_torn: false, removed: None }
    }
}

impl Orphan {
    /// The id of the log.
    #[must_use]
    pub const fn id(&self) -> WalId {
        self.id
    }

    /// The lock file as it was when the log was claimed, then with the lines of [`Orphan::mark`].
    #[must_use]
    pub fn lock_text(&self) -> &str {
        &self.lock_text
    }

    /// Visits every valid record, as the function [`crate::scan`] does.
    ///
    /// # Errors
    /// `NewerFormat`, `Io`.
    pub fn scan(&self, visit: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>) -> Result<ScanReport, WalError> {
        scan_listed(&*self.disk, &self.dir, self.id, &self.listed, visit)
    }

    /// Appends a line to the lock file, durably.
    ///
    /// # Errors
    /// `Io`.
    pub fn mark(&mut self, line: &str) -> Result<(), WalError> {
        mark(&mut *self.lock, &self.dir, self.id, line)?;
        self.lock_text.push_str(line);
        self.lock_text.push('\n');
        Ok(())
    }

    /// Unlinks all segments, oldest first, and then the lock file. The caller has durably elsewhere what
    /// lives in it, and has quarantined what is damaged.
    ///
    /// # Errors
    /// `Io`; what was not unlinked yet stays and can be claimed. `NewerFormat` is found by a scan, not here.
    pub fn delete(self) -> Result<(), WalError> {
        let found = match segments_as_listed(&*self.disk, &self.dir, self.id, &self.listed)? {
            Some(found) => found,
            None => segments_of(&*self.disk, &self.dir, self.id)?,
        };
        let sequences: Vec<u32> = found.iter().filter(|found| found.is_file).map(|found| found.sequence).collect();
        delete_files(&*self.disk, &self.dir, self.id, &sequences, self.lock)
    }

    /// Lets go of the log and leaves it as it is.
    pub fn release(self) {
        drop(self);
    }

    /// Makes the log ours to write: cuts off the torn tail, durably, and goes on in a new segment. A
    /// last segment that is no segment of this log is left alone. What was flushed and not synced by the
    /// owner before becomes durable, as far as it can be read.
    ///
    /// # Errors
    /// `NewerFormat` changes nothing. `NoSpace`, `Io`, `SequencesUsedUp`: the log is let go, to be claimed again.
    pub fn reopen(self, options: Options) -> Result<Wal, WalError> {
        let found = segments_of(&*self.disk, &self.dir, self.id)?;
        self.refuse_newer(&found)?;
        let tail = self.judge_tail(&found)?;
        if let Some((sequence, len)) = tail.cut {
            self.cut(sequence, len)?;
        }
        if let Some(sequence) = tail.removed {
            self.remove_unfinished(sequence)?;
        }
        let sealed = sealed_segments(&found, &tail);
        let Self { disk, dir, id, lock, .. } = self;
        let Tail { next, previous_bytes, .. } = tail;
        let from = Predecessor { lock, sealed, next, previous_bytes };
        Wal::continue_from(disk, &dir, id, options, from).map_err(|(_, error)| error)
    }

    /// Cuts off the zeros behind the last record, durably, and nothing else. Gives the space back that a dead
    /// owner had taken ahead. A torn tail stays for whoever sets it aside.
    ///
    /// # Errors
    /// `NewerFormat` changes nothing. `Io`.
    pub fn trim(&self) -> Result<(), WalError> {
        let found = segments_of(&*self.disk, &self.dir, self.id)?;
        self.refuse_newer(&found)?;
        match self.judge_tail(&found)? {
            Tail { cut: Some((sequence, len)), is_torn: false, .. } => self.cut(sequence, len),
            _ => Ok(()),
        }
    }

    fn path(&self, sequence: u32) -> PathBuf {
        self.dir.join(segment_file_name(self.id, sequence))
    }

    /// Looks at the headers of all segments before any of them is changed.
    fn refuse_newer(&self, found: &[Found]) -> Result<(), WalError> {
        for found in found.iter().filter(|found| found.is_file) {
            let task = Task { id: self.id, sequence: found.sequence, is_last: false, from: 0 };
            let stop = &mut |_: Record<'_>| ControlFlow::Break(());
            open_and_scan(&*self.disk, &self.path(found.sequence), task, stop)?;
        }
        Ok(())
    }

    fn judge_tail(&self, found: &[Found]) -> Result<Tail, WalError> {
        let Some(last) = found.last().copied() else {
            return Ok(Tail::untouched(1));
        };
        let sequence = last.sequence;
        let outcome = if last.is_file { self.read_to_its_end(sequence)? } else { None };
        if outcome.as_ref().is_some_and(|outcome| outcome.unborn) {
            let before = found.iter().rev().nth(1).filter(|before| before.is_file);
            let previous_bytes = before.map_or(0, |before| before.len);
            let removed = Some(sequence);
            return Ok(Tail { previous_bytes, removed, ..Tail::untouched(sequence) });
        }
        let next = sequence.checked_add(1).ok_or(WalError::SequencesUsedUp)?;
        match outcome.filter(|outcome| outcome.end > 0 && !outcome.is_unreadable()) {
            Some(Outcome { end, torn_bytes, .. }) => {
                let cut = Some((sequence, end));
                Ok(Tail { previous_bytes: end, cut, is_torn: torn_bytes > 0, ..Tail::untouched(next) })
            }
            None => Ok(Tail::untouched(next)),
        }
    }

    fn read_to_its_end(&self, sequence: u32) -> Result<Option<Outcome>, WalError> {
        let task = Task { id: self.id, sequence, is_last: true, from: 0 };
        let mut go_on = |_: Record<'_>| ControlFlow::Continue(());
        open_and_scan(&*self.disk, &self.path(sequence), task, &mut go_on)
    }

    fn cut(&self, sequence: u32, len: u64) -> Result<(), WalError> {
        let path = self.path(sequence);
        let io = |doing| {
            let path = path.clone();
            move |error| IoFailure::new(doing, &path, error).at(len)
        };
        let file = self.disk.open(&path, OpenMode::ReadWrite).map_err(io("open"))?;
        if file.len().map_err(io("measure"))? != len {
            file.set_len(len).map_err(io("cut"))?;
        }
        Ok(file.sync_all().map_err(io("sync"))?)
    }

    fn remove_unfinished(&self, sequence: u32) -> Result<(), WalError> {
        let path = self.path(sequence);
        Ok(unlink(&*self.disk, &self.dir, &path)?.durably()?)
    }
}

fn sealed_segments(found: &[Found], tail: &Tail) -> VecDeque<SegmentInfo> {
    let kept = found.iter().filter(|found| found.is_file && tail.removed != Some(found.sequence));
    kept.map(|found| {
        let cut = tail.cut.filter(|&(sequence, _)| sequence == found.sequence);
        SegmentInfo { sequence: found.sequence, bytes: cut.map_or(found.len, |(_, len)| len) }
    })
    .collect()
}
