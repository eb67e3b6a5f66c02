//! Everything the registry's file holds, and the changes to it.
//!
//! Invariants: version numbers of a name grow and are never used twice, also after the task was
//! removed; a label belongs to one version of a task; `current` names a version there is.
//!
//! Deliberately absent: files, locks, the clock.

use std::collections::{BTreeMap, BTreeSet};

use wasmq_core::{Digest, Label, Settings, TaskName, Timestamp, VersionNumber};

use super::error::Unresolved;
use super::tasks::{Task, Tasks, Version};

/// What is deployed.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVersion {
    /// Its component, which has been stored.
    pub digest: Digest,
    /// Its settings.
    pub settings: Settings,
    /// A word for it. If another version of the task has it, it moves.
    pub label: Option<Label>,
    /// Which kind of component it is, in the words of the runtime.
    pub shape: String,
    /// The core module that it was made of, if it was.
    pub module: Option<Digest>,
}

/// What came of a deploy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployed {
    /// The version that has the component and settings.
    pub number: VersionNumber,
    /// It was there already, and no version was made.
    pub unchanged: bool,
    /// The current version before.
    pub current_before: Option<VersionNumber>,
    /// The current version now.
    pub current: Option<VersionNumber>,
}

/// What came of making a version current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activated {
    /// The current version now.
    pub number: VersionNumber,
    /// The current version before.
    pub before: Option<VersionNumber>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    pub(super) tasks: BTreeMap<TaskName, Task>,
    /// The last number of names that were removed.
    pub(super) removed: BTreeMap<TaskName, VersionNumber>,
}

impl State {
    pub(super) fn deploy(
        &mut self,
        name: &TaskName,
        new: NewVersion,
        size_bytes: u64,
        activate: bool,
        now: Timestamp,
    ) -> Deployed {
        let first = self.removed.get(name).map_or(VersionNumber::FIRST, |last| last.next());
        let empty = || Task { name: name.clone(), current: None, versions: Vec::new() };
        let task = self.tasks.entry(name.clone()).or_insert_with(empty);
        let current_before = task.current;
        let same = |version: &&Version| version.digest == new.digest && version.settings == new.settings;
        let known = task.versions.iter().rev().find(same).map(|version| version.number);
        let number = known.unwrap_or_else(|| task.versions.last().map_or(first, |last| last.number.next()));
        if known.is_none() {
            let NewVersion { digest, settings, shape, module, .. } = new;
            let (label, deployed_at) = (None, now);
            task.versions.push(Version { number, digest, label, settings, deployed_at, size_bytes, shape, module });
            self.removed.remove(name);
        }
        if let Some(label) = new.label {
            task.move_label(number, label);
        }
        if activate {
            task.current = Some(number);
        }
        Deployed { number, unchanged: known.is_some(), current_before, current: task.current }
    }

    pub(super) fn activate(&mut self, name: &TaskName, choice: &str) -> Result<Activated, Unresolved> {
        let Some(task) = self.tasks.get_mut(name) else { return Err(self.no_task(name)) };
        let number = task.choose(choice)?.number;
        Ok(Activated { number, before: task.current.replace(number) })
    }

    pub(super) fn remove(&mut self, name: &TaskName) -> Result<Task, Unresolved> {
        let Some(task) = self.tasks.remove(name) else { return Err(self.no_task(name)) };
        if let Some(last) = task.versions.last() {
            self.removed.insert(name.clone(), last.number);
        }
        Ok(task)
    }

    /// Removes versions, but neither the current one nor the latest, after which numbers go on. Returns them,
    /// and the components that no version has any more.
    pub(super) fn remove_versions(
        &mut self,
        name: &TaskName,
        numbers: &BTreeSet<VersionNumber>,
    ) -> Result<(Vec<Version>, BTreeSet<Digest>), Unresolved> {
        let Some(task) = self.tasks.get_mut(name) else { return Err(self.no_task(name)) };
        let stays = [task.current, task.versions.last().map(|last| last.number)];
        let goes = |version: &Version| numbers.contains(&version.number) && !stays.contains(&Some(version.number));
        let (removed, left): (Vec<_>, Vec<_>) = std::mem::take(&mut task.versions).into_iter().partition(goes);
        task.versions = left;
        let used: BTreeSet<Digest> = self.tasks.values().flat_map(Task::digests).collect();
        let unused = removed.iter().map(|version| version.digest).filter(|digest| !used.contains(digest)).collect();
        Ok((removed, unused))
    }

    fn no_task(&self, name: &TaskName) -> Unresolved {
        Unresolved::NoTask { name: name.clone(), close: super::close::close_names(name, self.tasks.keys()) }
    }

    pub(super) fn into_tasks(self) -> Tasks {
        Tasks(self.tasks.into())
    }
}

impl Task {
    fn digests(&self) -> impl Iterator<Item = Digest> {
        self.versions.iter().map(|version| version.digest)
    }

    fn move_label(&mut self, to: VersionNumber, label: Label) {
        for version in &mut self.versions {
            if version.number == to {
                version.label = Some(label.clone());
            } else if version.label.as_ref() == Some(&label) {
                version.label = None;
            }
        }
    }
}
