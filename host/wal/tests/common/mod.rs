//! What the tests of the log share: a directory, an id, small sizes, and reading everything back.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wasmq_wal::disk::{Disk, OpenMode, SimDisk};
use wasmq_wal::{Claim, Options, Orphan, ScanReport, Wal, WalError, WalId, claim, scan, segment_file_name};

pub(crate) const ID: WalId = WalId::from_bytes([0xA7; 16]);

/// Small enough that a few records fill a segment and every byte can be tried.
pub(crate) const SMALL: Options = Options { segment_bytes: 300, extend_bytes: 128, buffer_bytes: 1 << 20 };

pub(crate) fn dir() -> &'static Path {
    Path::new("/journal")
}

pub(crate) fn segment_path(sequence: u32) -> PathBuf {
    dir().join(segment_file_name(ID, sequence))
}

pub(crate) fn create(disk: &SimDisk) -> Result<Wal, WalError> {
    create_with(disk, SMALL)
}

pub(crate) fn create_with(disk: &SimDisk, options: Options) -> Result<Wal, WalError> {
    Wal::create(Arc::new(disk.clone()), dir(), ID, "a test", options)
}

pub(crate) fn try_claim(disk: &SimDisk) -> Result<Option<Orphan>, WalError> {
    Ok(match claim(Arc::new(disk.clone()), dir(), ID)? {
        Claim::Claimed(orphan) => Some(orphan),
        Claim::Held => panic!("somebody holds the log"),
        Claim::Gone => None,
    })
}

pub(crate) fn claimed(disk: &SimDisk) -> Orphan {
    try_claim(disk).unwrap().expect("the log is there")
}

/// Every record as (kind, body), and the report.
pub(crate) fn read_all(disk: &dyn Disk) -> (Vec<(u8, Vec<u8>)>, ScanReport) {
    let mut records = Vec::new();
    let report = scan(disk, dir(), ID, &mut |record| {
        records.push((record.kind, record.body.to_vec()));
        ControlFlow::Continue(())
    });
    (records, report.unwrap())
}

pub(crate) fn bodies(disk: &dyn Disk) -> (Vec<Vec<u8>>, ScanReport) {
    let (records, report) = read_all(disk);
    (records.into_iter().map(|(_, body)| body).collect(), report)
}

pub(crate) fn content(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    disk.open(path, OpenMode::Read).unwrap().read_all().unwrap()
}

/// Replaces the content of a file, durably.
pub(crate) fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Create).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
}

/// A copy of the disk as it is now, to try something on.
pub(crate) fn copy_of(disk: &SimDisk) -> SimDisk {
    disk.after_power_cut(wasmq_wal::disk::Survival::Kept, 0)
}
