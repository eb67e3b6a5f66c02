//! A sync that runs beside the log: the log goes on taking records while the disk works.
//!
//! Invariant: what was appended after [`crate::Wal::begin_sync`] is not covered, and nothing is covered
//! before [`crate::Wal::finish_sync`] has been told of success.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::durable::Position;
use crate::error::IoFailure;

/// The slow part of a sync. It touches nothing of the log, so any thread may run it.
#[must_use = "a sync that is not run makes nothing durable"]
pub struct PendingSync {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    covers: Position,
}

/// What came of a [`PendingSync`]; for [`crate::Wal::finish_sync`].
#[derive(Debug)]
#[must_use = "the log has to be told"]
pub struct SyncOutcome {
    pub(crate) covers: Position,
    pub(crate) failure: Option<IoFailure>,
}

impl PendingSync {
    pub(crate) fn new(file: Arc<dyn DiskFile>, path: PathBuf, covers: Position) -> Self {
        Self { file, path, covers }
    }

    /// Waits for the disk.
    pub fn run(self) -> SyncOutcome {
        let failure = self.file.sync_data().err().map(|error| IoFailure::new("sync", &self.path, error));
        SyncOutcome { covers: self.covers, failure }
    }
}

impl fmt::Debug for PendingSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingSync").field("path", &self.path).field("covers", &self.covers).finish_non_exhaustive()
    }
}
