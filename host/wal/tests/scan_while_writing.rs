//! A log is read by others while its owner appends, rotates and drops: nothing flushed is missed, nothing is called damaged.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::ID;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use wasmq_wal::disk::{Disk, RealDisk};
use wasmq_wal::{Options, ScanReport, Wal, WalError, list, scan};

const OPTIONS: Options = Options { segment_bytes: 64 << 10, extend_bytes: 16 << 10, buffer_bytes: 8 << 10 };
const KEPT: u32 = 50;
const RECORDS: u32 = 60_000;

fn body(number: u32) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(4 + (number as usize * 37) % 300, number as u8);
    body
}

/// Writes records of which the first `KEPT` live for ever: they are copied forward before a drop.
fn write(mut wal: Wal, flushed: &AtomicU32) {
    for number in 0..RECORDS {
        wal.append(1, &[&body(number)]).unwrap();
        if number % 7 == 0 {
            wal.flush().unwrap();
            flushed.store(number + 1, Ordering::SeqCst);
        }
        if wal.segments().count() > 4 {
            for kept in 0..KEPT {
                wal.append(1, &[&body(kept)]).unwrap();
            }
            wal.drop_oldest().unwrap();
        }
    }
    wal.close().unwrap();
}

fn read(dir: &Path) -> Result<(BTreeSet<u32>, ScanReport), WalError> {
    let mut seen = BTreeSet::new();
    let report = scan(&RealDisk, dir, ID, &mut |record| {
        let number = u32::from_le_bytes(*record.body.first_chunk().unwrap());
        assert_eq!(record.body, body(number));
        seen.insert(number);
        ControlFlow::Continue(())
    })?;
    Ok((seen, report))
}

#[test]
fn readers_see_everything_that_was_flushed_and_lives_and_no_damage() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let wal = Wal::create(disk, dir, ID, "writer", OPTIONS).unwrap();
    let flushed = AtomicU32::new(0);
    let done = AtomicBool::new(false);
    let scans = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            write(wal, &flushed);
            done.store(true, Ordering::SeqCst);
        });
        let reader = scope.spawn(|| {
            let mut scans = 0;
            while !done.load(Ordering::SeqCst) {
                let before = flushed.load(Ordering::SeqCst);
                let (seen, report) = read(dir).unwrap();
                assert!(report.damaged.is_empty(), "{report:?}");
                for kept in 0..KEPT.min(before) {
                    assert!(seen.contains(&kept), "{kept} of {before} missing: {report:?}");
                }
                let newest = before.checked_sub(1);
                assert!(newest.is_none_or(|newest| seen.iter().any(|&n| n >= newest)));
                scans += 1;
            }
            scans
        });
        writer.join().unwrap();
        reader.join().unwrap()
    });
    assert!(scans > 3, "only {scans} scans");
    println!("{scans} scans while {RECORDS} records were written");
    let (seen, report) = read(dir).unwrap();
    assert!(seen.contains(&(RECORDS - 1)) && report.torn.is_none());
    assert!(list(&RealDisk, dir).unwrap().wals[0].segments[0].sequence > 10);
}
