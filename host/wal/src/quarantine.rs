//! Keeping damaged bytes when the segment around them is to be deleted.

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{IoFailure, WalError};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// How much is copied at once, in bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// Where `quarantine` puts the bytes at `offset` of a segment: `<segment>.damaged-<offset>`.
#[must_use]
pub fn quarantine_path(segment: &Path, offset: u64) -> PathBuf {
    let mut name = segment.as_os_str().to_owned();
    name.push(format!(".damaged-{offset}"));
    name.into()
}

/// Copies `bytes` bytes at `offset` of a segment beside it, durably, and says where. Does nothing
/// when that was done before. Fewer bytes are copied where the segment ends.
///
/// # Errors
/// `Io`. The bytes must not be deleted then.
pub fn quarantine(disk: &dyn Disk, segment: &Path, offset: u64, bytes: u64) -> Result<PathBuf, WalError> {
    let target = quarantine_path(segment, offset);
    let io = |error| IoFailure::new("quarantine the damaged bytes of", segment, error).at(offset);
    let source = disk.open(segment, OpenMode::Read).map_err(io)?;
    let len = bytes.min(source.len().map_err(io)?.saturating_sub(offset));
    if disk.stat(&target).map_err(io)?.is_none_or(|done| done.len != len) {
        copy(disk, &*source, &target, offset, len).map_err(io)?;
    }
    Ok(target)
}

fn copy(disk: &dyn Disk, source: &dyn DiskFile, target: &Path, offset: u64, len: u64) -> io::Result<()> {
    let mut name = OsString::from(target);
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    // The owner of the log is the only one to do this, so a leftover of a crash is overwritten.
    if let Err(error) = write_copy(disk, source, &temporary, offset, len) {
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    disk.rename(&temporary, target)?;
    disk.sync_dir(target.parent().ok_or(io::ErrorKind::InvalidInput)?)
}

fn write_copy(disk: &dyn Disk, source: &dyn DiskFile, target: &Path, offset: u64, len: u64) -> io::Result<()> {
    let file = disk.open(target, OpenMode::Create)?;
    file.set_len(0)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut done = 0;
    while done < len {
        let want = usize::try_from(len - done).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let part = chunk.get_mut(..want).ok_or(io::ErrorKind::InvalidInput)?;
        source.read_exact_at(part, offset + done)?;
        file.write_all_at(part, done)?;
        done += want as u64;
    }
    file.sync_all()
}
