//! Compaction: what it drops, what it keeps, when it runs.

use super::*;
use crate::dlq::RemovalReason;
use crate::dlq::index::LATEST_TOMBSTONES;

const DAY_MS: u64 = 24 * 3_600_000;

#[test]
fn garbage_goes_and_entries_keep_their_order_and_places() {
    let (disk, dlq) = new();
    dlq.add(&many(0..20)).unwrap();
    let gone: Vec<_> = (0..20).step_by(2).map(|number| (id(number), 0)).collect();
    dlq.lock().unwrap().removed(&gone, RemovalReason::Deleted, NOW).unwrap();
    dlq.add(&[dead(3, 1)]).unwrap();
    let (before, end) = (content(&disk).len(), dlq.end().unwrap());
    let entries = all(&dlq);
    dlq.compact(NOW).unwrap();
    assert!(content(&disk).len() < before * 2 / 3);
    assert_eq!(all(&on(&disk)), entries);
    assert_eq!(on(&disk).end().unwrap(), end);
    assert!(disk.stat(Path::new("/data/dlq/dead-tasks-v1.jsonl.tmp")).unwrap().is_none());
}

#[test]
fn tombstones_are_kept_for_30_days_and_no_longer_but_for_the_latest() {
    let (disk, dlq) = new();
    let gone: Vec<_> = (0..LATEST_TOMBSTONES + 1).map(|number| (id(number), 0)).collect();
    let (first, latest) = gone.split_at(1);
    let mut locked = dlq.lock().unwrap();
    locked.removed(first, RemovalReason::Deleted, NOW).unwrap();
    locked.removed(latest, RemovalReason::Deleted, NOW).unwrap();
    drop(locked);
    dlq.compact(Timestamp(NOW.0 + 30 * DAY_MS - 1)).unwrap();
    assert_eq!(on(&disk).add(&many(0..3)).unwrap().stale, 3);
    for years in [1, 10] {
        dlq.compact(Timestamp(NOW.0 + years * 365 * DAY_MS)).unwrap();
        let added = on(&disk).add(&many(0..3)).unwrap();
        assert_eq!(added.stale, 2, "the latest stay whatever the clock says");
    }
    assert_eq!(ids_of(&dlq), ids([0]));
}

#[test]
fn damaged_lines_are_moved_aside_with_a_note_and_never_thrown_away() {
    let (disk, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    let mut bytes = content(&disk);
    bytes[100] ^= 1;
    overwrite(&disk, &bytes);
    let dlq = on(&disk);
    assert_eq!(dlq.counts().unwrap().damaged, 1);
    dlq.compact(NOW).unwrap();
    assert_eq!((ids_of(&dlq), dlq.counts().unwrap().damaged), (ids([1, 2]), 0));
    let aside = disk.open(Path::new("/data/dlq/dead-tasks-v1.damaged"), OpenMode::Read).unwrap().read_all().unwrap();
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap();
    assert!(aside.windows(first.len()).any(|window| window == first));
    assert!(String::from_utf8_lossy(&aside).contains("# dead-tasks-v1.jsonl line 1 offset 0"));
}

#[test]
fn an_entry_that_rots_after_it_was_read_is_moved_aside_too() {
    let (disk, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    let file = disk.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    file.write_all_at(b"rot", 100).unwrap();
    dlq.compact(NOW).unwrap();
    assert_eq!(ids_of(&dlq), ids([1, 2]));
    assert!(disk.stat(Path::new("/data/dlq/dead-tasks-v1.damaged")).unwrap().is_some());
}

#[test]
fn removing_compacts_by_itself_when_garbage_outweighs_the_rest() {
    let (disk, dlq) = new();
    let big = |number| {
        let mut dead = dead(number, 0);
        dead.payload.0 = vec![b'x'; 100_000];
        dead
    };
    dlq.add(&(0..30).map(big).collect::<Vec<_>>()).unwrap();
    let full = content(&disk).len();
    for number in 0..14 {
        dlq.lock().unwrap().removed(&[(id(number), 0)], RemovalReason::Deleted, NOW).unwrap();
    }
    assert!(content(&disk).len() > full);
    for number in 14..17 {
        dlq.lock().unwrap().removed(&[(id(number), 0)], RemovalReason::Deleted, NOW).unwrap();
    }
    assert!(content(&disk).len() < full * 3 / 5);
    assert_eq!(ids_of(&on(&disk)), ids(17..30));
}

#[test]
fn the_first_writer_after_a_compaction_that_died_removes_its_copy() {
    let copy = Path::new("/data/dlq/dead-tasks-v1.jsonl.tmp");
    let (disk, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    disk.cut_power_at(disk.operations() + 4);
    dlq.compact(NOW).unwrap_err();
    let after = disk.after_power_cut(wasmq_wal::disk::Survival::Kept, 0);
    assert!(after.stat(copy).unwrap().is_some(), "the cut left something");
    let next = on(&after);
    assert_eq!(all(&next).len(), 3);
    assert!(after.stat(copy).unwrap().is_some(), "who reads does not hold the lock and touches nothing");
    next.add(&many(3..4)).unwrap();
    assert!(after.stat(copy).unwrap().is_none());
    assert_eq!(all(&next).len(), 4);
}
