//! The journal on the simulated disk: the power is cut at every operation of an adoption, a
//! compaction and an outside enqueue, and nothing acknowledged is lost or doubled.

use std::path::Path;
use std::sync::Arc;

use wasmq_core::event::{Outcome, Started};
use wasmq_core::state::{Phase, Suspicion};
use wasmq_core::{Digest, Invocation, InvocationId, Timestamp, VersionNumber};
use wasmq_wal::Options;
use wasmq_wal::disk::{Disk, SimDisk, Survival};

use super::*;

impl DiskJournal {
    /// Seals the segment that is written to.
    pub(crate) fn rotate_now(&mut self) {
        self.wal.rotate().unwrap();
    }
}

const DIR: &str = "/data/journal";

pub(super) fn id(n: u128) -> InvocationId {
    InvocationId::new(Timestamp(1), n)
}

pub(super) fn invocation(n: u128) -> Invocation {
    Invocation::new(id(n), "resize".parse().unwrap(), Timestamp(1))
}

/// Large enough that it stays in the log.
fn large() -> Vec<u8> {
    (0..10_000_u32).map(|n| n as u8).collect()
}

fn small_segments() -> JournalOptions {
    let log = Options { segment_bytes: 24 << 10, extend_bytes: 4 << 10, buffer_bytes: 1 << 10 };
    JournalOptions { durability: Durability::Always, log, reserve_bytes: 8 << 10 }
}

fn journal(disk: &SimDisk) -> Result<DiskJournal, JournalError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.create_dir_all(Path::new(DIR)).map_err(|source| JournalError::Io {
        doing: "create",
        path: DIR.into(),
        source,
    })?;
    DiskJournal::create(disk, Path::new(DIR), "worker, test", small_segments())
}

pub(super) fn started(attempt: u32) -> Started {
    Started { attempt, version: VersionNumber::FIRST, digest: Digest::new([1; 32]), at: Timestamp(2), alone: false }
}

/// A log as a worker leaves it that died: one done, one queued, one running, one large.
fn leave_a_log_behind(disk: &SimDisk) {
    let mut journal = journal(disk).unwrap();
    for n in 1..=3 {
        journal.enqueue(invocation(n), b"small").unwrap();
    }
    journal.enqueue(invocation(4), &large()).unwrap();
    journal.started(id(1), started(1)).unwrap();
    journal.done(id(1), Outcome::Completed).unwrap();
    journal.started(id(2), started(1)).unwrap();
    journal.commit().unwrap();
}

fn adopt(disk: &SimDisk) -> Result<(DiskJournal, Adopted), JournalError> {
    let mut journal = journal(disk)?;
    let adopted = adopt_all(&mut journal, Timestamp(100))?;
    Ok((journal, adopted))
}

/// Adopts all there is: on a slow machine one call does not get through with it.
pub(super) fn adopt_all(journal: &mut DiskJournal, now: Timestamp) -> Result<Adopted, JournalError> {
    let mut adopted = Adopted { more: true, ..Adopted::default() };
    while adopted.more {
        let next = journal.adopt(now, &mut |_| Ok(()))?;
        adopted.logs += next.logs;
        adopted.invocations += next.invocations;
        adopted.suspects.extend(next.suspects);
        adopted.more = next.more;
    }
    Ok(adopted)
}

fn holds_all_once(journal: &mut DiskJournal) {
    assert!(journal.get(&id(1)).is_none(), "what was done came back");
    for n in [2, 3] {
        assert_eq!(&*journal.payload(&id(n)).unwrap(), b"small");
    }
    assert_eq!(&*journal.payload(&id(4)).unwrap(), large());
    let suspect = journal.get(&id(2)).unwrap();
    assert_eq!((suspect.attempts, suspect.history.len()), (1, 1), "the attempt that ran counts once");
    assert_ne!(suspect.suspicion, Suspicion::None);
    let counts = journal.counts();
    assert_eq!(counts.ready + counts.delayed + counts.running, 3);
}

#[test]
fn a_free_log_is_adopted_with_everything_that_lives_in_it_and_goes_away() {
    let disk = SimDisk::new();
    leave_a_log_behind(&disk);
    let (mut journal, adopted) = adopt(&disk).unwrap();
    assert_eq!((adopted.logs, adopted.invocations, adopted.suspects), (1, 3, vec![id(2)]));
    holds_all_once(&mut journal);
    assert_eq!(wasmq_wal::list(&disk, Path::new(DIR)).unwrap().wals.len(), 1);
}

#[test]
fn a_log_that_cannot_be_taken_over_is_noted_once_and_left_for_a_while_and_the_others_are_adopted() {
    let disk = SimDisk::new();
    leave_a_log_behind(&disk);
    let obstacle = wasmq_wal::list(&disk, Path::new(DIR)).unwrap().wals[0].id;
    let lock = Path::new(DIR).join(wasmq_wal::lock_file_name(obstacle));
    disk.remove(&lock).unwrap();
    disk.create_dir_all(&lock).unwrap();
    let mut owner = journal(&disk).unwrap();
    owner.enqueue(invocation(9), b"x").unwrap();
    owner.commit().unwrap();
    drop(owner);
    let mut journal = journal(&disk).unwrap();
    for _ in 0..3 {
        journal.adopt(Timestamp(100), &mut |_| Ok(())).unwrap();
    }
    assert!(journal.get(&id(9)).is_some() && journal.get(&id(3)).is_none());
    assert_eq!(journal.left_alone.len(), 1);
    assert!(journal.left_alone[&obstacle].is_recent());
}

#[test]
fn a_log_with_an_owner_is_left_alone() {
    let disk = SimDisk::new();
    let mut owner = journal(&disk).unwrap();
    owner.enqueue(invocation(1), b"x").unwrap();
    owner.commit().unwrap();
    assert_eq!(adopt(&disk).unwrap().1.logs, 0);
}

#[test]
fn power_cut_at_every_step_of_an_adoption_neither_loses_nor_doubles_anything() {
    let mut worlds = 0;
    for cut in 0.. {
        let disk = SimDisk::new();
        leave_a_log_behind(&disk);
        disk.cut_power_at(disk.operations() + cut);
        let finished = adopt(&disk).is_ok();
        for survival in Survival::ALL {
            for seed in 0..3 {
                let after = disk.after_power_cut(survival, seed);
                let (mut journal, _) = adopt(&after).unwrap_or_else(|error| panic!("cut {cut}, {survival:?}: {error}"));
                holds_all_once(&mut journal);
                worlds += 1;
            }
        }
        if finished {
            println!("{cut} cut points, {worlds} worlds");
            assert!(cut > 12, "the cuts did not reach the end of the adoption");
            return;
        }
    }
}

#[test]
fn a_second_crash_during_the_recovery_from_the_first_changes_nothing() {
    let first = SimDisk::new();
    leave_a_log_behind(&first);
    let probe = first.after_power_cut(Survival::Kept, 0);
    let before = probe.operations();
    adopt(&probe).unwrap();
    let operations = probe.operations() - before;
    for cut in 0..operations {
        let once = first.after_power_cut(Survival::Kept, 0);
        once.cut_power_at(once.operations() + cut);
        let _ = adopt(&once);
        for again in (0..operations).step_by(3) {
            let twice = once.after_power_cut(Survival::Lost, 1);
            twice.cut_power_at(twice.operations() + again);
            let _ = adopt(&twice);
            let (mut journal, _) = adopt(&twice.after_power_cut(Survival::Torn, 2)).unwrap();
            holds_all_once(&mut journal);
        }
    }
}

#[test]
fn compaction_keeps_the_disk_bounded_and_what_lives_readable() {
    let disk = SimDisk::new();
    let mut journal = journal(&disk).unwrap();
    journal.enqueue(invocation(1), &large()).unwrap();
    journal.enqueue(invocation(2), b"small").unwrap();
    for n in 100..2_000 {
        journal.enqueue(invocation(n), &[7; 200]).unwrap();
        journal.started(id(n), started(1)).unwrap();
        journal.done(id(n), Outcome::Completed).unwrap();
        journal.commit().unwrap();
        journal.compact().unwrap();
    }
    let bytes = journal.wal.total_bytes();
    assert!(bytes < 6 * (24 << 10), "{bytes} bytes for two live invocations");
    assert_eq!(&*journal.payload(&id(1)).unwrap(), large());
    drop(journal);
    let (mut next, adopted) = adopt(&disk).unwrap();
    assert_eq!(adopted.invocations, 2);
    assert_eq!(&*next.payload(&id(1)).unwrap(), large());
}

/// Enqueues, ends and compacts until the power fails. Returns the ids whose end was committed.
fn churn(disk: &SimDisk, rounds: u128) -> (Vec<InvocationId>, Result<(), JournalError>) {
    let mut ended = Vec::new();
    let result = (|| {
        let mut journal = journal(disk)?;
        journal.enqueue(invocation(1), &large())?;
        journal.enqueue(invocation(2), b"small")?;
        journal.commit()?;
        for n in 100..100 + rounds {
            journal.enqueue(invocation(n), &[7; 2_000])?;
            journal.started(id(n), started(1))?;
            journal.done(id(n), Outcome::Completed)?;
            journal.commit()?;
            ended.push(id(n));
            journal.compact()?;
        }
        Ok(())
    })();
    (ended, result)
}

#[test]
fn power_cut_at_every_step_of_a_compaction_loses_nothing_and_brings_nothing_back() {
    let whole = SimDisk::new();
    let rounds = 60;
    churn(&whole, rounds).1.unwrap();
    let operations = whole.operations();
    for cut in 40..operations {
        let disk = SimDisk::new();
        disk.cut_power_at(cut);
        let (ended, _) = churn(&disk, rounds);
        for survival in Survival::ALL {
            let (mut next, _) = adopt(&disk.after_power_cut(survival, cut)).unwrap();
            assert_eq!(&*next.payload(&id(1)).unwrap(), large(), "cut {cut}, {survival:?}");
            assert_eq!(&*next.payload(&id(2)).unwrap(), b"small", "cut {cut}, {survival:?}");
            assert!(ended.iter().all(|id| next.get(id).is_none()), "cut {cut}, {survival:?}: one came back");
        }
    }
    println!("{} cut points", operations - 40);
}

#[test]
fn what_was_handed_over_is_adopted_by_another_and_forgotten_here() {
    let disk = SimDisk::new();
    let mut busy = journal(&disk).unwrap();
    for n in 1..=10 {
        busy.enqueue(invocation(n), b"small").unwrap();
    }
    busy.commit().unwrap();
    assert_eq!(busy.hand_over(4).unwrap(), 4);
    assert_eq!(busy.counts().ready, 6);
    let (idle, adopted) = adopt(&disk).unwrap();
    assert_eq!((adopted.invocations, idle.counts().ready), (4, 4));
}

#[test]
fn power_cut_at_every_step_of_a_hand_over_neither_loses_nor_doubles_anything() {
    for cut in 0.. {
        let disk = SimDisk::new();
        let mut busy = journal(&disk).unwrap();
        for n in 1..=6 {
            busy.enqueue(invocation(n), if n == 6 { large() } else { b"small".to_vec() }.as_slice()).unwrap();
        }
        busy.commit().unwrap();
        disk.cut_power_at(disk.operations() + cut);
        let finished = busy.hand_over(3).is_ok();
        drop(busy);
        for survival in Survival::ALL {
            let after = disk.after_power_cut(survival, cut);
            let (mut next, adopted) = adopt(&after).unwrap();
            assert_eq!((adopted.invocations, next.counts().ready), (6, 6), "cut {cut}, {survival:?}");
            assert_eq!(&*next.payload(&id(6)).unwrap(), large(), "cut {cut}, {survival:?}");
        }
        if finished {
            println!("{cut} cut points");
            return;
        }
    }
}

#[test]
fn an_outside_log_is_adopted_only_after_it_was_let_go() {
    let disk = SimDisk::new();
    drop(journal(&disk).unwrap());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut log = OutsideLog::create(shared, Path::new(DIR), "test").unwrap();
    log.enqueue(&invocation(9), b"nine").unwrap();
    log.sync().unwrap();
    assert_eq!(adopt(&disk).unwrap().1.invocations, 0);
    log.let_go().unwrap();
    let (mut next, adopted) = adopt(&disk).unwrap();
    assert_eq!(adopted.invocations, 1);
    assert_eq!(&*next.payload(&id(9)).unwrap(), b"nine");
}

#[test]
fn a_log_with_replays_waits_until_the_dead_letter_queue_knows() {
    let disk = SimDisk::new();
    {
        let mut left = journal(&disk).unwrap();
        let mut replayed = invocation(5);
        replayed.replays = 2;
        left.enqueue(replayed, b"x").unwrap();
        left.commit().unwrap();
    }
    let mut next = journal(&disk).unwrap();
    let refused = next.adopt(Timestamp(9), &mut |_| Err("locked".to_owned())).unwrap();
    assert_eq!(refused.invocations, 0);
    let mut told = Vec::new();
    let adopted = next
        .adopt(Timestamp(9), &mut |replays| {
            told.extend_from_slice(replays);
            Ok(())
        })
        .unwrap();
    assert_eq!((adopted.invocations, told), (1, vec![(id(5), 2)]));
}

#[test]
fn a_reader_sees_a_running_invocation_of_a_dead_worker_without_touching_it() {
    let disk = SimDisk::new();
    leave_a_log_behind(&disk);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let before = disk.operations();
    let snapshot = read_all(&shared, Path::new(DIR)).unwrap();
    assert!(disk.operations() >= before);
    assert_eq!((snapshot.entries.len(), snapshot.free_logs, snapshot.owned_logs), (3, 1, 0));
    assert!(matches!(snapshot.entries[&id(2)].entry.phase, Phase::Running(_)));
    assert_eq!(adopt(&disk).unwrap().1.invocations, 3);
}

#[test]
fn what_is_known_only_from_the_buffer_is_durable_before_another_log_with_it_goes() {
    let disk = SimDisk::new();
    let mut owner = journal(&disk).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut log = OutsideLog::create(shared, Path::new(DIR), "test").unwrap();
    log.enqueue(&invocation(9), b"nine").unwrap();
    log.sync().unwrap();
    log.let_go().unwrap();
    owner.enqueue(invocation(9), b"nine").unwrap();
    assert_eq!(owner.adopt(Timestamp(9), &mut |_| Ok(())).unwrap().logs, 1);
    let (mut next, _) = adopt(&disk.after_power_cut(Survival::Lost, 0)).unwrap();
    assert_eq!(&*next.payload(&id(9)).unwrap(), b"nine");
}
