//! One of two claims wins; held, gone and half-deleted logs are told apart; lock files are never ghosts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{ID, SMALL, bodies, claimed, create, dir, put, segment_path};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use wasmq_wal::disk::{Disk, LockAttempt, RealDisk, SimDisk, Wait};
use wasmq_wal::{Claim, Options, Wal, WalError, claim, list, lock_file_name};

fn attempt(disk: &SimDisk) -> Claim {
    claim(Arc::new(disk.clone()), dir(), ID).unwrap()
}

#[test]
fn a_living_owner_is_not_robbed_and_a_dead_one_is_followed() {
    let disk = SimDisk::new();
    assert!(matches!(attempt(&disk), Claim::Gone));
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[b"x"]).unwrap();
    wal.flush().unwrap();
    assert!(matches!(attempt(&disk), Claim::Held));
    drop(wal);
    let Claim::Claimed(orphan) = attempt(&disk) else { panic!("free") };
    assert!(matches!(attempt(&disk), Claim::Held));
    orphan.release();
    let Claim::Claimed(orphan) = attempt(&disk) else { panic!("free") };
    orphan.delete().unwrap();
    assert!(matches!(attempt(&disk), Claim::Gone));
    assert_eq!(disk.list(dir()).unwrap(), []);
}

#[test]
fn an_id_is_created_once_and_the_holder_is_named() {
    let disk = SimDisk::new();
    let wal = create(&disk).unwrap();
    let error = create(&disk).unwrap_err();
    assert!(matches!(&error, WalError::LockHeld { holder, .. } if holder == "a test"), "{error}");
    wal.close().unwrap();
    assert!(matches!(create(&disk), Err(WalError::Exists { .. })));
}

#[test]
fn a_log_without_its_lock_file_gets_a_new_one() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[b"kept"]).unwrap();
    wal.close().unwrap();
    disk.remove(&dir().join(lock_file_name(ID))).unwrap();
    assert!(!list(&disk, dir()).unwrap().wals[0].has_lock_file);
    let mut wal = claimed(&disk).reopen(SMALL).unwrap();
    assert!(matches!(attempt(&disk), Claim::Held));
    wal.append(1, &[b"more"]).unwrap();
    wal.flush().unwrap();
    assert_eq!(bodies(&disk).0, [b"kept", b"more"]);
}

#[test]
fn a_lock_file_alone_is_an_empty_log() {
    let disk = SimDisk::new();
    disk.create_dir_all(dir()).unwrap();
    put(&disk, &dir().join(lock_file_name(ID)), b"torn li");
    let mut orphan = claimed(&disk);
    orphan.mark("next").unwrap();
    let mut wal = orphan.reopen(SMALL).unwrap();
    assert_eq!(wal.append(1, &[b"first"]).unwrap().segment, 1);
    wal.close().unwrap();
    assert_eq!(claimed(&disk).lock_text(), "torn li\nnext\n");
    assert!(disk.stat(&segment_path(1)).unwrap().is_some());
}

#[test]
fn of_many_claims_at_once_exactly_one_wins() {
    let temporary = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let dir = temporary.path();
    for round in 0..50u8 {
        let id = wasmq_wal::WalId::from_bytes([round; 16]);
        let wal = Wal::create(disk.clone(), dir, id, "", Options::short_lived()).unwrap();
        wal.close().unwrap();
        let barrier = std::sync::Barrier::new(8);
        let won: Vec<Claim> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                claim(disk.clone(), dir, id).unwrap()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners = won.iter().filter(|claim| matches!(claim, Claim::Claimed(_))).count();
        assert_eq!(winners, 1, "round {round}");
    }
}

/// Takes the lock, checks that nobody else is inside, and removes the lock file every other time.
fn contend(disk: &dyn Disk, path: &std::path::Path, inside: &AtomicU32, turns: &AtomicU64) {
    for turn in 0..200 {
        let lock = disk.lock(path, Wait::Forever).unwrap().unwrap();
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
        turns.fetch_add(1, Ordering::SeqCst);
        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
        if turn % 2 == 0 { lock.remove().unwrap() } else { drop(lock) }
    }
}

#[test]
fn a_lock_file_that_is_removed_while_others_wait_never_lets_two_in() {
    let temporary = tempfile::tempdir().unwrap();
    let real = temporary.path().join("lock");
    let simulated = std::path::PathBuf::from("/lock");
    let sim = SimDisk::new();
    for (disk, path) in [(&RealDisk as &dyn Disk, &real), (&sim, &simulated)] {
        let (inside, turns) = (AtomicU32::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| contend(disk, path, &inside, &turns));
            }
        });
        assert_eq!(turns.load(Ordering::SeqCst), 800);
    }
}

#[test]
fn waiting_for_a_lock_ends_and_an_existing_lock_is_never_created() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("lock");
    assert!(matches!(RealDisk.try_lock_existing(&path).unwrap(), LockAttempt::Gone));
    assert!(RealDisk.stat(&path).unwrap().is_none());
    let held = RealDisk.lock(&path, Wait::No).unwrap().unwrap();
    assert!(matches!(RealDisk.try_lock_existing(&path).unwrap(), LockAttempt::Held));
    assert!(RealDisk.lock(&path, Wait::No).unwrap().is_none());
    assert!(RealDisk.lock(&path, Wait::UpTo(Duration::from_millis(5))).unwrap().is_none());
    drop(held);
    assert!(RealDisk.lock(&path, Wait::UpTo(Duration::ZERO)).unwrap().is_some());
}

#[test]
fn a_lock_whose_file_was_replaced_does_not_remove_the_new_one() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("lock");
    let ghost = RealDisk.lock(&path, Wait::No).unwrap().unwrap();
    RealDisk.remove(&path).unwrap();
    let held = RealDisk.lock(&path, Wait::No).unwrap().unwrap();
    assert_eq!(ghost.remove().unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert!(matches!(RealDisk.try_lock_existing(&path).unwrap(), LockAttempt::Held));
    drop(held);
}
