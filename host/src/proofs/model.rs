//! Random histories of the real store agree with a plain model, crashes included.
//!
//! `plain` is the model and `steps` what happens; this file does each operation to the store and to the model, and compares.
//! The store is what a worker has: a journal, the dead letter queue, and operators beside it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use wasmq_core::event::{Exhausted, Outcome, Started};
use wasmq_core::report::FailureReport;
use wasmq_core::state::{Entry, Phase, Suspicion};
use wasmq_core::{
    Attempt, Digest, Invocation, InvocationId, Millis, Settings, Timestamp, Usage, Verdict, VersionNumber,
};
use wasmq_wal::disk::{Disk, SimDisk, Survival};

use super::plain::{Change, One, Plain, Stand};
use super::steps::{NUMBERS, Step, step};
use super::wished;
use super::world::{DATA, World, id, journal_dir, number, payload, small_log, task};
use crate::clock;
use crate::dlq::{DeadTaskStore, DiskDlq, Filter};
use crate::journal::{Claim, DiskJournal, Enqueued, LiveStore, OutsideLog, Payload};
use crate::queue::{Component, Options, Queue, Selection};

/// An hour, in milliseconds: longer than any test takes.
const HOUR: u64 = 3_600_000;

/// The store and the model.
struct Both {
    disk: SimDisk,
    shared: Arc<dyn Disk>,
    journal: Option<DiskJournal>,
    dlq: DiskDlq,
    queue: Queue,
    plain: Plain,
}

impl Both {
    fn new() -> Self {
        let disk = SimDisk::new();
        let mut world = World::new(disk.clone());
        world.make_directories().unwrap();
        world.deploy("resize", 0).unwrap();
        let (shared, dlq, queue) = open(&disk);
        let mut both = Self { disk, shared, journal: None, dlq, queue, plain: Plain::new(clock::now().0) };
        clock::pretend(Millis(both.plain.now));
        both.own();
        both
    }

    /// A new owner, who adopts nothing yet.
    fn own(&mut self) {
        let journal = DiskJournal::create(Arc::clone(&self.shared), &journal_dir(), "worker, test", small_log());
        self.journal = Some(journal.unwrap());
    }

    fn journal(&mut self) -> &mut DiskJournal {
        self.journal.as_mut().unwrap()
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.plain.now)
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Enqueue { n, hours } => self.enqueue(*n, *hours),
            Step::EnqueueOutside(n) => self.enqueue_outside(*n),
            Step::Start => self.start(),
            Step::PutBack => self.put_back(),
            Step::Park => self.park(),
            Step::Deployed => {
                self.journal().deployed(None);
                self.plain.parked.clear();
            }
            Step::Done(which) => self.with_running(*which, Self::done),
            Step::Retry { which, hours } => self.with_running(*which, |both, id| both.retry(id, *hours)),
            Step::Release(which) => self.with_running(*which, Self::release),
            Step::Exhaust(which) => self.with_running(*which, Self::exhaust),
            Step::Cancel(which) => self.cancel(*which),
            Step::Bury => self.bury(),
            Step::RetryDead(which) => self.retry_dead(*which),
            Step::DeleteDead(which) => self.delete_dead(*which),
            Step::Flush => self.journal().flush().unwrap(),
            Step::Commit => self.commit(),
            Step::Adopt => self.adopt(),
            Step::HandOver(limit) => self.hand_over(*limit),
            Step::Compact => self.journal().compact().unwrap(),
            Step::CompactDead => self.dlq.compact(Timestamp(9)).unwrap(),
            Step::Rotate => self.journal().rotate_now(),
            Step::Forward(hours) => {
                self.plain.now += hours * HOUR;
                clock::pretend(Millis(self.plain.now));
            }
            Step::Close => self.close(),
            Step::Kill => self.crash(self.disk.after_power_cut(Survival::Kept, 0), Survival::Kept),
            Step::PowerCut { survival, seed } => {
                let survival = Survival::ALL[*survival];
                self.crash(self.disk.after_power_cut(survival, *seed), survival);
            }
            Step::CutDuring { what, operation, survival } => {
                self.cut_during(*what, *operation, Survival::ALL[*survival]);
            }
        }
        self.compare();
    }

    fn enqueue(&mut self, n: u128, hours: u64) {
        if !self.plain.may_enqueue(&id(n)) {
            return;
        }
        let mut invocation = Invocation::new(id(n), task("resize"), Timestamp(1));
        if hours > 0 {
            invocation.due_at = Timestamp(self.plain.now + hours * HOUR);
        }
        let one = One::new(invocation.due_at.0);
        let taken = self.journal().enqueue(invocation, &payload(n)).unwrap();
        assert_eq!(taken == Enqueued::Taken, !self.plain.live.contains_key(&id(n)));
        self.plain.change(id(n), Change::Insert(one));
    }

    fn enqueue_outside(&mut self, n: u128) {
        if !self.plain.may_enqueue(&id(n)) {
            return;
        }
        let mut log = OutsideLog::create(Arc::clone(&self.shared), &journal_dir(), "enqueue, test").unwrap();
        log.enqueue(&Invocation::new(id(n), task("resize"), Timestamp(1)), &payload(n)).unwrap();
        log.sync().unwrap();
        log.let_go().unwrap();
        self.plain.free_log([(id(n), One::new(1))].into(), false);
    }

    /// The next that may start, which the model has to agree with.
    fn claim(&mut self) -> Option<Claim> {
        let now = self.now();
        let claim = self.journal().claim(now);
        match claim {
            Some(claim) => assert!(self.plain.may_start(&claim.id, claim.alone), "{claim:?} {:?}", self.plain),
            None => assert!(!self.plain.must_start(), "nothing was claimed: {:?}", self.plain),
        }
        claim
    }

    fn start(&mut self) {
        let Some(claim) = self.claim() else { return };
        let attempt = self.plain.live[&claim.id].attempts + 1;
        let digest = Digest::new([1; 32]);
        let at = self.now();
        let started = Started { attempt, version: VersionNumber::FIRST, digest, at, alone: claim.alone };
        self.journal().started(claim.id, started).unwrap();
        self.plain.change(claim.id, Change::Start { number: attempt, alone: claim.alone });
    }

    fn put_back(&mut self) {
        if let Some(claim) = self.claim() {
            self.journal().put_back(claim);
        }
    }

    fn park(&mut self) {
        if let Some(claim) = self.claim() {
            self.journal().await_deploy(claim.id);
            self.plain.parked.insert(claim.id);
        }
    }

    fn with_running(&mut self, which: usize, act: impl FnOnce(&mut Self, InvocationId)) {
        let running = self.plain.ids_at(|one| matches!(one.stand, Stand::Running { .. }));
        if let Some(id) = running.get(which % running.len().max(1)) {
            act(self, *id);
        }
    }

    fn done(&mut self, id: InvocationId) {
        self.journal().done(id, Outcome::Completed).unwrap();
        self.plain.change(id, Change::Leave);
    }

    fn cancel(&mut self, which: usize) {
        let queued = self.plain.ids_at(|one| matches!(one.stand, Stand::Queued { .. }));
        if let Some(id) = queued.get(which % queued.len().max(1)).copied() {
            self.journal().done(id, Outcome::Cancelled).unwrap();
            self.plain.change(id, Change::Leave);
        }
    }

    fn retry(&mut self, id: InvocationId, hours: u64) {
        let due = self.plain.now + hours * HOUR;
        let attempt = self.attempt(&id);
        let number = attempt.number;
        self.journal().retry(id, Timestamp(due), attempt).unwrap();
        self.plain.change(id, Change::Retry { number, due });
    }

    fn release(&mut self, id: InvocationId) {
        let invocation = &self.journal().get(&id).unwrap().invocation;
        // Its time had come, so it waits for nothing any more.
        let due = invocation.due_at.min(invocation.enqueued_at).0;
        self.journal().released(id).unwrap();
        self.plain.change(id, Change::Release { due });
    }

    fn exhaust(&mut self, id: InvocationId) {
        let attempt = self.attempt(&id);
        let exhausted = Exhausted {
            dead_at: self.now(),
            attempt,
            failure: FailureReport::default(),
            usage: Usage::default(),
            limits: (&Settings::default()).into(),
            max_attempts: 3,
            worker: "a worker".to_owned(),
            engine: "test".to_owned(),
            wit: "0.1.0".to_owned(),
        };
        self.journal().exhausted(id, exhausted).unwrap();
        self.plain.change(id, Change::Exhaust);
    }

    fn attempt(&self, id: &InvocationId) -> Attempt {
        Attempt {
            number: self.plain.live[id].attempts,
            version: VersionNumber::FIRST,
            digest: Digest::new([1; 32]),
            started_at: self.now(),
            ended_at: self.now(),
            verdict: Verdict::ErrorPermanent,
            deterministic: false,
            summary: "broken".to_owned(),
        }
    }

    /// As the keeper and the undertaker do it: commit, add, done.
    fn bury(&mut self) {
        let ids = self.journal().pending_dead(100);
        assert_eq!(ids, self.plain.ids_at(|one| one.stand == Stand::Exhausted));
        if ids.is_empty() {
            return;
        }
        self.commit();
        let mut dead = Vec::new();
        for id in &ids {
            let payload = self.journal().payload(id).unwrap();
            let entry = self.journal().get(id).unwrap();
            let Phase::Exhausted(exhausted) = &entry.phase else { panic!("{entry:?}") };
            dead.push(entry.dead_task(exhausted, &payload));
        }
        let added = self.dlq.add(&dead).unwrap();
        let taken = dead.iter().filter(|task| self.plain.add_dead(task.id, task.replays)).count();
        assert_eq!((added.taken, added.stale), (taken, dead.len() - taken));
        for id in ids {
            self.journal().done(id, Outcome::Dead).unwrap();
            self.plain.change(id, Change::Leave);
        }
    }

    fn pick_dead(&self, which: usize) -> Option<InvocationId> {
        self.plain.dead.keys().nth(which % self.plain.dead.len().max(1)).copied()
    }

    fn retry_dead(&mut self, which: usize) {
        let Some(id) = self.pick_dead(which) else { return };
        let selection = Selection::Ids(vec![id]);
        let report = self.queue.dead_tasks().retry(&selection, &Component::Current, None, false, &mut |_| {}).unwrap();
        let replays = self.plain.remove_dead(id) + 1;
        assert_eq!(report.retried.iter().map(|retried| retried.replays).collect::<Vec<_>>(), [replays]);
        self.plain.free_log([(id, One { replays, ..One::new(1) })].into(), false);
    }

    fn delete_dead(&mut self, which: usize) {
        let Some(id) = self.pick_dead(which) else { return };
        let report = self.queue.dead_tasks().delete(&Selection::Ids(vec![id]), &mut |_| {}).unwrap();
        assert_eq!(report.deleted, [id]);
        self.plain.remove_dead(id);
    }

    fn commit(&mut self) {
        self.journal().commit().unwrap();
        self.plain.committed();
    }

    fn adopt(&mut self) {
        self.adopt_all();
        let kept = wasmq_wal::list(self.shared.as_ref(), &journal_dir()).unwrap().wals.len() - 1;
        self.plain.adopted(kept);
    }

    fn adopt_all(&mut self) {
        let now = self.now();
        loop {
            let dlq = self.dlq.clone();
            let mut hook = |replays: &[(InvocationId, u32)]| {
                let dropped = dlq.lock().and_then(|mut locked| locked.drop_superseded(replays, now));
                dropped.map(|_| ()).map_err(|error| error.to_string())
            };
            if !self.journal().adopt(now, &mut hook).unwrap().more {
                break;
            }
        }
    }

    fn hand_over(&mut self, limit: usize) {
        let count = self.journal().hand_over(limit).unwrap();
        let left = self.seen();
        let gone: Vec<_> = self.plain.live.keys().filter(|id| !left.contains_key(id)).copied().collect();
        assert_eq!(gone.len(), count);
        if count == 0 {
            return;
        }
        let log = gone.iter().map(|id| (*id, self.plain.live[id].clone())).collect();
        gone.iter().for_each(|id| self.plain.change(*id, Change::Leave));
        self.plain.committed();
        self.plain.free_log(log, true);
    }

    fn close(&mut self) {
        Box::new(self.journal.take().unwrap()).close().unwrap();
        self.plain.committed();
        self.crash(self.disk.after_power_cut(Survival::Kept, 0), Survival::Kept);
    }

    /// What moves invocations, or only their records, leaves all of them in one place or the other.
    fn cut_during(&mut self, what: usize, operation: u64, survival: Survival) {
        if self.plain.has_doubles() {
            return;
        }
        let now = self.now();
        self.disk.cut_power_at(self.disk.operations() + operation);
        let mut journal = self.journal.take().unwrap();
        let _ = match what {
            0 => journal.compact(),
            1 => journal.hand_over(3).map(drop),
            2 | 3 => journal.adopt(now, &mut |_| Ok(())).map(drop),
            4 => journal.commit(),
            _ => Box::new(journal).close(),
        };
        let after = self.disk.after_power_cut(survival, operation);
        // Who ends with nothing left deletes a log segment by segment, and what is left of it is no moment.
        let survival = if what > 4 { Survival::Reordered } else { survival };
        self.crash(after, survival);
    }

    /// The owner dies, and with the power also what was not synced. The next one adopts everything.
    fn crash(&mut self, after: SimDisk, survival: Survival) {
        self.journal = None;
        (self.shared, self.dlq, self.queue) = open(&after);
        self.disk = after;
        self.own();
        self.adopt_all();
        let seen = self.seen();
        let is_possible = match survival {
            Survival::Reordered => self.plain.is_mixture(&seen),
            _ => self.plain.is_moment(&seen),
        };
        let plain = &self.plain;
        assert!(is_possible, "{survival:?}: this was never so since the last commit: {seen:?}\n{plain:?}");
        self.plain.recovered(seen);
    }

    /// What the store says lives in it.
    fn seen(&self) -> BTreeMap<InvocationId, One> {
        let journal = self.journal.as_ref().unwrap();
        NUMBERS.filter_map(|n| Some((id(n), one_of(journal.get(&id(n))?)))).collect()
    }

    /// The store and the model hold the same.
    fn compare(&mut self) {
        assert_eq!(self.seen(), self.plain.live);
        for id in self.plain.live.keys().copied().collect::<Vec<_>>() {
            assert_eq!(*self.journal().payload(&id).unwrap(), payload(number(id)), "{id}");
        }
        let counts = self.journal().counts();
        let queued = self.plain.ids_at(|one| matches!(one.stand, Stand::Queued { .. })).len() as u64;
        assert_eq!(counts.ready + counts.delayed + counts.awaiting_deploy, queued, "{counts:?} {:?}", self.plain);
        assert_eq!(counts.running, self.plain.running());
        assert_eq!(counts.awaiting_deploy, self.plain.parked.len() as u64);
        let page = self.dlq.batch(None, usize::MAX, &Filter::default()).unwrap();
        let dead: BTreeMap<_, _> = page.entries.iter().map(|task| (task.id, task.replays)).collect();
        assert_eq!((dead.len(), &dead), (page.entries.len(), &self.plain.dead));
        assert!(page.entries.iter().all(|task| task.payload.0 == payload(number(task.id))));
    }
}

fn one_of(entry: &Entry<Payload>) -> One {
    let stand = match &entry.phase {
        Phase::Queued { due } => Stand::Queued { due: due.0 },
        Phase::Running(started) => Stand::Running { alone: started.alone },
        Phase::Exhausted(_) => Stand::Exhausted,
    };
    let suspect = entry.suspicion != Suspicion::None;
    One { replays: entry.invocation.replays, attempts: entry.attempts, stand, suspect }
}

fn open(disk: &SimDisk) -> (Arc<dyn Disk>, DiskDlq, Queue) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let dlq = DiskDlq::open(Arc::clone(&shared), Path::new(DATA)).unwrap();
    let queue = Queue::open_on(Arc::clone(&shared), Options::new(DATA)).unwrap();
    (shared, dlq, queue)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: wished("WASMQ_MODEL_CASES", 1000) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_store_agrees_with_a_plain_model_over_any_history_with_crashes(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut both = Both::new();
        for step in &steps {
            both.take(step);
        }
        both.take(&Step::PowerCut { survival: 0, seed: 0 });
    }
}
