//! A simulated disk for crash tests: the power goes off at operation *k*, or operation *n* fails.
//!
//! There are two images. The live one is what a running process sees. The durable one is what a
//! power cut leaves; it advances only by syncs of files and directories. [`SimDisk::after_power_cut`]
//! decides by a policy and a seed what happened to the changes in between.
//!
//! Counted operations are those that change or sync something: creating a file or directory, write,
//! set_len, sync, rename, remove, sync_dir, a line in a lock file. Opening and reading are not counted.
//!
//! It is meaner than most disks: a new file needs a sync of its directory, and what a failed sync
//! was to make durable is dropped, so that a second, successful sync does not bring it back.
//!
//! Deliberately absent: permissions, links, hard realism about timing.

mod dice;
mod handle;
mod state;
mod survival;

use super::{DirEntry, Disk, DiskFile, DiskLock, EntryKind, LockAttempt, OpenMode, Stat, Wait};
use handle::{SimFile, SimLock};
use state::{Change, Node, State};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What becomes of unsynced changes in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// All are lost.
    Lost,
    /// All are kept: the same as when only the process dies.
    Kept,
    /// The earlier ones are kept, one is cut at a byte, the later ones are lost.
    Torn,
    /// Each block of each write, and each change of a directory, is kept or lost on its own.
    Reordered,
}

impl Survival {
    /// All policies, to loop over.
    pub const ALL: [Self; 4] = [Self::Lost, Self::Kept, Self::Torn, Self::Reordered];
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// EIO, nothing done.
    Io,
    /// ENOSPC, nothing done.
    NoSpace,
    /// A write stops after so many bytes with ENOSPC; any other operation fails with EIO.
    Short(usize),
}

/// A simulated disk; clones are handles of the same one. See the module for what it models.
#[derive(Debug, Clone, Default)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must not hide its own message behind this one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimDisk {
    /// An empty disk with an endless capacity and a root directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many operations were counted so far; the next one has this number.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.state().operations
    }

    /// Cuts the power when operation `number` begins: it and all that follow fail, and all locks are free.
    pub fn cut_power_at(&self, number: u64) {
        self.shared.state().cut_at = Some(number);
    }

    /// Makes operation `number` fail.
    pub fn fail_at(&self, number: u64, fault: Fault) {
        self.shared.state().faults.insert(number, fault);
    }

    /// Limits the sum of the lengths of all files, in bytes; `None` lifts the limit.
    pub fn limit_space(&self, bytes: Option<u64>) {
        self.shared.state().capacity = bytes;
    }

    /// The disk as it is found when the power is back. The same policy and seed give the same disk.
    /// The power need not have been cut with [`SimDisk::cut_power_at`]: this one is left as it is.
    #[must_use]
    pub fn after_power_cut(&self, survival: Survival, seed: u64) -> Self {
        Self::of(self.shared.state().after_power_cut(survival, seed))
    }

    /// The numbers of the operations that were writes.
    #[must_use]
    pub fn writes(&self) -> Vec<u64> {
        self.shared.state().writes.iter().map(|(operation, _)| *operation).collect()
    }

    /// What the last operation wrote that came through, if it was a write.
    #[must_use]
    pub fn last_write(&self) -> Option<Vec<u8>> {
        self.shared.state().last_write().map(<[u8]>::to_vec)
    }

    /// The disk as it is found when the power went off during the last operation that came through, a write: `kept`
    /// bytes of it arrived, and all that was done before. So a test can tear a write at every byte.
    #[must_use]
    pub fn after_torn_write(&self, kept: usize) -> Self {
        Self::of(self.shared.state().after_torn_write(kept))
    }

    fn of(state: State) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::new(state), released: Condvar::new() }) }
    }

    fn lock_inode(&self, state: &mut State, path: &Path, inode: u64) -> Option<Box<dyn DiskLock>> {
        if !state.locked.insert(inode) {
            return None;
        }
        let file = SimFile { shared: Arc::clone(&self.shared), inode };
        Some(Box::new(SimLock { file, path: path.to_owned() }))
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        match self.stat(path)?.map(|found| found.kind) {
            Some(EntryKind::Dir) if self.shared.state().durable_dirs.contains(path) => return Ok(()),
            Some(EntryKind::Dir) => {}
            Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
            None => {
                self.create_dir_all(parent)?;
                self.shared.state().change(Change::Add(path.to_owned(), Node::Dir))?;
                self.sync_dir(parent).inspect_err(|_| self.shared.state().forget_empty_dir(path))?;
                self.shared.state().durable_dirs.insert(path.to_owned());
                return Ok(());
            }
        }
        self.sync_dir(parent)?;
        self.shared.state().durable_dirs.insert(path.to_owned());
        Ok(())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.shared.state();
        let inode = match (state.node(path)?, mode) {
            (Some(Node::Dir), _) => return Err(io::ErrorKind::IsADirectory.into()),
            (Some(Node::File(_)), OpenMode::CreateNew) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            (Some(Node::File(inode)), _) => inode,
            (None, OpenMode::Read | OpenMode::ReadWrite) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            (None, OpenMode::Create | OpenMode::CreateNew) => state.create(path)?,
        };
        Ok(Box::new(SimFile { shared: Arc::clone(&self.shared), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.state().change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.state().change(Change::Remove(path.to_owned()))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.shared.state().sync_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.shared.state().list(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.shared.state().stat(path)
    }

    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut state = self.shared.state();
        loop {
            let inode = match state.node(path)? {
                Some(Node::File(inode)) => inode,
                Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
                None => state.create(path)?,
            };
            if let Some(lock) = self.lock_inode(&mut state, path, inode) {
                return Ok(Some(lock));
            }
            state = match wait {
                Wait::No => return Ok(None),
                Wait::Forever => self.shared.released.wait(state).unwrap_or_else(PoisonError::into_inner),
                Wait::UpTo(limit) => {
                    let woken = self.shared.released.wait_timeout(state, limit);
                    let (state, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() {
                        return Ok(None);
                    }
                    state
                }
            };
        }
    }

    fn try_lock_existing(&self, path: &Path) -> io::Result<LockAttempt> {
        let mut state = self.shared.state();
        match state.node(path)? {
            None => Ok(LockAttempt::Gone),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(inode)) => {
                Ok(self.lock_inode(&mut state, path, inode).map_or(LockAttempt::Held, LockAttempt::Acquired))
            }
        }
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let state = self.shared.state();
        state.powered()?;
        Ok(state.free_bytes())
    }
}

#[cfg(test)]
mod tests;
