//! Local sockets in `run/` of a data directory, one per server.
//!
//! A socket address holds hardly more than 100 bytes, a data directory may have a longer path. So the
//! address goes through the open directory (`/proc/self/fd/<n>/<name>`), which is always short.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use wasmq_wal::disk::{Disk as _, RealDisk};

/// What names of sockets end in.
const ENDING: &str = ".sock";

/// A short path to a name in a directory, for as long as the directory is held open.
pub(super) struct ShortPath {
    _dir: OwnedFd,
    pub(super) path: PathBuf,
}

pub(super) fn short_path(dir: &Path, name: &str) -> io::Result<ShortPath> {
    let open = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()));
    Ok(ShortPath { _dir: open, path })
}

/// A new socket name that no other server has.
pub(super) fn new_name() -> String {
    format!("{}{ENDING}", crate::clock::new_unique_name())
}

/// The names of the sockets in a directory; none when it does not exist.
///
/// # Errors
/// When the directory cannot be listed.
pub fn servers(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match RealDisk.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
    Ok(names.filter(|name| name.ends_with(ENDING)).collect())
}

/// Connects to a server by the name of its socket; `None` when nobody listens there any more.
///
/// # Errors
/// When the system refuses for another reason than absence.
pub fn connect(dir: &Path, name: &str) -> io::Result<Option<UnixStream>> {
    let short = short_path(dir, name)?;
    match UnixStream::connect(&short.path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}
