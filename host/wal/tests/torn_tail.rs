//! A log cut at any byte loses only what lies behind the cut, and nothing that is appended later.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{SMALL, bodies, claimed, content, copy_of, create, put, segment_path};
use wasmq_wal::SEGMENT_HEADER_BYTES;
use wasmq_wal::disk::SimDisk;

#[test]
fn cut_at_every_byte_then_reopened_and_appended_to_nothing_else_is_lost() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let mut ends = vec![SEGMENT_HEADER_BYTES];
    let old: Vec<Vec<u8>> = (0..4u8).map(|n| vec![n + 1; 5 + 11 * usize::from(n)]).collect();
    for body in &old {
        ends.push(wal.append(1, &[body]).unwrap().end().offset);
    }
    wal.close().unwrap();
    let whole = content(&disk, &segment_path(1));
    for cut in 0..=whole.len() {
        // With and without the zeros that the segment had been extended with.
        for zeros in [0, 1, 12, 13, 100] {
            let disk = copy_of(&disk);
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + zeros, 0);
            put(&disk, &segment_path(1), &bytes);
            let left = ends.iter().skip(1).filter(|&&end| end <= cut as u64).count();
            check(&disk, &old[..left], cut, &ends);
        }
    }
    println!("{} cut points tried, 5 lengths of zeros at each", whole.len() + 1);
}

fn check(disk: &SimDisk, left: &[Vec<u8>], cut: usize, ends: &[u64]) {
    let (found, report) = bodies(disk);
    assert_eq!(found, left, "cut at {cut}");
    assert!(report.damaged.is_empty(), "cut at {cut}: {report:?}");
    let last_end = ends[left.len()];
    let clean = cut as u64 <= last_end;
    assert_eq!(report.torn.is_none(), clean, "cut at {cut}: {report:?}");
    if let Some(torn) = report.torn {
        assert_eq!((torn.path, torn.offset), (segment_path(1), last_end));
        assert!(torn.bytes <= cut as u64 - last_end && torn.bytes > 0);
    }

    let mut wal = claimed(disk).reopen(SMALL).unwrap();
    let new = wal.append(1, &[b"acknowledged"]).unwrap();
    assert!(wal.sync().unwrap().covers(new));
    drop(wal);
    let mut expected = left.to_vec();
    expected.push(b"acknowledged".to_vec());
    let (found, report) = bodies(disk);
    assert_eq!(found, expected, "cut at {cut}, reopened");
    assert!(report.damaged.is_empty() && report.torn.is_none(), "cut at {cut}: {report:?}");

    let mut wal = claimed(disk).reopen(SMALL).unwrap();
    wal.append(1, &[b"again"]).unwrap();
    wal.close().unwrap();
    expected.push(b"again".to_vec());
    assert_eq!(bodies(disk).0, expected, "cut at {cut}, reopened twice");
}
