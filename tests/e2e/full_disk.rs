//! A disk that is full to the last byte: what was acknowledged is there, can be looked at and given up,
//! and is run by itself; new work is refused with a reason.
//!
//! The data directory is a small file system of its own, which only a privileged user can mount; without
//! that right these tests say so and pass.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use crate::privileges::Mount;
use crate::stories::{dead_count, enqueue_batch, numbered, run_until_dead, until_completed};
use crate::world::{Ran, World, is_alive, until};

/// Large enough for the reserve, small enough to be filled in a moment.
const DISK_BYTES: u64 = 24 << 20;

/// A world whose data directory is a disk of its own.
pub struct SmallDisk {
    // Before the world, so that it is dropped first.
    _mount: Mount,
    pub world: World,
    ballasts: usize,
}

impl SmallDisk {
    /// `None`, and a word about it, where mounting is not permitted.
    pub fn mount(bytes: u64) -> Option<Self> {
        let world = World::new();
        let mount = Mount::memory(bytes, &world.data())?;
        Some(Self { _mount: mount, world, ballasts: 0 })
    }

    /// Writes a file until nothing more fits, then cuts it so that `room` bytes are free. Returns it.
    pub fn fill_up_to(&mut self, room: u64) -> PathBuf {
        let path = self.world.data().join(format!("ballast-{}", self.ballasts));
        self.ballasts += 1;
        let mut file = File::create(&path).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[0xBA; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
        let len = file.metadata().unwrap().len();
        assert!(len > room, "{len} bytes of ballast");
        file.set_len(len - room).unwrap();
        path
    }

    /// Fills the disk to the last byte.
    pub fn fill(&mut self) -> PathBuf {
        self.fill_up_to(0)
    }

    fn has_reserve(&self) -> bool {
        self.reserve().metadata().is_ok_and(|found| found.len() == 4 << 20)
    }

    pub fn reserve(&self) -> PathBuf {
        self.world.data().join("journal/reserve")
    }

    /// Enqueues one by one until that is refused. Returns the ids and the refusal.
    fn enqueue_until_refused(&self, task: &str) -> (BTreeSet<String>, Ran) {
        let mut ids = BTreeSet::new();
        loop {
            let ran = self.world.run(&["enqueue", task, &"x".repeat(30_000)]);
            if ran.code != 0 {
                return (ids, ran);
            }
            ids.insert(ran.text().trim().to_owned());
        }
    }

    pub fn live_ids(&self) -> BTreeSet<String> {
        self.world.live().iter().map(|live| live["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// A disk on which a server has run, with two dead tasks and the reserve.
pub fn used_before() -> Option<SmallDisk> {
    let disk = SmallDisk::mount(DISK_BYTES)?;
    disk.world.deploy("permanent", &[]);
    disk.world.deploy("echo", &[]);
    enqueue_batch(&disk.world, "permanent", &numbered(2));
    run_until_dead(&disk.world, 2);
    assert!(disk.has_reserve(), "the server made it");
    Some(disk)
}

#[test]
fn a_full_disk_refuses_with_a_reason_and_what_it_acknowledged_can_be_looked_at_and_given_up() {
    let Some(mut disk) = used_before() else { return };
    disk.fill_up_to(300_000);
    let (mut ids, refused) = disk.enqueue_until_refused("echo");
    assert!(ids.len() > 2, "{ids:?}");
    let refused = refused.fails(8, "the disk is full");
    assert!(refused.stderr.contains("nothing acknowledged is lost"), "{}", refused.stderr);
    disk.fill();
    disk.world.run(&["enqueue", "echo", "more"]).fails(8, "the disk is full");
    assert_eq!(disk.live_ids(), ids);
    assert_eq!(disk.world.status()["dead"], 2);
    let first = ids.first().unwrap().clone();
    let shown = disk.world.run(&["show", &first, "--json"]).ok().json();
    assert_eq!(shown["id"], first.as_str());

    let dead = disk.world.dead();
    disk.world.run(&["dlq", "delete", dead[0]["id"].as_str().unwrap(), "--yes"]).ok();
    assert_eq!(dead_count(&disk.world), 1);

    disk.world.run(&["cancel", &first]).ok();
    ids.remove(&first);
    assert_eq!(disk.live_ids(), ids);
}

#[test]
fn a_server_drains_a_disk_that_is_full_to_the_last_byte() {
    let Some(mut disk) = used_before() else { return };
    disk.fill_up_to(300_000);
    let (ids, _) = disk.enqueue_until_refused("echo");
    disk.fill();
    let server = disk.world.serve(&["--workers", "2"]);
    disk.world.until_done();
    until_completed(&disk.world, ids.len() as u64);
    assert_eq!(dead_count(&disk.world), 2);
    server.stop();
}

#[test]
fn a_server_drains_a_log_that_it_has_no_room_to_copy() {
    let Some(mut disk) = used_before() else { return };
    let payloads: Vec<String> = (0..60).map(|n| format!("{n} {}", "x".repeat(120_000))).collect();
    let ids = enqueue_batch(&disk.world, "echo", &payloads);
    disk.fill();
    let server = disk.world.serve(&["--workers", "2"]);
    disk.world.until_done();
    until_completed(&disk.world, ids.len() as u64);
    assert!(server.log().contains("no room for a copy"), "{}", server.log());
    server.stop();
}

#[test]
fn a_running_server_refuses_on_a_full_disk_cancels_and_takes_work_again_when_there_is_room() {
    let Some(mut disk) = used_before() else { return };
    let later = disk.world.enqueue(&["echo", "later", "--delay", "1h"]);
    let server = disk.world.serve(&["--workers", "1"]);
    disk.world.until_phase(&later, "delayed");
    let ballast = disk.fill();
    let (ids, refused) = disk.enqueue_until_refused("echo");
    refused.fails(8, "the disk is full");
    disk.world.run(&["cancel", &later]).ok();
    disk.world.until_done();
    until_completed(&disk.world, ids.len() as u64);
    std::fs::remove_file(ballast).unwrap();
    until("enqueues are taken again", || disk.world.run(&["enqueue", "echo", "again"]).code == 0);
    disk.world.until_done();
    until("the reserve is there again", || disk.has_reserve());
    server.stop();
}

#[test]
fn without_a_reserve_a_server_waits_and_goes_on_by_itself_when_there_is_room() {
    let Some(mut disk) = used_before() else { return };
    disk.fill_up_to(300_000);
    let (ids, _) = disk.enqueue_until_refused("echo");
    std::fs::remove_file(disk.reserve()).unwrap();
    let ballast = disk.fill();
    let server = disk.world.serve(&["--workers", "2"]);
    until("a worker said why it cannot start", || server.log().contains("No space left on device"));
    disk.world.run(&["list"]).ok();
    disk.world.run(&["dlq", "list"]).ok();
    assert!(is_alive(server.pid()), "{}", server.log());
    std::fs::remove_file(ballast).unwrap();
    disk.world.until_done();
    assert!(disk.live_ids().is_empty() && !ids.is_empty());
    server.stop();
}
