//! The one door: deploy, enqueue, query, dead tasks. The command line, and later HTTP, talk to this
//! module only; so do programs that use wasmq as a library.
//!
//! Everything works on the store itself, with or without a running server. A running server is asked
//! where it answers faster or knows more: an enqueue goes to its least loaded worker, a cancellation
//! to the worker that has the invocation.
//!
//! Invariants: what a call returned as enqueued is durable as far as the `fsync` setting says; a
//! call that fails has changed nothing that its error does not name.
//!
//! # Example
//!
//! ```no_run
//! use wasmq::queue::{Component, NewInvocation, Options, Queue, Selection};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = Queue::open(Options::new("wasmq-data"))?;
//! let id = queue.enqueue(NewInvocation::new("resize".parse()?, b"...".to_vec()))?;
//! println!("{id} is safe");
//!
//! // Every dead task of one kind again, in batches, while the loop changes what it walks over.
//! for entry in queue.dead_tasks().iter(&Selection::Task("resize".parse()?)) {
//!     let entry = entry?;
//!     if entry.verdict.family() == "trap" {
//!         entry.retry(&Component::Current)?;
//!     } else {
//!         entry.delete()?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod client;
mod dead;
mod deploy;
mod enqueue;
mod error;
mod live;
mod once;
mod outside;
mod phase;
mod place;
mod retention;
mod retry;
mod status;
mod store_check;
#[cfg(test)]
mod store_check_tests;
mod symbols;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wasmq_wal::disk::{Disk, EntryKind, RealDisk};

pub use crate::dlq::{Counts as DeadCounts, Group};
pub use crate::journal::Counts as LiveCounts;
pub use crate::registry::{Task, Unresolved, Version};
pub use crate::runtime::{
    Accepted, Inspection, MAX_COMPONENT_BYTES, Need, Progress, Rejection, Shape, Signals, accept, inspect,
};
pub use crate::store::{Fsync, StoreKind};
pub use crate::supervisor::{ServerFigures, WorkerStatus};
pub use crate::symbols::{
    Contents as SymbolContents, Described as DescribedBySymbols, MAX_SYMBOLS_BYTES, SymbolsRefused,
};
pub use crate::worker::{Completion, FailedAttempt};
pub use dead::{DeadEntry, DeadIter, DeadTasks, DeleteReport, Selection};
pub use deploy::{DeployRequest, Deployment};
pub use enqueue::{NewInvocation, Waiting};
pub use error::QueueError;
pub use live::{Live, LiveFilter, Shown};
pub use once::{OnceRequest, Repeated, run_once, run_repeatedly};
pub use phase::LivePhase;
pub use place::NetworkDisk;
pub use retry::{Component, Refused, Retried, RetryReport};
pub use status::Status;
pub use store_check::{Check, Effect, Finding, Mended, Place, Repair, repair_store, verify_store};
pub use symbols::{AddedSymbols, ComponentName, Explained, KeptState, KeptSymbols};
pub use watch::Watch;

use crate::dlq::{DeadTaskStore, DiskDlq, NoDlq};
use crate::registry::Registry;
use crate::store::Layout;
use place::Place as Location;

/// How to open a queue.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory; made when it does not exist.
    pub data_dir: PathBuf,
    /// Where everything durable lives.
    pub store: StoreKind,
    /// When an acknowledged invocation is on the disk.
    pub fsync: Fsync,
    /// The largest payload, in bytes.
    pub payload_limit: u64,
    /// Whether to write when the data directory is on a network file system.
    pub network_disk: NetworkDisk,
    /// Whether SIGTERM and SIGINT put back what [`Queue::enqueue_and_wait`] runs inside this process. For
    /// programs that leave these signals to wasmq, as its own command line does; the handlers stay.
    pub on_signals: bool,
}

impl Options {
    /// The defaults for a data directory: the store `dir`, `fsync` always, payloads up to 1 MiB.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            store: StoreKind::Dir,
            fsync: Fsync::Always,
            payload_limit: wasmq_core::invocation::DEFAULT_PAYLOAD_BYTES,
            network_disk: NetworkDisk::default(),
            on_signals: false,
        }
    }
}

/// A queue in a data directory. Cheap to clone; safe to use from many threads and processes.
#[derive(Debug, Clone)]
pub struct Queue {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) layout: Layout,
    pub(super) registry: Registry,
    pub(super) dlq: Arc<dyn DeadTaskStore>,
    outside: outside::Outside,
    clients: client::Pool,
    /// What runs inside this process.
    here: enqueue::Here,
    made_directories: AtomicBool,
    place: std::sync::OnceLock<Location>,
    pub(super) compiler: std::sync::OnceLock<crate::runtime::Runtime>,
}

impl Queue {
    /// Opens the queue in a data directory. The directory is made by the first call that writes, so
    /// looking into the wrong place leaves nothing behind. Takes no lock; any number of processes may
    /// have it open.
    ///
    /// # Errors
    /// When the directory cannot be used; the error names it and says why.
    pub fn open(options: Options) -> Result<Self, QueueError> {
        Self::open_on(Arc::new(RealDisk), options)
    }

    pub(crate) fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Self, QueueError> {
        let layout = Layout::new(&options.data_dir);
        refuse_what_is_no_directory(disk.as_ref(), layout.root())?;
        let registry = Registry::open(Arc::clone(&disk), &options.data_dir)?;
        let dlq: Arc<dyn DeadTaskStore> = match options.store {
            StoreKind::Dir => Arc::new(DiskDlq::open(Arc::clone(&disk), &options.data_dir)?),
            StoreKind::None => Arc::new(NoDlq),
        };
        let outside = outside::Outside::new(Arc::clone(&disk), layout.journal());
        let (clients, made_directories) = (client::Pool::default(), AtomicBool::new(false));
        let (place, compiler, here) = Default::default();
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                disk,
                layout,
                registry,
                dlq,
                outside,
                clients,
                here,
                made_directories,
                place,
                compiler,
            }),
        })
    }

    /// Another queue in the same place, when somebody has removed directories that this one made: what it
    /// remembers of them is not so any more. Nothing when they are there.
    ///
    /// # Errors
    /// When that cannot be found out, or as [`Queue::open`].
    pub fn renewed(&self) -> Result<Option<Self>, QueueError> {
        let inner = &self.inner;
        if !inner.made_directories.load(Ordering::Relaxed) || inner.has_directories()? {
            return Ok(None);
        }
        Self::open_on(Arc::clone(&inner.disk), inner.options.clone()).map(Some)
    }

    /// Makes the data directory and what belongs into it, as the first call that writes does, and finds
    /// out whether a server may write in all of it.
    ///
    /// # Errors
    /// When it cannot be made or written; the error names the directory and says why.
    pub fn prepare_to_serve(&self) -> Result<(), QueueError> {
        let layout = &self.inner.layout;
        self.inner.make_directories()?;
        self.inner.may_write(&[layout.journal(), layout.dlq(), layout.run()])?;
        self.inner.may_write(&crate::dlq::files(self.inner.disk.as_ref(), self.data_dir())?)
    }

    /// What whoever uses the data directory should know of the place where it lies.
    #[must_use]
    pub fn warning_of_place(&self) -> Option<String> {
        self.inner.place().warning(self.inner.options.network_disk)
    }

    /// Whether there is a data directory. Where there is none, everything reads as empty.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn exists(&self) -> Result<bool, QueueError> {
        self.inner.exists()
    }

    /// The dead letter queue.
    #[must_use]
    pub fn dead_tasks(&self) -> DeadTasks {
        DeadTasks::new(Arc::clone(&self.inner))
    }

    /// Where the queue is.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.inner.options.data_dir
    }

    /// Makes an invocation that was enqueued within the last half second visible to workers at once
    /// instead of within that time. Dropping the last clone does the same.
    ///
    /// # Errors
    /// When the log that holds it cannot be closed.
    pub fn flush(&self) -> Result<(), QueueError> {
        Ok(self.inner.outside.let_go()?)
    }
}

impl Inner {
    fn make_directories(&self) -> Result<(), QueueError> {
        if self.made_directories.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refuse_place()?;
        for path in self.directories() {
            self.disk.create_dir_all(&path).map_err(|source| QueueError::Directory { path, source })?;
        }
        self.made_directories.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The directories that have to be there before anything is written.
    fn directories(&self) -> [PathBuf; 4] {
        let layout = &self.layout;
        [layout.root().to_owned(), layout.journal(), layout.dlq(), layout.run()]
    }

    fn has_directories(&self) -> Result<bool, QueueError> {
        for path in self.directories() {
            match self.disk.stat(&path) {
                Ok(Some(stat)) if stat.kind == EntryKind::Dir => {}
                Ok(_) => return Ok(false),
                Err(source) => return Err(QueueError::Directory { path, source }),
            }
        }
        Ok(true)
    }

    /// Where the data directory is. Looked up once, since a directory does not move.
    fn place(&self) -> &Location {
        self.place.get_or_init(|| Location::of(self.disk.as_ref(), &self.layout))
    }

    /// Refuses to write where locks and appends are not reliable.
    pub(super) fn refuse_place(&self) -> Result<(), QueueError> {
        self.place().refuse(self.options.network_disk)
    }

    /// Finds out whether these parts of the data directory can be written.
    pub(super) fn may_write(&self, parts: &[PathBuf]) -> Result<(), QueueError> {
        parts.iter().try_for_each(|path| {
            let wrong = |source| QueueError::Directory { path: path.clone(), source };
            self.disk.may_write(path).map_err(wrong)
        })
    }

    /// Whether there is a data directory at all.
    fn exists(&self) -> Result<bool, QueueError> {
        let path = self.layout.root();
        let stat = self.disk.stat(path).map_err(|source| QueueError::Directory { path: path.to_owned(), source })?;
        Ok(stat.is_some())
    }
}

/// A file in the place of the directory, or a link that leads nowhere, is told apart from an empty place:
/// behind the link may be a disk that is not mounted.
fn refuse_what_is_no_directory(disk: &dyn Disk, path: &Path) -> Result<(), QueueError> {
    let wrong = |source| QueueError::Directory { path: path.to_owned(), source };
    match disk.stat(path).map_err(wrong)? {
        Some(stat) if stat.kind != EntryKind::Dir => Err(wrong(std::io::ErrorKind::NotADirectory.into())),
        Some(_) => Ok(()),
        // Looked at again: somebody else may have made the directory in between.
        None if is_listed(disk, path) && disk.stat(path).map_err(wrong)?.is_none() => {
            let message = "it is a link to something that is not there";
            Err(wrong(std::io::Error::new(std::io::ErrorKind::NotFound, message)))
        }
        None => Ok(()),
    }
}

fn is_listed(disk: &dyn Disk, path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = disk.list(parent).unwrap_or_default();
    entries.iter().any(|entry| Some(entry.name.as_os_str()) == path.file_name())
}
