//! Where live invocations stand, for people.
//!
//! Invariant: the registry and the files of components are looked at once, however many invocations are judged.

use std::collections::BTreeMap;

use wasmq_core::state::Phase;
use wasmq_core::{Digest, Invocation, Timestamp};

use super::Inner;
use crate::clock;
use crate::journal::LiveEntry;
use crate::registry::{Resolved, Tasks};
use crate::supervisor::ServerFigures;

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
}

impl<'a> Judge<'a> {
    pub(super) fn new(inner: &'a Inner, servers: &[ServerFigures]) -> Self {
        let (tasks, broken) = (inner.registry.tasks().ok(), broken_in(servers));
        Self { inner, now: clock::now(), tasks, broken, usable: BTreeMap::new() }
    }

    /// Components that the workers of running servers cannot use, and why.
    pub(super) const fn broken(&self) -> &Broken {
        &self.broken
    }

    /// The version that would run an invocation.
    pub(super) fn resolve(&self, invocation: &Invocation) -> Option<Resolved> {
        self.tasks.as_ref()?.resolve(&invocation.task, &invocation.pin).ok()
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

    /// Whether there is a version for an invocation and the file of its component.
    fn can_run(&mut self, invocation: &Invocation) -> bool {
        if self.tasks.is_none() {
            return true;
        }
        let Some(Resolved { digest, .. }) = self.resolve(invocation) else { return false };
        let Self { inner, broken, usable, .. } = self;
        *usable.entry(digest).or_insert_with(|| {
            let file = inner.registry.component_path(&digest);
            !broken.contains_key(&digest) && !matches!(inner.disk.stat(&file), Ok(None))
        })
    }
}
