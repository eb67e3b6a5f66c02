//! What a new owner finds: it adopts every log, buries what was given up, and looks at everything.
//!
//! Invariant: a recovery starts no attempt and ends as a process ends that is killed, so the next one
//! begins with what this one made durable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use wasmq_core::state::{Entry, Phase, Suspicion};
use wasmq_core::{Digest, InvocationId, TaskName, VersionNumber};
use wasmq_wal::disk::{Disk, SimDisk};

use super::world::{DATA, Trouble, journal_dir, small_log};
use crate::dlq::{DeadTaskStore, DiskDlq, Filter};
use crate::journal::{LiveEntry, read_all, read_payload};
use crate::registry::Registry;
use crate::worker::SteppedWorker;

/// A live or dead invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) replays: u32,
    pub(super) attempts: u32,
    pub(super) payload: Vec<u8>,
    /// How many ended attempts its history has, and how many earlier deaths.
    pub(super) history: (usize, usize),
    /// Whether it may have killed a worker.
    pub(super) is_suspect: bool,
}

/// Everything there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) live: BTreeMap<InvocationId, Copy>,
    pub(super) dead: BTreeMap<InvocationId, Copy>,
    pub(super) versions: BTreeMap<(TaskName, VersionNumber), Digest>,
    pub(super) current: BTreeMap<TaskName, Digest>,
}

/// Recovers as a new worker does, and dies.
pub(super) fn recover(disk: &SimDisk) -> Result<Found, Trouble> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut worker = SteppedWorker::start(&shared, Path::new(DATA), small_log(), 0)?;
    worker.turn(true)?;
    while worker.has_more_to_adopt() {
        worker.turn(true)?;
    }
    while worker.live().counts().exhausted > 0 {
        bury(&mut worker)?;
    }
    worker.send_question();
    worker.turn(false)?;
    let found = look(&shared)?;
    compare_with(&mut worker, &found);
    Ok(found)
}

fn bury(worker: &mut SteppedWorker) -> Result<(), Trouble> {
    worker.turn(false)?;
    if worker.write_dead().iter().any(|(_, durable)| !durable) {
        return Err("a burial failed".into());
    }
    worker.send_buried();
    worker.turn(false)?;
    Ok(())
}

/// What an observer reads is what the owner has.
fn compare_with(worker: &mut SteppedWorker, found: &Found) {
    let counts = worker.live().counts();
    let sum = counts.ready + counts.delayed + counts.running + counts.awaiting_deploy + counts.exhausted;
    assert_eq!(sum, found.live.len() as u64, "the owner counts {counts:?}, a reader finds {found:?}");
    for (id, copy) in &found.live {
        let entry = worker.live().get(id).unwrap_or_else(|| panic!("a reader finds {id}, the owner does not"));
        assert_eq!(&copy_of(entry, copy.payload.clone()), copy, "{id}");
        assert_eq!(*worker.live().payload(id).unwrap(), copy.payload, "{id}");
    }
}

fn copy_of<P>(entry: &Entry<P>, payload: Vec<u8>) -> Copy {
    Copy {
        replays: entry.invocation.replays,
        attempts: entry.attempts,
        payload,
        history: (entry.history.len(), entry.invocation.deaths.len()),
        is_suspect: entry.suspicion != Suspicion::None,
    }
}

/// Reads everything. After a recovery there is one log, and nothing in it is on its way to elsewhere.
fn look(disk: &Arc<dyn Disk>) -> Result<Found, Trouble> {
    let logs = wasmq_wal::list(disk.as_ref(), &journal_dir()).map_err(|error| Trouble(error.into()))?;
    assert_eq!(logs.wals.len(), 1, "logs were left behind: {:?}", logs.wals);
    assert!(logs.strangers.is_empty(), "{:?}", logs.strangers);
    let mut found = Found::default();
    for (id, live) in read_all(disk, &journal_dir())?.entries {
        found.live.insert(id, live_copy(disk, &live)?);
    }
    look_at_the_dead(disk, &mut found)?;
    look_at_the_registry(disk, &mut found)?;
    Ok(found)
}

fn live_copy(disk: &Arc<dyn Disk>, live: &LiveEntry) -> Result<Copy, Trouble> {
    assert!(matches!(live.entry.phase, Phase::Queued { .. }), "something runs or is unburied: {live:?}");
    let payload = read_payload(disk.as_ref(), &journal_dir(), live)?;
    Ok(copy_of(&live.entry, payload.to_vec()))
}

fn look_at_the_dead(disk: &Arc<dyn Disk>, found: &mut Found) -> Result<(), Trouble> {
    let dlq = DiskDlq::open(Arc::clone(disk), Path::new(DATA))?;
    let page = dlq.batch(None, usize::MAX, &Filter::default())?;
    assert_eq!(dlq.counts()?.total, page.entries.len() as u64);
    for dead in page.entries {
        let copy = Copy {
            replays: dead.replays,
            attempts: dead.attempts,
            payload: dead.payload.0,
            history: (dead.history.len(), dead.deaths.len()),
            is_suspect: false,
        };
        assert_eq!(found.dead.insert(dead.id, copy), None, "{} is dead twice", dead.id);
    }
    Ok(())
}

fn look_at_the_registry(disk: &Arc<dyn Disk>, found: &mut Found) -> Result<(), Trouble> {
    let registry = Registry::open(Arc::clone(disk), Path::new(DATA))?;
    for task in registry.tasks()?.iter() {
        for version in &task.versions {
            registry.load_component(&version.digest)?;
            found.versions.insert((task.name.clone(), version.number), version.digest);
        }
        if let Some(current) = task.current.and_then(|number| task.version(number)) {
            found.current.insert(task.name.clone(), current.digest);
        }
    }
    Ok(())
}
