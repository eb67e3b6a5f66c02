//! The live invocations in the order in which they may start: ready, delayed, parked, suspects.
//!
//! Invariants: every queued entry of the ledger is in exactly one of the queues or claimed; the
//! counts are exact. Claiming is O(1) for ready invocations and O(log n) for delayed ones.
//!
//! Spans are waited for on the steady clock and named points in time on the clock of day, so a clock that is
//! set neither fires all delays at once nor holds one up.
//!
//! Deliberately absent: disk, reading clocks, and the decision what follows an attempt.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

use wasmq_core::event::{Exhausted, Started};
use wasmq_core::invocation::MAX_PRIORITY;
use wasmq_core::state::{Entry, Ledger, Phase, Suspicion};
use wasmq_core::{Attempt, Event, IdSet, InvocationId, Millis, Moment, TaskName, Timestamp, Wait};

use super::{Claim, Counts, Enqueued, INLINE_PAYLOAD_BYTES, Payload};

const PRIORITIES: usize = MAX_PRIORITY as usize + 1;

/// What a record of an invocation takes beside payload and task name, in bytes; for estimates.
const RECORD_OVERHEAD_BYTES: u64 = 96;

#[derive(Debug, Default)]
pub(super) struct Schedule {
    ledger: Ledger<Payload>,
    ready: [VecDeque<InvocationId>; PRIORITIES],
    /// By the steady clock.
    delayed: BinaryHeap<Reverse<(Millis, InvocationId)>>,
    /// By the clock of day.
    dated: BinaryHeap<Reverse<(Timestamp, InvocationId)>>,
    parked: HashMap<TaskName, Vec<InvocationId>>,
    suspects: VecDeque<InvocationId>,
    exhausted: BTreeSet<InvocationId>,
    /// Never handed over.
    held: IdSet,
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

/// Takes the earliest one if its time has come.
fn pop_due<T: Ord + Copy>(queue: &mut BinaryHeap<Reverse<(T, InvocationId)>>, now: T) -> Option<InvocationId> {
    let Reverse((due, id)) = queue.peek().copied()?;
    (due <= now).then(|| queue.pop())?;
    Some(id)
}

/// Takes the last ones that are not held, in their order.
fn take_from_end(queue: &mut VecDeque<InvocationId>, most: usize, held: &IdSet) -> Vec<InvocationId> {
    let (mut taken, mut kept) = (Vec::new(), Vec::new());
    while taken.len() < most
        && let Some(id) = queue.pop_back()
    {
        if held.contains(&id) { kept.push(id) } else { taken.push(id) }
    }
    queue.extend(kept.into_iter().rev());
    taken.reverse();
    taken
}

impl Schedule {
    /// Whether an enqueue of this invocation would change anything.
    pub(super) fn knows(&self, id: &InvocationId, replays: u32) -> bool {
        self.ledger.get(id).is_some_and(|known| known.invocation.replays >= replays)
    }

    /// Takes an entry in and queues it where its phase says.
    pub(super) fn insert(&mut self, entry: Entry<Payload>, now: Moment) -> Enqueued {
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

    fn queue(&mut self, entry: &Entry<Payload>, now: Moment) {
        let id = entry.invocation.id;
        match &entry.phase {
            Phase::Exhausted(_) => {
                self.exhausted.insert(id);
            }
            Phase::Running(_) => self.running += 1,
            Phase::Queued { .. } => match entry.wait(now.wall) {
                Wait::Over => self.make_ready(id, entry.invocation.priority, entry.suspicion),
                Wait::For(rest) => self.delayed.push(Reverse((now.steady.plus(rest), id))),
                Wait::Until(due) => self.dated.push(Reverse((due, id))),
            },
        }
    }

    /// Queues what is in the ledger again, where its phase says.
    fn queue_again(&mut self, id: InvocationId, now: Moment) {
        if let Some(entry) = self.ledger.remove(&id) {
            self.queue(&entry, now);
            self.ledger.insert(entry);
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
    fn promote(&mut self, now: Moment) {
        while let Some(id) = pop_due(&mut self.delayed, now.steady).or_else(|| pop_due(&mut self.dated, now.wall)) {
            if let Some(entry) = self.ledger.get(&id) {
                let (priority, suspicion) = (entry.invocation.priority, entry.suspicion);
                self.make_ready(id, priority, suspicion);
            }
        }
    }

    /// See [`super::LiveStore::claim`].
    pub(super) fn claim(&mut self, now: Moment) -> Option<Claim> {
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
            taken.extend(take_from_end(queue, limit - taken.len(), &self.held));
        }
        // Suspects run one at a time; two workers have two at a time. The first of them stays.
        let first = self.suspects.pop_front();
        taken.extend(take_from_end(&mut self.suspects, limit - taken.len(), &self.held));
        self.suspects.extend(first);
        self.suspects.rotate_right(usize::from(first.is_some()));
        taken
    }

    pub(super) fn hold(&mut self, id: InvocationId) {
        if self.ledger.get(&id).is_some() {
            self.held.insert(id);
        }
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

    pub(super) fn retry(&mut self, id: InvocationId, due: Timestamp, attempt: Attempt, now: Moment) {
        self.leave_running(&id);
        self.ledger.apply(Event::Retry(id, due, Box::new(attempt)), |_| Payload::Inline([].into()));
        self.queue_again(id, now);
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

    pub(super) fn postpone(&mut self, id: InvocationId, delay: Millis, now: Moment) {
        // One that was postponed before its last owner died waits already.
        self.delayed.retain(|Reverse((_, other))| *other != id);
        self.dated.retain(|Reverse((_, other))| *other != id);
        if let Some(entry) = self.ledger.get_mut(&id)
            && let Phase::Queued { due } = &mut entry.phase
        {
            // Whoever reads this knows the span from the end of the attempt.
            *due = entry.history.last().map_or(now.wall, |attempt| attempt.ended_at.max(now.wall)).after(delay);
            self.suspects.retain(|suspect| *suspect != id);
            self.queue_again(id, now);
        }
    }

    /// Takes an invocation out, wherever it stands.
    pub(super) fn done(&mut self, id: &InvocationId) -> Option<Entry<Payload>> {
        self.leave_running(id);
        let entry = self.ledger.remove(id)?;
        self.held.remove(id);
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
        self.dated.retain(|Reverse((_, other))| other != id);
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

    pub(super) fn until_due(&self, now: Moment) -> Option<Millis> {
        let delayed = self.delayed.peek().map(|Reverse((due, _))| due.minus(now.steady));
        let dated = self.dated.peek().map(|Reverse((due, _))| due.since(now.wall));
        delayed.into_iter().chain(dated).min()
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
            delayed: (self.delayed.len() + self.dated.len()) as u64,
            running: self.running,
            awaiting_deploy: self.parked.values().map(Vec::len).sum::<usize>() as u64,
            exhausted: self.exhausted.len() as u64,
            orphaned: 0,
            suspects: self.suspects.len() as u64,
            alone: u64::from(self.solo),
        }
    }
}

#[cfg(test)]
mod tests;
