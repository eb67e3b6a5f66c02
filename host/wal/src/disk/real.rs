//! The real file system. The only file of the crate that may use `std::fs`.
//!
//! Locks are flock(2) through `fs2`: they belong to the open file, end with the process, and say
//! nothing about the path, which is why every acquisition compares the inode of the file that was
//! locked with the one the path names afterwards.
//!
//! Deliberately absent: caching of handles, retries of failed syncs.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{DirEntry, Disk, DiskFile, DiskLock, EntryKind, Locality, LockAttempt, OpenMode, Stat, Wait, lock_line};
use fs2::FileExt as _;
use rustix::fs::Access;
use std::collections::BTreeSet;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long to sleep between two looks at a lock that is held: first, and at most.
const FIRST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(20);

/// The file system of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        let found = fs::metadata(path).ok().filter(Metadata::is_dir);
        if let Some(found) = &found {
            return settle_entry(path, found, || match self.sync_dir(parent) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                other => other,
            });
        }
        self.create_dir_all(parent)?;
        match fs::create_dir(path) {
            // Somebody else was faster; what they made still has to be a directory, and durable.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::metadata(path)?.is_dir() {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            other => other?,
        }
        settle_entry(path, &fs::metadata(path)?, || self.sync_dir(parent)).inspect_err(|_| {
            // A second sync would not be believed; a directory that is made anew is.
            let _ = fs::remove_dir(path);
        })
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => _ = options.write(true),
            OpenMode::Create => _ = options.write(true).create(true).truncate(false),
            OpenMode::CreateNew => _ = options.write(true).create_new(true),
        }
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        File::open(here)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(found) => entries.push(describe(&entry, &found)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let nanoseconds = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Ok(Some(Stat {
            len: found.len(),
            kind: kind_of(found.file_type()),
            inode: found.ino(),
            modified_ns: u128::try_from(nanoseconds).unwrap_or(0),
        }))
    }

    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut waited = Waited::default();
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let Some(file) = acquire(options.open(path)?, wait, &mut waited)? else {
                return Ok(None);
            };
            if names(path, &file)? {
                return Ok(Some(Box::new(RealLock { file, path: path.to_owned() })));
            }
        }
    }

    fn try_lock_existing(&self, path: &Path) -> io::Result<LockAttempt> {
        loop {
            let file = match OpenOptions::new().read(true).write(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(LockAttempt::Gone);
                }
                other => other?,
            };
            let Some(file) = acquire(file, Wait::No, &mut Waited::default())? else {
                return Ok(LockAttempt::Held);
            };
            if names(path, &file)? {
                let lock = RealLock { file, path: path.to_owned() };
                return Ok(LockAttempt::Acquired(Box::new(lock)));
            }
        }
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        fs2::available_space(path)
    }

    fn may_write(&self, path: &Path) -> io::Result<()> {
        let wanted = if fs::metadata(path)?.is_dir() { Access::WRITE_OK | Access::EXEC_OK } else { Access::WRITE_OK };
        Ok(rustix::fs::access(path, wanted)?)
    }

    fn locality(&self, path: &Path) -> io::Result<Locality> {
        // Some systems give it with a sign, some in 64 bits.
        let number = rustix::fs::statfs(path)?.f_type as u64 & u64::from(u32::MAX);
        Ok(u32::try_from(number).map_or(Locality::Local, Locality::of_type))
    }
}

/// Directories whose entry this process has made durable, by path, device and inode.
static DURABLE_DIRS: Mutex<BTreeSet<(PathBuf, u64, u64)>> = Mutex::new(BTreeSet::new());

/// Syncs the entry of a directory, unless this process has done so before.
fn settle_entry(path: &Path, found: &Metadata, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let key = (path.to_owned(), found.dev(), found.ino());
    let known = || DURABLE_DIRS.lock().unwrap_or_else(PoisonError::into_inner);
    if !known().contains(&key) {
        sync()?;
        known().insert(key);
    }
    Ok(())
}

fn describe(entry: &fs::DirEntry, found: &Metadata) -> DirEntry {
    let kind = kind_of(found.file_type());
    let len = if kind == EntryKind::File { found.len() } else { 0 };
    DirEntry { name: entry.file_name(), kind, len }
}

fn kind_of(found: FileType) -> EntryKind {
    if found.is_file() {
        EntryKind::File
    } else if found.is_dir() {
        EntryKind::Dir
    } else {
        EntryKind::Other
    }
}

/// Time slept so far. Counted from the naps, so that no clock is needed.
#[derive(Default)]
struct Waited(Duration);

impl Waited {
    /// Sleeps once more; `false` when the wait is over.
    fn nap(&mut self, wait: Wait, nap: Duration) -> bool {
        let nap = match wait {
            Wait::No => return false,
            Wait::Forever => nap,
            Wait::UpTo(limit) => nap.min(limit.saturating_sub(self.0)),
        };
        std::thread::sleep(nap);
        self.0 += nap;
        !nap.is_zero()
    }
}

/// Locks an open file; `None` when it is held and the wait is over.
fn acquire(file: File, wait: Wait, waited: &mut Waited) -> io::Result<Option<File>> {
    let mut nap = FIRST_NAP;
    loop {
        match file.try_lock_exclusive() {
            Ok(()) => return Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                if !waited.nap(wait, nap) {
                    return Ok(None);
                }
                nap = (nap * 2).min(LONGEST_NAP);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether `path` names exactly this open file.
fn names(path: &Path, file: &File) -> io::Result<bool> {
    let locked = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok(found.ino() == locked.ino() && found.dev() == locked.dev()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn inode(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }
}

#[derive(Debug)]
struct RealLock {
    file: File,
    path: PathBuf,
}

impl DiskLock for RealLock {
    fn append_line(&mut self, text: &str) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        let mut last = [b'\n'];
        if len > 0 {
            self.file.read_exact_at(&mut last, len - 1)?;
        }
        self.file.write_all_at(lock_line(&last, text).as_bytes(), len)?;
        self.file.sync_all()
    }

    fn read(&self) -> io::Result<String> {
        let file = RealFile(self.file.try_clone()?);
        Ok(String::from_utf8_lossy(&file.read_all()?).into_owned())
    }

    fn remove(self: Box<Self>) -> io::Result<()> {
        if !names(&self.path, &self.file)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_a_directory_is_synced_until_that_succeeds_and_then_no_more() {
        let temporary = tempfile::tempdir().unwrap();
        let found = fs::metadata(temporary.path()).unwrap();
        let mut syncs = 0;
        for fails in [true, true, false, false] {
            let result = settle_entry(temporary.path(), &found, || {
                syncs += 1;
                if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
            });
            assert_eq!(result.is_err(), fails);
        }
        assert_eq!(syncs, 3);
    }
}
