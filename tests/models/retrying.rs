//! Retries: two operators want the same dead task, one of them may die at any operation, and a worker adopts
//! what they leave. The dead letter queue, the logs and the adoption are the product's own code on the stepping
//! disk; the order of the steps in `put_back` is a copy of `queue/retry.rs`, which needs the whole queue.

use std::path::Path;
use std::sync::Arc as SystemArc;

use shuttle::thread;
use wasmq_core::event::{Exhausted, Outcome, Started};
use wasmq_core::report::{FailureReport, Usage};
use wasmq_core::state::Entry;
use wasmq_core::{DeadTask, Digest, Invocation, InvocationId, Timestamp, VersionNumber};
use wasmq_wal::Options;
use wasmq_wal::disk::{Disk, SimDisk};

use crate::disk::SteppingDisk;
use crate::dlq::{DeadTaskStore as _, DiskDlq, LockedDlq, RemovalReason, Standing};
use crate::journal::{self, DiskJournal, Durability, JournalOptions, LiveStore as _, OutsideLog};
use crate::schedules::{at_random, draw};

const DATA: &str = "/data";
const DIR: &str = "/data/journal";
const NOW: Timestamp = Timestamp(1_000_000);

type Failed = Box<dyn std::error::Error>;

fn id() -> InvocationId {
    InvocationId::new(Timestamp(1), 7)
}

fn dead_task() -> DeadTask {
    let invocation = Invocation::new(id(), "t".parse().unwrap(), Timestamp(1));
    let exhausted: Exhausted = serde_json::from_value(serde_json::json!({
        "dead_at": 5,
        "attempt": {
            "number": 1, "version": "v1", "digest": format!("sha256:{}", "03".repeat(32)),
            "started_at": 2, "ended_at": 3, "verdict": "timeout"
        },
        "failure": FailureReport::default(),
        "usage": Usage::default(),
        "limits": { "timeout_ms": 1, "memory_bytes": 1, "output_bytes": 1 },
        "max_attempts": 1, "worker": "w", "engine": "e", "wit": "0.1.0"
    }))
    .unwrap();
    Entry::new(invocation, ()).dead_task(&exhausted, b"payload")
}

/// One operator's `dlq retry`. Returns whether he was told that it was put back.
fn retry(disk: &SystemArc<dyn Disk>) -> Result<bool, Failed> {
    let dlq = DiskDlq::open(SystemArc::clone(disk), Path::new(DATA))?;
    let mut locked = dlq.lock()?;
    settle_intents(disk, locked.as_mut())?;
    let [(_, Standing::Dead(dead))] = &locked.current(&[id()])?[..] else { return Ok(false) };
    put_back(disk, locked.as_mut(), dead)?;
    Ok(true)
}

fn put_back(disk: &SystemArc<dyn Disk>, locked: &mut dyn LockedDlq, dead: &DeadTask) -> Result<(), Failed> {
    let ids = [(dead.id, dead.replays)];
    let mut log = OutsideLog::create(SystemArc::clone(disk), Path::new(DIR), "dlq retry, model")?;
    locked.intend(&log.id(), &ids, NOW)?;
    log.enqueue(&dead.replay(), &dead.payload.0)?;
    log.sync()?;
    locked.removed(&ids, RemovalReason::Retried, NOW)?;
    Ok(log.let_go()?)
}

fn settle_intents(disk: &SystemArc<dyn Disk>, locked: &mut dyn LockedDlq) -> Result<(), Failed> {
    for intent in locked.dangling()? {
        let held = journal::log_holds_replay(disk.as_ref(), Path::new(DIR), &intent.wal, &intent.ids)?;
        let found = held.unwrap_or_default();
        let done: Vec<_> = intent.ids.iter().filter(|(id, _)| found.contains(id)).copied().collect();
        if !done.is_empty() {
            locked.removed(&done, RemovalReason::Retried, NOW)?;
        }
    }
    Ok(())
}

/// A worker that adopts, with the keeper's answer to replays that it finds, and runs what it got. Returns how
/// many replays it ran.
fn work(disk: &SystemArc<dyn Disk>) -> Result<usize, Failed> {
    let dlq = DiskDlq::open(SystemArc::clone(disk), Path::new(DATA))?;
    let log = Options { segment_bytes: 24 << 10, extend_bytes: 1 << 10, buffer_bytes: 1 << 10 };
    let options = JournalOptions { durability: Durability::Always, log, reserve_bytes: 0 };
    let mut journal = DiskJournal::create(SystemArc::clone(disk), Path::new(DIR), "worker, model", options)?;
    let mut runs = 0;
    for _ in 0..3 {
        journal.adopt(NOW, &mut |replays| {
            let dropped = dlq.lock().and_then(|mut locked| locked.drop_superseded(replays, NOW));
            dropped.map(|_| ()).map_err(|error| error.to_string())
        })?;
        while let Some(claim) = journal.claim(NOW) {
            assert_eq!(journal.get(&claim.id).unwrap().invocation.replays, 1);
            journal.started(claim.id, started())?;
            journal.done(claim.id, Outcome::Completed)?;
            journal.commit()?;
            runs += 1;
        }
    }
    Box::new(journal).close()?;
    Ok(runs)
}

fn started() -> Started {
    Started { attempt: 1, version: VersionNumber::FIRST, digest: Digest::new([1; 32]), at: NOW, alone: false }
}

pub fn two_operators_make_exactly_one_replay_of_a_death_whoever_dies_where() {
    at_random(1_500, || {
        let disk = SimDisk::new();
        let calm: SystemArc<dyn Disk> = SystemArc::new(disk.clone());
        calm.create_dir_all(Path::new(DIR)).unwrap();
        DiskDlq::open(SystemArc::clone(&calm), Path::new(DATA)).unwrap().add(&[dead_task()]).unwrap();
        let lives = if draw(4) == 0 { u64::MAX } else { draw(80) };
        // The second operator comes later, as late as after everything else.
        let operators = [(lives, 0), (u64::MAX, draw(300))].map(|(lives, pause)| {
            let view = SteppingDisk::view(&disk, lives);
            thread::spawn(move || {
                (0..pause).for_each(|_| thread::yield_now());
                retry(&view).unwrap_or(false)
            })
        });
        let view = SteppingDisk::view(&disk, u64::MAX);
        let worker = thread::spawn(move || work(&view).unwrap());
        let told = operators.map(|operator| operator.join().unwrap());
        assert!(told != [true, true], "both were told that they did it");
        let runs = worker.join().unwrap() + work(&calm).unwrap();
        assert_eq!(runs, 1, "one death, one replay");
        let dlq = DiskDlq::open(calm, Path::new(DATA)).unwrap();
        assert_eq!(dlq.counts().unwrap().total, 0, "and it is not dead any more");
    });
}
