//! The n-th operation fails: the log says so, is poisoned or unharmed, and never lies.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{SMALL, bodies, claimed, create, try_claim};
use wasmq_wal::WalError;
use wasmq_wal::disk::{Disk, Fault, SimDisk, Survival};
use wasmq_wal::{Durable, Position, RecordRef, Wal};

const FAULTS: [Fault; 4] = [Fault::Io, Fault::NoSpace, Fault::Short(0), Fault::Short(9)];

#[derive(Default)]
struct Seen {
    appended: Vec<(RecordRef, Vec<u8>)>,
    synced: Option<Durable<Position>>,
    first_error: Option<WalError>,
    refused: u32,
}

/// Appends and syncs on, whatever happens; checks that errors follow the rules.
fn work(wal: &mut Wal, seen: &mut Seen) {
    for number in 0..24u8 {
        let body = vec![number + 1; 30 + usize::from(number)];
        match wal.append(1, &[&body]) {
            Ok(at) => seen.appended.push((at, body)),
            Err(error) => note(wal, seen, error),
        }
        if number % 3 == 2 {
            match wal.sync() {
                Ok(synced) => seen.synced = Some(synced),
                Err(error) => note(wal, seen, error),
            }
        }
        if number == 16
            && let Err(error) = wal.rotate()
        {
            note(wal, seen, error);
        }
    }
}

fn note(wal: &Wal, seen: &mut Seen, error: WalError) {
    match (&error, wal.poison()) {
        (WalError::NoSpace { .. }, None) => seen.refused += 1,
        (WalError::Io(failure), Some(first)) => {
            assert!(seen.first_error.is_none(), "a poisoned log did something: {failure}");
            assert_eq!(failure.to_string(), first.to_string());
            seen.first_error = Some(error);
        }
        (WalError::Poisoned { first }, Some(_)) => {
            let expected = seen.first_error.as_ref().expect("poisoned without a cause");
            assert_eq!(first.to_string(), expected.to_string());
        }
        other => panic!("unexpected: {other:?}"),
    }
}

fn durable_bodies(seen: &Seen) -> Vec<&Vec<u8>> {
    let covered = |at: &RecordRef| seen.synced.is_some_and(|synced| synced.covers(*at));
    seen.appended.iter().filter(|(at, _)| covered(at)).map(|(_, body)| body).collect()
}

#[test]
fn whichever_operation_fails_the_log_is_poisoned_or_unharmed_and_nothing_durable_is_lost() {
    let mut tried = 0;
    let (mut poisoned, mut refused) = (0, 0);
    for fault in FAULTS {
        for number in 0.. {
            let disk = SimDisk::new();
            disk.fail_at(number, fault);
            let mut seen = Seen::default();
            match create(&disk) {
                Ok(mut wal) => work(&mut wal, &mut seen),
                Err(error) => assert!(matches!(error, WalError::Io(_) | WalError::NoSpace { .. })),
            }
            check(&disk, &seen, &format!("{fault:?} at {number}"));
            poisoned += u32::from(seen.first_error.is_some());
            refused += seen.refused;
            tried += 1;
            if disk.operations() <= number {
                assert!(seen.first_error.is_none() && seen.refused == 0);
                assert_eq!(seen.appended.len(), 24);
                break;
            }
        }
    }
    println!("{tried} failures tried: {poisoned} poisoned the log, {refused} refused a record");
    assert!(poisoned > 50 && refused > 10);
}

fn check(disk: &SimDisk, seen: &Seen, what: &str) {
    for survival in Survival::ALL {
        let world = disk.after_power_cut(survival, 1);
        let Some(orphan) = try_claim(&world).unwrap() else {
            assert!(seen.appended.is_empty(), "{what}");
            continue;
        };
        let (found, _) = bodies(&world);
        for body in durable_bodies(seen) {
            assert!(found.contains(body), "{what} {survival:?}: lost {}", body[0]);
        }
        for body in &found {
            assert!(seen.appended.iter().any(|(_, b)| b == body) || seen.first_error.is_some());
        }
        let mut wal = orphan.reopen(SMALL).unwrap();
        wal.append(1, &[b"after"]).unwrap();
        wal.close().unwrap();
        assert!(bodies(&world).0.contains(&b"after".to_vec()), "{what} {survival:?}");
    }
}

#[test]
fn a_failed_sync_is_never_tried_again_and_believed() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    let kept = wal.append(1, &[b"kept"]).unwrap();
    assert!(wal.sync().unwrap().covers(kept));
    wal.append(1, &[b"in doubt"]).unwrap();
    wal.flush().unwrap();
    disk.fail_at(disk.operations(), Fault::Io);
    assert!(matches!(wal.sync(), Err(WalError::Io(_))));
    let operations = disk.operations();
    assert!(matches!(wal.sync(), Err(WalError::Poisoned { .. })));
    assert!(matches!(wal.append(1, &[b"more"]), Err(WalError::Poisoned { .. })));
    assert!(matches!(wal.rotate(), Err(WalError::Poisoned { .. })));
    assert!(matches!(wal.drop_oldest(), Err(WalError::Poisoned { .. })));
    assert_eq!(disk.operations(), operations, "a poisoned log touched the disk");
    assert_eq!(wal.read(kept).unwrap(), b"kept");
    assert!(matches!(wal.close(), Err(WalError::Poisoned { .. })));
    assert_eq!(claimed(&disk).lock_text(), "a test\n");
}

#[test]
fn a_failed_unlink_or_mark_does_not_poison() {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[&[1; 200]]).unwrap();
    wal.append(1, &[&[2; 200]]).unwrap();
    let _ = wal.sync().unwrap();
    disk.fail_at(disk.operations(), Fault::Io);
    assert!(wal.drop_oldest().is_err());
    disk.fail_at(disk.operations(), Fault::NoSpace);
    assert!(wal.mark("x").unwrap_err().is_no_space());
    assert!(wal.poison().is_none());
    wal.drop_oldest().unwrap();
    wal.mark("y").unwrap();
}

#[test]
fn a_segment_does_not_come_back_because_the_sync_of_its_unlink_failed() {
    let whole = delete_with_a_failing_operation(None);
    for number in 0..whole {
        delete_with_a_failing_operation(Some(number));
    }
    assert!(whole >= 5, "two segments, a sync after each, the lock file");
}

/// Deletes a log of two segments, once more if that fails. Returns how many operations that took.
fn delete_with_a_failing_operation(number: Option<u64>) -> u64 {
    let disk = SimDisk::new();
    let mut wal = create(&disk).unwrap();
    wal.append(1, &[&[1; 200]]).unwrap();
    wal.append(1, &[&[2; 200]]).unwrap();
    wal.close().unwrap();
    let orphan = claimed(&disk);
    let before = disk.operations();
    number.into_iter().for_each(|number| disk.fail_at(before + number, Fault::Io));
    let deleted = orphan.delete();
    let operations = disk.operations() - before;
    if deleted.is_err() {
        claimed(&disk).delete().unwrap();
    }
    // Somebody makes the directory durable, as every new segment does.
    disk.sync_dir(common::dir()).unwrap();
    let left = disk.after_power_cut(Survival::Lost, 0).list(common::dir()).unwrap();
    assert!(left.is_empty(), "operation {number:?}: {left:?}");
    operations
}
