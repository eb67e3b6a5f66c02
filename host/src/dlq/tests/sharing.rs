//! Several handles, threads and processes on one directory.

use super::*;
use crate::dlq::RemovalReason;
use wasmq_wal::disk::RealDisk;

#[test]
fn two_handles_see_each_others_changes_also_over_a_compaction() {
    let (disk, first) = new();
    let second = on(&disk);
    first.add(&many(0..3)).unwrap();
    second.add(&many(3..5)).unwrap();
    assert_eq!(ids_of(&first), ids(0..5));
    second.lock().unwrap().removed(&[(id(1), 0)], RemovalReason::Deleted, NOW).unwrap();
    second.compact(NOW).unwrap();
    // The first still has the old inode open.
    first.add(&[dead(7, 0)]).unwrap();
    assert_eq!(ids_of(&second), ids([0, 2, 3, 4, 7]));
    assert_eq!(ids_of(&first), ids_of(&second));
}

#[test]
fn a_writer_waits_for_the_lock_and_reads_do_not() {
    let (disk, dlq) = new();
    dlq.add(&many(0..1)).unwrap();
    let mut locked = dlq.lock().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| on(&disk).add(&[dead(1, 0)]).unwrap());
        assert_eq!(ids_of(&dlq), ids([0]));
        locked.removed(&[(id(0), 0)], RemovalReason::Deleted, NOW).unwrap();
        assert!(!writer.is_finished(), "nothing is written while the lock is held");
        drop(locked);
        assert_eq!(writer.join().unwrap().taken, 1);
    });
    assert_eq!(ids_of(&dlq), ids([1]));
}

#[test]
fn many_threads_with_handles_of_their_own_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let open = || DiskDlq::open(Arc::new(RealDisk), dir.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let dlq = open();
                for number in 0..25 {
                    dlq.add(&[dead(thread * 100 + number, 0)]).unwrap();
                    if number % 10 == 9 {
                        let gone = [(id(thread * 100 + number), 0)];
                        dlq.lock().unwrap().removed(&gone, RemovalReason::Deleted, NOW).unwrap();
                        dlq.compact(NOW).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(open().counts().unwrap().total, 4 * 23);
    assert_eq!(open().damage().unwrap(), []);
}
