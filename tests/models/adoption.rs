//! Adoption, the product's own code (`journal/`) on the stepping disk: workers want the same log, one of them
//! may die at any operation, and somebody reads all the while. At every moment exactly one log counts.

use std::path::Path;
use std::sync::Arc as SystemArc;

use shuttle::thread;
use wasmq_core::event::{Outcome, Started};
use wasmq_core::{Digest, Invocation, InvocationId, Timestamp, VersionNumber};
use wasmq_wal::Options;
use wasmq_wal::disk::{Disk, SimDisk};

use crate::disk::SteppingDisk;
use crate::journal::{self, DiskJournal, Durability, JournalError, JournalOptions, LiveStore as _};
use crate::schedules::{at_random, draw};

const DIR: &str = "/data/journal";
const SMALL: JournalOptions = JournalOptions {
    durability: Durability::Always,
    log: Options { segment_bytes: 24 << 10, extend_bytes: 1 << 10, buffer_bytes: 1 << 10 },
    reserve_bytes: 0,
};

fn id(n: u128) -> InvocationId {
    InvocationId::new(Timestamp(1), n)
}

fn create(disk: SystemArc<dyn Disk>) -> Result<DiskJournal, JournalError> {
    DiskJournal::create(disk, Path::new(DIR), "worker, model", SMALL)
}

/// A log whose worker died: one done, one queued, one that was running.
fn leave_a_log_behind(disk: &SimDisk) {
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut journal = create(SystemArc::new(disk.clone())).unwrap();
    for n in 1..=3 {
        journal.enqueue(Invocation::new(id(n), "t".parse().unwrap(), Timestamp(1)), b"payload").unwrap();
    }
    let started = Started {
        attempt: 1,
        version: VersionNumber::FIRST,
        digest: Digest::new([1; 32]),
        at: Timestamp(2),
        alone: false,
    };
    journal.started(id(1), started).unwrap();
    journal.done(id(1), Outcome::Completed).unwrap();
    journal.started(id(2), started).unwrap();
    journal.commit().unwrap();
}

/// A worker that looks for free logs a few times; returns itself, if it lived.
fn adopt(disk: SystemArc<dyn Disk>, times: u32) -> Option<DiskJournal> {
    let mut journal = create(disk).ok()?;
    for _ in 0..times {
        journal.adopt(Timestamp(100), &mut |_| Ok(())).ok()?;
    }
    Some(journal)
}

fn holds(journal: Option<&DiskJournal>, n: u128) -> usize {
    usize::from(journal.is_some_and(|journal| journal.get(&id(n)).is_some()))
}

/// The first worker may die at any of its operations. Afterwards another takes over whatever is left.
fn workers_and_one_free_log<const WORKERS: usize>() {
    let disk = SimDisk::new();
    leave_a_log_behind(&disk);
    let mut lives = if draw(4) == 0 { u64::MAX } else { draw(60) };
    let workers = [(); WORKERS].map(|()| {
        let disk = SteppingDisk::view(&disk, std::mem::replace(&mut lives, u64::MAX));
        thread::spawn(move || adopt(disk, 3))
    });
    let workers = workers.map(|worker| worker.join().unwrap());
    for n in [2, 3] {
        let owners: usize = workers.iter().map(|worker| holds(worker.as_ref(), n)).sum();
        assert!(owners <= 1, "{n} is with {owners}");
    }
    drop(workers);
    let last = adopt(SystemArc::new(disk), 3);
    assert_eq!([1, 2, 3].map(|n| holds(last.as_ref(), n)), [0, 1, 1]);
    let suspect = last.as_ref().and_then(|journal| journal.get(&id(2))).unwrap();
    assert!(suspect.attempts == 1 && suspect.history.len() == 1, "the attempt that ran counts once");
}

pub fn two_workers_that_want_the_same_log_lose_nothing_whoever_dies_where() {
    at_random(1_500, workers_and_one_free_log::<2>);
}

pub fn two_workers_that_adopt_after_a_third_died_double_nothing() {
    at_random(700, workers_and_one_free_log::<3>);
}

pub fn whoever_reads_during_an_adoption_sees_everything() {
    at_random(1_500, || {
        let disk = SimDisk::new();
        leave_a_log_behind(&disk);
        let view = SteppingDisk::view(&disk, u64::MAX);
        let worker = thread::spawn(move || adopt(view, 2));
        let seen = journal::read_all(&SteppingDisk::view(&disk, u64::MAX), Path::new(DIR)).unwrap();
        for n in [2, 3] {
            assert!(seen.entries.contains_key(&id(n)), "{n} was not seen: {:?}", seen.problems);
        }
        assert!(!seen.entries.contains_key(&id(1)), "what was done came back");
        assert!(worker.join().unwrap().is_some());
    });
}

pub fn a_hand_over_beside_an_adoption_leaves_each_invocation_with_one_worker() {
    at_random(1_000, || {
        let disk = SimDisk::new();
        leave_a_log_behind(&disk);
        let busy = SteppingDisk::view(&disk, if draw(2) == 0 { u64::MAX } else { 20 + draw(80) });
        let busy = thread::spawn(move || {
            let mut journal = adopt(busy, 1)?;
            journal.hand_over(1).ok()?;
            Some(journal)
        });
        let view = SteppingDisk::view(&disk, u64::MAX);
        let idle = thread::spawn(move || adopt(view, 3));
        let (busy, idle) = (busy.join().unwrap(), idle.join().unwrap());
        for n in [2, 3] {
            assert!(holds(busy.as_ref(), n) + holds(idle.as_ref(), n) <= 1, "{n} is with both");
        }
        drop((busy, idle));
        let last = adopt(SystemArc::new(disk), 3);
        assert_eq!([1, 2, 3].map(|n| holds(last.as_ref(), n)), [0, 1, 1]);
    });
}
