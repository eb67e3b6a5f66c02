//! Full disks and I/O errors at every operation, with the process living on.

use super::*;
use crate::dlq::{DlqError, RemovalReason};
use wasmq_wal::disk::{Fault, Survival};

const FAULTS: [Fault; 4] = [Fault::Io, Fault::NoSpace, Fault::Short(1), Fault::Short(700)];

/// Runs `change` with the n-th of its operations failing, for every n and fault, until one goes through.
fn with_every_fault(change: impl Fn(&DiskDlq) -> Result<(), DlqError>, check: impl Fn(&SimDisk, &DiskDlq, bool, &str)) {
    for fault in FAULTS {
        for operation in 0.. {
            let (disk, dlq) = new();
            dlq.add(&many(0..3)).unwrap();
            let first = disk.operations();
            disk.fail_at(first + operation, fault);
            let done = change(&dlq).is_ok();
            if disk.operations() <= first + operation {
                assert!(done, "every operation went through");
                break;
            }
            check(&disk, &dlq, done, &format!("{fault:?} at {operation}"));
        }
    }
}

#[test]
fn an_add_that_failed_added_nothing_and_works_when_it_is_tried_again() {
    with_every_fault(
        |dlq| dlq.add(&many(3..5)).map(drop),
        |disk, dlq, done, what| {
            let expected = if done { ids(0..5) } else { ids(0..3) };
            assert_eq!(ids_of(&on(disk)), expected, "{what}");
            assert_eq!(ids_of(dlq), expected, "{what}");
            dlq.add(&many(3..5)).unwrap();
            assert_eq!(ids_of(&on(&disk.after_power_cut(Survival::Lost, 0))), ids(0..5), "{what}");
            assert_eq!(on(disk).damage().unwrap(), [], "{what}");
        },
    );
}

#[test]
fn a_compaction_that_failed_lost_nothing_and_later_adds_are_durable() {
    with_every_fault(
        |dlq| dlq.compact(NOW),
        |disk, dlq, _, what| {
            assert_eq!(ids_of(dlq), ids(0..3), "{what}");
            dlq.add(&[dead(3, 0)]).unwrap();
            for survival in Survival::ALL {
                assert_eq!(ids_of(&on(&disk.after_power_cut(survival, 1))), ids(0..4), "{what}, {survival:?}");
            }
        },
    );
}

#[test]
fn the_first_add_of_all_can_fail_at_any_operation() {
    for operation in 0.. {
        let (disk, dlq) = new();
        disk.create_dir_all(Path::new("/data/dlq")).unwrap();
        let operation = disk.operations() + operation;
        disk.fail_at(operation, Fault::Io);
        let done = dlq.add(&many(0..2)).is_ok();
        if disk.operations() <= operation {
            assert!(done, "every operation went through");
            break;
        }
        dlq.add(&many(0..2)).unwrap();
        dlq.add(&many(2..3)).unwrap();
        let after = on(&disk.after_power_cut(Survival::Lost, 0));
        assert_eq!(ids_of(&after), ids(0..3), "operation {operation}");
    }
}

#[test]
fn a_half_line_that_could_not_be_cut_off_never_swallows_the_next() {
    let (disk, dlq) = new();
    dlq.add(&many(0..2)).unwrap();
    let next = disk.operations();
    disk.fail_at(next + 1, Fault::Short(300));
    disk.fail_at(next + 2, Fault::Io);
    assert!(dlq.add(&[dead(2, 0)]).is_err() || dlq.add(&[dead(2, 0)]).is_err());
    dlq.add(&[dead(3, 0)]).unwrap();
    let found = ids_of(&on(&disk));
    assert!(found == ids([0, 1, 3]) || found == ids([0, 1, 2, 3]), "{found:?}");
    assert_eq!(on(&disk).damage().unwrap(), []);
}

#[test]
fn a_full_disk_is_named_as_such_and_deleting_works_on_it() {
    let (disk, dlq) = new();
    let other = on(&disk);
    dlq.add(&many(0..4)).unwrap();
    assert_eq!(all(&other).len(), 4);
    disk.limit_space(Some(0));
    assert!(matches!(dlq.add(&[dead(9, 0)]), Err(DlqError::NoSpace { .. })));
    assert_eq!(all(&dlq).len(), 4, "reading works");
    let retried = dlq.lock().unwrap().removed(&[(id(0), 0)], RemovalReason::Retried, NOW);
    assert!(matches!(retried, Err(DlqError::NoSpace { .. })));
    assert_eq!(dlq.lock().unwrap().removed(&[(id(1), 0), (id(2), 0)], RemovalReason::Deleted, NOW).unwrap(), 2);
    assert_eq!(ids_of(&dlq), ids([0, 3]));
    assert_eq!(ids_of(&on(&disk.after_power_cut(Survival::Lost, 0))), ids([0, 3]));
    assert_eq!(ids_of(&other), ids([0, 3]), "a process that read it before sees it too");
    disk.limit_space(None);
    assert_eq!(other.add(&many(1..2)).unwrap().stale, 1, "and does not bring it back");
    other.compact(NOW).unwrap();
    assert_eq!(other.add(&many(1..3)).unwrap().stale, 2);
    assert_eq!(ids_of(&dlq), ids([0, 3]));
}
