//! What is no log of this version is named, left alone, and does not keep the others from being served.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{ID, SMALL, bodies, claimed, content, create, dir, put, segment_path};
use std::sync::Arc;
use wasmq_wal::disk::{Disk, SimDisk};
use wasmq_wal::{DamageReason, Wal, WalError, WalId, list, segment_file_name};
use wasmq_wal::{Options, StrangerKind};

fn log_with(disk: &SimDisk, bodies: &[&[u8]]) {
    let mut wal = create(disk).unwrap();
    for body in bodies {
        wal.append(1, &[body]).unwrap();
    }
    wal.close().unwrap();
}

/// Changes bytes of a segment header and corrects its CRC.
fn forge_header(disk: &SimDisk, sequence: u32, change: impl Fn(&mut [u8])) {
    let mut bytes = content(disk, &segment_path(sequence));
    change(&mut bytes);
    let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&crc);
    put(disk, &segment_path(sequence), &bytes);
}

#[test]
fn a_directory_without_logs_or_no_directory_has_none() {
    let disk = SimDisk::new();
    assert_eq!(list(&disk, dir()).unwrap(), Default::default());
    disk.create_dir_all(dir()).unwrap();
    put(&disk, &dir().join("README"), b"hello");
    assert_eq!(list(&disk, dir()).unwrap(), Default::default());
}

#[test]
fn strangers_are_listed_with_what_they_are() {
    let disk = SimDisk::new();
    log_with(&disk, &[b"x"]);
    put(&disk, &dir().join("wal-v2-future"), b"?");
    put(&disk, &dir().join("wal-v1-nonsense.log"), b"?");
    disk.create_dir_all(&segment_path(7)).unwrap();
    let listing = list(&disk, dir()).unwrap();
    let kinds: Vec<_> = listing.strangers.iter().map(|stranger| stranger.kind).collect();
    let bad = StrangerKind::BadName;
    assert_eq!(kinds, [StrangerKind::NotAFile, bad, StrangerKind::OtherVersion(2)]);
    assert_eq!(listing.wals.len(), 1);
    assert_eq!(listing.wals[0].segments.len(), 1);
}

#[test]
fn a_segment_of_a_newer_version_is_refused_untouched() {
    let disk = SimDisk::new();
    log_with(&disk, &[&[1; 200], &[2; 200], &[3; 200]]);
    for sequence in 1..=3 {
        let disk = common::copy_of(&disk);
        forge_header(&disk, sequence, |header| header[8] = 2);
        let before: Vec<_> = (1..=3).map(|n| content(&disk, &segment_path(n))).collect();
        let is_newer = |error: &WalError| {
            matches!(error, WalError::NewerFormat { path, found: 2, supported: 1 }
                if *path == segment_path(sequence))
        };
        let orphan = claimed(&disk);
        let scanned = orphan.scan(&mut |_| std::ops::ControlFlow::Continue(()));
        assert!(is_newer(&scanned.unwrap_err()));
        assert!(is_newer(&orphan.reopen(SMALL).unwrap_err()));
        let after: Vec<_> = (1..=3).map(|n| content(&disk, &segment_path(n))).collect();
        assert_eq!(before, after);
    }
}

#[test]
fn a_segment_under_a_wrong_name_is_damage_and_none_of_its_records_pass() {
    let disk = SimDisk::new();
    log_with(&disk, &[&[1; 200], &[2; 200], &[3; 200]]);
    let copied = content(&disk, &segment_path(1));
    put(&disk, &segment_path(2), &copied);
    let (found, report) = bodies(&disk);
    assert_eq!(found, [vec![1; 200], vec![3; 200]]);
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.damaged[0].reason, DamageReason::Misplaced);
    assert_eq!(report.damaged[0].bytes, copied.len() as u64);
}

#[test]
fn a_missing_segment_is_reported_and_the_others_are_read() {
    let disk = SimDisk::new();
    log_with(&disk, &[&[1; 200], &[2; 200], &[3; 200]]);
    disk.remove(&segment_path(2)).unwrap();
    let (found, report) = bodies(&disk);
    assert_eq!(found, [vec![1; 200], vec![3; 200]]);
    assert_eq!(report.damaged.len(), 1);
    assert_eq!(report.damaged[0].path, segment_path(2));
    assert_eq!(report.damaged[0].reason, DamageReason::Missing);
}

#[test]
fn a_directory_in_place_of_a_segment_is_reported_and_the_others_are_served() {
    let disk = SimDisk::new();
    log_with(&disk, &[&[1; 200], &[2; 200], &[3; 200]]);
    for sequence in 1..=4 {
        let disk = common::copy_of(&disk);
        if sequence < 4 {
            disk.remove(&segment_path(sequence)).unwrap();
        }
        disk.create_dir_all(&segment_path(sequence)).unwrap();
        let (found, report) = bodies(&disk);
        assert_eq!(found.len(), if sequence < 4 { 2 } else { 3 });
        assert_eq!(report.damaged.len(), 1, "{report:?}");
        assert_eq!(report.damaged[0].reason, DamageReason::NotAFile);
        let mut wal = claimed(&disk).reopen(SMALL).unwrap();
        wal.append(1, &[b"goes on"]).unwrap();
        wal.close().unwrap();
        assert_eq!(bodies(&disk).0.last().unwrap(), b"goes on");
        claimed(&disk).delete().unwrap();
        let left = disk.list(dir()).unwrap();
        assert_eq!(left.len(), 1, "only the directory is left: {left:?}");
    }
}

#[test]
fn a_random_file_as_the_last_segment_is_reported_and_left_alone() {
    let disk = SimDisk::new();
    log_with(&disk, &[b"kept"]);
    for junk in [&b"hello"[..], &[0xFF; 64], &[0x55; 1000]] {
        let disk = common::copy_of(&disk);
        put(&disk, &segment_path(2), junk);
        let (found, report) = bodies(&disk);
        assert_eq!(found, [b"kept"]);
        assert_eq!(report.damaged.len(), 1, "{report:?}");
        assert_eq!(report.damaged[0].reason, DamageReason::Header);
        let mut wal = claimed(&disk).reopen(SMALL).unwrap();
        assert_eq!(wal.append(1, &[b"new"]).unwrap().segment, 3);
        wal.close().unwrap();
        assert_eq!(content(&disk, &segment_path(2)), junk);
        assert_eq!(bodies(&disk).0, [&b"kept"[..], b"new"]);
    }
}

#[test]
fn an_empty_or_zero_file_as_the_last_segment_is_an_unfinished_one() {
    let disk = SimDisk::new();
    log_with(&disk, &[b"kept"]);
    for len in [0, 1, 63, 64, 65, 5000] {
        let disk = common::copy_of(&disk);
        put(&disk, &segment_path(2), &vec![0; len]);
        let (found, report) = bodies(&disk);
        assert_eq!(found, [b"kept"]);
        assert!(report.damaged.is_empty() && report.torn.is_none(), "{report:?}");
        let mut wal = claimed(&disk).reopen(SMALL).unwrap();
        assert_eq!(wal.append(1, &[b"new"]).unwrap().segment, 2);
        wal.close().unwrap();
        let (found, report) = bodies(&disk);
        assert_eq!(found, [&b"kept"[..], b"new"]);
        assert!(report.damaged.is_empty(), "{report:?}");
    }
}

#[test]
fn one_broken_log_does_not_hide_another() {
    let disk = SimDisk::new();
    log_with(&disk, &[b"x"]);
    put(&disk, &segment_path(1), &[0xEE; 500]);
    let other = WalId::from_bytes([1; 16]);
    let shared = Arc::new(disk.clone());
    let mut wal = Wal::create(shared, dir(), other, "", Options::short_lived()).unwrap();
    let at = wal.append(1, &[b"fine"]).unwrap();
    wal.flush().unwrap();
    assert_eq!(list(&disk, dir()).unwrap().wals.len(), 2);
    assert_eq!(wasmq_wal::read(&disk, dir(), other, at).unwrap(), b"fine");
    let (found, report) = bodies(&disk);
    assert_eq!((found.len(), report.damaged.len()), (0, 1));
    let name = segment_file_name(ID, 1);
    assert!(report.damaged[0].to_string().contains(&name), "{}", report.damaged[0]);
}
