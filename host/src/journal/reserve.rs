//! Room that is kept for ending what is queued, so that a full disk heals by itself.
//!
//! To run an invocation takes a little space before it gives more back: a worker needs a log, an
//! attempt needs a record of its start and one of its end, an adoption needs copies. That space is a
//! file of zeros, `journal/reserve`. Whoever cannot create or extend a log for such work unlinks the
//! file and tries again; it is made anew when there is plenty of room. While it is gone, the same
//! number of free bytes is kept by taking no new invocations.
//!
//! Invariants: the content of the file means nothing, so any number of processes may make or give it
//! up at once, and a crash in between leaves at worst a shorter reserve; it never holds up anything
//! but new invocations.
//!
//! Deliberately absent: quotas of users, which free bytes do not show; file systems that store zeros
//! without space, where the file keeps nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wasmq_wal::Claim as LogClaim;
use wasmq_wal::disk::{Disk, EntryKind, OpenMode};

use super::disk::MODEST_EXTENSION_BYTES;
use crate::causes::error_chain;

/// The size of the reserve of a journal, in bytes: starts and ends of some 40,000 attempts.
pub const RESERVE_BYTES: u64 = 4 << 20;

/// The reserve is made when so many times its size are free.
const PLENTY: u64 = 3;
pub(super) const FILE_NAME: &str = "reserve";
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The reserve of a journal's directory.
#[derive(Debug, Clone)]
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// The reserve in `dir`; of 0 bytes, it is none and nothing is refused for it.
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, bytes: u64) -> Self {
        Self { disk, dir: dir.to_owned(), bytes }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE_NAME)
    }

    /// Frees the space of the reserve. Returns whether there was one.
    pub(super) fn give_up(&self) -> bool {
        if self.bytes == 0 || self.disk.remove(&self.path()).is_err() {
            return false;
        }
        tracing::warn!(path = %self.path().display(), "the disk is full; the reserve is used to end what is queued");
        // Some file systems free the space no sooner.
        let _ = self.disk.sync_dir(&self.dir);
        true
    }

    /// Makes the reserve anew if it is gone and there is plenty of room.
    pub(super) fn keep(&self) {
        let missing = self.bytes > 0 && self.is_whole().is_ok_and(|whole| !whole);
        let plenty = missing && self.disk.free_bytes(&self.dir).is_ok_and(|free| free / PLENTY >= self.bytes);
        if plenty && let Err(error) = self.make() {
            let _ = self.disk.remove(&self.path());
            tracing::warn!(path = %self.path().display(), %error, "the reserve for a full disk could not be made; it is tried again");
        }
    }

    /// Whether new invocations have to be refused: neither the file nor as much free space is there. A
    /// disk that cannot be asked refuses nothing.
    pub(super) fn is_short(&self) -> bool {
        let missing = self.bytes > 0 && self.is_whole().is_ok_and(|whole| !whole);
        missing && self.disk.free_bytes(&self.dir).is_ok_and(|free| free < self.bytes)
    }

    /// Bytes that are free beside the reserve.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes(&self.dir)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_whole(&self) -> io::Result<bool> {
        let found = self.disk.stat(&self.path())?;
        Ok(found.is_some_and(|found| found.kind == EntryKind::File && found.len >= self.bytes))
    }

    fn make(&self) -> io::Result<()> {
        let file = self.disk.open(&self.path(), OpenMode::Create)?;
        let mut at = 0;
        while at < self.bytes {
            let count = usize::try_from(self.bytes - at).unwrap_or(usize::MAX).min(ZEROS.len());
            file.write_all_at(ZEROS.get(..count).unwrap_or(&ZEROS), at)?;
            at += count as u64;
        }
        file.sync_all()?;
        self.disk.sync_dir(&self.dir)
    }
}

/// Whether a journal takes no new invocations because the disk is full.
#[must_use]
pub fn refuses_new_work(disk: &Arc<dyn Disk>, dir: &Path) -> bool {
    Reserve::new(Arc::clone(disk), dir, RESERVE_BYTES).is_short()
}

/// Finds room for a log on a full disk: the reserve, else what dead owners took ahead. Returns whether it
/// is worth another try.
pub(super) fn make_room(disk: &Arc<dyn Disk>, dir: &Path, reserve: &Reserve) -> bool {
    if reserve.bytes() == 0 || reserve.give_up() {
        return reserve.bytes() > 0;
    }
    let Ok(listing) = wasmq_wal::list(disk.as_ref(), dir) else { return false };
    for log in listing.wals.iter().filter(|log| log.bytes > MODEST_EXTENSION_BYTES) {
        if let Ok(LogClaim::Claimed(orphan)) = wasmq_wal::claim(Arc::clone(disk), dir, log.id)
            && let Err(error) = orphan.trim()
        {
            tracing::warn!(log = %log.id, error = error_chain(&error), "the space behind the end of a log could not be given back");
        }
    }
    true
}
