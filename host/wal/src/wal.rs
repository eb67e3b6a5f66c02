//! The log of one owner: append, flush, sync, read back, rotate, drop, end.
//!
//! Invariants: the lock is held for as long as the value lives; only the active segment is written;
//! after a failed write or sync nothing more is written ("Errors while writing" in `FORMAT.md`).
//! A value that is dropped releases the lock and leaves what was flushed; what was only appended is gone.
//!
//! Deliberately absent: what records mean, when to sync, which records live.

use crate::active::{Active, Place};
use crate::disk::{Disk, DiskFile, DiskLock, OpenMode, Wait};
use crate::durable::{Durable, Position, RecordRef};
use crate::error::{IoFailure, WalError};
use crate::format::{MAX_BODY_BYTES, RECORD_HEADER_BYTES};
use crate::listing::{SegmentInfo, segments_of};
use crate::name::{WalId, lock_file_name, segment_file_name};
use crate::options::Options;
use crate::scan::read_record;
use crate::sync::{PendingSync, SyncOutcome};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log that this process owns.
#[derive(Debug)]
pub struct Wal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    id: WalId,
    options: Options,
    lock: Box<dyn DiskLock>,
    active: Active,
    /// Oldest first.
    sealed: VecDeque<SegmentInfo>,
    poison: Option<IoFailure>,
    /// A sync runs beside the log. No other one may run at the same time: the operating system tells of a
    /// failure once, and the other would believe in success.
    syncing: bool,
    /// The sealed segment that was read last.
    reader: Option<(u32, Box<dyn DiskFile>)>,
}

/// What a log is continued from.
pub(crate) struct Predecessor {
    pub(crate) lock: Box<dyn DiskLock>,
    pub(crate) sealed: VecDeque<SegmentInfo>,
    /// Sequence of the segment to create.
    pub(crate) next: u32,
    /// Sealed length of the segment before that one, 0 if not known.
    pub(crate) previous_bytes: u64,
}

impl Wal {
    /// Creates a log: its directory, its lock file with `owner` as its first line, its first segment.
    /// All of it is durable when this returns. `owner` is for people: who holds it, since when.
    ///
    /// # Errors
    /// `Exists` when the id has segments already, `LockHeld` when somebody holds its lock, `NoSpace`
    /// or `Io` otherwise. After `NoSpace` nothing is left behind.
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, id: WalId, owner: &str, options: Options) -> Result<Self, WalError> {
        disk.create_dir_all(dir).map_err(|error| full_or_io(IoFailure::new("create", dir, error), owner))?;
        let lock = lock_new(&*disk, dir, id, owner)?;
        let predecessor = Predecessor { lock, sealed: VecDeque::new(), next: 1, previous_bytes: 0 };
        Self::continue_from(disk, dir, id, options, predecessor).map_err(|(lock, error)| {
            if error.is_no_space() {
                // The error is what matters; a lock file alone is an empty log and does no harm.
                let _ = lock.remove();
            }
            error
        })
    }

    /// Goes on in a new segment. Gives the lock back on failure.
    pub(crate) fn continue_from(
        disk: Arc<dyn Disk>,
        dir: &Path,
        id: WalId,
        options: Options,
        from: Predecessor,
    ) -> Result<Self, (Box<dyn DiskLock>, WalError)> {
        let Predecessor { lock, sealed, next, previous_bytes } = from;
        let place = Place { disk: &*disk, dir, id, sequence: next, previous_bytes };
        let active = match Active::create(place, &options) {
            Ok(active) => active,
            Err(error) => return Err((lock, error)),
        };
        let dir = dir.to_owned();
        Ok(Self { disk, dir, id, options, lock, active, sealed, poison: None, syncing: false, reader: None })
    }

    /// The id of the log.
    #[must_use]
    pub const fn id(&self) -> WalId {
        self.id
    }

    /// The failure that poisoned the log, if one did.
    #[must_use]
    pub const fn poison(&self) -> Option<&IoFailure> {
        self.poison.as_ref()
    }

    /// Appends a record whose body is the concatenation of `parts`. It lies in the write buffer then:
    /// it survives nothing before [`Wal::flush`] and no power cut before [`Wal::sync`]. Makes no system call
    /// except when the zeros ahead are used up, the segment is full or the buffer is large.
    ///
    /// # Errors
    /// `TooLarge`, `KindZero`, and `NoSpace` change nothing. After `Io` the log is poisoned.
    pub fn append(&mut self, kind: u8, parts: &[&[u8]]) -> Result<RecordRef, WalError> {
        self.refuse_if_poisoned()?;
        let len = body_len(kind, parts)?;
        let bytes = RECORD_HEADER_BYTES + u64::from(len);
        let is_full = self.active.has_records() && self.active.end() + bytes > self.options.segment_bytes;
        // To seal a segment is to sync it; while a sync runs the segment becomes a little longer instead.
        if is_full && !self.syncing {
            self.rotate()?;
        }
        self.reserve(bytes)?;
        let at = self.active.push(kind, len, parts);
        if self.active.buffered_bytes() >= self.options.buffer_bytes {
            self.flush()?;
        }
        Ok(at)
    }

    /// Sees to it that records of so many bytes in sum, their headers included, fit into the active
    /// segment without more space. They take no more than that as long as the segment is not full.
    ///
    /// # Errors
    /// `NoSpace` changes nothing. After `Io` the log is poisoned.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), WalError> {
        self.refuse_if_poisoned()?;
        match self.active.make_room(bytes, &self.options) {
            Err(failure) if failure.is_no_space() => Err(WalError::NoSpace { needed_bytes: bytes, failure }),
            other => other.map_err(|failure| self.poisoned_by(failure)),
        }
    }

    /// Bytes of records that fit without more space.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.active.room()
    }

    /// Writes what was appended to the file: it survives the death of the process.
    ///
    /// # Errors
    /// `Io`, and the log is poisoned; `Poisoned` when it was.
    pub fn flush(&mut self) -> Result<(), WalError> {
        self.refuse_if_poisoned()?;
        self.active.flush(&self.options).map_err(|failure| self.poisoned_by(failure))
    }

    /// Makes everything that was appended durable: it survives the death of the machine. The position
    /// is the end of what is durable. Costs nothing when there is nothing new.
    ///
    /// # Errors
    /// `Io`, and the log is poisoned; `Poisoned` when it was.
    pub fn sync(&mut self) -> Result<Durable<Position>, WalError> {
        self.flush()?;
        self.active.sync().map_err(|failure| self.poisoned_by(failure))?;
        Ok(Durable::new(self.position()))
    }

    /// Begins to make durable what was appended until now. What it returns has to be run, on any thread, and
    /// its outcome given to [`Wal::finish_sync`]; appending may go on meanwhile, any other sync may not.
    /// `None` when there is nothing new.
    ///
    /// # Errors
    /// `Io`, and the log is poisoned; `Poisoned` when it was.
    pub fn begin_sync(&mut self) -> Result<Option<PendingSync>, WalError> {
        debug_assert!(!self.syncing, "two syncs at once");
        self.flush()?;
        let pending = self.active.pending_sync();
        self.syncing = pending.is_some();
        Ok(pending)
    }

    /// Takes the outcome of a sync. The position is the end of what is durable by it.
    ///
    /// # Errors
    /// `Io` when the sync failed, and the log is poisoned; `Poisoned` when it was, also if this sync succeeded.
    pub fn finish_sync(&mut self, outcome: SyncOutcome) -> Result<Durable<Position>, WalError> {
        self.syncing = false;
        self.refuse_if_poisoned()?;
        if let Some(failure) = outcome.failure {
            return Err(self.poisoned_by(failure));
        }
        self.active.synced_to(outcome.covers);
        Ok(Durable::new(outcome.covers))
    }

    /// The end of what was appended.
    #[must_use]
    pub fn position(&self) -> Position {
        self.active.position()
    }

    /// Reads the body of a record and verifies its CRC. Flushes first if it is still in the buffer.
    /// Works on a poisoned log for what had been written.
    ///
    /// # Errors
    /// `NoSuchRecord` when none lies there or its segment was dropped, `Damaged`, `Io`.
    pub fn read(&mut self, at: RecordRef) -> Result<Vec<u8>, WalError> {
        if at.segment == self.active.sequence {
            if !self.active.is_written(at.end().offset) {
                self.flush()?;
            }
            let path = &self.active.path;
            return read_record(self.active.file(), path, self.id, at);
        }
        let path = self.segment_path(at.segment);
        if !self.sealed.iter().any(|segment| segment.sequence == at.segment) {
            return Err(WalError::NoSuchRecord { path, offset: at.offset });
        }
        let file = match self.reader.take() {
            Some((sequence, file)) if sequence == at.segment => file,
            _ => self.disk.open(&path, OpenMode::Read).map_err(|error| IoFailure::new("open", &path, error))?,
        };
        let body = read_record(&*file, &path, self.id, at);
        self.reader = Some((at.segment, file));
        body
    }

    /// All segments, oldest first; the active one is the last and counted without the zeros ahead.
    pub fn segments(&self) -> impl Iterator<Item = SegmentInfo> {
        let active = SegmentInfo { sequence: self.active.sequence, bytes: self.active.end() };
        self.sealed.iter().copied().chain(std::iter::once(active))
    }

    /// Bytes of all segments, without the zeros ahead.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.segments().map(|segment| segment.bytes).sum()
    }

    /// Sequence of the oldest sealed segment, `None` when there is only the active one.
    #[must_use]
    pub fn oldest_sealed(&self) -> Option<u32> {
        self.sealed.front().map(|segment| segment.sequence)
    }

    /// Unlinks the oldest sealed segment, durably. The caller has copied forward what lives in it; the
    /// copies are synced here first, so that the order cannot be got wrong.
    ///
    /// # Errors
    /// `NothingSealed`; `Io` when the unlink fails, which leaves all as it was; `Io` and poisoned when a
    /// sync fails; `Poisoned`.
    pub fn drop_oldest(&mut self) -> Result<(), WalError> {
        self.refuse_if_poisoned()?;
        let oldest = self.oldest_sealed().ok_or(WalError::NothingSealed)?;
        if !self.active.is_synced() {
            let _ = self.sync()?;
        }
        self.reader = None;
        let path = self.segment_path(oldest);
        let unlinked = unlink(&*self.disk, &self.dir, &path)?;
        self.sealed.pop_front();
        unlinked.durably().map_err(|failure| self.poisoned_by(failure))
    }

    /// Seals the active segment, durably, and goes on in a new one. Does nothing when it has no records.
    ///
    /// # Errors
    /// `NoSpace` when the new segment has no room: the log goes on in the old one. After `Io` the log is
    /// poisoned. `Poisoned`, `SequencesUsedUp`.
    pub fn rotate(&mut self) -> Result<(), WalError> {
        self.refuse_if_poisoned()?;
        if !self.active.has_records() {
            return Ok(());
        }
        let sequence = self.active.sequence.checked_add(1).ok_or(WalError::SequencesUsedUp)?;
        self.active.seal(&self.options).map_err(|failure| self.poisoned_by(failure))?;
        let previous_bytes = self.active.end();
        let place = Place { disk: &*self.disk, dir: &self.dir, id: self.id, sequence, previous_bytes };
        let next = match Active::create(place, &self.options) {
            Err(WalError::Io(failure)) => return Err(self.poisoned_by(failure)),
            other => other?,
        };
        let old = std::mem::replace(&mut self.active, next);
        self.sealed.push_back(SegmentInfo { sequence: old.sequence, bytes: previous_bytes });
        Ok(())
    }

    /// Appends a line to the lock file, durably. Does not touch the log.
    ///
    /// # Errors
    /// `Io`; the log is not poisoned by it.
    pub fn mark(&mut self, line: &str) -> Result<(), WalError> {
        Ok(mark(&mut *self.lock, &self.dir, self.id, line)?)
    }

    /// Syncs, cuts off the zeros ahead and releases the lock. The files stay, for whoever claims them.
    ///
    /// # Errors
    /// `Io` or `Poisoned`; the lock is released all the same.
    pub fn close(mut self) -> Result<(), WalError> {
        self.flush()?;
        // Cut before the sync, so that one sync does for both. If all is synced already none is needed:
        // zeros that come back after a power cut are a clean end.
        self.active.trim().map_err(|failure| self.poisoned_by(failure))?;
        self.active.sync().map_err(|failure| self.poisoned_by(failure))
    }

    /// Unlinks all segments, oldest first, and then the lock file. Also for a poisoned log: the caller has
    /// what lives in it elsewhere.
    ///
    /// # Errors
    /// `Io`; what was not unlinked yet stays and can be claimed.
    pub fn delete(self) -> Result<(), WalError> {
        let sequences: Vec<u32> = self.segments().map(|segment| segment.sequence).collect();
        delete_files(&*self.disk, &self.dir, self.id, &sequences, self.lock)
    }

    fn segment_path(&self, sequence: u32) -> PathBuf {
        self.dir.join(segment_file_name(self.id, sequence))
    }

    fn refuse_if_poisoned(&self) -> Result<(), WalError> {
        self.poison.as_ref().map_or(Ok(()), |first| Err(WalError::Poisoned { first: first.clone() }))
    }

    fn poisoned_by(&mut self, failure: IoFailure) -> WalError {
        self.poison.get_or_insert_with(|| failure.clone());
        failure.into()
    }
}

fn body_len(kind: u8, parts: &[&[u8]]) -> Result<u32, WalError> {
    if kind == 0 {
        return Err(WalError::KindZero);
    }
    let found_bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
    match u32::try_from(found_bytes) {
        Ok(len) if len <= MAX_BODY_BYTES => Ok(len),
        _ => Err(WalError::TooLarge { found_bytes, limit_bytes: MAX_BODY_BYTES.into() }),
    }
}

fn lock_new(disk: &dyn Disk, dir: &Path, id: WalId, owner: &str) -> Result<Box<dyn DiskLock>, WalError> {
    let path = dir.join(lock_file_name(id));
    let locked = disk.lock(&path, Wait::No);
    let Some(mut lock) = locked.map_err(|error| full_or_io(IoFailure::new("lock", &path, error), owner))? else {
        return Err(WalError::LockHeld { holder: holder_of(disk, &path), path });
    };
    if !segments_of(disk, dir, id)?.is_empty() {
        return Err(WalError::Exists { path });
    }
    if let Err(failure) = mark(&mut *lock, dir, id, owner) {
        let _ = lock.remove();
        return Err(full_or_io(failure, owner));
    }
    Ok(lock)
}

/// What a failure means that came before anything of the log was there.
fn full_or_io(failure: IoFailure, owner: &str) -> WalError {
    let needed_bytes = owner.len() as u64;
    if failure.is_no_space() { WalError::NoSpace { needed_bytes, failure } } else { failure.into() }
}

/// The first line of a lock file, as far as it can be read.
fn holder_of(disk: &dyn Disk, path: &Path) -> String {
    let text = disk.open(path, OpenMode::Read).and_then(|file| file.read_all()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}

pub(crate) fn mark(lock: &mut dyn DiskLock, dir: &Path, id: WalId, line: &str) -> Result<(), IoFailure> {
    lock.append_line(line).map_err(|error| IoFailure::new("write to", &dir.join(lock_file_name(id)), error))
}

/// Unlinks segments in this order, each durably before the next, so that a crash leaves no gap; then
/// the lock file.
pub(crate) fn delete_files(
    disk: &dyn Disk,
    dir: &Path,
    id: WalId,
    sequences: &[u32],
    lock: Box<dyn DiskLock>,
) -> Result<(), WalError> {
    for &sequence in sequences {
        unlink(disk, dir, &dir.join(segment_file_name(id, sequence)))?.durably()?;
    }
    let path = dir.join(lock_file_name(id));
    Ok(lock.remove().map_err(|error| IoFailure::new("remove", &path, error))?)
}

/// A file whose name is gone.
#[must_use = "the name may come back"]
pub(crate) struct Unlinked<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    path: &'a Path,
}

/// Unlinks a file; see [`Unlinked::durably`].
pub(crate) fn unlink<'a>(disk: &'a dyn Disk, dir: &'a Path, path: &'a Path) -> Result<Unlinked<'a>, IoFailure> {
    disk.remove(path).map_err(|error| IoFailure::new("remove", path, error))?;
    Ok(Unlinked { disk, dir, path })
}

impl Unlinked<'_> {
    /// Makes it durable. A sync that failed is not tried again and believed: the name is made and unlinked
    /// anew, so that the second sync has something to do. A segment that came back after its lock file is
    /// gone would be a log whose ends are lost.
    pub(crate) fn durably(self) -> Result<(), IoFailure> {
        let Self { disk, dir, path } = self;
        let Err(error) = disk.sync_dir(dir) else { return Ok(()) };
        let again = disk.open(path, OpenMode::CreateNew).and_then(|_| disk.remove(path));
        again.and_then(|()| disk.sync_dir(dir)).map_err(|_| IoFailure::new("sync", dir, error))
    }
}
