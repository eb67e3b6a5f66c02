//! The power is cut at every operation of every change, with every fate of what was not synced.
//!
//! The model: what was acknowledged is there afterwards; what was not is there as a whole or not
//! at all; the queue goes on working; nothing that was removed comes back.

use std::collections::BTreeMap;

use super::*;
use crate::dlq::{DlqError, RemovalReason};
use wasmq_wal::disk::Survival;

/// A step of a script; each is one acknowledged change.
type Step = fn(&DiskDlq) -> Result<(), DlqError>;

const SEEDS: u64 = 6;

const SCRIPT: [Step; 8] = [
    |dlq| dlq.add(&[dead(0, 0), dead(1, 0)]).map(drop),
    |dlq| dlq.add(&[dead(2, 0)]).map(drop),
    |dlq| dlq.lock()?.removed(&[(id(0), 0)], RemovalReason::Deleted, NOW).map(drop),
    |dlq| dlq.add(&[dead(0, 0), dead(3, 0)]).map(drop),
    |dlq| dlq.compact(NOW),
    |dlq| dlq.add(&[dead(1, 1)]).map(drop),
    |dlq| dlq.lock()?.intend("00000000000000000000000000000001", &[(id(2), 0)], NOW),
    |dlq| dlq.lock()?.removed(&[(id(2), 0)], RemovalReason::Retried, NOW).map(drop),
];

/// What the queue holds after each number of steps: numbers and replays.
fn expected(steps: usize) -> BTreeMap<u64, u32> {
    let after: [&[(u64, u32)]; 9] = [
        &[],
        &[(0, 0), (1, 0)],
        &[(0, 0), (1, 0), (2, 0)],
        &[(1, 0), (2, 0)],
        &[(1, 0), (2, 0), (3, 0)],
        &[(1, 0), (2, 0), (3, 0)],
        &[(1, 1), (2, 0), (3, 0)],
        &[(1, 1), (2, 0), (3, 0)],
        &[(1, 1), (3, 0)],
    ];
    after[steps].iter().copied().collect()
}

fn found(dlq: &DiskDlq) -> BTreeMap<u64, u32> {
    all(dlq)
        .iter()
        .map(|dead_task| {
            let number = (0..100).find(|number| id(*number) == dead_task.id).unwrap();
            assert_eq!(*dead_task, dead(number, dead_task.replays), "byte for byte");
            (number, dead_task.replays)
        })
        .collect()
}

/// Runs the script until it fails; returns how many steps were acknowledged.
fn run(dlq: &DiskDlq) -> usize {
    SCRIPT.iter().take_while(|step| step(dlq).is_ok()).count()
}

#[test]
fn after_a_power_cut_at_any_operation_the_queue_holds_what_was_acknowledged() {
    let (whole, dlq) = new();
    assert_eq!(run(&dlq), SCRIPT.len());
    assert_eq!(found(&dlq), expected(SCRIPT.len()));
    for cut in 0..whole.operations() {
        let disk = SimDisk::new();
        disk.cut_power_at(cut);
        let steps = run(&on_or_off(&disk));
        for survival in Survival::ALL {
            for seed in 0..SEEDS {
                check(&disk.after_power_cut(survival, seed), steps, &format!("cut {cut}, {survival:?}, seed {seed}"));
            }
        }
    }
}

fn on_or_off(disk: &SimDisk) -> DiskDlq {
    DiskDlq::open(Arc::new(disk.clone()), Path::new(DATA)).unwrap()
}

/// Also the next writer must leave the queue whole, and the rest of the script must go through.
fn check(disk: &SimDisk, steps: usize, what: &str) {
    let dlq = on(disk);
    let here = found(&dlq);
    let next = (steps + 1).min(SCRIPT.len());
    // Several entries of one call are not one unit: some of them may have survived.
    let (low, high) = (expected(steps), expected(next));
    for (number, replays) in &here {
        assert!(low.get(number) == Some(replays) || high.get(number) == Some(replays), "{what}: extra {number}");
    }
    for (number, replays) in low.iter().filter(|(number, _)| high.contains_key(number)) {
        assert!(here.get(number).is_some_and(|here| here >= replays), "{what}: {number} is lost");
    }
    for step in SCRIPT.iter().skip(steps) {
        step(&dlq).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    assert_eq!(found(&on(disk)), expected(SCRIPT.len()), "{what}: after going on");
    assert_eq!(found(&on(&disk.after_power_cut(Survival::Lost, 0))), expected(SCRIPT.len()), "{what}: durable");
}

#[test]
fn a_process_that_dies_between_rename_and_directory_sync_costs_nobody_a_dead_task() {
    let (disk, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    let reader = on(&disk);
    assert_eq!(all(&reader).len(), 3);
    let temporary = Path::new("/data/dlq/dead-tasks-v1.jsonl.tmp");
    let file = disk.open(temporary, OpenMode::CreateNew).unwrap();
    file.write_all_at(&content(&disk), 0).unwrap();
    file.sync_all().unwrap();
    disk.rename(temporary, Path::new(FILE)).unwrap();
    // Here it was killed. Another process, which knew the old file, goes on.
    reader.add(&[dead(3, 0)]).unwrap();
    assert_eq!(ids_of(&on(&disk.after_power_cut(Survival::Lost, 0))), ids(0..4));
}
