//! The format to the byte. The expected bytes were computed from `FORMAT.md` by another program, not by this crate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{content, create, put, read_all, segment_path};
use wasmq_wal::disk::{Disk, SimDisk};

/// Segment 2 of the log `a7a7…`, after a segment of 285 bytes: kind 1 with `hello`, kind 255 without a body.
const SEGMENT: &[&str] = &[
    "5741534d5157414c01000000a7a7a7a7",
    "a7a7a7a7a7a7a7a7a7a7a7a702000000",
    "1d010000000000000000000000000000",
    "0000000000000000000000008c1cb270",
    "0500000001c67ec721cb71cde968656c",
    "6c6f00000000ffe62754095784ebaf",
];

fn golden() -> Vec<u8> {
    let hex = SEGMENT.concat();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn version_1_is_written_as_documented() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[&[0; 208]]).unwrap();
    wal.rotate().unwrap();
    wal.append(1, &[b"hel", b"lo"]).unwrap();
    wal.append(255, &[]).unwrap();
    wal.close().unwrap();
    assert_eq!(content(&disk, &segment_path(1)).len(), 285);
    assert_eq!(content(&disk, &segment_path(2)), golden());
}

#[test]
fn version_1_is_read_as_documented() {
    let disk = SimDisk::new();
    disk.create_dir_all(common::dir()).unwrap();
    put(&disk, &segment_path(2), &golden());
    let (found, report) = read_all(&disk);
    assert_eq!(found, [(1, b"hello".to_vec()), (255, Vec::new())]);
    assert!(report.damaged.is_empty() && report.torn.is_none());
}
