//! A directory that changes while it is listed makes no segment look missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{bodies, create, segment_path};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use wasmq_wal::disk::{DirEntry, Disk, DiskFile, DiskLock, LockAttempt, OpenMode, SimDisk, Stat, Wait};

/// A disk whose first listings lack one entry, as readdir(3) may lack what is created meanwhile.
#[derive(Debug)]
struct Forgetful {
    disk: SimDisk,
    hidden: u32,
    listings: AtomicU32,
}

impl Disk for Forgetful {
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = self.disk.list(dir)?;
        if self.listings.fetch_add(1, Ordering::SeqCst) < 3 {
            let path = segment_path(self.hidden);
            entries.retain(|entry| Some(&*entry.name) != path.file_name());
        }
        Ok(entries)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(path, mode)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.disk.stat(path)
    }
    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.disk.lock(path, wait)
    }
    fn try_lock_existing(&self, path: &Path) -> io::Result<LockAttempt> {
        self.disk.try_lock_existing(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }
}

#[test]
fn a_segment_that_a_listing_missed_is_read_and_not_reported_missing() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    for n in 1..=3u8 {
        wal.append(1, &[&[n; 200]]).unwrap();
    }
    wal.close().unwrap();
    let forgetful = Forgetful { disk, hidden: 2, listings: AtomicU32::new(0) };
    let (found, report) = bodies(&forgetful);
    assert_eq!(found, [[1; 200], [2; 200], [3; 200]]);
    assert!(report.damaged.is_empty(), "{report:?}");
    assert_eq!(forgetful.listings.load(Ordering::SeqCst), 4);
}
