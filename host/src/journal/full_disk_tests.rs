//! The journal on a full simulated disk: what is queued is ended with the reserve, new invocations are
//! refused, and neither a power cut nor a lack of space at any operation loses or doubles anything.

use std::path::Path;
use std::sync::Arc;

use wasmq_core::event::{Outcome, Started};
use wasmq_core::{InvocationId, Timestamp};
use wasmq_wal::Options;
use wasmq_wal::disk::{Disk, Fault, SimDisk, Survival};

use super::tests::{adopt_all, id, invocation, started};
use super::*;

const DIR: &str = "/data/journal";
const RESERVE: &str = "/data/journal/reserve";
const NOW: Timestamp = Timestamp(100);

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn shared(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn large() -> Vec<u8> {
    (0..300_000_u32).map(|n| n as u8).collect()
}

fn options(reserve_bytes: u64) -> JournalOptions {
    let log = Options { segment_bytes: 24 << 10, extend_bytes: 4 << 10, buffer_bytes: 1 << 10 };
    JournalOptions { durability: Durability::Always, log, reserve_bytes }
}

fn journal(disk: &SimDisk) -> Result<DiskJournal, JournalError> {
    DiskJournal::create(shared(disk), dir(), "worker, test", options(160 << 10))
}

fn used(disk: &SimDisk) -> u64 {
    disk.list(dir()).unwrap().iter().map(|entry| entry.len).sum()
}

fn fill(disk: &SimDisk) {
    disk.limit_space(Some(used(disk)));
}

fn has_reserve(disk: &SimDisk) -> bool {
    disk.stat(Path::new(RESERVE)).unwrap().is_some()
}

/// A log as a worker leaves it that died, larger than the reserve: one done, one running, one queued,
/// one large.
fn leave_a_log_behind(disk: &SimDisk) {
    let mut journal = journal(disk).unwrap();
    journal.compact().unwrap();
    for n in 1..=3 {
        journal.enqueue(invocation(n), b"small").unwrap();
    }
    journal.enqueue(invocation(4), &large()).unwrap();
    journal.started(id(1), started(1)).unwrap();
    journal.done(id(1), Outcome::Completed).unwrap();
    journal.started(id(2), started(1)).unwrap();
    journal.commit().unwrap();
}

fn enqueue_outside(disk: &SimDisk, numbers: impl IntoIterator<Item = u128>) {
    let mut log = OutsideLog::create(shared(disk), dir(), "enqueue, test").unwrap();
    for n in numbers {
        log.enqueue(&invocation(n), b"small").unwrap();
    }
    log.sync().unwrap();
    log.let_go().unwrap();
}

fn adopt(journal: &mut DiskJournal) -> Result<Adopted, JournalError> {
    adopt_all(journal, NOW)
}

/// Runs what may run as a worker does, and notes what ended, durably, in that order.
fn run_into(journal: &mut DiskJournal, ended: &mut Vec<InvocationId>) -> Result<(), JournalError> {
    while let Some(claim) = journal.claim(NOW) {
        let attempt = journal.get(&claim.id).unwrap().attempts + 1;
        journal.started(claim.id, Started { alone: claim.alone, ..started(attempt) })?;
        journal.done(claim.id, Outcome::Completed)?;
        journal.commit()?;
        ended.push(claim.id);
    }
    journal.compact()
}

fn run_all(journal: &mut DiskJournal) -> Result<Vec<InvocationId>, JournalError> {
    let mut ended = Vec::new();
    run_into(journal, &mut ended)?;
    Ok(ended)
}

fn holds_all_once(journal: &mut DiskJournal, what: &str) {
    assert!(journal.get(&id(1)).is_none(), "{what}: what was done came back");
    assert_eq!(&*journal.payload(&id(3)).unwrap(), b"small", "{what}");
    assert_eq!(&*journal.payload(&id(4)).unwrap(), large(), "{what}");
    let suspect = journal.get(&id(2)).unwrap();
    assert_eq!((suspect.attempts, suspect.history.len()), (1, 1), "{what}: the attempt that ran counts once");
    let counts = journal.counts();
    assert_eq!(counts.ready + counts.delayed + counts.running, 3, "{what}");
}

#[test]
fn a_log_that_cannot_be_copied_is_gone_on_with_and_drained() {
    let disk = SimDisk::new();
    leave_a_log_behind(&disk);
    fill(&disk);
    let full = used(&disk);
    let mut journal = journal(&disk).unwrap();
    let adopted = adopt(&mut journal).unwrap();
    assert_eq!((adopted.logs, adopted.invocations, adopted.suspects), (1, 3, vec![id(2)]));
    assert_eq!(wasmq_wal::list(&disk, dir()).unwrap().wals.len(), 1, "the log it began with is gone");
    holds_all_once(&mut journal, "taken over");
    assert_eq!(run_all(&mut journal).unwrap(), [2, 3, 4].map(id));
    while used(&disk) > full / 4 {
        journal.compact().unwrap();
    }
    Box::new(journal).close().unwrap();
    assert!(wasmq_wal::list(&disk, dir()).unwrap().wals.is_empty());
}

#[test]
fn many_small_logs_are_drained_on_a_disk_that_is_full_to_the_last_byte() {
    let disk = SimDisk::new();
    leave_a_log_behind(&disk);
    (10..60).for_each(|n| enqueue_outside(&disk, [n]));
    fill(&disk);
    let mut journal = journal(&disk).unwrap();
    let mut ended = Vec::new();
    while ended.len() < 53 {
        adopt(&mut journal).unwrap();
        ended.extend(run_all(&mut journal).unwrap());
    }
    ended.sort_unstable();
    assert_eq!(ended, (2..=4).chain(10..60).map(id).collect::<Vec<_>>());
}

#[test]
fn power_cut_at_every_step_of_a_take_over_neither_loses_nor_doubles_anything() {
    for cut in 0.. {
        let disk = SimDisk::new();
        leave_a_log_behind(&disk);
        fill(&disk);
        disk.cut_power_at(disk.operations() + cut);
        let result = journal(&disk).and_then(|mut journal| adopt(&mut journal));
        for survival in Survival::ALL {
            let what = format!("cut {cut}, {survival:?}");
            let after = disk.after_power_cut(survival, cut);
            let seen = read_all(&shared(&after), dir()).unwrap();
            assert_eq!((seen.entries.len(), seen.problems.as_slice()), (3, [].as_slice()), "{what}");
            if let Ok(mut next) = journal(&after)
                && adopt(&mut next).unwrap().logs > 0
                && next.counts().ready > 0
            {
                holds_all_once(&mut next, &what);
            }
            after.limit_space(None);
            let mut last = journal(&after.after_power_cut(Survival::Lost, 1)).unwrap();
            adopt(&mut last).unwrap();
            holds_all_once(&mut last, &what);
        }
        if disk.free_bytes(dir()).is_ok() {
            println!("{cut} cut points");
            assert_eq!(result.unwrap().logs, 1, "the power stayed on");
            assert!(cut > 20, "{cut}: the cuts did not reach the end");
            return;
        }
    }
}

#[test]
fn power_cut_at_every_step_of_a_drain_on_a_full_disk_brings_nothing_back() {
    for cut in 0.. {
        let disk = SimDisk::new();
        leave_a_log_behind(&disk);
        (10..13).for_each(|n| enqueue_outside(&disk, [n]));
        fill(&disk);
        let mut busy = journal(&disk).unwrap();
        adopt(&mut busy).unwrap();
        disk.cut_power_at(disk.operations() + cut);
        let mut ended = Vec::new();
        for _ in 0..3 {
            let _ = run_into(&mut busy, &mut ended);
            let _ = adopt(&mut busy);
        }
        let is_on = disk.free_bytes(dir()).is_ok();
        drop(busy);
        for survival in Survival::ALL {
            let after = disk.after_power_cut(survival, cut);
            after.limit_space(None);
            let mut next = journal(&after).unwrap();
            adopt(&mut next).unwrap();
            let twice = ended.iter().find(|id| next.get(id).is_some());
            assert_eq!(twice, None, "cut {cut}, {survival:?}: one came back");
            let mut all = [ended.clone(), run_all(&mut next).unwrap()].concat();
            all.sort_unstable();
            all.dedup();
            // The end of one may have become durable without the word of it.
            assert!(all.len() + usize::from(!is_on) >= 6, "cut {cut}, {survival:?}: {all:?}");
        }
        if is_on {
            println!("{cut} cut points");
            assert!(ended.len() == 6 && cut > 15);
            return;
        }
    }
}

/// Holds the lock of a hand-over that is not complete, as somebody does who looks at it.
fn hold_pending_log(disk: &SimDisk) -> Option<wasmq_wal::Orphan> {
    let is_pending = |orphan: &wasmq_wal::Orphan| hand_over::pending_from(orphan.lock_text()).is_some();
    let logs = wasmq_wal::list(disk, dir()).unwrap().wals;
    let claims = logs.iter().filter_map(|log| match wasmq_wal::claim(shared(disk), dir(), log.id).unwrap() {
        wasmq_wal::Claim::Claimed(orphan) => Some(orphan),
        _ => None,
    });
    claims.into_iter().find(is_pending)
}

#[test]
fn power_cut_at_every_step_of_a_hand_over_out_of_a_log_that_was_taken_over_loses_nothing() {
    for cut in 0.. {
        let disk = SimDisk::new();
        journal(&disk).unwrap().compact().unwrap();
        let mut log = OutsideLog::create(shared(&disk), dir(), "enqueue, test").unwrap();
        for n in 1..=6 {
            log.enqueue(&invocation(n), if n == 1 { large() } else { b"small".to_vec() }.as_slice()).unwrap();
        }
        log.sync().unwrap();
        let id_of_log = log.id();
        log.let_go().unwrap();
        fill(&disk);
        let mut busy = journal(&disk).unwrap();
        adopt(&mut busy).unwrap();
        assert_eq!(busy.id().to_string(), id_of_log, "it was taken over");
        disk.limit_space(None);
        busy.compact().unwrap();
        disk.cut_power_at(disk.operations() + cut);
        let finished = busy.hand_over(3).is_ok();
        drop(busy);
        for survival in Survival::ALL {
            let after = disk.after_power_cut(survival, cut);
            let mut next = journal(&after).unwrap();
            let mut adopted = 0;
            if let Some(pending) = hold_pending_log(&after) {
                assert_eq!(adopt(&mut next).unwrap().invocations, 0, "its source stays until it is decided on");
                pending.release();
            }
            while let Ok(more @ Adopted { logs: 1.., .. }) = adopt(&mut next) {
                adopted += more.invocations;
            }
            assert_eq!((adopted, next.counts().ready), (6, 6), "cut {cut}, {survival:?}");
        }
        if finished {
            println!("{cut} cut points");
            return;
        }
    }
}

/// Enqueues, runs and compacts. Returns what was acknowledged and is not ended.
fn churn(disk: &SimDisk) -> Vec<InvocationId> {
    let Ok(mut journal) = journal(disk) else { return Vec::new() };
    let (mut live, mut taken) = (Vec::new(), Vec::new());
    for n in 0..40 {
        if journal.enqueue(invocation(n), &[7; 2_000]).is_ok() {
            taken.push(id(n));
        }
        if journal.commit().is_err() {
            return live;
        }
        live.append(&mut taken);
        if n % 3 == 0 {
            let Some(claim) = journal.claim(NOW) else { continue };
            match journal.started(claim.id, started(1)) {
                Err(error) if error.is_no_space() => journal.put_back(claim),
                Err(_) => return live,
                Ok(()) => match journal.done(claim.id, Outcome::Completed).and_then(|()| journal.commit()) {
                    Ok(()) => live.retain(|other| *other != claim.id),
                    Err(_) => return live,
                },
            }
        }
        if journal.compact().is_err() {
            return live;
        }
    }
    live
}

#[test]
fn a_lack_of_space_at_any_operation_loses_nothing_that_was_acknowledged() {
    let whole = SimDisk::new();
    churn(&whole);
    for operation in 0..whole.operations() {
        for fault in [Fault::NoSpace, Fault::Short(5)] {
            let disk = SimDisk::new();
            disk.fail_at(operation, fault);
            let live = churn(&disk);
            let after = disk.after_power_cut(Survival::Lost, operation);
            let seen = read_all(&shared(&after), dir()).unwrap();
            assert!(live.iter().all(|id| seen.entries.contains_key(id)), "{fault:?} at {operation}");
        }
    }
    println!("{} operations", whole.operations());
}

#[test]
fn at_every_size_of_the_disk_what_was_acknowledged_is_there_and_runs_when_there_is_room() {
    let reserve = 160 << 10;
    for limit in (0..40).map(|step| step * 7_001).chain((0..10).map(|step| reserve + step * 9_001)) {
        let disk = SimDisk::new();
        disk.limit_space(Some(limit));
        let live = churn(&disk);
        disk.limit_space(None);
        let mut next = journal(&disk).unwrap();
        adopt(&mut next).unwrap();
        assert!(live.iter().all(|id| next.get(id).is_some()), "limit {limit}");
    }
}

#[test]
fn new_invocations_are_refused_while_the_reserve_is_used_and_taken_once_it_is_back() {
    let disk = SimDisk::new();
    let mut journal = journal(&disk).unwrap();
    journal.compact().unwrap();
    assert!(has_reserve(&disk));
    journal.enqueue(invocation(1), b"small").unwrap();
    fill(&disk);
    let refused = (2..2_000).find_map(|n| journal.enqueue(invocation(n), b"small").err()).unwrap();
    assert!(refused.is_no_space(), "{refused}");
    assert!(has_reserve(&disk), "new invocations never use it");
    while has_reserve(&disk) {
        run_all(&mut journal).unwrap();
        journal.follow_up(invocation(5_000), &[7; 500]).unwrap();
    }
    let refused = journal.enqueue(invocation(1), b"small").unwrap_err();
    assert!(matches!(refused, JournalError::Reserved { .. }), "{refused}");
    disk.limit_space(None);
    journal.compact().unwrap();
    assert!(has_reserve(&disk));
    journal.enqueue(invocation(1), b"small").unwrap();
}

#[test]
fn an_enqueue_from_outside_leaves_the_room_that_is_kept() {
    let disk = SimDisk::new();
    enqueue_outside(&disk, [1]);
    disk.limit_space(Some(used(&disk) + reserve::RESERVE_BYTES - 1));
    let refused = OutsideLog::create(shared(&disk), dir(), "test").unwrap_err();
    assert!(refused.is_no_space(), "{refused}");
    let mut worker = DiskJournal::create(shared(&disk), dir(), "worker, test", JournalOptions::default()).unwrap();
    assert_eq!(adopt(&mut worker).unwrap().invocations, 1);
}

#[test]
fn a_cancellation_without_a_server_works_on_a_full_disk() {
    let disk = SimDisk::new();
    leave_a_log_behind(&disk);
    enqueue_outside(&disk, [10]);
    fill(&disk);
    let before = used(&disk);
    assert!(end_in_free_log(&shared(&disk), dir(), id(10)).unwrap());
    assert!(used(&disk) < before && has_reserve(&disk), "a log with nothing else in it is deleted");
    disk.limit_space(Some(used(&disk)));
    assert!(end_in_free_log(&shared(&disk), dir(), id(3)).unwrap());
    let after = disk.after_power_cut(Survival::Lost, 0);
    let mut left: Vec<_> = read_all(&shared(&after), dir()).unwrap().entries.into_keys().collect();
    left.sort_unstable();
    assert_eq!(left, [id(2), id(4)]);
}

#[test]
fn a_hand_over_that_finds_no_room_changes_nothing() {
    let disk = SimDisk::new();
    let mut busy = journal(&disk).unwrap();
    for n in 1..=10 {
        busy.enqueue(invocation(n), &[7; 3_000]).unwrap();
    }
    busy.commit().unwrap();
    for room in [0, 60, 5_000] {
        disk.limit_space(Some(used(&disk) + room));
        assert_eq!(busy.hand_over(4).unwrap(), 0, "{room}");
        assert_eq!(busy.counts().ready, 10, "{room}");
        assert_eq!(wasmq_wal::list(&disk, dir()).unwrap().wals.len(), 1, "{room}");
    }
    disk.limit_space(None);
    assert_eq!(busy.hand_over(4).unwrap(), 4);
}

#[test]
fn a_worker_that_finds_no_reserve_uses_what_dead_owners_took_ahead() {
    let disk = SimDisk::new();
    let log = Options { segment_bytes: 1 << 20, extend_bytes: 512 << 10, buffer_bytes: 1 << 10 };
    let dead = JournalOptions { log, ..options(160 << 10) };
    let mut journal = DiskJournal::create(shared(&disk), dir(), "worker, test", dead).unwrap();
    journal.enqueue(invocation(1), b"small").unwrap();
    journal.commit().unwrap();
    drop(journal);
    fill(&disk);
    let mut next = DiskJournal::create(shared(&disk), dir(), "worker, test", options(160 << 10)).unwrap();
    adopt(&mut next).unwrap();
    assert_eq!(run_all(&mut next).unwrap(), [id(1)]);
}

#[test]
fn a_torn_tail_is_set_aside_with_the_reserve_or_its_log_waits() {
    for has_reserve in [true, false] {
        let disk = SimDisk::new();
        leave_a_log_behind(&disk);
        let log = wasmq_wal::list(&disk, dir()).unwrap().wals.remove(0);
        let last = dir().join(wasmq_wal::segment_file_name(log.id, log.segments.last().unwrap().sequence));
        let file = disk.open(&last, wasmq_wal::disk::OpenMode::ReadWrite).unwrap();
        file.write_all_at(&[7; 300], file.len().unwrap()).unwrap();
        let mut next = journal(&disk).unwrap();
        if !has_reserve {
            disk.remove(Path::new(RESERVE)).unwrap();
        }
        fill(&disk);
        let adopted = adopt(&mut next).unwrap();
        let kept = !wasmq_wal::list(&disk, dir()).unwrap().quarantined.is_empty();
        assert_eq!((kept, adopted.logs), (has_reserve, u32::from(has_reserve)));
        if !has_reserve {
            disk.limit_space(None);
            adopt(&mut next).unwrap();
        }
        holds_all_once(&mut next, "set aside");
        assert_eq!(wasmq_wal::list(&disk, dir()).unwrap().quarantined.len(), 1);
    }
}
