//! Every operation of the workload fails, in every way, and the workload goes on.
//!
//! A worker whose store fails is gone and another takes its place, as the supervisor sees to; an operator
//! is told and goes on with the next thing.

use std::error::Error;
use std::io;
use std::sync::Arc;

use super::found::recover;
use super::invariants;
use super::workload::{STEPS, run};
use super::world::{Trouble, World};
use crate::queue::QueueError;
use wasmq_wal::WalError;
use wasmq_wal::disk::{Fault, SimDisk, Survival};

/// What came of the failures of one kind.
#[derive(Debug, Default)]
struct Seen {
    /// How many operations failed.
    tried: u64,
    /// How often a step was told of it.
    told: u64,
}

#[test]
fn whichever_operation_fails_nothing_acknowledged_is_lost() {
    let seen = fail_each(Fault::Io, 0..all());
    println!("EIO: {seen:?}");
    assert!(seen.tried > 500 && seen.told > 300, "{seen:?}");
}

#[test]
fn whichever_operation_finds_no_space_nothing_acknowledged_is_lost() {
    let seen = fail_each(Fault::NoSpace, 0..all());
    println!("ENOSPC: {seen:?}");
    assert!(seen.tried > 500 && seen.told > 100, "{seen:?}");
}

#[test]
fn whichever_write_is_short_nothing_acknowledged_is_lost() {
    let seen = fail_each(Fault::Short(11), whole().writes());
    println!("short writes: {seen:?}");
    assert!(seen.tried > 200 && seen.told > 50, "{seen:?}");
}

/// The disk of a workload in which nothing failed.
fn whole() -> SimDisk {
    let disk = SimDisk::new();
    run(&mut World::new(disk.clone())).unwrap();
    disk
}

fn all() -> u64 {
    whole().operations()
}

fn fail_each(fault: Fault, numbers: impl IntoIterator<Item = u64>) -> Seen {
    let mut seen = Seen::default();
    for number in numbers {
        let what = format!("{fault:?} at {number}");
        let disk = SimDisk::new();
        disk.fail_at(number, fault);
        let mut world = World::new(disk.clone());
        for (step, act) in STEPS {
            if let Err(trouble) = act(&mut world) {
                assert!(names_its_cause(&trouble), "{what}, {step}: {trouble:?}");
                seen.told += 1;
                // The power fails right after.
                nothing_is_lost(&disk, &world, Survival::Lost, &format!("{what}, then the power"));
            }
        }
        nothing_is_lost(&disk, &world, Survival::Kept, &what);
        nothing_is_lost(&disk, &world, Survival::Lost, &what);
        seen.tried += 1;
    }
    seen
}

/// A new owner recovers all that was acknowledged.
fn nothing_is_lost(disk: &SimDisk, world: &World, survival: Survival, what: &str) {
    let what = format!("{what}, {survival:?}");
    let found = recover(&disk.after_power_cut(survival, 0)).unwrap_or_else(|trouble| panic!("{what}: {trouble:?}"));
    invariants::hold(&world.told, &found, &what);
}

/// Whether an error says what the disk said, or that the log is poisoned.
fn names_its_cause(trouble: &Trouble) -> bool {
    let mut error: Option<&(dyn Error + 'static)> = Some(trouble.0.as_ref());
    while let Some(one) = error {
        let plain = one.downcast_ref::<io::Error>();
        let told = plain.or_else(|| one.downcast_ref::<Arc<io::Error>>().map(AsRef::as_ref));
        if told.is_some_and(|told| matches!(told.raw_os_error(), Some(5 | 28)))
            || matches!(one.downcast_ref(), Some(WalError::Poisoned { .. }))
            || matches!(one.downcast_ref(), Some(QueueError::NoSpace(_)))
        {
            return true;
        }
        error = one.source();
    }
    false
}
