//! `store verify` and `store repair` beside running servers, after kills, and on what is cut off.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::stories::{enqueue_batch, kill, numbered, run_until_dead, run_until_done, until_running};
use crate::world::{World, guest_file, until};

fn findings(world: &World) -> (i32, Vec<Value>) {
    let ran = world.run(&["store", "verify", "--json"]);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    (ran.code, ran.json()["findings"].as_array().unwrap().clone())
}

/// The segments of all logs.
fn segments(world: &World) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(world.data().join("journal")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    paths
}

fn live_ids(world: &World) -> BTreeSet<String> {
    world.live().iter().map(|live| live["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_sound_directory_is_summed_up_in_a_line_and_an_absent_one_is_told_of() {
    let world = World::new();
    let absent = world.run(&["store", "verify"]).ok();
    assert_eq!(absent.text(), "0 files, 0 records, 0 findings\n");
    assert!(absent.stderr.contains("does not exist"), "{}", absent.stderr);
    assert!(!world.data().exists());
    world.deploy("echo", &[]);
    world.enqueue(&["echo", "one"]);
    // The registry, its copy, the component, a log and its lock file; a version, a component, a record.
    assert_eq!(world.run(&["store", "verify"]).ok().text(), "5 files, 3 records, 0 findings\n");
    let repaired = world.run(&["store", "repair"]).ok();
    assert!(repaired.text().starts_with("nothing was to be repaired\n"), "{}", repaired.text());
}

#[test]
fn a_finding_is_a_line_with_file_place_meaning_and_what_to_do() {
    let world = World::new();
    world.deploy("echo", &[]);
    enqueue_batch(&world, "echo", &numbered(3));
    let segment = segments(&world).remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[80] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let verified = world.run(&["store", "verify"]);
    assert_eq!(verified.code, 11, "{}", verified.stderr);
    let name = format!("journal/{}", segment.file_name().unwrap().to_string_lossy());
    let line = verified.text().lines().find(|line| line.starts_with(&name)).unwrap().to_owned();
    assert!(line.contains("offset 64") && line.contains("lost"), "{line}");
    assert!(line.contains("to do: run `wasmq store repair`"), "{line}");
    assert!(verified.stderr.contains("wasmq store repair"), "{}", verified.stderr);
    let repaired = world.run(&["store", "repair"]).ok().text();
    assert!(repaired.contains("2 invocations moved to the log"), "{repaired}");
    assert!(repaired.contains("set aside"), "{repaired}");
}

#[test]
fn verifying_beside_a_busy_server_raises_no_false_alarm() {
    let world = World::new();
    world.deploy("echo", &[]);
    world.deploy("permanent", &[]);
    let server = world.serve(&["--workers", "2"]);
    std::thread::scope(|scope| {
        let feed = scope.spawn(|| {
            for round in 0..12 {
                // Right after a kill it may be refused; what counts is that the files are busy.
                for (task, count) in [("echo", 400), ("permanent", 20)] {
                    let _ = world.run_with(&["enqueue", task, "--batch", "-"], numbered(count).join("\n").as_bytes());
                }
                let worker = world.workers().first().copied().filter(|_| round % 5 == 4);
                worker.into_iter().for_each(kill);
            }
        });
        let mut looks = 0;
        while !feed.is_finished() || looks < 5 {
            let (_, findings) = findings(&world);
            // What a killed worker had not written completely is no false alarm.
            let is_cut = |finding: &Value| finding["what"].as_str().unwrap().contains("as a cut write leaves it");
            let alarms: Vec<_> =
                findings.iter().filter(|finding| finding["effect"] != "harmless" && !is_cut(finding)).collect();
            assert!(alarms.iter().all(|finding| finding["effect"] == "set-aside"), "{alarms:?}");
            looks += 1;
        }
    });
    world.until_done();
    server.stop();
    assert_eq!(findings(&world).0, 0);
}

#[test]
fn a_repair_beside_a_server_leaves_what_a_worker_owns_and_disturbs_nothing() {
    let world = World::new();
    world.deploy("slow", &[]);
    let server = world.serve(&["--workers", "1"]);
    let ids = enqueue_batch(&world, "slow", &vec!["20000".to_owned(); 3]);
    until_running(&world, 3);
    let segment = segments(&world).pop().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    // The worker has the payloads in memory; what is damaged is only what a successor would read.
    bytes[90] ^= 1;
    let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[90..91], 90).unwrap();
    let repaired = world.run(&["store", "repair", "--json"]);
    assert_eq!(repaired.code, 11, "{}", repaired.text());
    let repaired = repaired.json();
    assert_eq!(repaired["done"], serde_json::json!([]));
    let left = &repaired["left"]["findings"][0];
    assert!(left["todo"].as_str().unwrap().contains("its worker runs"), "{left}");
    assert_eq!(live_ids(&world).len(), ids.len() - 1, "the damaged record is not read by others");
    for worker in world.workers() {
        kill(worker);
    }
    until("its successor set the bytes aside", || findings(&world).1.iter().any(|one| one["effect"] == "set-aside"));
    assert_eq!(findings(&world).0, 0);
    drop(server);
}

#[test]
fn a_log_cut_anywhere_in_its_last_record_loses_only_that_record_and_nothing_written_later() {
    let world = World::new();
    world.deploy("echo", &[]);
    let mut kept = BTreeSet::new();
    for cut in [1, 2, 7, 20, 50] {
        let before: BTreeSet<PathBuf> = segments(&world).into_iter().collect();
        let mut ids = enqueue_batch(&world, "echo", &numbered(2));
        let segment = segments(&world).into_iter().find(|path| !before.contains(path)).unwrap();
        let bytes = std::fs::read(&segment).unwrap();
        std::fs::write(&segment, &bytes[..bytes.len() - cut]).unwrap();
        ids.pop();
        kept.extend(ids);
        // What is acknowledged after the cut is in no danger, whoever mends it.
        kept.insert(world.enqueue(&["echo", "later"]));
        if cut > 7 {
            world.run(&["store", "repair"]).ok();
        }
        assert_eq!(live_ids(&world), kept, "cut by {cut}");
    }
    run_until_done(&world);
    assert_eq!(findings(&world).0, 0);
}

#[test]
fn a_dead_letter_queue_cut_in_its_last_line_keeps_the_part_aside_and_takes_more() {
    let world = World::new();
    world.deploy("permanent", &[]);
    enqueue_batch(&world, "permanent", &numbered(2));
    run_until_dead(&world, 2);
    let path = world.data().join("dlq/dead-tasks-v1.jsonl");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    assert_eq!(findings(&world).0, 11);
    enqueue_batch(&world, "permanent", &numbered(1));
    run_until_dead(&world, 2);
    let aside = std::fs::read(world.data().join("dlq/dead-tasks-v1.damaged")).unwrap();
    let last = &bytes[..bytes.len() - 100];
    let part = &last[last.iter().rposition(|byte| *byte == b'\n').unwrap() + 1..];
    assert!(aside.windows(part.len()).any(|window| window == part));
    assert_eq!(findings(&world).0, 0);
}

#[test]
fn a_repair_that_was_killed_is_completed_by_the_next_one() {
    let world = World::new();
    world.deploy("permanent", &[]);
    enqueue_batch(&world, "permanent", &numbered(20));
    run_until_dead(&world, 20);
    let path = world.data().join("dlq/dead-tasks-v1.jsonl");
    for attempt in 0..8_u32 {
        enqueue_batch(&world, "permanent", &numbered(20));
        let segment = segments(&world).pop().unwrap();
        for file in [&path, &segment] {
            let mut bytes = std::fs::read(file).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 2;
            std::fs::write(file, bytes).unwrap();
        }
        let command = &mut world.command(&["store", "repair"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // A little later each time.
        (0..attempt * 400).for_each(|_| _ = path.metadata());
        kill(child.id());
        child.wait().unwrap();
        let ids = live_ids(&world);
        let repaired = world.run(&["store", "repair", "--json"]);
        assert_eq!(repaired.code, 0, "{attempt}: {}", repaired.text());
        assert_eq!(live_ids(&world), ids, "{attempt}");
        assert_eq!(world.run(&["store", "repair", "--json"]).ok().json()["done"], serde_json::json!([]), "{attempt}");
    }
    world.deploy_as("permanent", &guest_file("echo"), &[]);
    run_until_done(&world);
}

#[test]
fn a_registry_that_cannot_be_read_at_all_is_set_aside_and_everything_is_deployed_anew() {
    let world = World::new();
    world.deploy("echo", &[]);
    let id = world.enqueue(&["echo", "one"]);
    for name in ["tasks-v1.json", "tasks-v1.copy.json"] {
        std::fs::write(world.data().join(name), b"{ no registry").unwrap();
    }
    let echo = guest_file("echo");
    world.run(&["deploy", "echo", echo.to_str().unwrap()]).fails(8, "store repair");
    let repaired = world.run(&["store", "repair"]).text();
    assert_eq!(repaired.matches("deploy the tasks anew").count(), 2, "{repaired}");
    assert_eq!(world.run(&["store", "repair", "--json"]).json()["done"], serde_json::json!([]));
    world.run(&["deploy", "echo", echo.to_str().unwrap()]).ok();
    assert!(live_ids(&world).contains(&id));
    run_until_done(&world);
}
