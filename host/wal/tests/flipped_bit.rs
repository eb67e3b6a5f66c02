//! One flipped bit anywhere is reported with file and offset, and everything else is read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{bodies, content, copy_of, create, put, segment_path};
use wasmq_wal::disk::SimDisk;
use wasmq_wal::{RecordRef, SEGMENT_HEADER_BYTES};

/// Two segments of records; where each record of the first lies.
fn two_segments() -> (SimDisk, Vec<RecordRef>, Vec<Vec<u8>>) {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let written: Vec<Vec<u8>> = (0..9u8).map(|n| vec![n + 1; 10 + usize::from(n)]).collect();
    let refs: Vec<RecordRef> = written.iter().map(|body| wal.append(1, &[body]).unwrap()).collect();
    wal.close().unwrap();
    assert!(refs.iter().any(|at| at.segment == 2));
    (disk, refs, written)
}

fn record_at(refs: &[RecordRef], segment: u32, byte: u64) -> Option<usize> {
    refs.iter().position(|at| at.segment == segment && (at.offset - 13..at.offset + u64::from(at.len)).contains(&byte))
}

#[test]
fn a_flipped_bit_in_a_sealed_segment_costs_at_most_its_own_record() {
    let (disk, refs, written) = two_segments();
    let whole = content(&disk, &segment_path(1));
    for byte in 0..whole.len() {
        for bit in 0..8 {
            let disk = copy_of(&disk);
            let mut bytes = whole.clone();
            bytes[byte] ^= 1 << bit;
            put(&disk, &segment_path(1), &bytes);
            let hit = record_at(&refs, 1, byte as u64);
            let mut expected = written.clone();
            hit.map(|index| expected.remove(index));
            let (found, report) = bodies(&disk);
            assert_eq!(found, expected, "byte {byte} bit {bit}");
            assert_eq!(report.damaged.len(), 1, "byte {byte} bit {bit}: {report:?}");
            assert!(report.torn.is_none());
            let damage = &report.damaged[0];
            assert_eq!(damage.path, segment_path(1));
            let start = hit.map_or(0, |index| refs[index].offset - 13);
            let bytes = hit.map_or(SEGMENT_HEADER_BYTES, |index| refs[index].stored_bytes());
            assert_eq!((damage.offset, damage.bytes), (start, bytes), "byte {byte} bit {bit}");
        }
    }
    println!("{} flipped bits tried", whole.len() * 8);
}

#[test]
fn a_flipped_bit_in_the_last_segment_is_damage_or_a_torn_tail_and_the_rest_is_read() {
    let (disk, refs, written) = two_segments();
    let whole = content(&disk, &segment_path(2));
    for byte in 0..whole.len() {
        let disk = copy_of(&disk);
        let mut bytes = whole.clone();
        bytes[byte] ^= 1 << (byte % 8);
        put(&disk, &segment_path(2), &bytes);
        let hit = record_at(&refs, 2, byte as u64);
        let mut expected = written.clone();
        hit.map(|index| expected.remove(index));
        let (found, report) = bodies(&disk);
        assert_eq!(found, expected, "byte {byte}");
        let is_last = hit == Some(refs.len() - 1);
        assert_eq!(report.torn.is_some(), is_last, "byte {byte}: {report:?}");
        assert_eq!(report.damaged.is_empty(), is_last, "byte {byte}: {report:?}");
    }
}

#[test]
fn a_sealed_segment_cut_at_any_byte_is_reported() {
    let (disk, refs, written) = two_segments();
    let whole = content(&disk, &segment_path(1));
    for cut in 0..whole.len() {
        let disk = copy_of(&disk);
        put(&disk, &segment_path(1), &whole[..cut]);
        let expected: Vec<_> = (refs.iter().zip(&written))
            .filter(|(at, _)| at.segment == 2 || at.end().offset <= cut as u64)
            .map(|(_, body)| body.clone())
            .collect();
        let (found, report) = bodies(&disk);
        assert_eq!(found, expected, "cut at {cut}");
        assert!(!report.damaged.is_empty(), "cut at {cut}");
        let end = report.damaged.last().map(|damage| damage.offset + damage.bytes);
        assert_eq!(end, Some(whole.len() as u64), "cut at {cut}: {report:?}");
    }
}
