//! The queue in a directory: the lock file, and one log behind a mutex.
//!
//! Invariants: whatever changes the file happens under the lock file's lock; reads never wait for
//! it. The lock is always taken before the mutex.
//!
//! Deliberately absent: what the operations do; `write.rs` and `query.rs` have that.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use wasmq_core::{DeadTask, InvocationId, Timestamp};
use wasmq_wal::disk::{Disk, DiskLock, LockAttempt, Wait};

use super::compact::COPY_NAME;
use super::error::DlqError;
use super::line::IdPair;
use super::log::{FILE_NAME, Log};
use super::types::{Added, Counts, Cursor, Damage, Filter, Found, Group, Intent, Page, RemovalReason, Standing};
use super::{DeadTaskStore, LockedDlq};

pub(super) const LOCK_NAME: &str = "dead-tasks.lock";
/// The format this version reads and writes.
const FORMAT: u32 = 1;

/// The dead letter queue in `data/dlq/`. Clones share one index.
#[derive(Debug, Clone)]
pub struct DiskDlq {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    log: Mutex<Log>,
    /// Whether leftovers of dead processes were looked for.
    swept: AtomicBool,
}

impl DiskDlq {
    /// The queue of a data directory. Nothing is created before the first write.
    ///
    /// # Errors
    /// Another version of wasmq wrote the queue, or the directory cannot be read.
    pub fn open(disk: Arc<dyn Disk>, data_dir: &Path) -> Result<Self, DlqError> {
        let dir = data_dir.join("dlq");
        refuse_other_versions(&*disk, &dir)?;
        let log = Mutex::new(Log::new(Arc::clone(&disk), &dir));
        Ok(Self { shared: Arc::new(Shared { disk, dir, log, swept: AtomicBool::new(false) }) })
    }

    /// Rewrites the file now; the tests look at what becomes of it.
    #[cfg(test)]
    pub(crate) fn compact(&self, now: Timestamp) -> Result<(), DlqError> {
        let _lock = self.shared.take_lock()?;
        let mut log = self.shared.log();
        log.prepare_write()?;
        log.compact(now)
    }
}

/// The files of the queue of a data directory that are there and that every writer writes.
///
/// # Errors
/// When they cannot be looked at.
pub fn files(disk: &dyn Disk, data_dir: &Path) -> Result<Vec<PathBuf>, DlqError> {
    let paths = [LOCK_NAME, FILE_NAME].map(|name| data_dir.join("dlq").join(name));
    let mut there = Vec::new();
    for path in paths {
        if disk.stat(&path).map_err(DlqError::io("looking at", &path))?.is_some() {
            there.push(path);
        }
    }
    Ok(there)
}

pub(super) fn refuse_other_versions(disk: &dyn Disk, dir: &Path) -> Result<(), DlqError> {
    if disk.stat(dir).map_err(DlqError::io("looking at", dir))?.is_none() {
        return Ok(());
    }
    for entry in disk.list(dir).map_err(DlqError::io("listing", dir))? {
        let name = entry.name.to_string_lossy();
        let version = name.strip_prefix("dead-tasks-v").and_then(|rest| rest.strip_suffix(".jsonl"));
        if let Some(found) = version.filter(|text| *text != "1" && text.bytes().all(|byte| byte.is_ascii_digit())) {
            let (path, found) = (dir.join(&entry.name), found.to_owned());
            return Err(DlqError::OtherVersion { path, found, known: FORMAT });
        }
    }
    Ok(())
}

/// Whether a file name is that of a queue of another version.
pub(super) fn is_of_another_version(name: &str) -> bool {
    let version = name.strip_prefix("dead-tasks-v").and_then(|rest| rest.strip_suffix(".jsonl"));
    version.is_some_and(|text| text != "1" && text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Shared {
    fn take_lock(&self) -> Result<Box<dyn DiskLock>, DlqError> {
        self.disk.create_dir_all(&self.dir).map_err(DlqError::io("creating", &self.dir))?;
        let path = self.dir.join(LOCK_NAME);
        let lock = self.disk.lock(&path, Wait::Forever).map_err(DlqError::io("locking", &path))?;
        let lock = lock.ok_or_else(|| DlqError::io("locking", &path)(std::io::ErrorKind::WouldBlock.into()))?;
        if !self.swept.swap(true, Ordering::Relaxed) {
            self.sweep();
        }
        Ok(lock)
    }

    /// Removes the copy of a compaction that died. Whoever compacts holds the lock, as the caller does.
    fn sweep(&self) {
        let leftover = self.dir.join(COPY_NAME);
        if matches!(self.disk.stat(&leftover), Ok(Some(_)))
            && let Err(error) = self.disk.remove(&leftover)
        {
            tracing::warn!(path = %leftover.display(), %error, "the leftover of a compaction could not be removed");
        }
    }

    /// The log as it was left by the last call.
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(|poisoned| {
            // A panic in between may have left the index half changed: read it anew.
            let mut log = poisoned.into_inner();
            log.forget();
            self.log.clear_poison();
            log
        })
    }

    fn fresh(&self) -> Result<MutexGuard<'_, Log>, DlqError> {
        let mut log = self.log();
        log.refresh()?;
        Ok(log)
    }

    /// Reads; an entry that moved under the reader (a write was taken back) is looked for once more.
    fn read<T>(&self, ask: impl Fn(&Log) -> Result<T, DlqError>) -> Result<T, DlqError> {
        let answer = ask(&*self.fresh()?);
        if !matches!(answer, Err(DlqError::Damaged { .. })) {
            return answer;
        }
        self.log().forget();
        ask(&*self.fresh()?)
    }
}

impl DeadTaskStore for DiskDlq {
    fn add(&self, dead: &[DeadTask]) -> Result<Added, DlqError> {
        let _lock = self.shared.take_lock()?;
        self.shared.log().add(dead)
    }

    fn batch(&self, cursor: Option<Cursor>, limit: usize, filter: &Filter) -> Result<Page, DlqError> {
        self.shared.read(|log| log.batch(cursor, limit, filter))
    }

    fn latest(&self, before: Option<Cursor>, limit: usize, filter: &Filter) -> Result<Page, DlqError> {
        self.shared.read(|log| log.latest(before, limit, filter))
    }

    fn end(&self) -> Result<Cursor, DlqError> {
        self.shared.read(|log| Ok(log.end()))
    }

    fn count(&self, filter: &Filter) -> Result<u64, DlqError> {
        self.shared.read(|log| Ok(log.count(filter)))
    }

    fn get(&self, id: InvocationId) -> Result<Option<DeadTask>, DlqError> {
        self.shared.read(|log| log.get(id))
    }

    fn find(&self, prefix: &str) -> Result<Found, DlqError> {
        self.shared.read(|log| log.find(prefix))
    }

    fn counts(&self) -> Result<Counts, DlqError> {
        self.shared.read(|log| Ok(log.counts()))
    }

    fn groups(&self) -> Result<Vec<Group>, DlqError> {
        self.shared.read(Log::groups)
    }

    fn damage(&self) -> Result<Vec<Damage>, DlqError> {
        let mut damage = self.shared.read(|log| Ok(log.damage()))?;
        // Whoever writes has the lock, and an end that is not whole is no damage then.
        let lock = self.shared.disk.try_lock_existing(&self.shared.dir.join(LOCK_NAME));
        if !matches!(lock, Ok(LockAttempt::Held)) {
            damage.extend(self.shared.read(Log::unended_line)?);
        }
        Ok(damage)
    }

    fn lock(&self) -> Result<Box<dyn LockedDlq>, DlqError> {
        let lock = self.shared.take_lock()?;
        Ok(Box::new(Guard { shared: Arc::clone(&self.shared), _lock: lock }))
    }
}

#[derive(Debug)]
struct Guard {
    shared: Arc<Shared>,
    _lock: Box<dyn DiskLock>,
}

impl LockedDlq for Guard {
    fn current(&mut self, ids: &[InvocationId]) -> Result<Vec<(InvocationId, Standing)>, DlqError> {
        self.shared.read(|log| ids.iter().map(|id| Ok((*id, log.standing(*id)?))).collect())
    }

    fn intend(&mut self, wal: &str, ids: &[IdPair], now: Timestamp) -> Result<(), DlqError> {
        self.shared.log().intend(wal, ids, now)
    }

    fn removed(&mut self, ids: &[IdPair], reason: RemovalReason, now: Timestamp) -> Result<usize, DlqError> {
        self.shared.log().remove(ids, reason, now)
    }

    fn dangling(&mut self) -> Result<Vec<Intent>, DlqError> {
        self.shared.read(|log| Ok(log.index.dangling()))
    }

    fn drop_superseded(&mut self, ids: &[IdPair], now: Timestamp) -> Result<usize, DlqError> {
        self.shared.log().drop_superseded(ids, now)
    }
}
