//! What was appended is read back: by scan, by reference, after closing, on the simulated and the real disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{ID, SMALL, bodies, claimed, create, dir, read_all};
use std::ops::ControlFlow;
use std::sync::Arc;
use wasmq_wal::disk::{Disk, RealDisk, SimDisk};
use wasmq_wal::{
    Claim, MAX_BODY_BYTES, Options, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, Wal, WalError, claim, list, read, scan,
};

fn body(number: usize) -> Vec<u8> {
    let len = [0, 1, 7, 40, 200, 299, 1000, 13][number % 8];
    (0..len).map(|index| (index * 31 + number) as u8).collect()
}

#[test]
fn records_of_all_sizes_are_read_back_in_order_across_segments() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let mut refs = Vec::new();
    for number in 0..100 {
        let body = body(number);
        let (head, tail) = body.split_at(body.len() / 3);
        refs.push(wal.append(1 + (number % 255) as u8, &[head, &[], tail]).unwrap());
    }
    for (number, &at) in refs.iter().enumerate() {
        assert_eq!(wal.read(at).unwrap(), body(number));
    }
    let _ = wal.sync().unwrap();
    assert!(wal.segments().count() > 20);
    assert_eq!(wal.total_bytes(), wal.segments().map(|segment| segment.bytes).sum::<u64>());
    wal.close().unwrap();

    let expected: Vec<_> = (0..100).map(|n| (1 + (n % 255) as u8, body(n))).collect();
    let (found, report) = read_all(&disk);
    assert_eq!(found, expected);
    assert!(report.damaged.is_empty() && report.torn.is_none(), "{report:?}");
    assert_eq!(report.bytes, refs.iter().map(|at| at.stored_bytes()).sum::<u64>());
    for (number, &at) in refs.iter().enumerate() {
        assert_eq!(read(&disk, dir(), ID, at).unwrap(), body(number));
    }
}

#[test]
fn a_record_longer_than_a_segment_has_a_segment_of_its_own() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[b"before"]).unwrap();
    let large = wal.append(1, &[&[7; 1000]]).unwrap();
    let after = wal.append(1, &[b"after"]).unwrap();
    assert_eq!((large.segment, after.segment), (2, 3));
    assert_eq!(large.offset, SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES);
}

#[test]
fn an_append_is_no_operation_a_flush_one_and_a_sync_one_more() {
    let disk = SimDisk::new();
    let options = Options { extend_bytes: 4096, segment_bytes: 1 << 20, ..SMALL };
    let mut wal = common::create_with(&disk, options).unwrap();
    let start = disk.operations();
    for _ in 0..50 {
        wal.append(1, &[b"a record"]).unwrap();
    }
    assert_eq!(disk.operations(), start);
    wal.flush().unwrap();
    assert_eq!(disk.operations(), start + 1);
    let first = wal.sync().unwrap();
    assert_eq!(disk.operations(), start + 2);
    let second = wal.sync().unwrap();
    assert_eq!(disk.operations(), start + 2);
    assert_eq!(first, second);
}

#[test]
fn a_large_buffer_flushes_itself() {
    let disk = SimDisk::new();
    let options = Options { buffer_bytes: 64, ..SMALL };
    let mut wal = common::create_with(&disk, options).unwrap();
    wal.append(1, &[&[1; 20]]).unwrap();
    assert_eq!(bodies(&disk).0.len(), 0);
    wal.append(1, &[&[2; 20]]).unwrap();
    assert_eq!(bodies(&disk).0.len(), 2);
}

#[test]
fn positions_grow_with_every_append_and_cover_what_was_synced() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let mut last = wal.position();
    for number in 0..40 {
        let at = wal.append(1, &[&body(number)]).unwrap();
        assert!(wal.position() > last);
        last = wal.position();
        assert_eq!(at.end(), last);
        let synced = wal.sync().unwrap();
        assert!(synced.covers(at));
        let later = wal.append(1, &[]).unwrap();
        assert!(!synced.covers(later));
        assert!(synced.vouch(wal.position(), ()).is_none());
    }
}

#[test]
fn what_the_format_forbids_is_refused_and_changes_nothing() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let before = wal.position();
    assert!(matches!(wal.append(0, &[b"x"]), Err(WalError::KindZero)));
    let quarter = vec![0; (MAX_BODY_BYTES / 4) as usize];
    let parts: [&[u8]; 5] = [&quarter, &quarter, &quarter, &quarter, b"x"];
    let refused = wal.append(1, &parts).unwrap_err();
    let expected = u64::from(MAX_BODY_BYTES) + 1;
    assert!(matches!(refused, WalError::TooLarge { found_bytes, .. } if found_bytes == expected));
    assert_eq!(wal.position(), before);
    assert!(wal.poison().is_none());
}

#[test]
fn a_reference_to_nothing_is_an_error_and_not_a_guess() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let at = wal.append(1, &[b"hello"]).unwrap();
    for wrong in [
        wasmq_wal::RecordRef { segment: 9, ..at },
        wasmq_wal::RecordRef { offset: 0, ..at },
        wasmq_wal::RecordRef { offset: u64::MAX, ..at },
        wasmq_wal::RecordRef { len: u32::MAX, ..at },
        wasmq_wal::RecordRef { len: 4, ..at },
    ] {
        let error = wal.read(wrong).unwrap_err();
        assert!(matches!(error, WalError::NoSuchRecord { .. }), "{wrong:?}: {error}");
    }
    let shifted = wasmq_wal::RecordRef { offset: at.offset + 1, ..at };
    assert!(matches!(wal.read(shifted), Err(WalError::Damaged { .. })));
}

#[test]
fn dropping_the_oldest_leaves_the_rest() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let first = wal.append(1, &[&[1; 200]]).unwrap();
    assert!(matches!(wal.drop_oldest(), Err(WalError::NothingSealed)));
    wal.append(1, &[&[2; 200]]).unwrap();
    wal.append(1, &[&[3; 200]]).unwrap();
    assert_eq!(wal.oldest_sealed(), Some(1));
    wal.drop_oldest().unwrap();
    assert_eq!(wal.oldest_sealed(), Some(2));
    assert!(matches!(wal.read(first), Err(WalError::NoSuchRecord { .. })));
    let (found, report) = bodies(&disk);
    assert_eq!(found, [vec![2; 200], vec![3; 200]]);
    assert!(report.damaged.is_empty());
}

#[test]
fn a_visitor_can_stop() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    for number in 0..20 {
        wal.append(1, &[&body(number)]).unwrap();
    }
    wal.flush().unwrap();
    let mut left = 7;
    let report = scan(&disk, dir(), ID, &mut |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let report = report.unwrap();
    assert_eq!((report.records, report.stopped), (7, true));
}

#[test]
fn the_default_sizes_work_on_the_real_disk_and_deletion_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("data/journal");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut wal = Wal::create(disk.clone(), &dir, ID, "pid 1", Options::default()).unwrap();
    let large = vec![9; 5 << 20];
    let mut refs = Vec::new();
    for number in 0..1000 {
        refs.push(wal.append(1, &[&body(number)]).unwrap());
    }
    let at = wal.append(2, &[&large]).unwrap();
    assert!(wal.sync().unwrap().covers(at));
    assert_eq!(wal.read(at).unwrap(), large);
    wal.mark("busy\nwith a line break").unwrap();
    wal.close().unwrap();

    let listing = list(&*disk, &dir).unwrap();
    assert_eq!(listing.wals.len(), 1);
    assert!(listing.wals[0].has_lock_file);
    let expected = SEGMENT_HEADER_BYTES + refs.iter().map(|at| at.stored_bytes()).sum::<u64>();
    assert_eq!(listing.wals[0].bytes, expected + at.stored_bytes());
    let Claim::Claimed(orphan) = claim(disk.clone(), &dir, ID).unwrap() else { panic!("free") };
    assert_eq!(orphan.lock_text(), "pid 1\nbusy with a line break\n");
    let mut records = 0;
    let report = orphan.scan(&mut |_| {
        records += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((records, report.unwrap().records), (1001, 1001));
    orphan.delete().unwrap();
    assert_eq!(disk.list(&dir).unwrap(), []);
}

#[test]
fn a_reopened_log_goes_on_in_a_new_segment_and_can_drop_the_old_ones() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let old = wal.append(1, &[b"old"]).unwrap();
    wal.close().unwrap();
    let mut wal = claimed(&disk).reopen(SMALL).unwrap();
    let new = wal.append(1, &[b"new"]).unwrap();
    assert_eq!((old.segment, new.segment), (1, 2));
    assert_eq!(wal.read(old).unwrap(), b"old");
    assert_eq!(wal.read(new).unwrap(), b"new");
    wal.drop_oldest().unwrap();
    assert_eq!(bodies(&disk).0, [b"new"]);
    wal.delete().unwrap();
    assert_eq!(disk.list(dir()).unwrap(), []);
}
