//! A full disk refuses records one by one, keeps what it has, and takes records again when space is freed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{SMALL, bodies, claimed, create, create_with, dir};
use std::path::Path;
use wasmq_wal::disk::{Disk, SimDisk, Survival};
use wasmq_wal::{Options, WalError};

fn used(disk: &SimDisk) -> u64 {
    disk.list(dir()).unwrap().iter().map(|entry| entry.len).sum()
}

#[test]
fn at_every_limit_records_are_refused_whole_and_taken_again_after_space_was_freed() {
    let mut refusals = 0;
    for limit in 0..1500 {
        let disk = SimDisk::new();
        disk.limit_space(Some(limit));
        let mut wal = match create(&disk) {
            Ok(wal) => wal,
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                assert_eq!(disk.list(dir()).unwrap(), [], "something was left at {limit}");
                continue;
            }
        };
        let mut taken = Vec::new();
        for number in 0..30u8 {
            let body = vec![number + 1; 20 + usize::from(number)];
            if number == 25 {
                disk.limit_space(None);
            }
            match wal.append(1, &[&body]) {
                Ok(_) => taken.push(body),
                Err(WalError::NoSpace { .. }) => refusals += 1,
                Err(other) => panic!("limit {limit}: {other}"),
            }
            assert!(number < 25 || taken.last().map(|body| body[0]) == Some(number + 1));
            let _ = wal.sync().unwrap();
        }
        let world = disk.after_power_cut(Survival::Lost, 0);
        let (found, report) = bodies(&world);
        assert_eq!(found, taken, "limit {limit}");
        assert!(report.damaged.is_empty(), "limit {limit}: {report:?}");
    }
    println!("1500 limits tried, {refusals} records refused");
    assert!(refusals > 1000);
}

#[test]
fn a_record_that_fits_is_taken_although_the_zeros_ahead_do_not_fit() {
    let disk = SimDisk::new();
    let options = Options { extend_bytes: 1 << 20, segment_bytes: 1 << 22, ..SMALL };
    disk.limit_space(Some(4096));
    let mut wal = create_with(&disk, options).unwrap();
    wal.append(1, &[&[1; 3000]]).unwrap();
    let refused = wal.append(1, &[&[2; 3000]]).unwrap_err();
    assert!(matches!(refused, WalError::NoSpace { needed_bytes: 3013, .. }), "{refused:?}");
    wal.append(1, &[&[3; 500]]).unwrap();
    let _ = wal.sync().unwrap();
    assert_eq!(bodies(&disk).0, [vec![1; 3000], vec![3; 500]]);
}

#[test]
fn a_full_disk_can_be_read_and_deleted_from() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let at = wal.append(1, &[&[1; 200]]).unwrap();
    wal.append(1, &[&[2; 200]]).unwrap();
    let _ = wal.sync().unwrap();
    disk.limit_space(Some(used(&disk)));
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 0);
    assert_eq!(wal.read(at).unwrap(), [1; 200]);
    assert!(wal.rotate().unwrap_err().is_no_space() || wal.poison().is_none());
    wal.drop_oldest().unwrap();
    wal.append(1, &[&[3; 200]]).unwrap();
    disk.limit_space(Some(0));
    assert!(wal.mark("no room for a line").unwrap_err().is_no_space());
    wal.close().unwrap();
    claimed(&disk).delete().unwrap();
    assert_eq!(disk.list(dir()).unwrap(), []);
}

#[test]
fn reopening_on_a_full_disk_is_refused_and_works_later() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[b"kept"]).unwrap();
    wal.close().unwrap();
    disk.limit_space(Some(used(&disk)));
    assert!(claimed(&disk).reopen(SMALL).unwrap_err().is_no_space());
    assert_eq!(bodies(&disk).0, [b"kept"]);
    disk.limit_space(None);
    let wal = claimed(&disk).reopen(SMALL).unwrap();
    wal.close().unwrap();
    assert_eq!(bodies(&disk).0, [b"kept"]);
}

#[test]
fn a_log_that_meets_a_full_disk_takes_little_ahead_and_leaves_the_rest_to_others() {
    let disk = SimDisk::new();
    let options = Options { extend_bytes: 4 << 20, segment_bytes: 32 << 20, ..SMALL };
    disk.limit_space(Some(1 << 20));
    let mut wal = create_with(&disk, options).unwrap();
    assert!(used(&disk) < 65 << 10, "{} bytes are taken", used(&disk));
    let mut taken = Vec::new();
    while wal.append(1, &[&[7; 10_000]]).is_ok() {
        taken.push(vec![7; 10_000]);
        let _ = wal.sync().unwrap();
        let ahead = used(&disk) - wal.total_bytes();
        assert!(ahead < 129 << 10, "{ahead} bytes ahead");
    }
    assert!(taken.len() > 90, "{} records", taken.len());
    assert_eq!(bodies(&disk.after_power_cut(Survival::Lost, 0)).0, taken);
}

#[test]
fn what_was_reserved_is_there_when_the_disk_is_full() {
    for bytes in [1_u64, 13, 400, 5_000] {
        let disk = SimDisk::new();
        let mut wal = create_with(&disk, Options { segment_bytes: 1 << 20, ..SMALL }).unwrap();
        wal.reserve(bytes + 13 * 10).unwrap();
        assert!(wal.room() >= bytes + 13 * 10);
        disk.limit_space(Some(used(&disk)));
        for part in 1..=10 {
            let body = vec![1; (bytes * part / 10 - bytes * (part - 1) / 10) as usize];
            wal.append(1, &[&body]).unwrap();
        }
        let _ = wal.sync().unwrap();
        let room = wal.room();
        assert!(matches!(wal.reserve(room + 1), Err(WalError::NoSpace { .. })));
        assert_eq!((wal.room(), wal.poison().is_none()), (room, true));
    }
}

#[test]
fn trimming_a_free_log_gives_the_zeros_back_and_keeps_every_record_at_every_power_cut() {
    for cut in 0.. {
        let disk = SimDisk::new();
        let mut wal = create_with(&disk, Options { extend_bytes: 10_000, segment_bytes: 1 << 20, ..SMALL }).unwrap();
        wal.append(1, &[b"kept"]).unwrap();
        let _ = wal.sync().unwrap();
        let end = wal.total_bytes();
        drop(wal);
        disk.cut_power_at(disk.operations() + cut);
        let done = claimed(&disk).trim().is_ok();
        for survival in Survival::ALL {
            let after = disk.after_power_cut(survival, cut);
            let (found, report) = bodies(&after);
            assert_eq!((found, report.damaged.len()), (vec![b"kept".to_vec()], 0), "cut {cut}, {survival:?}");
            claimed(&after).reopen(SMALL).unwrap().close().unwrap();
        }
        if done {
            assert!(cut > 1 && used(&disk.after_power_cut(Survival::Lost, 0)) < end + 100, "{cut}");
            return;
        }
    }
}

#[test]
fn trimming_leaves_a_torn_tail_for_whoever_sets_it_aside() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[b"kept"]).unwrap();
    let _ = wal.sync().unwrap();
    let end = wal.total_bytes();
    drop(wal);
    let path = common::segment_path(1);
    disk.open(&path, wasmq_wal::disk::OpenMode::ReadWrite).unwrap().write_all_at(b"torn", end).unwrap();
    let before = used(&disk);
    claimed(&disk).trim().unwrap();
    assert_eq!(used(&disk), before);
    assert!(bodies(&disk).1.torn.is_some());
}
