//! Local sockets in `run/` of a data directory, one per server. The name says which store the server
//! has, so that nobody takes a server that keeps nothing for one that does.
//!
//! A socket address holds hardly more than 100 bytes, a data directory may have a longer path. So the
//! address goes through the open directory (`/proc/self/fd/<n>/<name>`), which is always short.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use wasmq_wal::disk::{Disk as _, RealDisk};

use crate::store::StoreKind;

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

/// The socket of a server that may or may not run any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSocket {
    /// The name of the socket.
    pub(super) name: String,
    /// The store of the server.
    pub store: StoreKind,
}

impl ServerSocket {
    /// One that no other server has.
    pub(super) fn new(store: StoreKind) -> Self {
        let name = format!("{}-{}{ENDING}", store.word(), crate::clock::new_unique_name());
        Self { name, store }
    }

    fn parse(name: String) -> Option<Self> {
        let (word, _) = name.strip_suffix(ENDING)?.split_once('-')?;
        let store = [StoreKind::Dir, StoreKind::None].into_iter().find(|store| store.word() == word)?;
        Some(Self { name, store })
    }
}

/// The sockets in a directory; none when it does not exist.
///
/// # Errors
/// When the directory cannot be listed.
pub fn servers(dir: &Path) -> io::Result<Vec<ServerSocket>> {
    let entries = match RealDisk.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
    Ok(names.filter_map(ServerSocket::parse).collect())
}

/// Connects to a server; `None` when nobody listens there any more.
///
/// # Errors
/// When the system refuses for another reason than absence.
pub fn connect(dir: &Path, server: &ServerSocket) -> io::Result<Option<UnixStream>> {
    let short = short_path(dir, &server.name)?;
    match UnixStream::connect(&short.path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}
