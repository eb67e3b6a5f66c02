//! What can go wrong with the store of live invocations.

use std::path::PathBuf;

use wasmq_wal::WalError;

/// A failure of the journal. The sources say which file and offset.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] WalError),
    /// A record that passed its checksum does not hold what its kind promises.
    #[error("a record of kind {kind} in segment {segment} at offset {offset} cannot be understood: {reason}")]
    Record {
        /// The record's kind.
        kind: u8,
        /// The segment's sequence number.
        segment: u32,
        /// The offset of the record in the segment, in bytes.
        offset: u64,
        /// What is wrong with it.
        reason: wasmq_core::codec::DecodeError,
    },
    /// A later version of wasmq wrote into the log.
    #[error("{} has a record of kind {kind} at offset {offset}, this wasmq knows kinds up to {known}: the log was not touched; use a wasmq that knows it", path.display())]
    NewerRecord {
        /// The segment.
        path: PathBuf,
        /// The record's kind.
        kind: u8,
        /// The offset of the record in the segment, in bytes.
        offset: u64,
        /// The highest kind this version knows.
        known: u8,
    },
    /// The file system refused something around the log.
    #[error("failed to {doing} {}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The disk is as good as full.
    #[error("less than {bytes} bytes are free, and they are kept so that what is queued can be run")]
    Reserved {
        /// What is kept, in bytes.
        bytes: u64,
    },
    /// Somebody took a log over at this very moment.
    #[error("the log {log} was taken over at this very moment; try again")]
    Unclaimed {
        /// The log.
        log: wasmq_wal::WalId,
    },
    /// An invocation that is not live.
    #[error("{0} is not live in this log")]
    Unknown(wasmq_core::InvocationId),
}

impl JournalError {
    /// Whether the disk is full and nothing was harmed: trying again later may help.
    #[must_use]
    pub const fn is_no_space(&self) -> bool {
        matches!(self, Self::Log(WalError::NoSpace { .. }) | Self::Reserved { .. })
    }
}
