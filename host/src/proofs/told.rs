//! What somebody outside knows: what was asked for, and what was acknowledged.
//!
//! Invariants: a fact is *acknowledged* only after the call or the commit that promises it; a fact is
//! *tried* from before the call on. So what holds after a crash lies between the two.

use std::collections::{BTreeMap, BTreeSet};

use super::world::Who;
use wasmq_core::{Digest, InvocationId, TaskName, VersionNumber};

/// What is known of one invocation.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// What it has to keep for ever.
    pub(super) payload: Vec<u8>,
    /// It was acknowledged.
    pub(super) safe: bool,
    /// Somebody began to end it for good: it completed, was cancelled, or its dead task was deleted.
    pub(super) end_tried: bool,
    /// That end is durable.
    pub(super) ended: bool,
    /// The highest replay that somebody began.
    pub(super) replays_tried: u32,
    /// The highest replay that was acknowledged.
    pub(super) replays: u32,
    /// The replays of the death that the dead letter queue acknowledged.
    pub(super) dead: Option<u32>,
    /// The last attempt that is durably started: replays, and its number.
    pub(super) started: (u32, u32),
    /// An attempt of it was put back, so its number may be given again.
    pub(super) released: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) known: BTreeMap<InvocationId, Known>,
    /// What each of the two workers has not made durable yet.
    pending: [Pending; 2],
    /// Requests that a worker has not answered yet.
    asked: [BTreeMap<u64, Asked>; 2],
    /// Deploys that were acknowledged.
    pub(super) versions: BTreeSet<(TaskName, VersionNumber, Digest)>,
    /// What may be current: the last acknowledged choice and what was tried since. `None`: no such task.
    pub(super) current: BTreeMap<TaskName, BTreeSet<Option<Digest>>>,
}

/// What a worker promises when it acknowledges a request.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// That these are safe.
    Enqueue(Vec<InvocationId>),
    /// That this one, which is queued, is over.
    Cancel(InvocationId),
}

/// What a worker did and has not committed, or what a commit covers that has begun.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    /// Attempts that were started: which, its replays, the number.
    starting: Vec<(InvocationId, u32, u32)>,
    /// Ends, with the follow-ups that were asked for.
    ending: Vec<(InvocationId, Vec<InvocationId>)>,
}

impl Told {
    /// Somebody is about to enqueue this.
    pub(super) fn tries(&mut self, id: InvocationId, payload: &[u8]) {
        self.known.entry(id).or_insert_with(|| Known { payload: payload.to_vec(), ..Known::default() });
    }

    /// An enqueue was acknowledged.
    pub(super) fn safe(&mut self, id: InvocationId) {
        self.of(id).safe = true;
    }

    pub(super) fn of(&mut self, id: InvocationId) -> &mut Known {
        self.known.get_mut(&id).unwrap_or_else(|| panic!("{id} was never enqueued"))
    }

    /// An attempt starts.
    pub(super) fn starts(&mut self, who: Who, id: InvocationId, replays: u32, attempt: u32) {
        self.pending[who as usize].starting.push((id, replays, attempt));
    }

    /// An invocation ends in the log.
    pub(super) fn ends(&mut self, who: Who, id: InvocationId, follow_ups: Vec<InvocationId>) {
        self.of(id).end_tried = true;
        self.pending[who as usize].ending.push((id, follow_ups));
    }

    /// What a commit of this worker covers that begins now.
    pub(super) fn begin(&self, who: Who) -> Pending {
        self.pending[who as usize].clone()
    }

    /// That commit succeeded.
    pub(super) fn finish(&mut self, who: Who, covered: &Pending) {
        for (id, replays, attempt) in &covered.starting {
            let known = self.of(*id);
            known.started = known.started.max((*replays, *attempt));
        }
        for (id, follow_ups) in &covered.ending {
            self.of(*id).ended = true;
            follow_ups.iter().for_each(|id| self.safe(*id));
        }
        let pending = &mut self.pending[who as usize];
        pending.starting.drain(..covered.starting.len());
        pending.ending.drain(..covered.ending.len());
    }

    /// A worker was asked for something.
    pub(super) fn asks(&mut self, who: Who, request: u64, asked: Asked) {
        self.asked[who as usize].insert(request, asked);
    }

    /// It acknowledged that.
    pub(super) fn acknowledged(&mut self, who: Who, request: u64) {
        match self.asked[who as usize].remove(&request) {
            Some(Asked::Enqueue(ids)) => ids.into_iter().for_each(|id| self.safe(id)),
            Some(Asked::Cancel(id)) => self.of(id).ended = true,
            None => {}
        }
    }

    /// The process died and had not committed this.
    pub(super) fn forget_uncommitted(&mut self, who: Who) {
        self.pending[who as usize] = Pending::default();
        self.asked[who as usize].clear();
    }

    /// Somebody is about to make a version current, or to remove the task.
    pub(super) fn tries_current(&mut self, task: &TaskName, digest: Option<Digest>) {
        self.current.entry(task.clone()).or_insert_with(|| [None].into()).insert(digest);
        if digest.is_none() {
            self.versions.retain(|(of, _, _)| of != task);
        }
    }

    /// That was acknowledged.
    pub(super) fn is_current(&mut self, task: &TaskName, digest: Option<Digest>) {
        self.current.insert(task.clone(), [digest].into());
    }
}
