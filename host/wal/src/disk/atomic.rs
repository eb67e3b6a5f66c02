//! Replacing a file so that a reader, or a crash, sees the old content or the new and nothing else.
//!
//! Deliberately absent: locking. Two writers at once are safe (each has a temporary file of its
//! own), but the last rename wins.

use super::{Disk, OpenMode};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many taken temporary names are stepped over: leftovers of crashes of a reused process id.
const NAME_TRIES: u32 = 1000;

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
    name.push(format!(".tmp-{}-{count}", std::process::id()));
    Ok(path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, SimDisk};
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
}
