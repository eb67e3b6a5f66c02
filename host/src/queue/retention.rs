//! Removing the versions of a task that nobody needs any more, for who deploys one after the other.
//!
//! Invariants: the current version, the latest ones and those with a label stay, and so does every version that a
//! live invocation is pinned to or runs, and every component that a dead task names: it can be retried with the
//! very component that failed. Where a log or a line of the dead letter queue cannot be read, nothing is removed.
//! All is decided under the lock of the dead letter queue, so nothing moves between it and the logs meanwhile.
//!
//! Deliberately absent: a lock against who enqueues for an old version by its number at that very moment. That
//! invocation finds no version, as after the task was removed, and waits.

use std::collections::BTreeSet;

use wasmq_core::invocation::Pin;
use wasmq_core::state::Phase;
use wasmq_core::{Digest, TaskName, VersionNumber};

use super::{Inner, Queue, QueueError};
use crate::journal::LiveEntry;
use crate::registry::{Task, Version};
use crate::store::StoreKind;

/// What live invocations and dead tasks may still run.
#[derive(Debug, Default)]
struct Needed {
    versions: BTreeSet<VersionNumber>,
    components: BTreeSet<Digest>,
}

impl Needed {
    fn has(&self, version: &Version) -> bool {
        self.versions.contains(&version.number) || self.components.contains(&version.digest)
    }

    /// What one live invocation may run, besides what is current.
    fn add_live(&mut self, live: &LiveEntry, task: &TaskName) {
        let invocation = &live.entry.invocation;
        match &invocation.pin {
            Pin::Version(number) if invocation.task == *task => drop(self.versions.insert(*number)),
            Pin::Digest(digest) => drop(self.components.insert(**digest)),
            Pin::Version(_) | Pin::Current => {}
        }
        match &live.entry.phase {
            Phase::Running(started) => drop(self.components.insert(started.digest)),
            Phase::Exhausted(exhausted) => drop(self.components.insert(exhausted.attempt.digest)),
            Phase::Queued { .. } => {}
        }
    }
}

impl Queue {
    /// Removes the versions of a task that are neither current nor among the `keep` latest, have no label, and
    /// are needed by no live invocation and no dead task. What was compiled of old versions goes in any case,
    /// since it can be made again. Returns the numbers of those that were removed.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn remove_old_versions(&self, task: &TaskName, keep: usize) -> Result<Vec<VersionNumber>, QueueError> {
        let inner = &self.inner;
        let tasks = inner.registry.tasks()?;
        let Some(found) = tasks.get(task).filter(|_| inner.options.store == StoreKind::Dir) else {
            return Ok(Vec::new());
        };
        let (old, kept) = split(found, keep);
        if old.is_empty() {
            return Ok(Vec::new());
        }
        inner.refuse_place()?;
        let _locked = inner.dlq.lock()?;
        let needed = inner.needed(task)?;
        let is_free = |version: &&&Version| needed.as_ref().is_some_and(|needed| !needed.has(version));
        let numbers: BTreeSet<_> = old.iter().filter(is_free).map(|version| version.number).collect();
        if !numbers.is_empty() {
            inner.registry.remove_versions(task, &numbers)?;
        }
        let fresh: BTreeSet<Digest> = kept.iter().map(|version| version.digest).collect();
        let compiler = inner.compiler()?;
        let stale = old.iter().map(|version| version.digest).filter(|digest| !fresh.contains(digest));
        stale.for_each(|digest| compiler.discard(digest));
        Ok(numbers.into_iter().collect())
    }
}

/// The versions that may go, and those that stay in any case.
fn split(task: &Task, keep: usize) -> (Vec<&Version>, Vec<&Version>) {
    let latest = task.versions.len().saturating_sub(keep);
    let is_old = |index: usize, version: &Version| {
        index < latest && task.current != Some(version.number) && version.label.is_none()
    };
    let (old, kept): (Vec<_>, Vec<_>) =
        task.versions.iter().enumerate().partition(|(index, version)| is_old(*index, version));
    let versions = |all: Vec<(usize, _)>| all.into_iter().map(|(_, version)| version).collect();
    (versions(old), versions(kept))
}

impl Inner {
    /// What is still needed; nothing when not all of it can be read.
    fn needed(&self, task: &TaskName) -> Result<Option<Needed>, QueueError> {
        let snapshot = self.snapshot()?;
        if !snapshot.problems.is_empty() || self.dlq.counts()?.damaged > 0 {
            return Ok(None);
        }
        let mut needed = Needed::default();
        snapshot.entries.values().for_each(|live| needed.add_live(live, task));
        needed.components.extend(self.dlq.groups()?.into_iter().flat_map(|group| group.digests));
        Ok(Some(needed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dead, deploy, open};
    use super::*;
    use crate::queue::{NewInvocation, Options, Selection};
    use wasmq_core::Timestamp;
    use wasmq_wal::disk::{Disk as _, OpenMode, SimDisk};

    fn resize() -> TaskName {
        "resize".parse().unwrap()
    }

    fn with_versions(queue: &Queue, count: u8) -> Vec<Digest> {
        queue.inner.make_directories().unwrap();
        (0..count).map(|n| deploy(queue, &[n])).collect()
    }

    fn removed(queue: &Queue, keep: usize) -> Vec<String> {
        queue.remove_old_versions(&resize(), keep).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_dead_task_ran_stays_until_it_is_deleted() {
        let disk = SimDisk::new();
        let queue = open(&disk).unwrap();
        let digests = with_versions(&queue, 5);
        queue.inner.dlq.add(&[dead(1, digests[1])]).unwrap();
        assert_eq!(removed(&queue, 2), ["v1", "v3"]);
        assert!(queue.inner.registry.load_component(&digests[1]).is_ok());
        queue.dead_tasks().delete(&Selection::All, &mut |_| {}).unwrap();
        assert_eq!(removed(&queue, 2), ["v2"]);
        assert_eq!(removed(&queue, 2), [""; 0]);
    }

    #[test]
    fn what_a_live_invocation_is_pinned_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::open(Options::new(dir.path())).unwrap();
        with_versions(&queue, 5);
        let new = NewInvocation { component: Some("v2".to_owned()), ..NewInvocation::new(resize(), Vec::new()) };
        let id = queue.enqueue(new).unwrap();
        queue.enqueue(NewInvocation::new(resize(), Vec::new())).unwrap();
        queue.flush().unwrap();
        assert_eq!(removed(&queue, 2), ["v1", "v3"]);
        queue.cancel(&id.to_string()).unwrap();
        assert_eq!(removed(&queue, 2), ["v2"], "the other one runs what is current");
    }

    #[test]
    fn where_a_dead_task_cannot_be_read_nothing_is_removed() {
        let disk = SimDisk::new();
        let queue = open(&disk).unwrap();
        let digests = with_versions(&queue, 3);
        queue.inner.dlq.add(&[dead(1, digests[0]), dead(2, digests[0])]).unwrap();
        let file = crate::dlq::files(&disk, queue.data_dir())
            .unwrap()
            .into_iter()
            .find(|path| path.ends_with("dead-tasks-v1.jsonl"));
        let file = disk.open(&file.unwrap(), OpenMode::ReadWrite).unwrap();
        let at = file.len().unwrap() / 3;
        file.write_all_at(b"#", at).unwrap();
        assert_eq!(removed(&open(&disk).unwrap(), 1), [""; 0]);
    }

    #[test]
    fn a_component_that_a_kept_version_shares_stays_compiled_and_stored() {
        let disk = SimDisk::new();
        let queue = open(&disk).unwrap();
        let digests = with_versions(&queue, 2);
        let registry = &queue.inner.registry;
        let other = registry.choose(&resize(), "v1").unwrap();
        let settings = wasmq_core::settings::RawSettings { max_attempts: Some(9), ..Default::default() };
        let new = crate::registry::NewVersion {
            digest: other.digest,
            settings: settings.check().unwrap(),
            label: None,
            shape: other.shape,
            module: None,
        };
        registry.deploy(&resize(), new, true, Timestamp(5)).unwrap();
        assert_eq!(removed(&queue, 1), ["v1", "v2"]);
        assert!(registry.load_component(&digests[0]).is_ok() && registry.load_component(&digests[1]).is_err());
    }
}
