//! The one narrow seam to the disk.
//!
//! Everything durable in wasmq goes through [`Disk`], so that crash tests can put [`SimDisk`] where
//! [`RealDisk`] is, count operations and cut the power at each. Methods do one thing and return the
//! plain `io::Error`; callers add what they were doing and to which path.
//!
//! Deliberately absent: buffering, retries, path conventions, memory mapping.

mod atomic;
mod locality;
mod real;
mod sim;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

pub use atomic::{is_temporary_of, sweep_temporaries, write_atomically};
pub use locality::Locality;
pub use real::RealDisk;
pub use sim::{Fault, SimDisk, Survival};

/// How [`Disk::open`] opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; the file must exist.
    Read,
    /// For reading and writing; the file must exist.
    ReadWrite,
    /// For reading and writing; created if absent, content kept if present.
    Create,
    /// For reading and writing; fails with `AlreadyExists` if the name is taken.
    CreateNew,
}

/// How long [`Disk::lock`] waits for a holder to let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// At most this long.
    UpTo(Duration),
    /// As long as it takes.
    Forever,
}

/// What a directory entry is. Symbolic links are `Other` in listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, socket, pipe or device.
    Other,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name without the directory.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
    /// Length in bytes; 0 for what is not a file.
    pub len: u64,
}

/// Facts about a path: enough to see that a file grew or was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Length in bytes.
    pub len: u64,
    /// What it is, after following symbolic links.
    pub kind: EntryKind,
    /// The inode number; differs after the file was replaced.
    pub inode: u64,
    /// Time of the last change of the content, in nanoseconds since 1970 (a counter in the simulator).
    pub modified_ns: u128,
}

/// What came of [`Disk::try_lock_existing`].
#[derive(Debug)]
pub enum LockAttempt {
    /// The lock is ours until the value is dropped.
    Acquired(Box<dyn DiskLock>),
    /// Somebody else holds it.
    Held,
    /// There is no such lock file.
    Gone,
}

/// A file system, real or simulated.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates a directory and its missing parents, and makes the entry of each durable. Also the entry of
    /// one that is there already: whoever made it may have died, or failed, before it was durable. That
    /// costs a sync the first time that a process meets a directory, and none afterwards. A directory whose
    /// sync failed right after it was made is removed again, so that the next call makes it anew.
    ///
    /// # Errors
    /// Whatever the file system says; a file in the way is an error. A parent that must not be opened is
    /// none if the directory was there before.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Opens a file. A file that is created is durable only after [`Disk::sync_dir`] of its directory.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists` according to `mode`, or whatever the file system says.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file over whatever `to` names, or a directory to a free name. Durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// Whatever the file system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Unlinks a file. Durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// Whatever the file system says; directories are refused.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, sorted by name. Entries that vanish meanwhile are left out.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Facts about a path, `None` when nothing is there.
    ///
    /// # Errors
    /// Whatever the file system says, except absence.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;

    /// Takes the exclusive advisory lock on a lock file, which is created if absent. `None`: somebody
    /// else holds it and the wait is over. The lock always belongs to the file that `path` names: a
    /// lock file that was removed or replaced while waiting is tried anew.
    ///
    /// # Errors
    /// Whatever the file system says, except being held.
    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Option<Box<dyn DiskLock>>>;

    /// Takes the lock as [`Disk::lock`] does, but neither creates the file nor waits.
    ///
    /// # Errors
    /// Whatever the file system says, except being held or absent.
    fn try_lock_existing(&self, path: &Path) -> io::Result<LockAttempt>;

    /// Bytes that an ordinary user can still write on the file system of `path`.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Whether this process may write to a file, or make and remove files in a directory. It finds the wrong
    /// owner and the file system that is mounted for reading alone before anything is half made.
    ///
    /// # Errors
    /// Why it may not, or whatever the file system says.
    fn may_write(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Where the file system of an existing path keeps its files.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn locality(&self, _path: &Path) -> io::Result<Locality> {
        Ok(Locality::Local)
    }
}

/// An open file with positional reads and writes: it has no cursor.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads up to `buffer.len()` bytes at `offset`; 0 means the end of the file.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`. On an error any part of them may have been written.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file to `len` bytes or extends it with zeros that take no space yet.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn len(&self) -> io::Result<u64>;

    /// Makes content and length durable (fdatasync).
    ///
    /// # Errors
    /// After an error the content is in doubt, also if a later sync succeeds.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes content and all metadata durable (fsync).
    ///
    /// # Errors
    /// As [`DiskFile::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// The inode number, to compare with [`Stat::inode`].
    ///
    /// # Errors
    /// Whatever the file system says.
    fn inode(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`DiskFile::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buffer` from `offset` as far as the file reaches; returns how many bytes that were.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Fills all of `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file is too short, or whatever the file system says.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_up_to(buffer, offset)? < buffer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// The whole content. For files that are known to be small.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn read_all(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut bytes = vec![0; len];
        let filled = self.read_up_to(&mut bytes, 0)?;
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// An exclusive lock on a lock file, held until dropped or until the process ends.
pub trait DiskLock: Send + fmt::Debug {
    /// Appends one line and syncs the file. Control characters in `text` become spaces.
    ///
    /// # Errors
    /// Whatever the file system says; the line may be there in part then.
    fn append_line(&mut self, text: &str) -> io::Result<()>;

    /// The text of the lock file; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Whatever the file system says.
    fn read(&self) -> io::Result<String>;

    /// Unlinks the lock file while it is held, then releases the lock.
    ///
    /// # Errors
    /// Whatever the file system says; `NotFound` when the path no longer names the locked file.
    fn remove(self: Box<Self>) -> io::Result<()>;
}

/// Whether an error means that the disk or a quota is full.
#[must_use]
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// One line as lock files hold them: without control characters, with a newline at its end, and
/// with one before it if a torn line precedes.
fn lock_line(existing: &[u8], text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 2);
    if existing.last().is_some_and(|&byte| byte != b'\n') {
        line.push('\n');
    }
    line.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    line.push('\n');
    line
}
