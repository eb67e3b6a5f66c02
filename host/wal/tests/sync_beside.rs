//! A sync that runs beside the log covers what came before it, nothing else, and fails like any other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{bodies, create, create_with, segment_path};
use wasmq_wal::disk::{Disk, Fault, SimDisk, Survival};
use wasmq_wal::{Options, WalError};

const ROOMY: Options = Options { segment_bytes: 1 << 20, extend_bytes: 128, buffer_bytes: 1 << 20 };

#[test]
fn it_covers_what_was_appended_before_it_began_and_nothing_after() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let before = wal.append(1, &[b"before"]).unwrap();
    let slow = wal.begin_sync().unwrap().expect("there is something new");
    let after = wal.append(1, &[b"after"]).unwrap();
    let synced = wal.finish_sync(slow.run()).unwrap();
    assert!(synced.covers(before));
    assert!(!synced.covers(after));
    let (kept, _) = bodies(&disk.after_power_cut(Survival::Lost, 1));
    assert_eq!(kept, [b"before"]);
    assert!(wal.sync().unwrap().covers(after));
}

#[test]
fn there_is_none_when_everything_is_durable() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    assert!(wal.begin_sync().unwrap().is_none());
    wal.append(1, &[b"one"]).unwrap();
    let _ = wal.sync().unwrap();
    assert!(wal.begin_sync().unwrap().is_none());
}

#[test]
fn a_failed_one_poisons_the_log_whatever_was_appended_meanwhile() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[b"before"]).unwrap();
    let slow = wal.begin_sync().unwrap().unwrap();
    wal.append(1, &[b"after"]).unwrap();
    disk.fail_at(disk.operations(), Fault::Io);
    let outcome = slow.run();
    assert!(matches!(wal.finish_sync(outcome), Err(WalError::Io(_))));
    assert!(matches!(wal.append(1, &[b"more"]), Err(WalError::Poisoned { .. })));
    assert!(matches!(wal.begin_sync(), Err(WalError::Poisoned { .. })));
}

#[test]
fn one_that_succeeded_proves_nothing_when_a_write_failed_meanwhile() {
    let disk = SimDisk::new();
    let mut wal = create_with(&disk, ROOMY).unwrap();
    wal.append(1, &[b"before"]).unwrap();
    let slow = wal.begin_sync().unwrap().unwrap();
    let outcome = slow.run();
    wal.append(1, &[b"after"]).unwrap();
    disk.fail_at(disk.operations(), Fault::Io);
    assert!(wal.flush().is_err());
    assert!(matches!(wal.finish_sync(outcome), Err(WalError::Poisoned { .. })));
}

#[test]
fn a_segment_that_is_full_meanwhile_is_sealed_after_it() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[&[7; 200]]).unwrap();
    let slow = wal.begin_sync().unwrap().unwrap();
    for _ in 0..3 {
        wal.append(1, &[&[8; 200]]).unwrap();
    }
    assert_eq!(wal.segments().count(), 1, "to seal is to sync, and one sync runs already");
    let _ = wal.finish_sync(slow.run()).unwrap();
    wal.append(1, &[&[9; 200]]).unwrap();
    assert_eq!(wal.segments().count(), 2);
    let _ = wal.sync().unwrap();
    assert_eq!(bodies(&disk).0.len(), 5);
    assert!(disk.stat(&segment_path(2)).is_ok());
}
