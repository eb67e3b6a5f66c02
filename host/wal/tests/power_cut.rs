//! The power is cut at every operation of a workload, and again at every operation of the recovery.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{SMALL, bodies, claimed, create, dir, try_claim};
use std::collections::BTreeSet;
use wasmq_wal::disk::{Disk, SimDisk, Survival};
use wasmq_wal::{DamageReason, Position, ScanReport, Wal, WalError, segment_file_name};

const SEEDS: u64 = 4;

/// What the workload did, as an outside observer knows it.
#[derive(Debug, Default, Clone)]
struct Told {
    appended: BTreeSet<u32>,
    /// Of records that a sync has covered.
    durable: BTreeSet<u32>,
    /// Up to here the log was reported durable.
    synced: Option<Position>,
    /// The workload began to delete the log.
    deleting: bool,
}

/// A body of its own length for each number, so that records lie at all kinds of offsets.
fn body(number: u32) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(4 + (number as usize * 17) % 60, number as u8);
    body
}

fn append(wal: &mut Wal, told: &mut Told, numbers: std::ops::Range<u32>) -> Result<(), WalError> {
    for number in numbers {
        told.appended.insert(number);
        wal.append(1, &[&body(number)])?;
    }
    Ok(())
}

fn sync(wal: &mut Wal, told: &mut Told) -> Result<(), WalError> {
    told.synced = Some(wal.sync()?.into_inner());
    told.durable = told.appended.clone();
    Ok(())
}

/// Copies all records forward, as a compaction would, and drops the oldest segment.
fn compact(wal: &mut Wal, told: &mut Told) -> Result<(), WalError> {
    for number in told.durable.clone() {
        wal.append(1, &[&body(number)])?;
    }
    // No sync here: `drop_oldest` must see to it.
    wal.drop_oldest()
}

fn workload(disk: &SimDisk, told: &mut Told) -> Result<(), WalError> {
    let mut wal = create(disk)?;
    append(&mut wal, told, 0..3)?;
    sync(&mut wal, told)?;
    append(&mut wal, told, 3..5)?;
    wal.flush()?;
    wal.mark("busy")?;
    wal.rotate()?;
    append(&mut wal, told, 5..14)?;
    sync(&mut wal, told)?;
    compact(&mut wal, told)?;
    append(&mut wal, told, 14..16)?;
    wal.close()?;
    let mut wal = claimed(disk).reopen(SMALL)?;
    append(&mut wal, told, 16..19)?;
    sync(&mut wal, told)?;
    append(&mut wal, told, 19..21)?;
    wal.flush()?;
    drop(wal);
    let mut wal = claimed(disk).reopen(SMALL)?;
    compact(&mut wal, told)?;
    append(&mut wal, told, 21..22)?;
    sync(&mut wal, told)?;
    told.deleting = true;
    wal.delete()
}

/// Recovers, appends one acknowledged record, closes.
fn recover(disk: &SimDisk) -> Result<(), WalError> {
    let mut wal = match try_claim(disk)? {
        Some(orphan) => orphan.reopen(SMALL)?,
        None => create(disk)?,
    };
    wal.append(1, &[&body(999)])?;
    let _ = wal.sync()?;
    wal.close()
}

fn numbers(disk: &SimDisk) -> (BTreeSet<u32>, ScanReport) {
    let (bodies, report) = bodies(disk);
    let read = |bytes: Vec<u8>| {
        let number = u32::from_le_bytes(*bytes.first_chunk().unwrap());
        assert_eq!(bytes, body(number));
        number
    };
    (bodies.into_iter().map(read).collect(), report)
}

fn check(disk: &SimDisk, told: &Told, survival: Survival, what: &str) -> BTreeSet<u32> {
    let (found, report) = numbers(disk);
    assert!(found.is_subset(&told.appended), "{what}: found what nobody wrote: {found:?}");
    if !told.deleting {
        assert!(told.durable.is_subset(&found), "{what}: lost: {told:?} {found:?} {report:?}");
    }
    for damage in &report.damaged {
        // A hole among unsynced writes can only be told from damage by the observer.
        assert_eq!(survival, Survival::Reordered, "{what}: {damage}");
        // Headers are durable before any record is written.
        assert_ne!(damage.reason, DamageReason::Header, "{what}: {damage}");
        let name = damage.path.file_name().unwrap().to_string_lossy().into_owned();
        let unsynced = told.synced.is_none_or(|synced| {
            let last = segment_file_name(common::ID, synced.segment);
            name > last || (name == last && damage.offset >= synced.offset)
        });
        assert!(unsynced, "{what}: {damage} before {:?}", told.synced);
    }
    found
}

/// The workload up to a power cut at operation `cut`; `None` when it ended before.
fn cut_at(cut: u64) -> Option<(SimDisk, Told)> {
    let disk = SimDisk::new();
    disk.cut_power_at(cut);
    let mut told = Told::default();
    let result = workload(&disk, &mut told);
    if disk.operations() > cut {
        assert!(result.is_err(), "operation {cut} failed and nobody was told");
        return Some((disk, told));
    }
    result.unwrap();
    None
}

#[test]
fn whatever_was_reported_durable_is_found_after_a_power_cut_at_any_operation() {
    let mut cuts = 0;
    let mut worlds = 0;
    while let Some((disk, told)) = cut_at(cuts) {
        for survival in Survival::ALL {
            for seed in 0..SEEDS {
                let world = disk.after_power_cut(survival, seed);
                let what = format!("cut {cuts} {survival:?} {seed}");
                let found = check(&world, &told, survival, &what);
                let again = check(&world, &told, survival, &what);
                assert_eq!(found, again, "{what}: reading changed something");
                recover_and_check(&world, &told, &found, &what);
                worlds += 1;
            }
        }
        cuts += 1;
    }
    println!("{cuts} cut points tried, {worlds} worlds");
    assert!(cuts > 60, "the workload has only {cuts} operations");
}

fn recover_and_check(world: &SimDisk, told: &Told, found: &BTreeSet<u32>, what: &str) {
    recover(world).unwrap();
    let mut expected = found.clone();
    expected.insert(999);
    // What recovery acknowledged survives the worst policy, and a second recovery changes nothing.
    let later = world.after_power_cut(Survival::Lost, 0);
    assert_eq!(numbers(&later).0, expected, "{what}: recovered");
    let damaged = numbers(&later).1.damaged.len();
    recover(&later).unwrap();
    let (again, report) = numbers(&later);
    assert_eq!(again, expected, "{what}: recovered twice");
    assert_eq!(report.damaged.len(), damaged, "{what}: {told:?}");
    claimed(&later).delete().unwrap();
    assert_eq!(later.list(dir()).unwrap(), [], "{what}");
}

#[test]
fn a_log_that_was_created_is_there_after_a_power_cut_with_its_lock_file() {
    let disk = SimDisk::new();
    let wal = create(&disk).unwrap();
    let world = disk.after_power_cut(Survival::Lost, 0);
    drop(wal);
    assert!(common::content(&world, &common::segment_path(1)).starts_with(b"WASMQWAL"));
    assert_eq!(claimed(&world).lock_text(), "a test\n");
}

#[test]
fn a_power_cut_at_any_operation_of_the_recovery_loses_nothing_either() {
    let mut worlds = 0;
    let mut cut = 0;
    while let Some((disk, told)) = cut_at(cut) {
        for survival in [Survival::Kept, Survival::Torn, Survival::Reordered] {
            let world = disk.after_power_cut(survival, cut);
            let found = check(&world, &told, survival, "first cut");
            worlds += cut_recovery_everywhere(&world, &found, &format!("cut {cut} {survival:?}"));
        }
        cut += 1;
    }
    println!("{worlds} worlds tried, the power cut twice in each");
}

/// Cuts the power at every operation of the recovery of `world`, under every policy.
fn cut_recovery_everywhere(world: &SimDisk, found: &BTreeSet<u32>, what: &str) -> u64 {
    let mut worlds = 0;
    for second in 0.. {
        let recovering = world.after_power_cut(Survival::Kept, 0);
        recovering.cut_power_at(second);
        let result = recover(&recovering);
        for survival in Survival::ALL {
            let later = recovering.after_power_cut(survival, second);
            let (again, _) = numbers(&later);
            let what = format!("{what}, then {second} {survival:?}");
            assert!(found.is_subset(&again), "{what}: {found:?} {again:?}");
            assert!(result.is_err() || again.contains(&999), "{what}");
            recover(&later).unwrap();
            worlds += 1;
        }
        if result.is_ok() {
            break;
        }
    }
    worlds
}
