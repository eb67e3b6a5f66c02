//! The live invocations in the order in which they may start: ready, delayed, parked, suspects.
//!
//! Invariants: every queued entry of the ledger is in exactly one of the queues or claimed; the
//! counts are exact. Claiming is O(1) for ready invocations and O(log n) for delayed ones.
//!
//! Deliberately absent: disk, clock, and the decision what follows an attempt.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

use wasmq_core::event::{Exhausted, Started};
use wasmq_core::invocation::MAX_PRIORITY;
use wasmq_core::state::{Entry, Ledger, Phase, Suspicion};
use wasmq_core::{Attempt, Event, InvocationId, TaskName, Timestamp};

use super::{Claim, Counts, Enqueued, INLINE_PAYLOAD_BYTES, Payload};

const PRIORITIES: usize = MAX_PRIORITY as usize + 1;

/// What a record of an invocation takes beside payload and task name, in bytes; for estimates.
const RECORD_OVERHEAD_BYTES: u64 = 96;

#[derive(Debug, Default)]
pub(super) struct Schedule {
    ledger: Ledger<Payload>,
    ready: [VecDeque<InvocationId>; PRIORITIES],
    delayed: BinaryHeap<Reverse<(Timestamp, InvocationId)>>,
    parked: HashMap<TaskName, Vec<InvocationId>>,
    suspects: VecDeque<InvocationId>,
    exhausted: BTreeSet<InvocationId>,
    running: u64,
    /// A suspect is running: nothing else may start.
    solo: bool,
    /// An estimate of what the live records take on disk, in bytes.
    live_bytes: u64,
}

/// Keeps a small payload in memory; `None` when it should stay where it is.
pub(super) fn inline(payload: &[u8]) -> Option<Payload> {
    (payload.len() <= INLINE_PAYLOAD_BYTES).then(|| Payload::Inline(payload.into()))
}

fn size_of_entry(entry: &Entry<Payload>) -> u64 {
    let payload = match &entry.payload {
        Payload::Inline(bytes) => bytes.len() as u64,
        Payload::InLog(at, _) => u64::from(at.len),
    };
    RECORD_OVERHEAD_BYTES + entry.invocation.task.as_str().len() as u64 + payload
}

impl Schedule {
    /// Whether an enqueue of this invocation would change anything.
    pub(super) fn knows(&self, id: &InvocationId, replays: u32) -> bool {
        self.ledger.get(id).is_some_and(|known| known.invocation.replays >= replays)
    }

    /// Takes an entry in and queues it where its phase says.
    pub(super) fn insert(&mut self, entry: Entry<Payload>, now: Timestamp) -> Enqueued {
        let id = entry.invocation.id;
        if self.knows(&id, entry.invocation.replays) {
            return Enqueued::Known;
        }
        self.forget(&id);
        self.live_bytes += size_of_entry(&entry);
        self.queue(&entry, now);
        self.ledger.insert(entry);
        Enqueued::Taken
    }

    fn queue(&mut self, entry: &Entry<Payload>, now: Timestamp) {
        let id = entry.invocation.id;
        match &entry.phase {
            Phase::Exhausted(_) => {
                self.exhausted.insert(id);
            }
            Phase::Running(_) => self.running += 1,
            Phase::Queued { .. } if entry.is_due(now) => {
                self.make_ready(id, entry.invocation.priority, entry.suspicion);
            }
            Phase::Queued { due } => self.delayed.push(Reverse((*due, id))),
        }
    }

    fn make_ready(&mut self, id: InvocationId, priority: u8, suspicion: Suspicion) {
        if suspicion != Suspicion::None {
            self.suspects.push_back(id);
        } else if let Some(queue) = self.ready.get_mut(usize::from(priority).min(PRIORITIES - 1)) {
            queue.push_back(id);
        }
    }

    /// Moves everything that has become due to the ready queues.
    fn promote(&mut self, now: Timestamp) {
        while let Some(Reverse((due, id))) = self.delayed.peek().copied()
            && due <= now
        {
            self.delayed.pop();
            if let Some(entry) = self.ledger.get(&id) {
                let (priority, suspicion) = (entry.invocation.priority, entry.suspicion);
                self.make_ready(id, priority, suspicion);
            }
        }
    }

    /// See [`super::LiveStore::claim`].
    pub(super) fn claim(&mut self, now: Timestamp) -> Option<Claim> {
        self.promote(now);
        if self.solo {
            return None;
        }
        if let Some(&id) = self.suspects.front() {
            if self.running > 0 {
                return None;
            }
            self.suspects.pop_front();
            return Some(Claim { id, alone: true });
        }
        let id = self.ready.iter_mut().rev().find_map(VecDeque::pop_front)?;
        Some(Claim { id, alone: false })
    }

    pub(super) fn put_back(&mut self, claim: Claim) {
        if claim.alone {
            self.suspects.push_front(claim.id);
            return;
        }
        let priority = self.ledger.get(&claim.id).map_or(0, |entry| entry.invocation.priority);
        if let Some(queue) = self.ready.get_mut(usize::from(priority)) {
            queue.push_front(claim.id);
        }
    }

    /// Takes up to `limit` ready invocations and suspects out of the queues: those that would start last. They stay
    /// in the ledger until [`Schedule::handed_over`].
    pub(super) fn take_last_ready(&mut self, limit: usize) -> Vec<InvocationId> {
        let mut taken = Vec::new();
        for queue in &mut self.ready {
            let keep = queue.len().saturating_sub(limit - taken.len());
            taken.extend(queue.drain(keep..));
            if taken.len() >= limit {
                break;
            }
        }
        // Suspects run one at a time; two workers have two at a time. The first of them stays.
        let keep = self.suspects.len().saturating_sub(limit - taken.len()).max(1).min(self.suspects.len());
        taken.extend(self.suspects.drain(keep..));
        taken
    }

    /// Undoes [`Schedule::take_last_ready`].
    pub(super) fn put_back_last(&mut self, ids: &[InvocationId]) {
        for id in ids {
            if let Some(entry) = self.ledger.get(id) {
                let (priority, suspicion) = (entry.invocation.priority, entry.suspicion);
                self.make_ready(*id, priority, suspicion);
            }
        }
    }

    /// Forgets invocations that [`Schedule::take_last_ready`] gave and another log holds now.
    pub(super) fn handed_over(&mut self, ids: &[InvocationId]) {
        for entry in ids.iter().filter_map(|id| self.ledger.remove(id)) {
            self.live_bytes = self.live_bytes.saturating_sub(size_of_entry(&entry));
        }
    }

    pub(super) fn get(&self, id: &InvocationId) -> Option<&Entry<Payload>> {
        self.ledger.get(id)
    }

    pub(super) fn started(&mut self, id: InvocationId, started: Started) {
        if self.ledger.get(&id).is_some() {
            self.running += 1;
            self.solo |= started.alone;
        }
        self.ledger.apply(Event::Started(id, started), |_| Payload::Inline([].into()));
    }

    pub(super) fn retry(&mut self, id: InvocationId, due: Timestamp, attempt: Attempt) {
        self.leave_running(&id);
        self.ledger.apply(Event::Retry(id, due, Box::new(attempt)), |_| Payload::Inline([].into()));
        if self.ledger.get(&id).is_some() {
            self.delayed.push(Reverse((due, id)));
        }
    }

    pub(super) fn released(&mut self, id: InvocationId) {
        self.leave_running(&id);
        self.ledger.apply(Event::Released(id), |_| Payload::Inline([].into()));
        if let Some(entry) = self.ledger.get(&id) {
            let (priority, suspicion) = (entry.invocation.priority, entry.suspicion);
            self.make_ready(id, priority, suspicion);
        }
    }

    pub(super) fn exhausted(&mut self, id: InvocationId, exhausted: Exhausted) {
        self.leave_running(&id);
        if let Some(entry) = self.ledger.get_mut(&id) {
            entry.phase = Phase::Exhausted(Box::new(exhausted));
            self.exhausted.insert(id);
        }
    }

    fn leave_running(&mut self, id: &InvocationId) {
        if let Some(Phase::Running(started)) = self.ledger.get(id).map(|entry| &entry.phase) {
            self.running -= 1;
            self.solo &= !started.alone;
        }
    }

    pub(super) fn await_deploy(&mut self, id: InvocationId) {
        if let Some(entry) = self.ledger.get(&id) {
            self.parked.entry(entry.invocation.task.clone()).or_default().push(id);
        }
    }

    pub(super) fn deployed(&mut self, task: Option<&TaskName>) {
        let freed = match task {
            Some(task) => self.parked.remove(task).unwrap_or_default(),
            None => std::mem::take(&mut self.parked).into_values().flatten().collect(),
        };
        for id in freed {
            if let Some(entry) = self.ledger.get(&id) {
                let (priority, suspicion) = (entry.invocation.priority, entry.suspicion);
                self.make_ready(id, priority, suspicion);
            }
        }
    }

    pub(super) fn pending_dead(&self, limit: usize) -> Vec<InvocationId> {
        self.exhausted.iter().take(limit).copied().collect()
    }

    pub(super) fn postpone(&mut self, id: InvocationId, due: Timestamp) {
        self.suspects.retain(|suspect| *suspect != id);
        if let Some(entry) = self.ledger.get_mut(&id)
            && let Phase::Queued { due: old } = &mut entry.phase
        {
            *old = due;
            self.delayed.push(Reverse((due, id)));
        }
    }

    /// Takes an invocation out, wherever it stands.
    pub(super) fn done(&mut self, id: &InvocationId) -> Option<Entry<Payload>> {
        self.leave_running(id);
        let entry = self.ledger.remove(id)?;
        self.live_bytes = self.live_bytes.saturating_sub(size_of_entry(&entry));
        match &entry.phase {
            Phase::Exhausted(_) => {
                self.exhausted.remove(id);
            }
            Phase::Queued { .. } => self.unqueue(id, &entry.invocation.task),
            Phase::Running(_) => {}
        }
        Some(entry)
    }

    /// Rare: an invocation that ends while it is queued was cancelled or replaced.
    fn unqueue(&mut self, id: &InvocationId, task: &TaskName) {
        self.ready.iter_mut().for_each(|queue| queue.retain(|other| other != id));
        self.suspects.retain(|other| other != id);
        self.delayed.retain(|Reverse((_, other))| other != id);
        if let Some(parked) = self.parked.get_mut(task) {
            parked.retain(|other| other != id);
        }
    }

    fn forget(&mut self, id: &InvocationId) {
        if self.ledger.get(id).is_some() {
            self.done(id);
        }
    }

    /// Says where the payload of an entry lies now.
    pub(super) fn moved(&mut self, id: &InvocationId, payload: Payload) {
        if let Some(entry) = self.ledger.get_mut(id) {
            entry.payload = payload;
        }
    }

    /// How many attempts run.
    pub(super) const fn running(&self) -> u64 {
        self.running
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.delayed.peek().map(|Reverse((due, _))| *due)
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ledger.is_empty()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            ready: (self.ready.iter().map(VecDeque::len).sum::<usize>() + self.suspects.len()) as u64,
            delayed: self.delayed.len() as u64,
            running: self.running,
            awaiting_deploy: self.parked.values().map(Vec::len).sum::<usize>() as u64,
            exhausted: self.exhausted.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmq_core::{Digest, Invocation, VersionNumber};

    fn id(n: u128) -> InvocationId {
        InvocationId::new(Timestamp(1), n)
    }

    fn entry(n: u128, due: u64, priority: u8) -> Entry<Payload> {
        let mut invocation = Invocation::new(id(n), "t".parse().unwrap(), Timestamp(1));
        invocation.due_at = Timestamp(due);
        invocation.priority = priority;
        Entry::new(invocation, Payload::Inline([].into()))
    }

    fn start(schedule: &mut Schedule, n: u128) {
        start_as(schedule, n, false);
    }

    fn start_as(schedule: &mut Schedule, n: u128, alone: bool) {
        let digest = Digest::new([0; 32]);
        let started = Started { attempt: 1, version: VersionNumber::FIRST, digest, at: Timestamp(9), alone };
        schedule.started(id(n), started);
    }

    fn claimed(schedule: &mut Schedule, now: u64) -> Vec<InvocationId> {
        std::iter::from_fn(|| schedule.claim(Timestamp(now))).map(|claim| claim.id).collect()
    }

    #[test]
    fn a_higher_priority_starts_first_and_equal_ones_in_order() {
        let mut schedule = Schedule::default();
        for (n, priority) in [(1, 0), (2, 9), (3, 0), (4, 9)] {
            schedule.insert(entry(n, 1, priority), Timestamp(5));
        }
        assert_eq!(claimed(&mut schedule, 5), [id(2), id(4), id(1), id(3)]);
    }

    #[test]
    fn a_delayed_invocation_starts_at_its_time_and_not_before() {
        let mut schedule = Schedule::default();
        schedule.insert(entry(1, 100, 0), Timestamp(5));
        assert_eq!(claimed(&mut schedule, 99), []);
        assert_eq!(schedule.next_due(), Some(Timestamp(100)));
        assert_eq!(claimed(&mut schedule, 100), [id(1)]);
    }

    #[test]
    fn a_clock_that_is_set_back_delays_only_what_was_delayed() {
        let mut schedule = Schedule::default();
        let mut at_once = entry(1, 1, 0);
        at_once.invocation.enqueued_at = Timestamp(1_000_000);
        at_once.phase = Phase::Queued { due: Timestamp(1_000_000) };
        schedule.insert(at_once, Timestamp(5));
        schedule.insert(entry(2, 1_000_000, 0), Timestamp(5));
        assert_eq!(claimed(&mut schedule, 5), [id(1)]);
        assert_eq!(schedule.counts().delayed, 1);
    }

    #[test]
    fn a_suspect_waits_until_nothing_runs_and_then_runs_alone() {
        let mut schedule = Schedule::default();
        schedule.insert(entry(1, 1, 0), Timestamp(5));
        assert_eq!(claimed(&mut schedule, 5), [id(1)]);
        start(&mut schedule, 1);
        let mut suspect = entry(2, 1, 0);
        suspect.suspicion = Suspicion::InCompany;
        schedule.insert(suspect, Timestamp(5));
        schedule.insert(entry(3, 1, 0), Timestamp(5));
        assert_eq!(schedule.claim(Timestamp(5)), None);
        schedule.done(&id(1));
        assert_eq!(schedule.claim(Timestamp(5)), Some(Claim { id: id(2), alone: true }));
        start_as(&mut schedule, 2, true);
        assert_eq!(schedule.claim(Timestamp(5)), None);
        schedule.done(&id(2));
        assert_eq!(claimed(&mut schedule, 5), [id(3)]);
    }

    #[test]
    fn a_parked_invocation_comes_back_with_the_deploy_of_its_task() {
        let mut schedule = Schedule::default();
        schedule.insert(entry(1, 1, 0), Timestamp(5));
        assert_eq!(claimed(&mut schedule, 5), [id(1)]);
        schedule.await_deploy(id(1));
        assert_eq!(schedule.counts().awaiting_deploy, 1);
        schedule.deployed(Some(&"other".parse().unwrap()));
        assert_eq!(claimed(&mut schedule, 5), []);
        schedule.deployed(Some(&"t".parse().unwrap()));
        assert_eq!(claimed(&mut schedule, 5), [id(1)]);
    }

    #[test]
    fn those_that_would_start_last_are_handed_over() {
        let mut schedule = Schedule::default();
        for (n, priority) in [(1, 0), (2, 9), (3, 0), (4, 0)] {
            schedule.insert(entry(n, 1, priority), Timestamp(5));
        }
        let taken = schedule.take_last_ready(2);
        assert_eq!(taken, [id(3), id(4)]);
        schedule.handed_over(&taken);
        assert_eq!(claimed(&mut schedule, 5), [id(2), id(1)]);
    }

    #[test]
    fn suspects_are_handed_over_too_but_for_the_first() {
        let mut schedule = Schedule::default();
        for n in 1..=3 {
            let mut suspect = entry(n, 1, 0);
            suspect.suspicion = Suspicion::InCompany;
            schedule.insert(suspect, Timestamp(5));
        }
        assert_eq!(schedule.take_last_ready(5), [id(2), id(3)]);
        assert_eq!(schedule.claim(Timestamp(5)), Some(Claim { id: id(1), alone: true }));
    }

    #[test]
    fn a_cancelled_invocation_leaves_every_queue() {
        let mut schedule = Schedule::default();
        schedule.insert(entry(1, 1, 3), Timestamp(5));
        schedule.insert(entry(2, 900, 3), Timestamp(5));
        schedule.done(&id(1));
        schedule.done(&id(2));
        assert_eq!(schedule.counts(), Counts::default());
        assert_eq!(schedule.live_bytes(), 0);
    }
}
