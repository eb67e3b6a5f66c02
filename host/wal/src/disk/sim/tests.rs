//! The simulator keeps its promises: what is synced survives every policy, what is not does not survive `Lost`.

use super::*;
use crate::disk::is_no_space;

fn disk() -> (SimDisk, &'static Path) {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    (disk, Path::new("/d/file"))
}

fn content(disk: &SimDisk, path: &Path) -> Vec<u8> {
    disk.open(path, OpenMode::Read).unwrap().read_all().unwrap()
}

#[test]
fn a_file_without_a_sync_of_its_directory_vanishes() {
    let (disk, path) = disk();
    disk.open(path, OpenMode::CreateNew).unwrap().sync_all().unwrap();
    assert!(disk.after_power_cut(Survival::Lost, 0).stat(path).unwrap().is_none());
    disk.sync_dir(Path::new("/d")).unwrap();
    assert!(disk.after_power_cut(Survival::Lost, 0).stat(path).unwrap().is_some());
}

#[test]
fn synced_content_survives_every_policy_and_unsynced_content_only_some() {
    let (disk, path) = disk();
    let file = disk.open(path, OpenMode::CreateNew).unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_all_at(b"synced", 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(b" unsynced", 6).unwrap();
    for survival in Survival::ALL {
        for seed in 0..20 {
            let found = content(&disk.after_power_cut(survival, seed), path);
            assert!(found.starts_with(b"synced"), "{survival:?} {seed}");
        }
    }
    assert_eq!(content(&disk.after_power_cut(Survival::Lost, 0), path), b"synced");
    assert_eq!(content(&disk.after_power_cut(Survival::Kept, 0), path), b"synced unsynced");
}

#[test]
fn what_a_failed_sync_dropped_does_not_come_back_with_a_second_one() {
    let (disk, path) = disk();
    let file = disk.open(path, OpenMode::CreateNew).unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    disk.fail_at(disk.operations(), Fault::Io);
    assert!(file.sync_all().is_err());
    assert!(file.sync_all().is_ok());
    assert_eq!(content(&disk.after_power_cut(Survival::Kept, 0), path), b"");
}

#[test]
fn after_the_cut_everything_fails_and_locks_are_free() {
    let (disk, path) = disk();
    let _lock = disk.lock(path, Wait::No).unwrap().unwrap();
    assert!(disk.lock(path, Wait::No).unwrap().is_none());
    disk.cut_power_at(disk.operations());
    assert!(disk.sync_dir(Path::new("/d")).is_err());
    assert!(disk.stat(path).is_err());
    let again = disk.after_power_cut(Survival::Kept, 0);
    assert!(again.lock(path, Wait::No).unwrap().is_some());
}

#[test]
fn a_full_disk_takes_what_fits_and_works_again_when_space_is_freed() {
    let (disk, path) = disk();
    let file = disk.open(path, OpenMode::CreateNew).unwrap();
    disk.limit_space(Some(4));
    assert!(is_no_space(&file.write_all_at(b"123456", 0).unwrap_err()));
    assert_eq!(content(&disk, path), b"1234");
    file.set_len(0).unwrap();
    file.write_all_at(b"abcd", 0).unwrap();
    assert_eq!(disk.free_bytes(path).unwrap(), 0);
}

#[test]
fn a_waiting_lock_is_granted_when_the_holder_removes_the_file() {
    let (disk, path) = disk();
    let held = disk.lock(path, Wait::No).unwrap().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| disk.lock(path, Wait::Forever).unwrap().unwrap());
        held.remove().unwrap();
        let lock = waiter.join().unwrap();
        lock.remove().unwrap();
    });
    assert!(disk.stat(path).unwrap().is_none());
}

#[test]
fn directories_that_a_second_call_finds_are_durable_whatever_failed_in_the_first() {
    let deep = Path::new("/a/b/c");
    for operation in 0.. {
        let disk = SimDisk::new();
        disk.fail_at(operation, Fault::Io);
        let first = disk.create_dir_all(deep);
        disk.create_dir_all(deep).unwrap();
        assert!(disk.after_power_cut(Survival::Lost, 0).stat(deep).unwrap().is_some(), "{operation}");
        if disk.operations() <= operation {
            assert!(first.is_ok() && operation == 6);
            return;
        }
        assert!(first.is_err());
    }
}

#[test]
fn a_directory_that_a_dead_process_left_is_synced_once() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/a")).unwrap();
    let next = disk.after_power_cut(Survival::Kept, 0);
    next.create_dir_all(Path::new("/a")).unwrap();
    next.create_dir_all(Path::new("/a")).unwrap();
    assert_eq!(next.operations(), 1);
}

#[test]
fn the_last_write_can_be_torn_at_every_byte_and_nothing_before_it_is() {
    let (disk, path) = disk();
    let file = disk.open(path, OpenMode::CreateNew).unwrap();
    assert!(disk.last_write().is_none());
    file.write_all_at(b"first", 0).unwrap();
    file.write_all_at(b"second", 5).unwrap();
    disk.cut_power_at(disk.operations());
    assert!(file.sync_data().is_err());
    assert_eq!(disk.last_write().unwrap(), b"second");
    for kept in 0..=6 {
        assert_eq!(content(&disk.after_torn_write(kept), path), &b"firstsecond"[..5 + kept]);
    }
    let after = disk.after_torn_write(2);
    let file = after.open(path, OpenMode::ReadWrite).unwrap();
    file.sync_data().unwrap();
    assert!(after.last_write().is_none(), "a sync is no write");
}
