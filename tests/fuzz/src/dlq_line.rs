//! The file of the dead letter queue: lines with right checksums around any content, and any bytes between.
//! It opens, reads, counts and writes; every way to read it agrees; what is written is read back; and its
//! damage is never lost.
//!
//! A line of the input that begins with `!` is taken raw, without the `!`; every other becomes a line whose
//! checksum is right.

use std::path::Path;

use wasmq_core::{DeadTask, Timestamp};
use wasmq_wal::disk::SimDisk;

use crate::dlq::{DeadTaskStore, DiskDlq, Filter, RemovalReason};
use crate::input::{disk_with, share};

const FILE: &str = "/data/dlq/dead-tasks-v1.jsonl";
const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// See the module.
pub fn run(bytes: &[u8]) {
    let disk = disk_with(FILE, &sealed(bytes));
    let dlq = open(&disk);
    let entries = all(&dlq);
    assert_eq!(latest(&dlq), entries.iter().rev().cloned().collect::<Vec<_>>(), "both directions agree");
    let counts = dlq.counts().unwrap();
    assert!(counts.total >= entries.len() as u64);
    assert_eq!(counts.total, dlq.groups().unwrap().iter().map(|group| group.count).sum::<u64>());
    assert_eq!(counts.total, dlq.count(&Filter::default()).unwrap());
    for dead in &entries {
        assert_eq!(dlq.get(dead.id).unwrap().as_ref(), Some(dead));
    }
    add_again(&disk, &entries);
    remove(&disk, &entries);
}

/// The lines of a file.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        match line.strip_prefix(b"!") {
            Some(raw) => file.extend_from_slice(raw),
            None => {
                let body = line.strip_prefix(b"{").unwrap_or(line);
                file.extend_from_slice(format!("{{\"crc\":\"{:08x}\",", crc32c::crc32c(body)).as_bytes());
                file.extend_from_slice(body);
            }
        }
        file.push(b'\n');
    }
    file
}

fn open(disk: &SimDisk) -> DiskDlq {
    DiskDlq::open(share(disk), Path::new("/data")).unwrap()
}

fn all(dlq: &DiskDlq) -> Vec<DeadTask> {
    let (mut entries, mut cursor) = (Vec::new(), None);
    loop {
        let page = dlq.batch(cursor, 3, &Filter::default()).unwrap();
        entries.extend(page.entries);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return entries,
        }
    }
}

fn latest(dlq: &DiskDlq) -> Vec<DeadTask> {
    dlq.latest(None, 10_000, &Filter::default()).unwrap().entries
}

/// Every entry that is there is added once more, which changes nothing, and a reader that begins anew sees
/// the same.
fn add_again(disk: &SimDisk, entries: &[DeadTask]) {
    let dlq = open(disk);
    let damage = dlq.damage().unwrap().len();
    dlq.add(entries).unwrap();
    assert_eq!(all(&dlq), entries);
    assert_eq!(all(&open(disk)), entries, "what is written is read back");
    assert!(open(disk).damage().unwrap().len() >= damage, "damage stays known");
}

/// Every entry is removed, and whoever begins anew sees none of them.
fn remove(disk: &SimDisk, entries: &[DeadTask]) {
    let dlq = open(disk);
    let ids: Vec<_> = entries.iter().map(|dead| (dead.id, dead.replays)).collect();
    let mut locked = dlq.lock().unwrap();
    let _ = locked.dangling().unwrap();
    locked.intend("a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7", &ids, NOW).unwrap();
    assert_eq!(locked.removed(&ids, RemovalReason::Deleted, NOW).unwrap(), ids.len());
    drop(locked);
    assert_eq!(all(&open(disk)), []);
    assert_eq!(dlq.add(entries).unwrap().stale, entries.len(), "what was removed does not come back");
}
