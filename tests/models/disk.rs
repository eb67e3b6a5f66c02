//! The simulated disk, shared by processes whose steps the checker interleaves: before every operation
//! another may go on, and a process can die at any of its operations.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;
use wasmq_wal::disk::{DirEntry, Disk, DiskFile, DiskLock, LockAttempt, OpenMode, SimDisk, Stat, Wait};

/// What one process sees of the disk.
#[derive(Debug, Clone)]
pub(crate) struct SteppingDisk {
    inner: SimDisk,
    /// Operations until the process dies.
    left: Arc<AtomicU64>,
}

impl SteppingDisk {
    /// The view of a process that dies at its operation number `lives`, counted from 0; never at `u64::MAX`.
    pub(crate) fn view(disk: &SimDisk, lives: u64) -> Arc<dyn Disk> {
        Arc::new(Self { inner: disk.clone(), left: Arc::new(AtomicU64::new(lives)) })
    }

    /// Lets others go on; fails when the process is dead.
    fn step(&self) -> io::Result<()> {
        thread::yield_now();
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::Error::other("this process is dead"));
        }
        if left != u64::MAX {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn file(&self, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(SteppingFile { inner, disk: self.clone() })
    }

    fn held(&self, inner: Box<dyn DiskLock>) -> Box<dyn DiskLock> {
        Box::new(SteppingLock { inner, disk: self.clone() })
    }
}

impl Disk for SteppingDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.create_dir_all(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        self.step()?;
        Ok(self.file(self.inner.open(path, mode)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.sync_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.step()?;
        self.inner.list(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.step()?;
        self.inner.stat(path)
    }

    /// The wait of the simulated disk would stop all threads of the model, so this one looks again and again.
    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Option<Box<dyn DiskLock>>> {
        loop {
            self.step()?;
            if let Some(lock) = self.inner.lock(path, Wait::No)? {
                return Ok(Some(self.held(lock)));
            }
            if wait == Wait::No {
                return Ok(None);
            }
        }
    }

    fn try_lock_existing(&self, path: &Path) -> io::Result<LockAttempt> {
        self.step()?;
        Ok(match self.inner.try_lock_existing(path)? {
            LockAttempt::Acquired(lock) => LockAttempt::Acquired(self.held(lock)),
            other => other,
        })
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }
}

#[derive(Debug)]
struct SteppingFile {
    inner: Box<dyn DiskFile>,
    disk: SteppingDisk,
}

impl DiskFile for SteppingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.step()?;
        self.inner.read_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.step()?;
        self.inner.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.step()?;
        self.inner.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.step()?;
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.step()?;
        self.inner.sync_all()
    }

    fn inode(&self) -> io::Result<u64> {
        self.inner.inode()
    }
}

#[derive(Debug)]
struct SteppingLock {
    inner: Box<dyn DiskLock>,
    disk: SteppingDisk,
}

impl DiskLock for SteppingLock {
    fn append_line(&mut self, text: &str) -> io::Result<()> {
        self.disk.step()?;
        self.inner.append_line(text)
    }

    fn read(&self) -> io::Result<String> {
        self.disk.step()?;
        self.inner.read()
    }

    fn remove(self: Box<Self>) -> io::Result<()> {
        self.disk.step()?;
        self.inner.remove()
    }
}
