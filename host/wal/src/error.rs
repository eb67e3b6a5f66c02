//! What can go wrong, with what was being done, to which file and where.
//!
//! Messages are lowercase fragments that fit after "failed to …" and never repeat their source.

use crate::disk::is_no_space;
use crate::report::DamageReason;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One failed operation on a file or directory.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing} {}{}", path.display(), at(*offset))]
pub struct IoFailure {
    /// The operation, such as `write to`.
    pub doing: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// Where in the file, if the operation has a place.
    pub offset: Option<u64>,
    /// What the operating system said. Shared, because a poisoned log repeats it.
    #[source]
    pub source: Arc<io::Error>,
}

fn at(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at offset {offset}"))
}

impl IoFailure {
    pub(crate) fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self { doing, path: path.to_owned(), offset: None, source: Arc::new(source) }
    }

    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Whether the disk or a quota is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        is_no_space(&self.source)
    }
}

/// Why an operation on a log failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// An operation on a file failed. If it was a write or sync of the log, the log is poisoned now.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// There is no room for the record. It was not written, the log is as before, and a later append may succeed.
    #[error("reserve {needed_bytes} bytes for a record: no space left on the disk")]
    NoSpace {
        /// Bytes that were needed.
        needed_bytes: u64,
        /// The operation that ran out of space.
        #[source]
        failure: IoFailure,
    },
    /// An earlier write or sync failed. Nothing that was not synced before it is certain to be on the disk.
    #[error("use a log whose earlier write failed; reopen it or go on with a new one")]
    Poisoned {
        /// The first failure.
        #[source]
        first: IoFailure,
    },
    /// A record is longer than the format allows.
    #[error("append a record of {found_bytes} bytes: the limit is {limit_bytes}")]
    TooLarge {
        /// Length of the body.
        found_bytes: u64,
        /// The limit, `MAX_BODY_BYTES`.
        limit_bytes: u64,
    },
    /// Kind 0 is not a kind: zeros mean the end of a log.
    #[error("append a record of kind 0: kinds are 1 to 255")]
    KindZero,
    /// No record lies at the place that was asked for.
    #[error("read a record at {}, offset {offset}: the segment has no record there", path.display())]
    NoSuchRecord {
        /// The segment.
        path: PathBuf,
        /// Where the body was expected.
        offset: u64,
    },
    /// The bytes of a record are not what was written.
    #[error("read a record at {}, offset {offset}: {reason}", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Start of the record.
        offset: u64,
        /// What is wrong with it.
        reason: DamageReason,
    },
    /// A file was written by a newer wasmq. It was not touched.
    #[error("{} has format {found}, this wasmq knows format {supported}: it was not touched; use a wasmq that knows it", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this crate reads.
        supported: u32,
    },
    /// A log with this id already has segments.
    #[error("create a log in {}: it already exists", path.display())]
    Exists {
        /// The lock file of the log.
        path: PathBuf,
    },
    /// Somebody else holds the log.
    #[error("lock {}: held by {holder:?}", path.display())]
    LockHeld {
        /// The lock file.
        path: PathBuf,
        /// What its first line says about the holder.
        holder: String,
    },
    /// Only the active segment is left, which cannot be dropped.
    #[error("drop the oldest segment of a log that has only its active one")]
    NothingSealed,
    /// All sequence numbers of segments are used up.
    #[error("create a segment: the log has used all {} sequence numbers", u32::MAX)]
    SequencesUsedUp,
}

impl WalError {
    /// Whether the disk is full: what failed may be tried again after space was freed.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::Io(failure) => failure.is_no_space(),
            _ => false,
        }
    }
}
