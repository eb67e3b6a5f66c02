//! What the workload acts on: a disk, two workers, operators, and the notes of an observer.
//!
//! Invariant: every action notes what it tries before it touches the disk, and what was acknowledged only
//! after the call or the commit that promises it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wasmq_core::state::{Entry, Phase};
use wasmq_core::{DeadTask, Digest, FollowUp, Invocation, InvocationId, Millis, Settings, TaskName, Timestamp};
use wasmq_wal::Options as LogOptions;
use wasmq_wal::disk::{Disk, SimDisk};

use super::told::{Asked, Told};
use crate::dlq::DiskDlq;
use crate::journal::{Durability, INLINE_PAYLOAD_BYTES, JournalOptions, OutsideLog, Payload};
use crate::queue::{Component, Options, Queue, Selection};
use crate::registry::{NewVersion, digest_of};
use crate::wire::Kind;
use crate::worker::{Beside, Ending, SteppedWorker};

pub(super) const DATA: &str = "/data";
/// The invocation with a payload that is not kept in memory. It lives while logs are adopted, handed over
/// and compacted.
pub(super) const LARGE: u128 = 46;
/// The attempts at once of a worker.
const CONCURRENCY: usize = 3;

/// Why an action failed.
#[derive(Debug)]
pub(super) struct Trouble(pub(super) Box<dyn std::error::Error + Send + Sync>);

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

pub(super) type Acted = Result<(), Trouble>;

pub(super) fn journal_dir() -> PathBuf {
    Path::new(DATA).join("journal")
}

/// Segments of a few records, so that a short workload seals and drops many.
pub(super) fn small_log() -> JournalOptions {
    let log = LogOptions { segment_bytes: 2 << 10, extend_bytes: 512, buffer_bytes: 1 << 10 };
    JournalOptions { durability: Durability::Always, log, reserve_bytes: 1 << 10 }
}

pub(super) fn id(n: u128) -> InvocationId {
    InvocationId::new(Timestamp(1), n)
}

/// The payload of the invocation with this number; each has its own length, one stays in the log.
pub(super) fn payload(n: u128) -> Vec<u8> {
    let len = if n == LARGE { INLINE_PAYLOAD_BYTES + 1 } else { 20 + (n as usize * 37) % 120 };
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ n as u8).collect()
}

pub(super) fn task(name: &str) -> TaskName {
    name.parse().unwrap()
}

/// A component that does nothing, in several versions.
pub(super) fn component(version: u8) -> Vec<u8> {
    let text = format!(
        r#"(component
          (core module $m (func (export "run") (result i32) i32.const {version}))
          (core instance $i (instantiate $m))
          (func $run (result (result)) (canon lift (core func $i "run")))
          (instance $run (export "run" (func $run)))
          (export "wasi:cli/run@0.2.0" (instance $run)))"#
    );
    wat::parse_str(text).unwrap()
}

/// Which of the two workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    First = 0,
    Second = 1,
}

/// See the module.
pub(super) struct World {
    shared: Arc<dyn Disk>,
    pub(super) told: Told,
    workers: [Option<SteppedWorker>; 2],
    queue: Queue,
    dlq: DiskDlq,
    components: [Vec<u8>; 2],
}

impl World {
    pub(super) fn new(disk: SimDisk) -> Self {
        let shared: Arc<dyn Disk> = Arc::new(disk);
        let queue = Queue::open_on(Arc::clone(&shared), Options::new(DATA)).unwrap();
        let dlq = DiskDlq::open(Arc::clone(&shared), Path::new(DATA)).unwrap();
        let components = [component(0), component(1)];
        Self { shared, told: Told::default(), workers: [None, None], queue, dlq, components }
    }

    /// The power is off, or the process was killed: nothing in memory is left.
    pub(super) fn kill(&mut self, who: Who) {
        self.workers[who as usize] = None;
        self.told.forget_uncommitted(who);
    }

    // What operators do.

    /// Makes the directories as the first call of a queue does.
    pub(super) fn make_directories(&mut self) -> Acted {
        Ok(self.queue.prepare_to_serve()?)
    }

    pub(super) fn deploy(&mut self, name: &str, version: usize) -> Acted {
        let (task, bytes) = (task(name), &self.components[version]);
        let digest: Digest = digest_of(bytes);
        let registry = &self.queue.inner.registry;
        registry.store_component(bytes, &digest)?;
        self.told.tries_current(&task, Some(digest));
        let new = NewVersion {
            digest,
            settings: Settings::default(),
            label: None,
            shape: "command".to_owned(),
            module: None,
        };
        let deployed = registry.deploy(&task, new, true, Timestamp(3))?;
        self.told.is_current(&task, Some(digest));
        self.told.versions.insert((task, deployed.number, digest));
        Ok(())
    }

    /// Makes the version current that has this component.
    pub(super) fn activate(&mut self, name: &str, version: usize) -> Acted {
        let (task, digest) = (task(name), digest_of(&self.components[version]));
        if !self.told.versions.iter().any(|(of, _, there)| *of == task && *there == digest) {
            return Ok(());
        }
        self.told.tries_current(&task, Some(digest));
        self.queue.activate(&task, &digest.to_string())?;
        self.told.is_current(&task, Some(digest));
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> Acted {
        let task = task(name);
        if self.queue.tasks()?.iter().all(|known| known.name != task) {
            return Ok(());
        }
        self.told.tries_current(&task, None);
        self.queue.remove_task(&task)?;
        self.told.is_current(&task, None);
        Ok(())
    }

    /// Enqueues as a process does that finds no server: into a log of its own, which it lets go.
    pub(super) fn enqueue_outside(&mut self, name: &str, numbers: std::ops::RangeInclusive<u128>) -> Acted {
        let mut log = OutsideLog::create(Arc::clone(&self.shared), &journal_dir(), "enqueue, test")?;
        let written = numbers.clone().try_for_each(|n| {
            self.told.tries(id(n), &payload(n));
            log.enqueue(&Invocation::new(id(n), task(name), Timestamp(1)), &payload(n))
        });
        if let Err(error) = written.and_then(|()| log.sync()) {
            log.abandon();
            return Err(error.into());
        }
        numbers.for_each(|n| self.told.safe(id(n)));
        Ok(log.let_go()?)
    }

    /// Retries dead tasks as an operator does.
    pub(super) fn retry(&mut self, numbers: &[u128]) -> Acted {
        let ids: Vec<_> = numbers.iter().map(|n| id(*n)).filter(|id| self.told.known.contains_key(id)).collect();
        for id in &ids {
            let known = self.told.of(*id);
            known.replays_tried = known.dead.unwrap_or(known.replays_tried).max(known.replays) + 1;
        }
        let selection = Selection::Ids(ids);
        let report = self.queue.dead_tasks().retry(&selection, &Component::Current, None, false, &mut |_| {})?;
        for retried in report.retried {
            let known = self.told.of(retried.id);
            assert!(retried.replays <= known.replays_tried, "a replay was made twice");
            known.replays = retried.replays;
            known.dead = None;
        }
        Ok(())
    }

    /// Deletes dead tasks as an operator does.
    pub(super) fn delete(&mut self, numbers: &[u128]) -> Acted {
        let ids: Vec<_> = numbers.iter().map(|n| id(*n)).filter(|id| self.told.known.contains_key(id)).collect();
        ids.iter().for_each(|id| self.told.of(*id).end_tried = true);
        let report = self.queue.dead_tasks().delete(&Selection::Ids(ids), &mut |_| {})?;
        report.deleted.iter().for_each(|id| self.told.of(*id).ended = true);
        Ok(())
    }

    /// Rewrites the dead letter queue as a removal does when garbage outweighs the rest.
    pub(super) fn compact_the_dead(&mut self) -> Acted {
        Ok(self.dlq.compact(Timestamp(9))?)
    }

    // What workers do.

    /// A worker that is there, or a new one.
    pub(super) fn start(&mut self, who: Who) -> Acted {
        if self.workers[who as usize].is_none() {
            let worker = SteppedWorker::start(&self.shared, Path::new(DATA), small_log(), CONCURRENCY)?;
            self.workers[who as usize] = Some(worker);
        }
        Ok(())
    }

    /// Does something with a worker; one that fails is gone, as its process would be.
    fn with<T>(
        &mut self,
        who: Who,
        act: impl FnOnce(&mut SteppedWorker, &mut Told) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.start(who)?;
        let worker = self.workers[who as usize].as_mut().unwrap();
        let acted = act(worker, &mut self.told);
        if acted.is_err() {
            self.kill(who);
        }
        acted
    }

    /// A turn; with `looks` it adopts, notices deploys and compacts.
    pub(super) fn turn(&mut self, who: Who, looks: bool) -> Acted {
        self.turn_beside(who, looks, None)
    }

    /// A turn whose commit is in two parts, with ends of attempts in between.
    pub(super) fn turn_beside(
        &mut self,
        who: Who,
        looks: bool,
        beside: Option<(Beside, Vec<(u128, Ending)>)>,
    ) -> Acted {
        self.with(who, |worker, told| {
            let covered = told.begin(who);
            let beside = beside.map(|(when, ends)| (when, noted(worker, told, who, ends)));
            let turned = worker.turn_beside(looks, beside);
            // An answer counts that came before the worker failed.
            let acknowledged = worker.take_answers().into_iter().filter(|answer| answer.kind == Kind::Ack);
            acknowledged.for_each(|answer| told.acknowledged(who, answer.request));
            if turned?.committed {
                told.finish(who, &covered);
            }
            note_started(worker, told, who);
            Ok(())
        })
    }

    /// A turn that ends with a commit.
    pub(super) fn commit(&mut self, who: Who) -> Acted {
        self.with(who, |worker, _| {
            worker.send_question();
            Ok(())
        })?;
        self.turn(who, false)
    }

    /// Enqueues through a worker.
    pub(super) fn enqueue(&mut self, who: Who, name: &str, numbers: std::ops::RangeInclusive<u128>) -> Acted {
        self.send_enqueue(who, name, numbers)?;
        self.turn(who, false)
    }

    /// The request alone; the next turn answers it.
    pub(super) fn send_enqueue(&mut self, who: Who, name: &str, numbers: std::ops::RangeInclusive<u128>) -> Acted {
        self.with(who, |worker, told| {
            let payloads: Vec<_> = numbers.clone().map(payload).collect();
            let mut batch = Vec::new();
            for (n, payload) in numbers.clone().zip(&payloads) {
                told.tries(id(n), payload);
                batch.push((Invocation::new(id(n), task(name), Timestamp(1)), payload.as_slice()));
            }
            let request = worker.send_enqueue(&batch);
            told.asks(who, request, Asked::Enqueue(numbers.map(id).collect()));
            Ok(())
        })
    }

    /// Attempts end; the message waits for the next turn.
    pub(super) fn finish(&mut self, who: Who, ends: Vec<(u128, Ending)>) -> Acted {
        self.with(who, |worker, told| {
            let ends = noted(worker, told, who, ends);
            worker.send_finished(ends);
            Ok(())
        })
    }

    /// Attempts end, and the executor acts for the keeper.
    pub(super) fn settle(&mut self, who: Who, ends: Vec<(u128, Ending)>) -> Acted {
        self.with(who, |worker, told| {
            let ends = noted(worker, told, who, ends);
            worker.settle(ends);
            note_started(worker, told, who);
            Ok(())
        })
    }

    /// Whatever runs ends so.
    pub(super) fn finish_all(&mut self, who: Who, ending: &Ending) -> Acted {
        let running = self.with(who, |worker, _| Ok(worker.running()))?;
        self.finish(who, running.into_iter().map(|id| (number(id), ending.clone())).collect())
    }

    /// Cancels one that is queued or runs.
    pub(super) fn cancel(&mut self, who: Who, n: u128) -> Acted {
        self.with(who, |worker, told| {
            let is_open = |entry: &Entry<Payload>| !matches!(entry.phase, Phase::Exhausted(_));
            if worker.live().get(&id(n)).is_some_and(is_open) {
                told.of(id(n)).end_tried = true;
                let request = worker.send_cancel(id(n));
                told.asks(who, request, Asked::Cancel(id(n)));
            }
            Ok(())
        })?;
        self.turn(who, false)
    }

    pub(super) fn hand_over(&mut self, who: Who, limit: u8) -> Acted {
        self.with(who, |worker, _| {
            worker.send_hand_over(limit);
            Ok(())
        })?;
        self.turn(who, false)
    }

    /// The undertaker writes what was given up. The keeper hears of it when it is told to.
    pub(super) fn write_dead(&mut self, who: Who) -> Acted {
        self.with(who, |worker, told| {
            for (tasks, durable) in worker.write_dead() {
                tasks.iter().filter(|_| durable).for_each(|task| note_dead(told, task));
            }
            Ok(())
        })
    }

    pub(super) fn send_buried(&mut self, who: Who) -> Acted {
        self.with(who, |worker, _| {
            worker.send_buried();
            Ok(())
        })
    }

    /// All steps of a burial.
    pub(super) fn bury(&mut self, who: Who) -> Acted {
        self.turn(who, false)?;
        self.write_dead(who)?;
        self.send_buried(who)?;
        self.turn(who, false)
    }

    /// The worker is told to stop, puts back what runs, and ends in order.
    pub(super) fn drain(&mut self, who: Who) -> Acted {
        self.start(who)?;
        let worker = self.workers[who as usize].take().unwrap();
        let closed = drain(worker, &mut self.told, who);
        self.told.forget_uncommitted(who);
        closed
    }
}

/// A worker ends in order; what it did is durable then.
fn drain(mut worker: SteppedWorker, told: &mut Told, who: Who) -> Acted {
    worker.running().into_iter().for_each(|id| told.of(id).released = true);
    worker.send_drain();
    let mut turns = 0;
    while !worker.turn(false)?.drained {
        worker.write_dead();
        worker.send_buried();
        turns += 1;
        assert!(turns < 20, "a worker does not drain");
    }
    let covered = told.begin(who);
    worker.close()?;
    told.finish(who, &covered);
    Ok(())
}

pub(super) fn number(id: InvocationId) -> u128 {
    id.as_u128() & 0xffff
}

/// Notes how attempts end, of those that run.
fn noted(worker: &SteppedWorker, told: &mut Told, who: Who, ends: Vec<(u128, Ending)>) -> Vec<(InvocationId, Ending)> {
    let running = worker.running();
    let ends: Vec<_> = ends.into_iter().map(|(n, ending)| (id(n), ending)).collect();
    let ends: Vec<_> = ends.into_iter().filter(|(id, _)| running.contains(id)).collect();
    for (id, ending) in &ends {
        match ending {
            Ending::Completed(follow_ups) => {
                follow_ups.iter().for_each(|follow_up| told.tries(follow_up.id, &follow_up.payload));
                told.ends(who, *id, follow_ups.iter().map(|follow_up| follow_up.id).collect());
            }
            Ending::Aborted => told.of(*id).released = true,
            Ending::Again(_) | Ending::Permanent => {}
        }
    }
    ends
}

/// Notes the attempts that were handed to the executor, and looks at what they were given.
fn note_started(worker: &mut SteppedWorker, told: &mut Told, who: Who) {
    for (id, attempt, payload) in worker.take_handed() {
        assert_eq!(*payload, told.of(id).payload, "an attempt got other bytes");
        let replays = worker.live().get(&id).map_or(0, |entry| entry.invocation.replays);
        told.starts(who, id, replays, attempt);
    }
}

fn note_dead(told: &mut Told, task: &DeadTask) {
    let known = told.of(task.id);
    if task.replays >= known.replays_tried {
        known.dead = Some(task.replays);
    }
}

/// A follow-up that an attempt asks for.
pub(super) fn follow_up(name: &str, n: u128) -> FollowUp {
    FollowUp { id: id(n), task: task(name), payload: payload(n), delay: Millis(0), metadata: Vec::new() }
}
