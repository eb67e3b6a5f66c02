//! Verifying and repairing a data directory: every part looks at its own files, and this puts it together.
//!
//! Neither opens a [`Queue`](super::Queue), which refuses what another version wrote: a check has to say so.
//!
//! Invariants: verifying changes nothing and takes no lock; repairing takes the locks that servers take,
//! leaves what a living process owns, deletes no evidence, and does nothing the second time.
//!
//! Deliberately absent: compiled code and sockets, which mean nothing to anybody but their makers.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use wasmq_wal::disk::{Disk, RealDisk};

use super::{QueueError, refuse_what_is_no_directory};
use crate::causes::error_chain;
use crate::clock;
use crate::dlq::{self, DeadTaskStore as _, DiskDlq};
pub use crate::findings::{Check, Effect, Finding, Mended, Place};
use crate::journal;
use crate::registry;
use crate::store::Layout;

/// What a repair did and what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// What was done, in order.
    pub done: Vec<Mended>,
    /// Why a part could not be repaired; the other parts were.
    pub failures: Vec<String>,
    /// What is found now.
    pub left: Check,
}

/// Looks at everything in a data directory. Where there is none, nothing is found.
///
/// # Errors
/// The path leads to something that is no directory.
pub fn verify_store(data_dir: &Path) -> Result<Check, QueueError> {
    verify_on(&(Arc::new(RealDisk) as Arc<dyn Disk>), data_dir)
}

/// Repairs what can be repaired without losing anything, then looks at everything again.
///
/// # Errors
/// As [`verify_store`]. A part that cannot be repaired is told of in the result.
pub fn repair_store(data_dir: &Path) -> Result<Repair, QueueError> {
    repair_on(&(Arc::new(RealDisk) as Arc<dyn Disk>), data_dir)
}

pub(super) fn verify_on(disk: &Arc<dyn Disk>, data_dir: &Path) -> Result<Check, QueueError> {
    refuse_what_is_no_directory(disk.as_ref(), data_dir)?;
    let mut check = registry::check(disk, data_dir);
    check.extend(dlq::check(disk, data_dir));
    check.extend(journal::check(disk, &Layout::new(data_dir).journal()));
    Ok(check)
}

pub(super) fn repair_on(disk: &Arc<dyn Disk>, data_dir: &Path) -> Result<Repair, QueueError> {
    refuse_what_is_no_directory(disk.as_ref(), data_dir)?;
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    let now = clock::now();
    let mut note = |part: &str, error: Option<String>| failures.extend(error.map(|error| format!("{part}: {error}")));
    note("the registry", registry::mend(disk, data_dir, &mut done).err().map(|error| error_chain(&error)));
    note("the dead letter queue", dlq::mend(disk, data_dir, now, &mut done).err().map(|error| error_chain(&error)));
    let mut replayed = |replays: &[_]| {
        let queue = DiskDlq::open(Arc::clone(disk), data_dir).and_then(|dlq| dlq.lock());
        let dropped = queue.and_then(|mut locked| locked.drop_superseded(replays, now));
        dropped.map(|_| ()).map_err(|error| error_chain(&error))
    };
    let dir = Layout::new(data_dir).journal();
    let mended = journal::mend(disk, &dir, now, &mut replayed, &mut done);
    note("the logs", mended.err().map(|error| error_chain(&error)));
    Ok(Repair { done, failures, left: verify_on(disk, data_dir)? })
}
