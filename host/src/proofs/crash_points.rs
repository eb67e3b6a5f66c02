//! The power is cut at every operation of the workload, with every fate of what was not synced.
//!
//! After each cut a new owner recovers, and another after it, once with the power cut again on the way.

use super::found::{Found, recover};
use super::told::Told;
use super::workload::{run, went_through};
use super::world::{Acted, Who, World};
use super::{invariants, wished};
use crate::worker::Ending;
use wasmq_wal::disk::{SimDisk, Survival};

/// How many fates of each kind, unless more are wished for.
const SEEDS: u64 = 2;
/// So many bytes from either end of a write, it is torn at every byte; in between at one of `SPARSE`.
const NEAR: usize = 24;
const SPARSE: usize = 32;

/// How many recoveries were made, and how many of them were cut off.
#[derive(Debug, Default)]
struct Count {
    recoveries: u64,
    cut_off: u64,
}

#[test]
fn the_whole_workload_goes_through_and_leaves_what_it_should() {
    let disk = SimDisk::new();
    let mut world = World::new(disk.clone());
    run(&mut world).unwrap_or_else(|(step, trouble)| panic!("{step}: {trouble:?}"));
    for survival in Survival::ALL {
        let found = recover(&disk.after_power_cut(survival, 1)).unwrap();
        invariants::hold(&world.told, &found, "at the end");
    }
    went_through(&recover(&disk.after_power_cut(Survival::Kept, 0)).unwrap());
}

#[test]
fn a_replay_that_is_adopted_before_the_news_of_its_burial_lives_on() {
    let disk = SimDisk::new();
    let mut world = World::new(disk.clone());
    replay_before_the_news(&mut world).unwrap();
    let found = recover(&disk.after_power_cut(Survival::Kept, 0)).unwrap();
    invariants::hold(&world.told, &found, "after the news");
    assert_eq!(found.live.values().map(|copy| copy.replays).collect::<Vec<_>>(), [1]);
}

fn replay_before_the_news(world: &mut World) -> Acted {
    world.make_directories()?;
    world.deploy("resize", 0)?;
    world.turn(Who::First, true)?;
    world.enqueue(Who::First, "resize", 1..=1)?;
    world.turn(Who::First, false)?;
    world.finish_all(Who::First, &Ending::Permanent)?;
    world.turn(Who::First, false)?;
    world.write_dead(Who::First)?;
    world.retry(&[1])?;
    world.send_buried(Who::First)?;
    // The turn looks around, and so adopts, before it takes its messages.
    world.turn(Who::First, true)?;
    world.commit(Who::First)
}

#[test]
fn power_cut_at_every_operation_of_everything_neither_loses_nor_doubles_nor_brings_back_anything() {
    let seeds = wished("WASMQ_CRASH_SEEDS", SEEDS);
    let mut count = Count::default();
    let mut cut = 0;
    while let Some((disk, told)) = cut_at(cut) {
        for survival in Survival::ALL {
            let fates = if matches!(survival, Survival::Torn | Survival::Reordered) { seeds } else { 1 };
            for seed in 0..fates {
                let what = format!("cut {cut}, {survival:?}, seed {seed}");
                let again = (seed == 0).then_some(cut);
                recover_twice(&disk.after_power_cut(survival, seed), &told, again, &what, &mut count);
            }
        }
        cut += 1;
    }
    let Count { recoveries, cut_off } = count;
    println!("{cut} operations, {cut} cut points, {recoveries} recoveries, {cut_off} more were cut off themselves");
    assert!(cut > 500, "the workload has only {cut} operations");
    assert!(recoveries >= 2 * (2 + 2 * seeds) * cut && cut_off > 0, "{count:?}");
}

#[test]
fn a_write_that_was_torn_at_any_byte_neither_loses_nor_doubles_nor_brings_back_anything() {
    let every_byte = wished("WASMQ_CRASH_SEEDS", SEEDS) > SEEDS;
    let (mut cut, mut writes, mut tears) = (0, 0, 0_u64);
    while let Some((disk, told)) = cut_at(cut) {
        let written = disk.last_write().unwrap_or_default();
        for kept in places_to_tear(&written, cut, every_byte) {
            found_in(&disk.after_torn_write(kept), &told, &format!("cut {cut}, {kept} bytes of a write"));
            tears += 1;
        }
        writes += u64::from(!written.is_empty());
        cut += 1;
    }
    println!("{writes} writes were torn, in {tears} places");
    assert!(writes > 200 && tears > 30 * writes, "{writes} writes, {tears} tears");
}

/// Where a write is torn: everywhere, or at every byte near its ends and at some between, which differ
/// from write to write.
fn places_to_tear(written: &[u8], cut: u64, every_byte: bool) -> Vec<usize> {
    let len = written.len();
    // Zeros ahead of records say nothing by how many of them there are.
    if written.iter().all(|byte| *byte == 0) {
        return vec![0, len / 2].into_iter().filter(|kept| *kept < len).collect();
    }
    let is_chosen = |kept: usize| kept < NEAR || len - kept < NEAR || (kept + cut as usize).is_multiple_of(SPARSE);
    (0..len).filter(|kept| every_byte || is_chosen(*kept)).collect()
}

/// The workload up to a power cut; `None` when it ended before.
fn cut_at(cut: u64) -> Option<(SimDisk, Told)> {
    let disk = SimDisk::new();
    let mut world = World::new(disk.clone());
    disk.cut_power_at(cut);
    let result = run(&mut world);
    (disk.operations() > cut).then(|| {
        // Some operations only tidy up and are allowed to fail; the next one finds that the power is off.
        let _ = result;
        (disk, std::mem::take(&mut world.told))
    })
}

/// With `second_cut`, once more with the power cut somewhere on the way.
fn recover_twice(disk: &SimDisk, told: &Told, second_cut: Option<u64>, what: &str, count: &mut Count) {
    let again = disk.after_power_cut(Survival::Kept, 0);
    let first = found_in(disk, told, what);
    let next = found_in(&disk.after_power_cut(Survival::Lost, 0), told, &format!("{what}, recovered before"));
    assert_eq!(first, next, "{what}: the second recovery found something else");
    count.recoveries += 2;
    let Some(seed) = second_cut else { return };
    again.cut_power_at(seed.wrapping_mul(7) % disk.operations());
    count.cut_off += u64::from(recover(&again).is_err());
    let survival = Survival::ALL[(seed % 4) as usize];
    let third = found_in(&again.after_power_cut(survival, seed), told, &format!("{what}, then cut {survival:?}"));
    assert_eq!(first, third, "{what}: a recovery that was cut off changed something");
}

fn found_in(disk: &SimDisk, told: &Told, what: &str) -> Found {
    let found = recover(disk).unwrap_or_else(|trouble| panic!("{what}: {trouble:?}"));
    invariants::hold(told, &found, what);
    found
}
