//! Replacing a file so that a reader, or a crash, sees the old content or the new and nothing else.
//!
//! Deliberately absent: locking. Two writers at once are safe (each has a temporary file of its
//! own), but the last rename wins. Who has a lock for the writers of a file can clean up after those
//! that died ([`sweep_temporaries`]).

use super::{Disk, EntryKind, OpenMode};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many taken temporary names are stepped over: leftovers of crashes of a reused process id.
const NAME_TRIES: u32 = 1000;

/// What the name of a temporary file has between that of its file and two numbers.
const INFIX: &str = ".tmp-";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes `bytes` to a temporary file beside `path`, syncs it, renames it over `path` and syncs the
/// directory. On an error the temporary file is removed and `path` is as before, except when only
/// the last sync failed: then `path` has the new content, but perhaps not durably.
///
/// # Errors
/// The first error of the file system.
pub fn write_atomically(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = write_temporary(disk, path, bytes)?;
    if let Err(error) = disk.rename(&temporary, path) {
        // The first error is the one to tell; a leftover is harmless.
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    disk.sync_dir(parent)
}

fn write_temporary(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        let temporary = temporary_name(path)?;
        let file = match disk.open(&temporary, OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < NAME_TRIES => {
                tries += 1;
                continue;
            }
            other => other?,
        };
        return match file.write_all_at(bytes, 0).and_then(|()| file.sync_all()) {
            Ok(()) => Ok(temporary),
            Err(error) => {
                let _ = disk.remove(&temporary);
                Err(error)
            }
        };
    }
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let mut name: OsString = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    name.push(format!("{INFIX}{}-{count}", std::process::id()));
    Ok(path.with_file_name(name))
}

/// Removes the temporary files that writers of the files `is_ours` in `dir` left when they died, and
/// returns how many. The caller holds the lock under which all of them write, so none is being written.
/// A directory that does not exist has none.
///
/// # Errors
/// The first error of the file system.
pub fn sweep_temporaries(disk: &dyn Disk, dir: &Path, is_ours: impl Fn(&str) -> bool) -> io::Result<usize> {
    let entries = match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other?,
    };
    let is_leftover = |name: &str| is_temporary_of(name, &is_ours);
    let mut swept = 0;
    for entry in entries {
        if entry.kind == EntryKind::File && entry.name.to_str().is_some_and(is_leftover) {
            disk.remove(&dir.join(&entry.name))?;
            swept += 1;
        }
    }
    Ok(swept)
}

/// Whether a name is that of a temporary file of a file that `is_ours`.
pub fn is_temporary_of(name: &str, is_ours: impl Fn(&str) -> bool) -> bool {
    file_of_temporary(name).is_some_and(is_ours)
}

/// The name of the file that a temporary file was to become.
fn file_of_temporary(name: &str) -> Option<&str> {
    let (file, numbers) = name.rsplit_once(INFIX)?;
    let (pid, count) = numbers.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(pid) && is_number(count)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, SimDisk, Survival};
    use super::*;

    fn names(disk: &SimDisk) -> Vec<OsString> {
        disk.list(Path::new("/d")).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn at_every_failing_operation_the_old_or_the_new_content_is_there_and_no_temporary() {
        for operation in 0.. {
            let disk = SimDisk::new();
            disk.create_dir_all(Path::new("/d")).unwrap();
            let path = Path::new("/d/file");
            write_atomically(&disk, path, b"old").unwrap();
            let before = disk.operations();
            disk.fail_at(before + operation, Fault::NoSpace);
            let result = write_atomically(&disk, path, b"new");
            assert_eq!(names(&disk), ["file"]);
            let content = disk.open(path, OpenMode::Read).unwrap().read_all().unwrap();
            assert!(content == b"old" || content == b"new");
            if disk.operations() <= before + operation {
                assert!(result.is_ok() && content == b"new" && operation >= 5);
                return;
            }
            assert!(result.is_err());
        }
    }

    #[test]
    fn what_a_power_cut_leaves_is_swept_and_nothing_else() {
        let path = Path::new("/d/file");
        let mut swept = 0;
        for operation in 0..5 {
            let disk = SimDisk::new();
            disk.create_dir_all(Path::new("/d")).unwrap();
            write_atomically(&disk, path, b"old").unwrap();
            for stranger in ["file.tmp", "file.tmp-1", "file.tmp-1-x", "file.tmp--1", "other.tmp-1-1", "tmp-1-1"] {
                disk.open(&Path::new("/d").join(stranger), OpenMode::CreateNew).unwrap();
            }
            let before = names(&disk);
            disk.cut_power_at(disk.operations() + operation);
            write_atomically(&disk, path, b"new").unwrap_err();
            let after = disk.after_power_cut(Survival::Kept, 0);
            swept += sweep_temporaries(&after, Path::new("/d"), |name| name == "file").unwrap();
            assert_eq!(names(&after), before, "{operation}");
        }
        assert_eq!(swept, 3, "created, written, synced");
        assert_eq!(sweep_temporaries(&SimDisk::new(), Path::new("/nothing"), |_| true).unwrap(), 0);
    }
}
