//! What `add` takes, ignores, and replaces.

use super::*;
use crate::dlq::{Added, DlqError, NoDlq, RemovalReason};

#[test]
fn what_was_added_is_found_by_another_handle_as_it_was() {
    let (disk, dlq) = new();
    assert_eq!(dlq.add(&many(0..3)).unwrap(), Added { taken: 3, stale: 0 });
    assert_eq!(all(&on(&disk)), many(0..3));
    assert_eq!(on(&disk).get(id(1)).unwrap(), Some(dead(1, 0)));
    assert_eq!(on(&disk).get(id(9)).unwrap(), None);
}

#[test]
fn a_queue_that_never_was_written_is_empty_and_reading_creates_nothing() {
    let (disk, dlq) = new();
    assert_eq!(all(&dlq), []);
    assert_eq!(dlq.counts().unwrap().total, 0);
    assert_eq!(disk.operations(), 0);
}

#[test]
fn there_is_one_dead_task_per_invocation_however_often_it_died() {
    let (_, dlq) = new();
    dlq.add(&many(0..2)).unwrap();
    dlq.add(&[dead(0, 1)]).unwrap();
    dlq.add(&[dead(0, 2)]).unwrap();
    assert_eq!(all(&dlq), [dead(1, 0), dead(0, 2)]);
    assert_eq!(dlq.add(&[dead(0, 1)]).unwrap(), Added { taken: 0, stale: 1 });
}

#[test]
fn a_death_that_was_retried_or_deleted_does_not_come_back() {
    for reason in [RemovalReason::Retried, RemovalReason::Deleted] {
        let (disk, dlq) = new();
        dlq.add(&many(0..2)).unwrap();
        dlq.lock().unwrap().removed(&[(id(0), 0)], reason, NOW).unwrap();
        assert_eq!(on(&disk).add(&[dead(0, 0)]).unwrap(), Added { taken: 0, stale: 1 });
        assert_eq!(ids_of(&dlq), ids([1]));
        assert_eq!(dlq.add(&[dead(0, 1)]).unwrap().taken, 1, "the next death of it is a new one");
        assert_eq!(ids_of(&dlq), ids([1, 0]));
    }
}

#[test]
fn adding_the_same_death_again_keeps_its_place() {
    let (disk, dlq) = new();
    dlq.add(&many(0..2)).unwrap();
    let before = content(&disk).len();
    assert_eq!(on(&disk).add(&[dead(0, 0)]).unwrap(), Added { taken: 1, stale: 0 });
    assert!(content(&disk).len() > before, "it is written again: the first writer may have died before its sync");
    assert_eq!(all(&dlq), [dead(0, 0), dead(1, 0)]);
}

#[test]
fn one_call_may_hold_several_deaths_of_one_invocation() {
    let (disk, dlq) = new();
    dlq.add(&[dead(0, 0), dead(0, 1), dead(1, 0), dead(0, 1)]).unwrap();
    assert_eq!(all(&on(&disk)), [dead(1, 0), dead(0, 1)]);
    assert_eq!(all(&dlq), all(&on(&disk)));
}

#[test]
fn a_queue_of_another_version_is_refused_untouched() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/data/dlq")).unwrap();
    disk.open(Path::new("/data/dlq/dead-tasks-v2.jsonl"), OpenMode::CreateNew).unwrap();
    let before = disk.operations();
    let error = DiskDlq::open(Arc::new(disk.clone()), Path::new(DATA)).unwrap_err();
    assert!(error.to_string().contains("dead-tasks-v2.jsonl"), "{error}");
    assert_eq!(disk.operations(), before);
}

#[test]
fn the_store_that_keeps_nothing_takes_everything_and_says_so_when_asked() {
    NoDlq.add(&many(0..2)).unwrap();
    assert!(matches!(NoDlq.counts(), Err(DlqError::NothingKept)));
    assert!(matches!(NoDlq.batch(None, 1, &Filter::default()), Err(DlqError::NothingKept)));
    assert!(matches!(NoDlq.lock(), Err(DlqError::NothingKept)));
}
