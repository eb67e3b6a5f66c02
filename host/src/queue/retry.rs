//! Putting dead tasks back: exactly one replay of each death, whatever crashes and whoever else does
//! the same at that moment.
//!
//! The steps for a batch, all under the lock of the dead letter queue:
//!
//! 1. Resolve the version.
//! 2. Create a log of this process, which nobody can adopt while it is held.
//! 3. Write down in the dead letter queue which ids go into which log (the intent), sync.
//! 4. Write the invocations into the log, sync.
//! 5. Remove the dead tasks, sync.
//! 6. Let the log go, so that a worker adopts it.
//!
//! A crash after 3 leaves an intent whose log holds nothing: the next caller ignores it. A crash
//! after 4 leaves both: whoever comes first, the next caller or the worker that adopts the log,
//! removes the dead tasks before anything else happens with the ids.

use std::num::NonZeroU32;
use std::sync::Arc;

use wasmq_core::invocation::Pin;
use wasmq_core::{DeadTask, Digest, InvocationId, TaskName, VersionNumber};

use super::{Inner, QueueError};
use crate::clock;
use crate::dlq::{LockedDlq, RemovalReason, Standing};
use crate::journal::{self, OutsideLog};
use crate::registry::Unresolved;
use crate::store::StoreKind;

/// Which component a replay runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Component {
    /// Whatever is current when an attempt starts.
    #[default]
    Current,
    /// The very component that failed.
    Original,
    /// `v2`, a label, or a digest.
    Named(String),
}

impl std::str::FromStr for Component {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "current" => Self::Current,
            "original" => Self::Original,
            other => Self::Named(other.to_owned()),
        })
    }
}

/// A dead task that was put back, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    /// Its id.
    pub id: InvocationId,
    /// Its task.
    pub task: TaskName,
    /// The version that failed.
    pub failed_version: VersionNumber,
    /// The component that failed.
    pub failed_component: Digest,
    /// The version that runs now.
    pub version: VersionNumber,
    /// The component that runs now.
    pub component: Digest,
    /// How often it has been replayed with this one.
    pub replays: u32,
}

/// A dead task that was not put back, and why. It is where it was.
#[derive(Debug)]
pub struct Refused {
    /// Its id.
    pub id: InvocationId,
    /// Why.
    pub error: QueueError,
}

/// What a retry did.
#[derive(Debug, Default)]
pub struct RetryReport {
    /// Those that were put back.
    pub retried: Vec<Retried>,
    /// Those that were not.
    pub refused: Vec<Refused>,
}

impl RetryReport {
    pub(super) fn append(&mut self, mut other: Self) {
        self.retried.append(&mut other.retried);
        self.refused.append(&mut other.refused);
    }
}

/// How to retry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct How {
    pub(super) component: Component,
    pub(super) max_attempts: Option<NonZeroU32>,
    pub(super) dry_run: bool,
}

/// The answer for ids where there is nothing at all.
pub(super) fn unknown(ids: &[InvocationId]) -> impl Iterator<Item = Refused> {
    ids.iter().map(|id| Refused { id: *id, error: QueueError::UnknownId(id.to_string()) })
}

struct Planned {
    dead: Box<DeadTask>,
    pin: Pin,
    retried: Retried,
}

impl Inner {
    /// Retries a batch of ids.
    pub(super) fn retry(&self, ids: &[InvocationId], how: &How) -> Result<RetryReport, QueueError> {
        let mut report = RetryReport::default();
        if self.options.store == StoreKind::Dir && !self.exists()? {
            report.refused.extend(unknown(ids));
            return Ok(report);
        }
        self.refuse_place()?;
        let mut locked = self.dlq.lock()?;
        self.settle_intents(locked.as_mut())?;
        let mut planned = Vec::new();
        for (id, standing) in locked.current(ids)? {
            match self.plan(id, standing, &how.component) {
                Ok(plan) => planned.push(plan),
                Err(error) => report.refused.push(Refused { id, error }),
            }
        }
        if !how.dry_run && !planned.is_empty() {
            self.put_back(locked.as_mut(), &planned, how)?;
        }
        report.retried.extend(planned.into_iter().map(|plan| plan.retried));
        Ok(report)
    }

    fn plan(&self, id: InvocationId, standing: Standing, component: &Component) -> Result<Planned, QueueError> {
        let dead = match standing {
            Standing::Dead(dead) => dead,
            Standing::AlreadyRetried { at, replays } => {
                return Err(QueueError::AlreadyRetried { id, at, replays: replays.saturating_add(1) });
            }
            Standing::Deleted { at } => return Err(QueueError::AlreadyDeleted { id, at }),
            Standing::Unknown => return Err(self.not_dead(id)),
        };
        let (pin, version, digest) = self.target(&dead, component)?;
        let retried = Retried {
            id,
            task: dead.task.clone(),
            failed_version: dead.version,
            failed_component: dead.component,
            version,
            component: digest,
            replays: dead.replays.saturating_add(1),
        };
        Ok(Planned { dead, pin, retried })
    }

    /// Why an id is not in the dead letter queue.
    pub(super) fn not_dead(&self, id: InvocationId) -> QueueError {
        match self.snapshot() {
            Ok(snapshot) if snapshot.entries.contains_key(&id) => QueueError::StillLive(id),
            Ok(_) => QueueError::UnknownId(id.to_string()),
            Err(error) => error,
        }
    }

    fn target(&self, dead: &DeadTask, component: &Component) -> Result<(Pin, VersionNumber, Digest), QueueError> {
        let wanted = match component {
            Component::Current => "current".to_owned(),
            Component::Original => return self.original(dead),
            Component::Named(text) => text.clone(),
        };
        let version = self.choose(&dead.task, &wanted)?;
        let pin = if wanted == "current" { Pin::Current } else { Pin::Version(version.number) };
        Ok((pin, version.number, version.digest))
    }

    /// The version that failed, if it still has the component that failed; else one that has.
    fn original(&self, dead: &DeadTask) -> Result<(Pin, VersionNumber, Digest), QueueError> {
        let by_number = self.choose(&dead.task, &dead.version.to_string());
        let version = match by_number {
            Ok(version) if version.digest == dead.component => version,
            Ok(_) | Err(QueueError::Unresolved(Unresolved::NoVersion { .. })) => {
                self.choose(&dead.task, &dead.component.to_string())?
            }
            Err(error) => return Err(error),
        };
        Ok((Pin::Version(version.number), version.number, version.digest))
    }

    /// Steps 2 to 6.
    fn put_back(&self, locked: &mut dyn LockedDlq, planned: &[Planned], how: &How) -> Result<(), QueueError> {
        let now = clock::now();
        let ids: Vec<_> = planned.iter().map(|plan| (plan.dead.id, plan.dead.replays)).collect();
        let owner = format!("dlq retry, pid {}", std::process::id());
        let mut log = OutsideLog::create(Arc::clone(&self.disk), &self.layout.journal(), &owner)?;
        let written = locked.intend(&log.id(), &ids, now).map_err(QueueError::from).and_then(|()| {
            for plan in planned {
                let mut invocation = plan.dead.replay();
                invocation.pin = plan.pin.clone();
                invocation.max_attempts = how.max_attempts.or(invocation.max_attempts);
                log.enqueue(&invocation, &plan.dead.payload.0)?;
            }
            Ok(log.sync()?)
        });
        if let Err(error) = written {
            // Nothing was acknowledged; with the log gone the intent means nothing.
            let _ = log.discard();
            return Err(error);
        }
        locked.removed(&ids, RemovalReason::Retried, now)?;
        Ok(log.let_go()?)
    }

    /// Completes what a retry that crashed left behind.
    pub(super) fn settle_intents(&self, locked: &mut dyn LockedDlq) -> Result<(), QueueError> {
        for intent in locked.dangling()? {
            let held = journal::log_holds_replay(self.disk.as_ref(), &self.layout.journal(), &intent.wal, &intent.ids)?;
            let done: Vec<_> = match held {
                Some(found) => intent.ids.iter().filter(|(id, _)| found.contains(id)).copied().collect(),
                None => continue,
            };
            if !done.is_empty() {
                tracing::warn!(log = intent.wal, count = done.len(), "completed a retry that had crashed half-way");
                locked.removed(&done, RemovalReason::Retried, clock::now())?;
            }
        }
        Ok(())
    }
}
