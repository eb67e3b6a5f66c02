//! What can go wrong with the dead letter queue, in words that say what to do next.
//!
//! Deliberately absent: anything about what is inside an entry; no content makes an operation fail.

use std::io;
use std::path::{Path, PathBuf};

use wasmq_core::InvocationId;
use wasmq_wal::disk::is_no_space;

/// Why an operation on the dead letter queue failed. Whatever failed, the queue is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum DlqError {
    /// The store is `none`.
    #[error("this store keeps no dead tasks (store = \"none\"): choose the directory store to keep them")]
    NothingKept,
    /// No space, or over quota.
    #[error("the disk is full while {doing} {path}: nothing was changed; free some space and try again", path = path.display())]
    NoSpace {
        /// What was being done, as in "appending to".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// Any other error of the file system.
    #[error("failed {doing} {path}: nothing was acknowledged; check the disk and the permissions, then try again", path = path.display())]
    Io {
        /// What was being done, as in "appending to".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// A file of another format version lies in the directory.
    #[error("{path} has format {found}, this wasmq knows format {known}: nothing was touched; use a wasmq that knows it", path = path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its format, in decimal digits.
        found: String,
        /// The format this version knows.
        known: u32,
    },
    /// An entry over the longest line.
    #[error("dead task {id} takes {found} bytes as a line, more than the {limit} that fit")]
    TooLarge {
        /// The dead task.
        id: InvocationId,
        /// Its length as a line, in bytes.
        found: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// An entry that verified when the file was read and does not any more.
    #[error("dead task {id} is damaged in {path} at offset {offset}: `wasmq status` lists all damage", path = path.display())]
    Damaged {
        /// The dead task.
        id: InvocationId,
        /// The file.
        path: PathBuf,
        /// The offset of its line, in bytes.
        offset: u64,
    },
    /// An id prefix that is too short or not hex.
    #[error("\"{found}\" is not a prefix of an id: expected 8 to 32 hex digits, dashes allowed")]
    Prefix {
        /// The text, shortened and escaped.
        found: String,
    },
    /// The compacted file does not hold what it must; it was not put in place.
    #[error("the compacted copy of {path} holds {found} dead tasks instead of {expected}: it was discarded", path = path.display())]
    CopyDiffers {
        /// The file that was to be compacted; it is unchanged.
        path: PathBuf,
        /// Entries in the copy.
        found: usize,
        /// Entries in the file.
        expected: usize,
    },
}

impl DlqError {
    /// Turns an error of the file system into one that says what was being done to what.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            if is_no_space(&source) { Self::NoSpace { doing, path, source } } else { Self::Io { doing, path, source } }
        }
    }

    /// A file that was there a moment ago.
    pub(super) fn gone(path: &Path) -> Self {
        Self::io("opening", path)(io::ErrorKind::NotFound.into())
    }
}
