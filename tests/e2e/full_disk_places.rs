//! A full disk at each place that writes: the next segment of a log, a batch without a server, the dead letter
//! queue, its compaction, the compaction of a log, the component and the registry of a deploy. Each says so
//! in one line, leaves nothing half made, goes on showing what is there, and resumes when there is room.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::full_disk::{SmallDisk, used_before};
use crate::stories::{dead_count, deploy_as, enqueue_batch, numbered, run_until_dead, until_completed};
use crate::world::{Ran, World, guest_file, until};

/// A payload that a segment holds about thirty times.
const MEGABYTE: usize = 1_000_000;

/// The command was refused, in one line with the reason and one that says what to do.
#[track_caller]
fn is_refused(ran: &Ran) {
    assert_eq!(ran.code, 8, "{ran:?}");
    assert!(ran.text().is_empty(), "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines[0].contains("the disk is full"), "{ran:?}");
    assert!(ran.stderr.contains("free some space and try again"), "{ran:?}");
    assert!(lines.len() <= 2 && lines[1..].iter().all(|line| line.contains("hint:")), "{ran:?}");
}

/// Reading, listing and deleting need no room. Uses up one dead task.
#[track_caller]
fn still_works(world: &World) {
    let before = dead_count(world);
    world.status();
    world.live();
    let dead = world.dead();
    let id = dead[0]["id"].as_str().unwrap();
    assert_eq!(world.dead_task(id)["id"], id);
    world.run(&["dlq", "delete", id, "--yes"]).ok();
    assert_eq!(dead_count(world), before - 1);
    world.run(&["dlq", "show", id]).fails(3, id);
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn segments(world: &World) -> usize {
    names(&world.data().join("journal")).iter().filter(|name| name.ends_with(".log")).count()
}

fn versions(world: &World, task: &str) -> usize {
    let shown = world.run(&["task", "show", task, "--json"]).ok().json();
    shown["versions"].as_array().unwrap().len()
}

/// A disk of this size with two dead tasks and the task `echo`.
fn disk_of(bytes: u64) -> Option<SmallDisk> {
    let disk = SmallDisk::mount(bytes)?;
    disk.world.deploy("permanent", &[]);
    disk.world.deploy("echo", &[]);
    enqueue_batch(&disk.world, "permanent", &numbered(2));
    run_until_dead(&disk.world, 2);
    Some(disk)
}

fn payload(world: &World, bytes: usize) -> String {
    format!("@{}", world.file("payload", &vec![b'x'; bytes]).display())
}

#[test]
fn a_log_that_finds_no_room_for_its_next_segment_refuses_and_goes_on_when_there_is_room() {
    let Some(mut disk) = disk_of(64 << 20) else { return };
    let payload = payload(&disk.world, MEGABYTE);
    let server = disk.world.serve(&["--workers", "1"]);
    let mut ids: BTreeSet<String> = BTreeSet::new();
    for _ in 0..31 {
        ids.insert(disk.world.enqueue(&["echo", &payload, "--delay", "1h"]));
    }
    assert_eq!(segments(&disk.world), 1);
    let ballast = disk.fill();
    let refused = loop {
        let ran = disk.world.run(&["enqueue", "echo", &payload, "--delay", "1h"]);
        if ran.code != 0 {
            break ran;
        }
        ids.insert(ran.text().trim().to_owned());
    };
    is_refused(&refused);
    // Sealing the first segment gave room for the second to begin, though not for what was refused.
    assert!(segments(&disk.world) <= 2, "nothing is half made");
    assert_eq!(disk.live_ids(), ids);
    still_works(&disk.world);
    let cancelled = ids.pop_first().unwrap();
    disk.world.run(&["cancel", &cancelled]).ok();
    std::fs::remove_file(ballast).unwrap();
    until("it takes work again", || {
        let ran = disk.world.run(&["enqueue", "echo", &payload, "--delay", "1h"]);
        let taken = ran.code == 0;
        ids.extend(taken.then(|| ran.text().trim().to_owned()));
        taken && segments(&disk.world) > 1
    });
    assert_eq!(disk.live_ids(), ids);
    server.signal("KILL");
    drop(server);
    assert_eq!(disk.live_ids(), ids, "as a fresh process reads it");
}

#[test]
fn a_batch_that_does_not_fit_is_refused_as_a_whole() {
    let Some(mut disk) = disk_of(64 << 20) else { return };
    let before = disk.world.enqueue(&["echo", "before", "--delay", "1h"]);
    let ballast = disk.fill_up_to(36 << 20);
    let lines = format!("{}\n", "x".repeat(MEGABYTE)).repeat(45);
    let arguments = ["enqueue", "echo", "--batch", "-", "--delay", "1h"];
    let refused = disk.world.run_with(&arguments, lines.as_bytes());
    // What was acknowledged before it failed is there, and nothing else.
    let acknowledged: BTreeSet<String> = refused.text().lines().map(str::to_owned).collect();
    assert!(refused.code == 7 || refused.code == 8, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("the disk is full") && refused.stderr.contains("free some space"),
        "{}",
        refused.stderr
    );
    let live = disk.live_ids();
    assert!(live.contains(&before) && live.is_superset(&acknowledged), "{} of {}", live.len(), acknowledged.len());
    still_works(&disk.world);
    std::fs::remove_file(ballast).unwrap();
    disk.world.run(&["enqueue", "echo", "after", "--delay", "1h"]).ok();
}

#[test]
fn dead_tasks_that_find_no_room_wait_and_are_buried_without_running_again() {
    let Some(mut disk) = used_before() else { return };
    deploy_as(&disk.world, "waits", "permanent", &[]);
    let payloads: Vec<String> = (0..40).map(|n| format!("{n} {}", "x".repeat(30_000))).collect();
    enqueue_batch(&disk.world, "waits", &payloads);
    disk.world.run(&["task", "remove", "waits"]).ok();
    let server = disk.world.serve(&["--workers", "1"]);
    until("it has them", || disk.world.status()["free_logs"] == 0);
    disk.world.run(&["deploy", "waits", guest_file("permanent").to_str().unwrap(), "--no-activate"]).ok();
    // Nothing is kept in reserve, so only what the log took ahead is left.
    std::fs::remove_file(disk.reserve()).unwrap();
    let ballast = disk.fill_up_to(8 << 10);
    disk.world.run(&["task", "activate", "waits", "v2"]).ok();
    let exhausted = || disk.world.live().iter().filter(|live| live["phase"] == "exhausted").count();
    until("they are given up and cannot be buried", || exhausted() > 20);
    until("the server says why", || server.log().contains("the disk is full while"));
    still_works(&disk.world);
    assert_eq!(disk.world.live().len() as u64 + dead_count(&disk.world), 41, "each is live or dead");
    std::fs::remove_file(ballast).unwrap();
    until("all are dead", || disk.world.live().is_empty() && dead_count(&disk.world) == 41);
    let dead = disk.world.run(&["dlq", "list", "--task", "waits", "--json", "--limit", "100"]).ok().lines();
    assert!(dead.len() == 40 && dead.iter().all(|one| one["attempts"] == 1), "{dead:?}");
    server.stop();
}

#[test]
fn a_dead_letter_queue_that_cannot_be_compacted_goes_on_as_it_is_and_shrinks_when_there_is_room() {
    let Some(mut disk) = used_before() else { return };
    let payloads: Vec<String> = (0..60).map(|n| format!("{n} {}", "x".repeat(60_000))).collect();
    enqueue_batch(&disk.world, "permanent", &payloads);
    run_until_dead(&disk.world, 62);
    let dead: Vec<String> =
        disk.world.run(&["dlq", "list", "--json", "--limit", "100"]).ok().lines().iter().map(id_of).collect();
    let file = disk.world.data().join("dlq/dead-tasks-v1.jsonl");
    let len = || file.metadata().unwrap().len();
    let before = len();
    let ballast = disk.fill();
    let delete: Vec<&str> =
        ["dlq", "delete", "--yes"].into_iter().chain(dead[..50].iter().map(String::as_str)).collect();
    let deleted = disk.world.run(&delete).ok();
    assert!(deleted.stderr.contains("could not compact the dead letter queue"), "{}", deleted.stderr);
    assert!(deleted.stderr.contains("the disk is full"), "{}", deleted.stderr);
    assert_eq!(dead_count(&disk.world), 12);
    assert!(len() <= before);
    assert!(!names(&disk.world.data().join("dlq")).iter().any(|name| name.ends_with(".tmp")), "nothing is half made");
    still_works(&disk.world);
    std::fs::remove_file(ballast).unwrap();
    disk.world.run(&["dlq", "delete", &dead[60], "--yes"]).ok();
    assert!(len() < before / 2, "{} of {before} bytes", len());
    assert_eq!(dead_count(&disk.world), 10);
}

fn id_of(one: &Value) -> String {
    one["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_log_that_cannot_be_compacted_loses_nothing_and_shrinks_when_there_is_room() {
    let Some(mut disk) = disk_of(160 << 20) else { return };
    let payload = payload(&disk.world, MEGABYTE);
    disk.world.deploy("command-echo", &[]);
    let ids: Vec<String> = (0..80).map(|_| disk.world.enqueue(&["command-echo", &payload])).collect();
    disk.world.run(&["task", "remove", "command-echo"]).ok();
    let server = disk.world.serve(&["--workers", "1"]);
    until("it has them", || disk.world.status()["free_logs"] == 0 && disk.world.live().len() == 80);
    let journal = disk.world.data().join("journal");
    let bytes = || -> u64 {
        let logs = names(&journal).into_iter().filter(|name| name.ends_with(".log"));
        logs.map(|name| journal.join(name).metadata().map_or(0, |found| found.len())).sum()
    };
    let before = bytes();
    assert!(before > 80 * MEGABYTE as u64, "{before}");
    drop(std::fs::remove_file(disk.reserve()));
    let ballast = disk.fill();
    // Those that stay are in the oldest segment, which can only go when they have been copied.
    for id in &ids[5..] {
        disk.world.run(&["cancel", id]).ok();
    }
    let left: BTreeSet<String> = ids[..5].iter().cloned().collect();
    assert_eq!(disk.live_ids(), left);
    assert!(bytes() > before / 2, "there was no room for copies");
    still_works(&disk.world);
    std::fs::remove_file(ballast).unwrap();
    until("the log has shrunk", || bytes() < before * 3 / 4);
    assert_eq!(disk.live_ids(), left);
    disk.world.deploy("command-echo", &[]);
    disk.world.until_done();
    until_completed(&disk.world, 5);
    assert_eq!(dead_count(&disk.world), 1);
    server.stop();
}

#[test]
fn a_deploy_that_finds_no_room_changes_nothing_and_succeeds_when_there_is_room() {
    let Some(mut disk) = used_before() else { return };
    let (new, old) = (guest_file("markdown"), guest_file("echo"));
    let components = disk.world.data().join("components/sha256");
    let before = (names(&components), names(&disk.world.data()));
    let ballast = disk.fill();
    let place = |what: &str, ran: &Ran| {
        is_refused(ran);
        assert!(ran.stderr.contains(what), "{ran:?}");
    };
    place("components", &disk.world.run(&["deploy", "echo", new.to_str().unwrap()]));
    // The component is there already, so only the registry needs room.
    place("tasks-v1.", &disk.world.run(&["deploy", "echo", old.to_str().unwrap(), "--timeout", "7s"]));
    place("tasks-v1.", &disk.world.run(&["task", "remove", "echo"]));
    let refused = disk.world.run(&["deploy", "echo", new.to_str().unwrap(), "--json"]).fails(8, "the disk is full");
    assert!(refused.stderr.contains("\"no-space\""), "{}", refused.stderr);
    assert_eq!(versions(&disk.world, "echo"), 1);
    std::fs::remove_file(ballast).unwrap();
    assert_eq!((names(&components), names(&disk.world.data())), before, "nothing is half made");
    let ballast = disk.fill();
    still_works(&disk.world);
    std::fs::remove_file(ballast).unwrap();
    disk.world.run(&["deploy", "echo", new.to_str().unwrap()]).ok();
    assert_eq!(versions(&disk.world, "echo"), 2);
}
