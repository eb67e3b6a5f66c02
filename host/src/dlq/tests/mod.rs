//! The behaviour of the dead letter queue, on the simulated disk and on a real one.
//!
//! Here are the helpers; each file beside has the facts about one thing.

mod adding;
mod compacting;
mod crashes;
mod failures;
mod hostile;
mod iterating;
mod querying;
mod retrying;
mod sharing;

mod tails;

use std::path::Path;
use std::sync::Arc;

use wasmq_core::dead_task::DeadLimits;
use wasmq_core::fingerprint::fingerprint;
use wasmq_core::report::FailureReport;
use wasmq_core::{
    Attempt, Bytes, DeadTask, Digest, InvocationId, Problem, Settings, Timestamp, Usage, Verdict, VersionNumber,
};
use wasmq_wal::disk::{Disk, OpenMode, SimDisk};

use super::{DeadTaskStore, DiskDlq, Filter};

const DATA: &str = "/data";
const FILE: &str = "/data/dlq/dead-tasks-v1.jsonl";
const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn id(number: u64) -> InvocationId {
    InvocationId::new(Timestamp(1_700_000_000_000 + number), u128::from(number) * 0x9e37_79b9_7f4a_7c15)
}

/// A dead task of the task `resize` with an error message and a payload.
fn dead(number: u64, replays: u32) -> DeadTask {
    dead_of("resize", Verdict::ErrorPermanent, number, replays)
}

fn dead_of(task: &str, verdict: Verdict, number: u64, replays: u32) -> DeadTask {
    let task = task.parse().unwrap();
    let digest = Digest::new([7; 32]);
    let failure = FailureReport { problem: Problem::new("bad", "row 17 is short", None), ..FailureReport::default() };
    let attempt = Attempt {
        number: 1,
        version: VersionNumber::FIRST,
        digest,
        started_at: Timestamp(number),
        ended_at: Timestamp(number + 1),
        verdict: verdict.clone(),
        deterministic: false,
        summary: "row 17 is short".to_owned(),
    };
    DeadTask {
        id: id(number),
        fingerprint: fingerprint(&task, &verdict, &failure),
        task,
        version: VersionNumber::FIRST,
        component: digest,
        wit: "0.1.0".to_owned(),
        verdict,
        enqueued_at: Timestamp(number),
        dead_at: Timestamp(1_700_000_100_000 + number),
        attempts: 1,
        max_attempts: 3,
        replays,
        priority: 0,
        own_max_attempts: None,
        metadata: vec![("origin".to_owned(), "test".to_owned())],
        failure,
        history: vec![attempt],
        deaths: Vec::new(),
        usage: Usage::default(),
        limits: DeadLimits::from(&Settings::default()),
        grants: Vec::new(),
        worker: "w1".to_owned(),
        engine: "test 1".to_owned(),
        payload: Bytes(format!("payload {number}").into_bytes()),
    }
}

fn many(numbers: std::ops::Range<u64>) -> Vec<DeadTask> {
    numbers.map(|number| dead(number, 0)).collect()
}

fn on(disk: &SimDisk) -> DiskDlq {
    DiskDlq::open(Arc::new(disk.clone()), Path::new(DATA)).unwrap()
}

fn new() -> (SimDisk, DiskDlq) {
    let disk = SimDisk::new();
    let dlq = on(&disk);
    (disk, dlq)
}

/// All entries, in the order of the queue.
fn all(dlq: &DiskDlq) -> Vec<DeadTask> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = dlq.batch(cursor, 7, &Filter::default()).unwrap();
        found.extend(page.entries);
        let Some(next) = page.next else { return found };
        cursor = Some(next);
    }
}

fn ids_of(dlq: &DiskDlq) -> Vec<InvocationId> {
    all(dlq).iter().map(|dead| dead.id).collect()
}

fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<InvocationId> {
    numbers.into_iter().map(id).collect()
}

fn content(disk: &SimDisk) -> Vec<u8> {
    disk.open(Path::new(FILE), OpenMode::Read).unwrap().read_all().unwrap()
}

/// Puts other bytes under the name, as an editor or a bad disk does, in the same inode.
fn overwrite(disk: &SimDisk, bytes: &[u8]) {
    disk.create_dir_all(Path::new("/data/dlq")).unwrap();
    let file = disk.open(Path::new(FILE), OpenMode::Create).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(Path::new("/data/dlq")).unwrap();
}
