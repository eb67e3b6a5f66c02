//! What can go wrong at the door, in kinds that a caller can tell apart.

use std::path::PathBuf;
use std::sync::Arc;

use wasmq_core::invocation::MetadataError;
use wasmq_core::settings::SettingsError;
use wasmq_core::{Digest, InvocationId, Timestamp};

use crate::dlq::DlqError;
use crate::journal::JournalError;
use crate::registry::{RegistryError, Unresolved};
use crate::runtime::Rejection;
use crate::store::StoreKind;
use crate::symbols::SymbolsRefused;
use crate::worker::WorkerError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory: {}", path.display())]
    Directory {
        /// The directory or the part of it.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The data directory is on a network file system.
    #[error("{} is on {file_system}, a network file system, where locks and appends cannot be relied on", path.display())]
    NetworkDisk {
        /// The directory or the part of it.
        path: PathBuf,
        /// The name of the file system.
        file_system: &'static str,
    },
    /// No such task, or no such version of it. Names the close ones and those that exist.
    #[error(transparent)]
    Unresolved(Unresolved),
    /// The component file was refused.
    #[error(transparent)]
    Refused(#[from] Rejection),
    /// The component cannot be compiled or instantiated.
    #[error("the component cannot be prepared to run: {0}")]
    Prepare(String),
    /// No component begins like that.
    #[error("no component {text} is in the store")]
    UnknownComponent {
        /// What was asked for.
        text: String,
        /// What may have been meant: as much of it as was given.
        close: Vec<String>,
    },
    /// More than one component begins like that.
    #[error("{text} is the beginning of {} components", components.len())]
    AmbiguousComponent {
        /// What was asked for.
        text: String,
        /// Those that it may mean.
        components: Vec<Digest>,
    },
    /// The file is no use as symbols of the component.
    #[error(transparent)]
    SymbolsRefused(#[from] SymbolsRefused),
    /// No symbols were added for the component.
    #[error("no symbols were added for {0}")]
    NoSymbols(Digest),
    /// A setting is outside its range.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The payload is too large.
    #[error("the payload has {found} bytes, but the limit is {limit} bytes")]
    PayloadTooLarge {
        /// Its size.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The metadata is too large.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// No such invocation, live or dead.
    #[error("{0} is neither live nor in the dead letter queue")]
    UnknownId(String),
    /// No dead task has this fingerprint, or none has it any more.
    #[error("no dead task is in the group {0}")]
    UnknownGroup(String),
    /// More than one invocation begins like that.
    #[error("\"{prefix}\" is the beginning of {total} ids")]
    AmbiguousId {
        /// What was asked for.
        prefix: String,
        /// Some of them.
        ids: Vec<InvocationId>,
        /// How many there are.
        total: usize,
    },
    /// The text is no id and no beginning of one.
    #[error("\"{0}\" is not an id: expected a UUID, or at least its first 8 hex digits")]
    NotAnId(String),
    /// The dead task has been put back already.
    #[error("{id} was already retried; its replay number {replays} was enqueued then")]
    AlreadyRetried {
        /// The id.
        id: InvocationId,
        /// When.
        at: Timestamp,
        /// Which replay that was.
        replays: u32,
    },
    /// The dead task has been deleted already.
    #[error("{id} was already deleted")]
    AlreadyDeleted {
        /// The id.
        id: InvocationId,
        /// When.
        at: Timestamp,
    },
    /// The invocation is live and not in the dead letter queue.
    #[error("{0} is live; it is not in the dead letter queue")]
    StillLive(InvocationId),
    /// The store `none` keeps nothing.
    #[error("the store is `none`: no dead tasks are kept and nothing survives the server")]
    NothingKept,
    /// Live invocations of the store `none` cannot be listed.
    #[error("the store is `none`: live invocations are in the memory of the server only")]
    InMemory,
    /// The socket of a server is not this user's.
    #[error("a server there belongs to another user, and only that user may use its socket in {}", run_dir.display())]
    OtherUser {
        /// The directory of the socket.
        run_dir: PathBuf,
    },
    /// Something that only a running server can do.
    #[error("no server is running on {}", data_dir.display())]
    NoServer {
        /// The data directory.
        data_dir: PathBuf,
        /// The store that the server would need to have.
        store: StoreKind,
    },
    /// The invocation is a dead task.
    #[error("{0} is a dead task and not live")]
    IsDead(InvocationId),
    /// A server takes nothing at the moment, because it stops or its workers are being started again.
    #[error("the server takes nothing at the moment: {0}")]
    Unavailable(String),
    /// A server refused.
    #[error("the server refused: {0}")]
    Server(String),
    /// The disk is full.
    #[error("the disk is full: {0}")]
    NoSpace(String),
    /// The connection to a server broke.
    #[error("the connection to the server broke; what it had acknowledged is safe")]
    Connection(#[source] std::io::Error),
    /// The connection broke while the end of an invocation was awaited.
    #[error("the connection to the server broke while {id} was waited for; it is safe and goes on without the waiter")]
    Left {
        /// The invocation.
        id: InvocationId,
        /// Why.
        source: std::io::Error,
    },
    /// A server is there and does not answer.
    #[error("the server has not answered for {seconds} s; whether it did what was asked is not known")]
    NoAnswer {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The server on the data directory has another store than this call was told.
    #[error("the server there has the store {}, but the store {} was asked for", running.word(), wanted.word())]
    OtherStore {
        /// What this call was told.
        wanted: StoreKind,
        /// What the server has.
        running: StoreKind,
    },
    /// A signal came before the end of an invocation that runs inside this process.
    #[error("interrupted before {id} had ended; it is kept, and runs again when a server does")]
    Interrupted {
        /// The invocation.
        id: InvocationId,
    },
    /// The worker inside this process failed.
    #[error("the worker failed")]
    Worker(#[source] WorkerError),
    /// The store of live invocations failed.
    #[error(transparent)]
    Journal(Arc<JournalError>),
    /// The dead letter queue failed.
    #[error("the dead letter queue cannot be used")]
    Dlq(#[source] DlqError),
    /// The registry failed.
    #[error("the registry of tasks cannot be used")]
    Registry(#[source] RegistryError),
}

impl From<JournalError> for QueueError {
    fn from(error: JournalError) -> Self {
        Self::from(Arc::new(error))
    }
}

impl From<Arc<JournalError>> for QueueError {
    fn from(error: Arc<JournalError>) -> Self {
        if error.is_no_space() { Self::NoSpace(error.to_string()) } else { Self::Journal(error) }
    }
}

impl QueueError {
    /// From the failure of a worker inside this process. What failed in the store is told like any other
    /// failure of the store.
    pub(super) fn from_worker(error: WorkerError) -> Self {
        let error = match error.downcast::<JournalError>() {
            Ok(journal) => return Self::from(*journal),
            Err(other) => other,
        };
        let error = match error.downcast::<DlqError>() {
            Ok(dlq) => return Self::from(*dlq),
            Err(other) => other,
        };
        error.downcast::<RegistryError>().map_or_else(Self::Worker, |registry| Self::from(*registry))
    }
}

impl From<DlqError> for QueueError {
    fn from(error: DlqError) -> Self {
        if matches!(error, DlqError::NothingKept) { Self::NothingKept } else { Self::Dlq(error) }
    }
}
