//! The state of live invocations and its transitions, as the journal's events drive them.
//!
//! Invariants: applying events is deterministic and total (an event about an unknown id changes
//! nothing), so replaying a log always gives the same state; an id is known at most once; a copy
//! with fewer replays never replaces one with more.
//!
//! Deliberately absent: queues ordered by time, which the worker derives, and the clock.

use crate::bytes::Bytes;
use crate::dead_task::DeadTask;
use crate::event::{Event, Exhausted, Outcome, Started};
use crate::fingerprint::fingerprint;
use crate::id::{IdMap, InvocationId};
use crate::invocation::Invocation;
use crate::report::Attempt;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// How many attempts are kept from the front and, as many, from the end of a history.
pub const HISTORY_EACH_END: usize = 10;

/// A live invocation. `P` is the payload or the place where it lies.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<P> {
    /// The request.
    pub invocation: Invocation,
    /// The payload, or where it is.
    pub payload: P,
    /// Attempts that were started since the last replay and count.
    pub attempts: u32,
    /// Whether it may have killed a worker.
    pub suspicion: Suspicion,
    /// The ended attempts, within a cap.
    pub history: Vec<Attempt>,
    /// Where it stands.
    pub phase: Phase,
}

/// Where a live invocation stands. Each state carries exactly its own data.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Waits for its time, or for a version that can run it.
    Queued {
        /// The earliest next attempt.
        due: Timestamp,
    },
    /// An attempt is running, or was when the process died.
    Running(Started),
    /// Given up; the dead letter queue has not confirmed it yet.
    Exhausted(Box<Exhausted>),
}

/// Whether an invocation was running when a worker died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Suspicion {
    /// It was not.
    #[default]
    None,
    /// It was, among others: it runs alone next, so that the culprit is found.
    InCompany,
    /// It was, and nothing else ran: the crash is its own.
    Alone,
}

impl Suspicion {
    pub(crate) const fn to_byte(self) -> u8 {
        self as u8
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::InCompany),
            2 => Some(Self::Alone),
            _ => None,
        }
    }
}

impl<P> Entry<P> {
    /// A fresh entry, queued for the invocation's own due time.
    pub fn new(invocation: Invocation, payload: P) -> Self {
        let due = invocation.due_at;
        Self {
            invocation,
            payload,
            attempts: 0,
            suspicion: Suspicion::None,
            history: Vec::new(),
            phase: Phase::Queued { due },
        }
    }

    /// The same entry with another payload.
    pub fn with_payload<Q>(self, payload: Q) -> Entry<Q> {
        Entry {
            invocation: self.invocation,
            payload,
            attempts: self.attempts,
            suspicion: self.suspicion,
            history: self.history,
            phase: self.phase,
        }
    }

    /// Adds an ended attempt to the history; of a long one the middle is dropped.
    pub fn remember(&mut self, attempt: Attempt) {
        if self.history.len() >= 2 * HISTORY_EACH_END {
            self.history.remove(HISTORY_EACH_END);
        }
        self.history.push(attempt);
    }

    /// Notes that the process died during the running attempt: the attempt counts, its verdict is
    /// `host-crash`, and the entry is queued again as a suspect. Returns whether it was running.
    pub fn crashed(&mut self, now: Timestamp, alone: bool) -> bool {
        let Phase::Running(started) = self.phase else { return false };
        let alone = alone || started.alone;
        self.remember(Attempt {
            number: started.attempt,
            version: started.version,
            digest: started.digest,
            started_at: started.at,
            ended_at: now.max(started.at),
            verdict: Verdict::HostCrash,
            deterministic: false,
            summary: "the worker process died during this attempt".to_owned(),
        });
        self.suspicion = if alone { Suspicion::Alone } else { Suspicion::InCompany };
        self.phase = Phase::Queued { due: now };
        true
    }

    /// The dead task that this entry becomes.
    pub fn dead_task(&self, exhausted: &Exhausted, payload: &[u8]) -> DeadTask {
        let invocation = &self.invocation;
        let mut history = self.history.clone();
        if history.last() != Some(&exhausted.attempt) {
            history.push(exhausted.attempt.clone());
        }
        DeadTask {
            id: invocation.id,
            task: invocation.task.clone(),
            version: exhausted.attempt.version,
            component: exhausted.attempt.digest,
            wit: exhausted.wit.clone(),
            verdict: exhausted.attempt.verdict.clone(),
            fingerprint: fingerprint(&invocation.task, &exhausted.attempt.verdict, &exhausted.failure),
            enqueued_at: invocation.enqueued_at,
            dead_at: exhausted.dead_at,
            attempts: self.attempts,
            max_attempts: exhausted.max_attempts,
            replays: invocation.replays,
            priority: invocation.priority,
            own_max_attempts: invocation.max_attempts,
            metadata: invocation.metadata.clone(),
            failure: exhausted.failure.clone(),
            history,
            deaths: invocation.deaths.clone(),
            usage: exhausted.usage,
            limits: exhausted.limits,
            grants: Vec::new(),
            worker: exhausted.worker.clone(),
            engine: exhausted.engine.clone(),
            payload: Bytes(payload.to_vec()),
        }
    }
}

/// All live invocations of a log.
#[derive(Debug)]
pub struct Ledger<P> {
    /// Boxed, so that a map that grows moves pointers and not entries.
    entries: IdMap<Box<Entry<P>>>,
    copies: IdMap<Box<Entry<P>>>,
}

impl<P> Default for Ledger<P> {
    fn default() -> Self {
        Self { entries: IdMap::default(), copies: IdMap::default() }
    }
}

impl<P> Ledger<P> {
    /// Applies one event. `place` turns a payload into what this ledger keeps of it. Returns the id
    /// of an adopted log when its copies have just become valid.
    pub fn apply(&mut self, event: Event<'_>, place: impl FnOnce(&[u8]) -> P) -> Option<[u8; 16]> {
        match event {
            Event::Enqueued(invocation, payload) => self.insert(Entry::new(*invocation, place(payload))),
            Event::Snapshot(entry, payload) => {
                let id = entry.invocation.id;
                self.entries.insert(id, Box::new(entry.with_payload(place(payload))));
            }
            Event::Copied(entry, payload) => {
                let id = entry.invocation.id;
                self.copies.insert(id, Box::new(entry.with_payload(place(payload))));
            }
            Event::Adopted(log) => {
                self.accept_copies();
                return Some(log);
            }
            Event::Started(id, started) => self.started(id, started),
            Event::Retry(id, due, attempt) => self.retry(id, due, *attempt),
            Event::Released(id) => self.released(id),
            Event::Exhausted(id, exhausted) => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.phase = Phase::Exhausted(exhausted);
                }
            }
            Event::Done(id, Outcome::Completed | Outcome::Dead | Outcome::Cancelled) => {
                self.entries.remove(&id);
            }
            Event::HandedOver(_, ids) => ids.iter().for_each(|id| {
                self.entries.remove(id);
            }),
        }
        None
    }

    /// Takes an entry in unless the id is known with as many replays or more. Returns nothing; an
    /// entry that is not taken in is a copy.
    pub fn insert(&mut self, entry: Entry<P>) {
        let id = entry.invocation.id;
        let newer = self.entries.get(&id).is_none_or(|known| known.invocation.replays < entry.invocation.replays);
        if newer {
            self.entries.insert(id, Box::new(entry));
        }
    }

    fn started(&mut self, id: InvocationId, started: Started) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.attempts = started.attempt;
            entry.suspicion = Suspicion::None;
            entry.phase = Phase::Running(started);
        }
    }

    fn retry(&mut self, id: InvocationId, due: Timestamp, attempt: Attempt) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.attempts = attempt.number;
            entry.suspicion = Suspicion::None;
            entry.remember(attempt);
            entry.phase = Phase::Queued { due };
        }
    }

    fn released(&mut self, id: InvocationId) {
        if let Some(entry) = self.entries.get_mut(&id)
            && let Phase::Running(started) = entry.phase
        {
            entry.attempts = started.attempt.saturating_sub(1);
            // A suspect that was not seen to its end is one still.
            entry.suspicion = if started.alone { Suspicion::InCompany } else { Suspicion::None };
            // Its time had come: it waits for nothing any more.
            entry.phase = Phase::Queued { due: entry.invocation.enqueued_at.min(entry.invocation.due_at) };
        }
    }

    /// Makes the copies of an adopted log valid.
    pub fn accept_copies(&mut self) {
        for (_, entry) in std::mem::take(&mut self.copies) {
            self.insert(*entry);
        }
    }

    /// Whether copies wait for the record that makes them valid.
    #[must_use]
    pub fn has_open_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// The live invocations.
    pub fn iter(&self) -> impl Iterator<Item = (&InvocationId, &Entry<P>)> {
        self.entries.iter().map(|(id, entry)| (id, &**entry))
    }

    /// A live invocation.
    #[must_use]
    pub fn get(&self, id: &InvocationId) -> Option<&Entry<P>> {
        self.entries.get(id).map(|entry| &**entry)
    }

    /// A live invocation, to change.
    pub fn get_mut(&mut self, id: &InvocationId) -> Option<&mut Entry<P>> {
        self.entries.get_mut(id).map(|entry| &mut **entry)
    }

    /// Takes a live invocation out.
    pub fn remove(&mut self, id: &InvocationId) -> Option<Entry<P>> {
        self.entries.remove(id).map(|entry| *entry)
    }

    /// How many live invocations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries as they are.
    pub fn into_entries(self) -> impl Iterator<Item = (InvocationId, Entry<P>)> {
        self.entries.into_iter().map(|(id, entry)| (id, *entry))
    }

    /// All entries, with those that were running when the process died marked as suspects. One that
    /// was the only one running is marked as alone.
    #[must_use]
    pub fn into_recovered(mut self, now: Timestamp) -> Vec<Entry<P>> {
        let running = self.entries.values().filter(|entry| matches!(entry.phase, Phase::Running(_))).count();
        for entry in self.entries.values_mut() {
            entry.crashed(now, running == 1);
        }
        let mut entries: Vec<_> = self.entries.into_values().map(|entry| *entry).collect();
        entries.sort_unstable_by_key(|entry| entry.invocation.id);
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Digest;
    use crate::name::VersionNumber;

    fn id(n: u128) -> InvocationId {
        InvocationId::new(Timestamp(1), n)
    }

    fn enqueue(ledger: &mut Ledger<()>, n: u128, replays: u32) {
        let mut invocation = Invocation::new(id(n), "t".parse().unwrap(), Timestamp(1));
        invocation.replays = replays;
        ledger.apply(Event::Enqueued(Box::new(invocation), b""), |_| ());
    }

    fn start(ledger: &mut Ledger<()>, n: u128, attempt: u32, alone: bool) {
        let digest = Digest::new([0; 32]);
        let started = Started { attempt, version: VersionNumber::FIRST, digest, at: Timestamp(2), alone };
        ledger.apply(Event::Started(id(n), started), |_| ());
    }

    #[test]
    fn a_started_attempt_counts_even_if_the_process_dies() {
        let mut ledger = Ledger::default();
        enqueue(&mut ledger, 1, 0);
        start(&mut ledger, 1, 1, false);
        let entries = ledger.into_recovered(Timestamp(9));
        assert_eq!(entries[0].attempts, 1);
        assert_eq!(entries[0].history[0].verdict, Verdict::HostCrash);
        assert_eq!(entries[0].suspicion, Suspicion::Alone);
    }

    #[test]
    fn two_that_ran_together_are_both_suspects_and_neither_is_blamed() {
        let mut ledger = Ledger::default();
        for n in [1, 2] {
            enqueue(&mut ledger, n, 0);
            start(&mut ledger, n, 1, false);
        }
        let entries = ledger.into_recovered(Timestamp(9));
        assert!(entries.iter().all(|entry| entry.suspicion == Suspicion::InCompany));
    }

    #[test]
    fn putting_back_does_not_use_up_an_attempt() {
        let mut ledger = Ledger::default();
        enqueue(&mut ledger, 1, 0);
        start(&mut ledger, 1, 1, false);
        ledger.apply(Event::Released(id(1)), |_| ());
        assert_eq!(ledger.get(&id(1)).unwrap().attempts, 0);
    }

    #[test]
    fn a_suspect_that_was_put_back_runs_alone_again() {
        for alone in [false, true] {
            let mut ledger = Ledger::default();
            enqueue(&mut ledger, 1, 0);
            start(&mut ledger, 1, 1, alone);
            ledger.apply(Event::Released(id(1)), |_| ());
            assert_eq!(ledger.get(&id(1)).unwrap().suspicion == Suspicion::InCompany, alone);
        }
    }

    #[test]
    fn a_known_id_is_not_taken_twice_but_a_later_replay_is() {
        let mut ledger = Ledger::default();
        enqueue(&mut ledger, 1, 1);
        start(&mut ledger, 1, 1, false);
        enqueue(&mut ledger, 1, 1);
        assert_eq!(ledger.get(&id(1)).unwrap().attempts, 1);
        enqueue(&mut ledger, 1, 0);
        assert_eq!(ledger.get(&id(1)).unwrap().invocation.replays, 1);
        enqueue(&mut ledger, 1, 2);
        assert_eq!(ledger.get(&id(1)).unwrap().attempts, 0);
    }

    #[test]
    fn copies_count_only_once_the_adoption_is_complete() {
        let mut ledger = Ledger::default();
        let entry = Entry::new(Invocation::new(id(1), "t".parse().unwrap(), Timestamp(1)), ());
        ledger.apply(Event::Copied(Box::new(entry), b""), |_| ());
        assert!(ledger.is_empty() && ledger.has_open_copies());
        assert_eq!(ledger.apply(Event::Adopted([7; 16]), |_| ()), Some([7; 16]));
        assert_eq!(ledger.len(), 1);
    }

    #[test]
    fn a_long_history_keeps_both_ends() {
        let mut ledger = Ledger::default();
        enqueue(&mut ledger, 1, 0);
        for attempt in 1..=50 {
            start(&mut ledger, 1, attempt, true);
            ledger.get_mut(&id(1)).unwrap().crashed(Timestamp(3), true);
        }
        let history = &ledger.get(&id(1)).unwrap().history;
        assert_eq!(history.len(), 20);
        assert_eq!((history[0].number, history[19].number), (1, 50));
    }
}
