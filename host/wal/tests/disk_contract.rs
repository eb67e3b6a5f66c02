//! The simulated disk and the real one answer alike, so that what is tested on one holds on the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::ErrorKind;
use std::path::Path;
use wasmq_wal::disk::{Disk, EntryKind, OpenMode, RealDisk, SimDisk, Wait, is_no_space, write_atomically};

/// Runs a check on both disks, each with an empty directory.
fn on_both(check: impl Fn(&dyn Disk, &Path)) {
    let temporary = tempfile::tempdir().unwrap();
    check(&RealDisk, temporary.path());
    let simulated = SimDisk::new();
    simulated.create_dir_all(Path::new("/tmp/x")).unwrap();
    check(&simulated, Path::new("/tmp/x"));
}

fn kind_of<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("it fails").kind()
}

#[test]
fn open_modes_create_keep_and_refuse() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        assert_eq!(kind_of(disk.open(&path, OpenMode::Read)), ErrorKind::NotFound);
        assert_eq!(kind_of(disk.open(&path, OpenMode::ReadWrite)), ErrorKind::NotFound);
        let file = disk.open(&path, OpenMode::Create).unwrap();
        file.write_all_at(b"content", 0).unwrap();
        assert_eq!(kind_of(disk.open(&path, OpenMode::CreateNew)), ErrorKind::AlreadyExists);
        let again = disk.open(&path, OpenMode::Create).unwrap();
        assert_eq!(again.read_all().unwrap(), b"content");
        assert_eq!(again.inode().unwrap(), disk.stat(&path).unwrap().unwrap().inode);
        let missing = dir.join("no/such/dir/file");
        assert_eq!(kind_of(disk.open(&missing, OpenMode::CreateNew)), ErrorKind::NotFound);
    });
}

#[test]
fn reads_and_writes_have_a_place_and_holes_are_zeros() {
    on_both(|disk, dir| {
        let file = disk.open(&dir.join("file"), OpenMode::CreateNew).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_all_at(b"end", 5).unwrap();
        file.write_all_at(b"a", 0).unwrap();
        assert_eq!(file.read_all().unwrap(), b"a\0\0\0\0end");
        let mut buffer = [0; 4];
        assert_eq!(file.read_up_to(&mut buffer, 6).unwrap(), 2);
        assert_eq!(file.read_at(&mut buffer, 100).unwrap(), 0);
        assert_eq!(kind_of(file.read_exact_at(&mut buffer, 6)), ErrorKind::UnexpectedEof);
        file.set_len(2).unwrap();
        file.set_len(3).unwrap();
        assert_eq!(file.read_all().unwrap(), b"a\0\0");
        file.sync_data().unwrap();
        file.sync_all().unwrap();
    });
}

#[test]
fn directories_are_made_once_listed_in_order_and_never_removed_as_files() {
    on_both(|disk, dir| {
        let deep = dir.join("a/b/c");
        disk.create_dir_all(&deep).unwrap();
        disk.create_dir_all(&deep).unwrap();
        for name in ["z", "m", "B"] {
            let file = disk.open(&dir.join(name), OpenMode::CreateNew).unwrap();
            file.write_all_at(name.as_bytes(), 0).unwrap();
        }
        let entries = disk.list(dir).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.to_str().unwrap()).collect();
        assert_eq!(names, ["B", "a", "m", "z"]);
        assert_eq!((entries[0].kind, entries[0].len), (EntryKind::File, 1));
        assert_eq!((entries[1].kind, entries[1].len), (EntryKind::Dir, 0));
        assert!(disk.remove(&dir.join("a")).is_err());
        assert_eq!(kind_of(disk.remove(&dir.join("nothing"))), ErrorKind::NotFound);
        assert_eq!(kind_of(disk.list(&dir.join("nothing"))), ErrorKind::NotFound);
        assert_eq!(kind_of(disk.create_dir_all(&dir.join("z"))), ErrorKind::NotADirectory);
        assert_eq!(kind_of(disk.create_dir_all(&dir.join("z/below"))), ErrorKind::NotADirectory);
    });
}

#[test]
fn a_replaced_file_has_another_inode_and_an_open_one_stays_readable() {
    on_both(|disk, dir| {
        let path = dir.join("file");
        write_atomically(disk, &path, b"old").unwrap();
        let old = disk.stat(&path).unwrap().unwrap();
        let open = disk.open(&path, OpenMode::Read).unwrap();
        write_atomically(disk, &path, b"newer").unwrap();
        let new = disk.stat(&path).unwrap().unwrap();
        assert_ne!(old.inode, new.inode);
        assert_eq!((old.len, new.len), (3, 5));
        assert!(new.modified_ns >= old.modified_ns);
        assert_eq!(open.read_all().unwrap(), b"old");
        disk.remove(&path).unwrap();
        assert_eq!(disk.stat(&path).unwrap(), None);
        assert_eq!(disk.list(dir).unwrap(), []);
        assert!(disk.free_bytes(dir).unwrap() > 0);
    });
}

#[test]
fn lines_of_a_lock_file_stay_lines() {
    on_both(|disk, dir| {
        let path = dir.join("lock");
        let mut lock = disk.lock(&path, Wait::No).unwrap().unwrap();
        lock.append_line("pid 7\r\nforged line \u{1b}[31m").unwrap();
        lock.append_line("").unwrap();
        assert_eq!(lock.read().unwrap(), "pid 7  forged line  [31m\n\n");
        disk.open(&path, OpenMode::ReadWrite).unwrap().write_all_at(b"\xFFtorn", 25).unwrap();
        lock.append_line("next").unwrap();
        assert_eq!(lock.read().unwrap().lines().last(), Some("next"));
        lock.remove().unwrap();
        assert_eq!(disk.stat(&path).unwrap(), None);
    });
}

#[test]
fn a_full_real_disk_is_recognised_as_full() {
    let full = RealDisk.open(Path::new("/dev/full"), OpenMode::ReadWrite).unwrap();
    assert!(is_no_space(&full.write_all_at(b"x", 0).unwrap_err()));
}
