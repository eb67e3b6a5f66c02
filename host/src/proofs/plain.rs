//! The plain model: maps of what lives and what is dead, and what has happened since the last commit.
//!
//! Invariant: `live` is `committed` with all `changes` applied in order. A crash leaves some moment in
//! between or, when the disk keeps blocks out of order, a mixture.

use std::collections::{BTreeMap, BTreeSet};

use wasmq_core::InvocationId;

/// A live invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct One {
    pub(super) replays: u32,
    pub(super) attempts: u32,
    pub(super) stand: Stand,
    pub(super) suspect: bool,
}

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    Queued { due: u64 },
    Running { alone: bool },
    Exhausted,
}

impl One {
    pub(super) fn new(due: u64) -> Self {
        Self { replays: 0, attempts: 0, stand: Stand::Queued { due }, suspect: false }
    }
}

/// What a record in the log says.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Insert(One),
    Start { number: u32, alone: bool },
    Retry { number: u32, due: u64 },
    Release { due: u64 },
    Exhaust,
    Leave,
}

type Live = BTreeMap<InvocationId, One>;

/// Does what a record says; about something unknown it says nothing.
fn apply(live: &mut Live, id: InvocationId, change: &Change) {
    match (change, live.get_mut(&id)) {
        (Change::Insert(one), known) => {
            if known.is_none_or(|known| known.replays < one.replays) {
                live.insert(id, one.clone());
            }
        }
        (Change::Leave, _) => _ = live.remove(&id),
        (_, None) => {}
        (Change::Start { number, alone }, Some(one)) => {
            *one = One { attempts: *number, stand: Stand::Running { alone: *alone }, suspect: false, ..*one };
        }
        (Change::Retry { number, due }, Some(one)) => {
            *one = One { attempts: *number, stand: Stand::Queued { due: *due }, suspect: false, ..*one };
        }
        (Change::Release { due }, Some(one)) => {
            // A suspect that was not seen to its end is one still.
            if let Stand::Running { alone: suspect } = one.stand {
                *one = One { attempts: one.attempts - 1, stand: Stand::Queued { due: *due }, suspect, ..*one };
            }
        }
        (Change::Exhaust, Some(one)) => one.stand = Stand::Exhausted,
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    pub(super) now: u64,
    pub(super) live: Live,
    committed: Live,
    changes: Vec<(InvocationId, Change)>,
    /// Wait for a deploy.
    pub(super) parked: BTreeSet<InvocationId>,
    pub(super) dead: BTreeMap<InvocationId, u32>,
    /// Deaths that have left the dead letter queue.
    buried: BTreeMap<InvocationId, u32>,
    /// Logs that nobody owns, in the order in which they were made, and which is left to others for now.
    free: Vec<(Live, bool)>,
    /// Ids that were ever enqueued.
    ever: BTreeSet<InvocationId>,
}

impl Plain {
    pub(super) fn new(now: u64) -> Self {
        Self {
            now,
            live: Live::new(),
            committed: Live::new(),
            changes: Vec::new(),
            parked: BTreeSet::new(),
            dead: BTreeMap::new(),
            buried: BTreeMap::new(),
            free: Vec::new(),
            ever: BTreeSet::new(),
        }
    }

    /// An id is enqueued again only while it lives: then that is no second invocation.
    pub(super) fn may_enqueue(&self, id: &InvocationId) -> bool {
        let is_free = self.free.iter().any(|(log, _)| log.get(id).is_some_and(|one| one.replays == 0));
        !self.ever.contains(id) || self.live.contains_key(id) || is_free
    }

    pub(super) fn change(&mut self, id: InvocationId, change: Change) {
        self.ever.insert(id);
        let replays = self.live.get(&id).map(|one| one.replays);
        apply(&mut self.live, id, &change);
        if self.live.get(&id).map(|one| one.replays) != replays {
            self.parked.remove(&id);
        }
        self.changes.push((id, change));
    }

    pub(super) fn committed(&mut self) {
        self.committed.clone_from(&self.live);
        self.changes.clear();
    }

    /// Somebody let go of a log with these.
    pub(super) fn free_log(&mut self, log: Live, is_for_others: bool) {
        self.ever.extend(log.keys());
        if is_for_others {
            self.free.iter_mut().for_each(|(_, for_others)| *for_others = false);
        }
        self.free.push((log, is_for_others));
    }

    /// The owner adopted what is free, all but `kept` logs.
    pub(super) fn adopted(&mut self, kept: usize) {
        let (left, taken) =
            std::mem::take(&mut self.free).into_iter().partition(|(_, for_others)| kept > 0 && *for_others);
        self.free = left;
        assert_eq!(self.free.len(), kept, "{self:?}");
        let taken: Vec<(Live, bool)> = taken;
        if taken.is_empty() {
            return;
        }
        for (id, one) in taken.into_iter().flat_map(|(log, _)| log) {
            self.change(id, Change::Insert(one));
        }
        self.committed();
    }

    /// Whether an id lives in more than one log: which of them counts depends on their order then.
    pub(super) fn has_doubles(&self) -> bool {
        let logs = || self.free.iter().map(|(log, _)| log).chain([&self.live, &self.committed]);
        let in_changes = |id: &InvocationId| self.changes.iter().any(|(of, _)| of == id);
        self.free
            .iter()
            .flat_map(|(log, _)| log.keys())
            .any(|id| logs().filter(|log| log.contains_key(id)).count() > 1 || in_changes(id))
    }

    pub(super) fn ids_at(&self, is: impl Fn(&One) -> bool) -> Vec<InvocationId> {
        self.live.iter().filter(|(_, one)| is(one)).map(|(id, _)| *id).collect()
    }

    pub(super) fn running(&self) -> u64 {
        self.ids_at(|one| matches!(one.stand, Stand::Running { .. })).len() as u64
    }

    fn is_ready(&self, id: &InvocationId) -> bool {
        let is_due = |one: &One| matches!(one.stand, Stand::Queued { due } if due <= self.now);
        self.live.get(id).is_some_and(is_due) && !self.parked.contains(id)
    }

    /// Whether this one may start now: suspects first, alone, and when nothing runs.
    pub(super) fn may_start(&self, id: &InvocationId, alone: bool) -> bool {
        self.is_ready(id)
            && self.live[id].suspect == alone
            && !self.waits_for_the_end_of_others()
            && (alone || !self.has_ready_suspect())
    }

    /// Whether something has to be claimed when somebody asks.
    pub(super) fn must_start(&self) -> bool {
        self.live.keys().any(|id| self.is_ready(id)) && !self.waits_for_the_end_of_others()
    }

    fn has_ready_suspect(&self) -> bool {
        self.live.iter().any(|(id, one)| one.suspect && self.is_ready(id))
    }

    fn waits_for_the_end_of_others(&self) -> bool {
        let is_solo = self.live.values().any(|one| one.stand == Stand::Running { alone: true });
        is_solo || (self.has_ready_suspect() && self.running() > 0)
    }

    /// Whether a death is taken by the dead letter queue.
    pub(super) fn add_dead(&mut self, id: InvocationId, replays: u32) -> bool {
        let is_stale = self.buried.get(&id).is_some_and(|gone| *gone >= replays)
            || self.dead.get(&id).is_some_and(|there| *there > replays);
        if !is_stale {
            self.dead.insert(id, replays);
        }
        !is_stale
    }

    pub(super) fn remove_dead(&mut self, id: InvocationId) -> u32 {
        let replays = self.dead.remove(&id).unwrap();
        self.buried.insert(id, replays);
        replays
    }

    /// What a new owner has who finds this in the log of the old one, and all free logs.
    fn adopted_from(&self, mut log: Live) -> Live {
        for one in log.values_mut() {
            if matches!(one.stand, Stand::Running { .. }) {
                *one = One { stand: Stand::Queued { due: self.now }, suspect: true, ..*one };
            }
        }
        for (id, one) in self.free.iter().flat_map(|(log, _)| log) {
            apply(&mut log, *id, &Change::Insert(one.clone()));
        }
        log
    }

    /// Whether this is what some moment since the last commit leaves to a new owner.
    pub(super) fn is_moment(&self, seen: &Live) -> bool {
        let mut log = self.committed.clone();
        for (id, change) in &self.changes {
            if self.adopted_from(log.clone()) == *seen {
                return true;
            }
            apply(&mut log, *id, change);
        }
        self.adopted_from(log) == *seen
    }

    /// Whether each invocation is as some of its changes since the last commit leave it.
    pub(super) fn is_mixture(&self, seen: &Live) -> bool {
        self.ever.iter().all(|id| {
            let changes: Vec<_> = self.changes.iter().filter(|(of, _)| of == id).map(|(_, change)| change).collect();
            let known = self.committed.get(id).map(|one| (*id, one.clone()));
            (0_u32..1 << changes.len().min(16)).any(|kept| {
                let mut log: Live = known.clone().into_iter().collect();
                let kept = changes.iter().enumerate().filter(|(at, _)| *at >= 16 || kept & (1 << at) != 0);
                kept.for_each(|(_, change)| apply(&mut log, *id, change));
                self.adopted_from(log).get(id) == seen.get(id)
            })
        })
    }

    /// A new owner has this, durably, and there is no other log.
    pub(super) fn recovered(&mut self, seen: Live) {
        self.live = seen;
        self.free.clear();
        self.parked.clear();
        self.committed();
    }
}
