//! Group commit outside a server, the product's own code (`queue/outside.rs`) with its log on the stepping disk:
//! nobody waits for ever, nobody is answered before what he wrote is durable, and a failed sync is told to
//! everybody whose records it was to cover.

use std::path::Path;

use wasmq_core::{Invocation, InvocationId, Timestamp};
use wasmq_wal::disk::{Fault, SimDisk, Survival};

use crate::disk::SteppingDisk;
use crate::journal;
use crate::outside::Outside;
use crate::schedules::{at_random, draw};
use crate::sync::{Arc, let_time_pass, thread};

const DIR: &str = "/data/journal";

fn invocation(n: u128) -> (Invocation, Vec<u8>) {
    let id = InvocationId::new(Timestamp(1), n);
    (Invocation::new(id, "t".parse().unwrap(), Timestamp(1)), b"payload".to_vec())
}

/// Whether an invocation would be found after a power cut now.
fn is_durable(disk: &SimDisk, n: u128) -> bool {
    let after: std::sync::Arc<dyn wasmq_wal::disk::Disk> = std::sync::Arc::new(disk.after_power_cut(Survival::Lost, 0));
    let found = journal::read_all(&after, Path::new(DIR)).unwrap();
    found.entries.contains_key(&invocation(n).0.id)
}

/// Some threads that each write twice, and a process that then lets go.
fn writers(fails: bool) {
    let disk = SimDisk::new();
    let outside = Arc::new(Outside::new(SteppingDisk::view(&disk, u64::MAX), DIR.into()));
    wasmq_wal::disk::Disk::create_dir_all(&disk, Path::new(DIR)).unwrap();
    if fails {
        disk.fail_at(disk.operations() + draw(16), Fault::Io);
    }
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (outside, disk) = (Arc::clone(&outside), disk.clone());
            thread::spawn(move || (0..2).filter(|turn| write(&outside, &disk, thread * 2 + turn)).count())
        })
        .collect();
    let written: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(if fails { written <= 6 } else { written == 6 }, "{written} of 6");
    let let_go = outside.let_go();
    assert!(let_go.is_ok() || fails, "{let_go:?}");
}

/// Whether it was acknowledged, and then it is durable.
fn write(outside: &Outside, disk: &SimDisk, n: u128) -> bool {
    let answer = outside.write(&[invocation(n)]);
    assert!(answer.is_err() || is_durable(disk, n), "acknowledged before it was durable");
    answer.is_ok()
}

pub fn everybody_is_answered_and_not_before_it_is_durable() {
    at_random(300, || {
        let_time_pass(false);
        writers(false);
    });
}

pub fn a_log_whose_time_is_over_is_let_go_between_any_two_steps() {
    at_random(300, || {
        let_time_pass(true);
        writers(false);
    });
}

pub fn a_failed_sync_reaches_everybody_whose_records_it_was_to_cover() {
    at_random(600, || {
        let_time_pass(draw(2) == 0);
        writers(true);
    });
}
