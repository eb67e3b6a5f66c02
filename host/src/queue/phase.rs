//! Where live invocations stand, for people.
//!
//! Invariant: the registry and the files of components are looked at once, however many invocations are judged.

use std::collections::BTreeMap;

use wasmq_core::state::Phase;
use wasmq_core::{Digest, Invocation, InvocationId, TaskName, Timestamp};

use super::Inner;
use crate::clock;
use crate::journal::LiveEntry;
use crate::registry::{Tasks, Version};
use crate::runtime::Progress;
use crate::supervisor::ServerFigures;
use crate::worker::AttemptProgress;

/// Where a live invocation stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LivePhase {
    /// Due, waiting for a free place or for a server.
    Ready,
    /// Not due yet.
    Delayed,
    /// Due, but no version of its task can run it.
    AwaitingDeploy,
    /// An attempt is running.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Its worker died; it will be adopted.
    Orphaned,
    /// Given up; the dead letter queue has not taken it yet.
    Exhausted,
}

impl LivePhase {
    /// One word or two.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::AwaitingDeploy => "awaiting-deploy",
            Self::Running { .. } => "running",
            Self::Orphaned => "orphaned",
            Self::Exhausted => "exhausted",
        }
    }
}

/// Why components cannot be used.
pub(super) type Broken = BTreeMap<Digest, String>;

fn broken_in(servers: &[ServerFigures]) -> Broken {
    let workers = servers.iter().flat_map(|server| &server.workers);
    let broken = workers.filter(|worker| worker.alive).flat_map(|worker| &worker.figures.broken);
    broken.map(|component| (component.digest, component.reason.clone())).collect()
}

/// Says where invocations stand at one moment.
pub(super) struct Judge<'a> {
    inner: &'a Inner,
    pub(super) now: Timestamp,
    /// Absent when it cannot be read: that is a problem of its own and says nothing about an invocation.
    tasks: Option<Tasks>,
    broken: Broken,
    /// Whether there is a component that works, by its digest.
    usable: BTreeMap<Digest, bool>,
    progress: BTreeMap<InvocationId, AttemptProgress>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(inner: &'a Inner, servers: &[ServerFigures]) -> Self {
        let (tasks, broken) = (inner.registry.tasks().ok(), broken_in(servers));
        let workers = servers.iter().flat_map(|server| &server.workers).filter(|worker| worker.alive);
        let progress =
            workers.flat_map(|worker| &worker.figures.progress).map(|said| (said.id, said.clone())).collect();
        Self { inner, now: clock::now(), tasks, broken, usable: BTreeMap::new(), progress }
    }

    /// Components that the workers of running servers cannot use, and why.
    pub(super) const fn broken(&self) -> &Broken {
        &self.broken
    }

    /// Versions whose component is gone, a sentence each. What a worker says of one is not said again.
    pub(super) fn missing_components(&self) -> Vec<String> {
        let tasks = self.tasks.iter().flat_map(Tasks::iter);
        let versions = tasks.flat_map(|task| task.versions.iter().map(move |version| (&task.name, version)));
        let missing =
            versions.filter(|(_, Version { digest, .. })| !self.broken.contains_key(digest) && self.is_missing(digest));
        let sentence = |(name, version): (&TaskName, &Version)| {
            let path = self.inner.registry.component_path(&version.digest);
            let todo = "deploy it again, with --no-activate unless it is to become current";
            format!("the component of {name} {} is gone: {}; {todo}", version.number, path.display())
        };
        missing.map(sentence).collect()
    }

    fn is_missing(&self, digest: &Digest) -> bool {
        matches!(self.inner.disk.stat(&self.inner.registry.component_path(digest)), Ok(None))
    }

    /// The version that would run an invocation.
    pub(super) fn version(&self, invocation: &Invocation) -> Option<&Version> {
        self.tasks.as_ref()?.pinned(&invocation.task, &invocation.pin).ok()
    }

    pub(super) fn phase(&mut self, live: &LiveEntry) -> LivePhase {
        match &live.entry.phase {
            Phase::Exhausted(_) => LivePhase::Exhausted,
            Phase::Running(started) if live.owned => LivePhase::Running { since: started.at },
            Phase::Running(_) => LivePhase::Orphaned,
            Phase::Queued { .. } if !live.entry.is_due(self.now) => LivePhase::Delayed,
            Phase::Queued { .. } if self.can_run(&live.entry.invocation) => LivePhase::Ready,
            Phase::Queued { .. } => LivePhase::AwaitingDeploy,
        }
    }

    /// What an invocation lacks that awaits a deploy: its task, its version, or a component that works.
    pub(super) fn lacks(&self, phase: &LivePhase, live: &LiveEntry) -> Option<String> {
        if *phase != LivePhase::AwaitingDeploy {
            return None;
        }
        let invocation = &live.entry.invocation;
        match self.tasks.as_ref()?.pinned(&invocation.task, &invocation.pin) {
            Err(unresolved) => Some(unresolved.to_string()),
            Ok(found) => Some(format!("{}@{} has no component that works", invocation.task, found.number)),
        }
    }

    /// How far the attempt has come that runs now.
    pub(super) fn progress(&self, live: &LiveEntry) -> Option<Progress> {
        let Phase::Running(started) = &live.entry.phase else { return None };
        let said = self.progress.get(&live.entry.invocation.id)?;
        (live.owned && said.attempt == started.attempt).then(|| said.progress.clone())
    }

    /// Whether there is a version for an invocation and the file of its component.
    fn can_run(&mut self, invocation: &Invocation) -> bool {
        if self.tasks.is_none() {
            return true;
        }
        let Some(digest) = self.version(invocation).map(|version| version.digest) else { return false };
        if let Some(known) = self.usable.get(&digest) {
            return *known;
        }
        let is_usable = !self.broken.contains_key(&digest) && !self.is_missing(&digest);
        self.usable.insert(digest, is_usable);
        is_usable
    }
}
