//! Damage costs what it covers: reading goes on behind it, stays linear, and believes nothing that lies inside a body.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{ID, bodies, claimed, content, copy_of, create, create_with, dir, put, segment_path};
use wasmq_wal::disk::{Disk, Fault, RealDisk, SimDisk};
use wasmq_wal::{DamageReason, Options, RECORD_HEADER_BYTES, list, quarantine, quarantine_path};

const LARGE: Options = Options { segment_bytes: 1 << 30, extend_bytes: 64, buffer_bytes: 1 << 20 };

#[test]
fn zeros_in_the_middle_are_reported_and_the_rest_is_read() {
    let disk = SimDisk::new();
    let mut wal = create_with(&disk, LARGE).unwrap();
    let refs: Vec<_> = (1..=9u8).map(|n| wal.append(1, &[&[n; 50]]).unwrap()).collect();
    wal.close().unwrap();
    for (from, to) in [(0, 0), (0, 3), (4, 4), (2, 7)] {
        let disk = copy_of(&disk);
        let mut bytes = content(&disk, &segment_path(1));
        let start = refs[from].offset - RECORD_HEADER_BYTES;
        let end = refs[to].end().offset;
        bytes[start as usize..end as usize].fill(0);
        put(&disk, &segment_path(1), &bytes);
        let (found, report) = bodies(&disk);
        assert_eq!(found.len(), 9 - (to - from + 1));
        assert_eq!(report.damaged.len(), 1);
        let damage = &report.damaged[0];
        assert_eq!((damage.offset, damage.bytes), (start, end - start));
        assert_eq!(damage.reason, DamageReason::Zeros);
    }
}

#[test]
fn a_body_that_contains_a_copy_of_the_log_is_never_taken_for_records() {
    let disk = SimDisk::new();
    let mut wal = create_with(&disk, LARGE).unwrap();
    wal.append(1, &[b"first"]).unwrap();
    wal.append(1, &[b"second"]).unwrap();
    wal.flush().unwrap();
    let stolen = content(&disk, &segment_path(1));
    let outer = wal.append(1, &[&stolen]).unwrap();
    wal.append(1, &[b"last"]).unwrap();
    wal.close().unwrap();
    // Destroy the header of the record around the copy: the search goes through the copy.
    let mut bytes = content(&disk, &segment_path(1));
    bytes[(outer.offset - RECORD_HEADER_BYTES) as usize] ^= 0xFF;
    put(&disk, &segment_path(1), &bytes);
    let (found, report) = bodies(&disk);
    assert_eq!(found, [&b"first"[..], b"second", b"last"]);
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.damaged[0].bytes, outer.stored_bytes());
}

/// A disk in memory would be slow in debug builds, so this one is real.
#[test]
fn megabytes_of_garbage_are_searched_in_linear_time() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let disk = std::sync::Arc::new(RealDisk);
    let mut wal = wasmq_wal::Wal::create(disk, dir, ID, "", LARGE).unwrap();
    wal.append(1, &[b"before"]).unwrap();
    let garbage = wal.append(1, &[&vec![1; 8 << 20]]).unwrap();
    wal.append(1, &[b"after"]).unwrap();
    wal.close().unwrap();
    // Small plausible lengths at every offset are what would make a naive search quadratic.
    let path = dir.join(wasmq_wal::segment_file_name(ID, 1));
    let mut bytes = RealDisk.open(&path, wasmq_wal::disk::OpenMode::Read).unwrap().read_all().unwrap();
    let start = (garbage.offset - RECORD_HEADER_BYTES) as usize;
    let end = garbage.end().offset as usize;
    for (index, byte) in bytes[start..end].iter_mut().enumerate() {
        *byte = [0, 0, 0x40, 0, 1][index % 5];
    }
    put(&RealDisk, &path, &bytes);
    let mut seen = Vec::new();
    let report = wasmq_wal::scan(&RealDisk, dir, ID, &mut |record| {
        seen.push(record.body.to_vec());
        std::ops::ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert_eq!(seen, [&b"before"[..], b"after"]);
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.damaged[0].bytes, (end - start) as u64);
}

#[test]
fn quarantined_bytes_are_the_damaged_ones_and_doing_it_twice_changes_nothing() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    (1..=9u8).for_each(|n| _ = wal.append(1, &[&[n; 50]]).unwrap());
    wal.close().unwrap();
    let mut bytes = content(&disk, &segment_path(1));
    bytes[80..150].fill(0xAB);
    put(&disk, &segment_path(1), &bytes);
    let (_, report) = bodies(&disk);
    let damage = &report.damaged[0];
    let once = quarantine(&disk, &damage.path, damage.offset, damage.bytes).unwrap();
    let operations = disk.operations();
    let twice = quarantine(&disk, &damage.path, damage.offset, damage.bytes).unwrap();
    assert_eq!(disk.operations(), operations);
    assert_eq!((&once, &once), (&twice, &quarantine_path(&segment_path(1), damage.offset)));
    let (from, to) = (damage.offset as usize, (damage.offset + damage.bytes) as usize);
    assert_eq!(content(&disk, &once), bytes[from..to]);
    claimed(&disk).delete().unwrap();
    let listing = list(&disk, dir()).unwrap();
    assert_eq!((listing.wals.len(), listing.quarantined), (0, vec![once]));
}

#[test]
fn a_quarantine_that_fails_at_any_operation_is_complete_or_absent() {
    for operation in 0.. {
        let disk = SimDisk::new();
        let mut wal = create(&disk).unwrap();
        wal.append(1, &[&[7; 50]]).unwrap();
        wal.close().unwrap();
        let before = disk.operations();
        disk.fail_at(before + operation, Fault::Short(3));
        let failed = quarantine(&disk, &segment_path(1), 64, 63).is_err();
        let target = quarantine_path(&segment_path(1), 64);
        if let Some(found) = disk.stat(&target).unwrap() {
            assert_eq!(found.len, 63);
        }
        assert!(list(&disk, dir()).unwrap().strangers.is_empty());
        quarantine(&disk, &segment_path(1), 64, 63).unwrap();
        assert_eq!(content(&disk, &target).len(), 63);
        if !failed {
            assert!(operation >= 5);
            break;
        }
    }
}

#[test]
fn zeros_at_the_end_are_damage_in_a_sealed_segment_and_a_clean_end_in_the_last() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[&[1; 50]]).unwrap();
    let lost = wal.append(1, &[&[2; 50]]).unwrap();
    wal.rotate().unwrap();
    let last = wal.append(1, &[&[3; 50]]).unwrap();
    wal.close().unwrap();
    for (at, damaged) in [(lost, true), (last, false)] {
        let disk = copy_of(&disk);
        let start = at.offset - RECORD_HEADER_BYTES;
        let mut bytes = content(&disk, &segment_path(at.segment));
        bytes[start as usize..].fill(0);
        put(&disk, &segment_path(at.segment), &bytes);
        let (found, report) = bodies(&disk);
        assert_eq!(found.len(), 2);
        assert!(report.torn.is_none());
        let holes: Vec<_> = report.damaged.iter().map(|it| (it.offset, it.bytes, &it.reason)).collect();
        let expected = [(start, at.stored_bytes(), &DamageReason::Zeros)];
        assert_eq!(holes, expected[..usize::from(damaged)]);
    }
}
