//! Temporary directories on the disk that holds the build, so that a sync is a real one; removed
//! when dropped.

use std::path::Path;

use wasmq::queue::{DeployRequest, Options, Queue};

use crate::{Fallible, guest};

/// The task that every measurement runs.
pub(crate) const TASK: &str = "noop";

/// A new directory below the build's own.
pub(crate) fn temporary() -> Fallible<tempfile::TempDir> {
    let place = env!("CARGO_TARGET_TMPDIR");
    std::fs::create_dir_all(place)?;
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(place)?)
}

/// A queue in a directory, with the no-op task deployed.
pub(crate) fn queue(dir: &Path) -> Fallible<Queue> {
    let queue = Queue::open(Options::new(dir))?;
    deploy(&queue, TASK, "echo")?;
    Ok(queue)
}

/// Deploys one of the example guests.
pub(crate) fn deploy(queue: &Queue, task: &str, component: &str) -> Fallible<()> {
    let request = DeployRequest { activate: true, ..DeployRequest::default() };
    queue.deploy(&task.parse()?, &guest::component(component)?, &request)?;
    Ok(())
}
