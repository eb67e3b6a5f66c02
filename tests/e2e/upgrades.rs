//! A data directory that the first version wrote: everything in it is read as it was then, a server takes it
//! over and goes on; and what a newer version wrote is refused or left alone, byte for byte.
//!
//! `tests/fixtures/README.md` says what is in the directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::stories::{deploy_as, run_until_done};
use crate::world::{World, repository, until};

const RETRYABLE: &str = "error.retryable";

/// A world whose data directory is a copy of the fixture.
fn world_of_v1() -> World {
    let world = World::new();
    copy(&fixtures().join("data-v1"), &world.data());
    world
}

fn fixtures() -> PathBuf {
    repository().join("tests/fixtures")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below a directory with its bytes.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(content(&path)),
            false => _ = files.insert(path.clone(), fs::read(&path).unwrap()),
        }
    }
    files
}

fn expected() -> Map<String, Value> {
    serde_json::from_slice(&fs::read(fixtures().join("expected-v1.json")).unwrap()).unwrap()
}

/// The ids of the live invocations in a phase.
fn ids_in(phase: &str) -> Vec<String> {
    let live = expected()["list"].as_array().unwrap().clone();
    live.iter().filter(|one| one["phase"] == phase).map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// The id of the one dead task with a verdict.
fn dead_by(verdict: &str) -> String {
    let dead = expected()["dlq list"].as_array().unwrap().clone();
    let one = dead.iter().find(|one| one["verdict"] == verdict).unwrap();
    one["id"].as_str().unwrap().to_owned()
}

/// Whether an answer has everything that another has; fields may have been added since.
fn says(answer: &Value, once: &Value) -> bool {
    match (answer, once) {
        (Value::Object(answer), Value::Object(once)) => {
            once.iter().all(|(key, once)| answer.get(key).is_some_and(|answer| says(answer, once)))
        }
        (Value::Array(answer), Value::Array(once)) => {
            answer.len() == once.len() && answer.iter().zip(once).all(|(answer, once)| says(answer, once))
        }
        _ => answer == once,
    }
}

/// What is orphaned was counted as ready once.
fn add_orphaned_to_ready(answer: &mut Value) {
    match answer {
        Value::Array(all) => all.iter_mut().for_each(add_orphaned_to_ready),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_orphaned_to_ready);
            if let (Some(ready), Some(orphaned)) = (fields.get("ready"), fields.get("orphaned")) {
                let sum = ready.as_u64().unwrap() + orphaned.as_u64().unwrap();
                fields.insert("ready".to_owned(), sum.into());
            }
        }
        _ => {}
    }
}

#[test]
fn every_command_says_what_it_said_when_the_directory_was_written() {
    let world = world_of_v1();
    let before = content(&world.data());
    for (question, mut answer) in expected() {
        let arguments: Vec<&str> = question.split(' ').chain(["--json"]).collect();
        let mut said = Value::from(world.run(&arguments).ok().lines());
        add_orphaned_to_ready(&mut said);
        if question == "dlq groups" {
            // Groups of one size had no order that meant anything.
            for groups in [&mut said, &mut answer] {
                groups.as_array_mut().unwrap().sort_by_key(|group| group["group"].as_str().unwrap().to_owned());
            }
        }
        assert!(says(&said, &answer), "wasmq {question} --json\n  said: {said}\n  once: {answer}");
    }
    assert_eq!(content(&world.data()), before, "asking changes nothing");
}

#[test]
fn a_server_takes_it_over_and_completes_what_can_be_completed() {
    let world = world_of_v1();
    run_until_only_the_delayed_are_left(&world);
    assert_eq!(world.live()[0]["id"], ids_in("delayed")[0].as_str());
    let crashed = &ids_in("orphaned")[0];
    assert!(world.run(&["show", crashed]).code != 0, "the one that had been running is done");
    let exhausted = world.dead_task(&ids_in("exhausted")[0]);
    assert_eq!((&exhausted["verdict"], &exhausted["attempts"]), (&json!(RETRYABLE), &json!(3)), "it did not run again");
    assert_eq!(world.dead().len(), 4);
    let before = expected();
    for dead in before["dlq list"].as_array().unwrap() {
        let id = dead["id"].as_str().unwrap();
        assert_eq!(Value::from(vec![world.dead_task(id)]), before[&format!("dlq show {id}")]);
    }
}

fn run_until_only_the_delayed_are_left(world: &World) {
    let server = world.serve(&["--workers", "1"]);
    until("only the delayed one is left", || world.live().iter().all(|live| live["phase"] == "delayed"));
    server.stop();
}

#[test]
fn its_dead_tasks_are_retried_on_their_own_component_and_on_a_new_one() {
    let world = world_of_v1();
    let (again, fixed) = (dead_by(RETRYABLE), dead_by("error.permanent"));
    deploy_as(&world, "flaky", "echo", &[]);
    world.run(&["dlq", "retry", &again, "--component", "original"]).ok();
    world.run(&["dlq", "retry", &fixed]).ok();
    world.run(&["cancel", &ids_in("delayed")[0]]).ok();
    run_until_done(&world);
    let dead = world.dead_task(&again);
    assert_eq!((&dead["replays"], &dead["version"]), (&json!(2), &json!("v1")));
    assert_eq!(dead["deaths"].as_array().unwrap().len(), 2, "both deaths of the old version are in its history");
    assert!(world.dead().iter().all(|dead| dead["id"] != fixed.as_str()), "it completed");
}

#[test]
fn what_was_deleted_and_what_was_retried_stays_gone() {
    let world = world_of_v1();
    run_until_only_the_delayed_are_left(&world);
    let file = fs::read_to_string(world.data().join("dlq/dead-tasks-v1.jsonl")).unwrap();
    let removed: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let deleted = removed.iter().find(|line| line["removed"]["reason"] == "deleted").unwrap();
    let id = deleted["removed"]["ids"][0][0].as_str().unwrap();
    world.run(&["dlq", "retry", id]).fails(5, "already deleted");
    assert!(world.dead().iter().all(|dead| dead["id"] != id));
}

/// Renames every file whose name begins with a text, so that it begins with another.
fn rename(dir: &Path, from: &str, to: &str) -> Vec<PathBuf> {
    let mut renamed = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if let Some(rest) = name.strip_prefix(from) {
            let target = dir.join(format!("{to}{rest}"));
            fs::rename(entry.path(), &target).unwrap();
            renamed.push(target);
        }
    }
    assert!(!renamed.is_empty());
    renamed
}

/// Says that a file has format 2 and this binary knows format 1.
fn names_both_versions(sentence: &str, file: &Path) -> bool {
    sentence.contains(&format!("{} has format 2, this wasmq knows format 1", file.display()))
}

/// Every way to use the directory is refused with one sentence that names the file and both versions.
#[track_caller]
fn is_refused(world: &World, file: &Path, uses: &[&[&str]]) {
    let before = content(&world.data());
    for arguments in uses {
        let ran = world.run(arguments);
        assert!(ran.code != 0, "{arguments:?}: {}", ran.text());
        assert!(names_both_versions(&ran.stderr, file), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
    assert_eq!(content(&world.data()), before, "not a byte was touched");
}

#[test]
fn a_dead_letter_queue_of_a_newer_version_is_refused_untouched() {
    let world = world_of_v1();
    let files = rename(&world.data().join("dlq"), "dead-tasks-v1", "dead-tasks-v2");
    let id = dead_by(RETRYABLE);
    is_refused(&world, &files[0], &[&["dlq", "list"], &["dlq", "retry", &id], &["dlq", "delete", &id], &["serve"]]);
}

#[test]
fn a_registry_of_a_newer_version_is_refused_untouched() {
    let world = world_of_v1();
    let files = rename(&world.data(), "tasks-v1", "tasks-v2");
    let guest = crate::world::guest_file("echo");
    let deploy = ["deploy", "flaky", guest.to_str().unwrap()];
    is_refused(&world, &files[0], &[&["task", "list"], &["enqueue", "flaky", "1"], &deploy, &["serve"]]);
}

#[test]
fn a_registry_whose_content_is_of_a_newer_format_is_refused_untouched() {
    let world = world_of_v1();
    let file = world.data().join("tasks-v1.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"format\": 1,"));
    fs::write(&file, text.replacen("\"format\": 1,", "\"format\": 2,", 1)).unwrap();
    let uses: [&[&str]; 4] = [
        &["task", "list"],
        &["task", "activate", "flaky", "v1"],
        &["enqueue", "flaky", "1"],
        &["task", "remove", "slow"],
    ];
    is_refused(&world, &file, &uses);
}

/// A server runs beside logs that it must leave alone: they are named among the problems, untouched at its
/// end, and everything else is served.
fn are_left_alone(world: &World, files: &[PathBuf]) {
    let bytes: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let server = world.serve(&["--workers", "1"]);
    let id = world.enqueue(&["flaky", "1"]);
    until("new work is done", || world.live().iter().all(|live| live["id"] != id.as_str()));
    let problems = world.status()["problems"].as_array().unwrap().clone();
    for (file, bytes) in files.iter().zip(bytes) {
        let count = problems.iter().filter(|one| names_both_versions(one.as_str().unwrap(), file)).count();
        assert_eq!(count, 1, "{} in {problems:#?}", file.display());
        assert_eq!(fs::read(file).unwrap(), bytes, "not a byte of {} was touched", file.display());
    }
    server.stop();
}

#[test]
fn logs_of_a_newer_version_are_left_alone() {
    let world = world_of_v1();
    let files = rename(&world.data().join("journal"), "wal-v1-", "wal-v2-");
    are_left_alone(&world, &files);
}

/// The segments of the fixture, oldest first.
fn segments(world: &World) -> Vec<PathBuf> {
    let files = content(&world.data().join("journal")).into_keys();
    files.filter(|file| file.extension().is_some_and(|extension| extension == "log")).collect()
}

#[test]
fn segments_whose_header_is_of_a_newer_version_are_left_alone() {
    let world = world_of_v1();
    let files = segments(&world);
    for file in &files {
        let mut bytes = fs::read(file).unwrap();
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
        bytes[60..64].copy_from_slice(&crc);
        fs::write(file, bytes).unwrap();
    }
    // Of a log with several segments the first is named.
    let named: Vec<_> = files.iter().filter(|file| file.to_str().unwrap().ends_with("-0000000001.log")).collect();
    are_left_alone(&world, &named.into_iter().cloned().collect::<Vec<_>>());
}

/// Appends a record of any kind to a segment, as `host/wal/FORMAT.md` describes it.
fn append_record(segment: &Path, kind: u8, body: &[u8]) {
    let mut bytes = fs::read(segment).unwrap();
    let seed = crc32c::crc32c(&bytes[..32]);
    let offset = (bytes.len() as u64).to_le_bytes();
    let mut head = (body.len() as u32).to_le_bytes().to_vec();
    head.push(kind);
    head.extend_from_slice(&crc32c::crc32c_append(seed, body).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &offset), &head);
    head.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(body);
    fs::write(segment, bytes).unwrap();
}

#[test]
fn a_log_with_a_record_of_a_newer_version_is_left_alone() {
    let world = world_of_v1();
    let file = segments(&world).pop().unwrap();
    append_record(&file, 11, b"of another age");
    let bytes = fs::read(&file).unwrap();
    let server = world.serve(&["--workers", "1"]);
    until("the other logs are adopted", || world.status()["free_logs"] == 1);
    let problems = world.status()["problems"].as_array().unwrap().clone();
    let named = format!("{} has a record of kind 11", file.display());
    assert_eq!(problems.iter().filter(|one| one.as_str().unwrap().starts_with(&named)).count(), 1, "{problems:#?}");
    assert_eq!(fs::read(&file).unwrap(), bytes, "not a byte was touched");
    let told = server.log().lines().filter(|line| line.contains("left where it is")).count();
    assert_eq!(told, 1, "the worker tells of it once: {}", server.log());
    server.stop();
}

/// Its checksum is right and a field is missing: what would have been the payload of somebody is kept.
#[test]
fn a_record_with_missing_fields_is_set_aside_and_the_rest_is_served() {
    let world = world_of_v1();
    let file = segments(&world).pop().unwrap();
    append_record(&file, 1, b"an invocation of another age");
    let offset = fs::metadata(&file).unwrap().len() - 13 - 28;
    run_until_only_the_delayed_are_left(&world);
    let kept = PathBuf::from(format!("{}.damaged-{offset}", file.display()));
    assert!(fs::read(kept).unwrap().ends_with(b"an invocation of another age"));
}
