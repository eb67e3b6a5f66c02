//! Work that a task or a missing deploy leaves for later.

use serde_json::json;

use crate::world::{World, until};

#[test]
fn a_follow_up_is_enqueued_once_with_its_payload_and_completes() {
    let world = World::new();
    world.deploy("follow-up", &[]);
    world.deploy("echo", &[]);
    let server = world.serve(&["--workers", "1"]);
    let (end, code) = world.wait_for(&["follow-up", "echo\nhello"]);
    assert_eq!((code, &end["attempts"], &end["follow_ups"]), (0, &json!(1), &json!(1)), "{end}");
    assert_ne!(end["output"]["text"], end["id"], "the follow-up has an id of its own");
    let completed = || {
        let status = world.status();
        status["servers"][0]["workers"][0]["completed"].as_u64().unwrap()
    };
    until("both have completed", || completed() >= 2);
    world.until_done();
    assert_eq!(completed(), 2);
    assert!(world.dead().is_empty());
    server.stop();
}

#[test]
fn a_follow_up_that_dies_has_its_own_payload_and_names_its_parent() {
    let world = World::new();
    world.deploy("follow-up", &[]);
    world.deploy("panics", &[]);
    let server = world.serve(&["--workers", "1"]);
    let (end, _) = world.wait_for(&["follow-up", "panics\nline one\nline two"]);
    world.until_done();
    let dead = world.dead();
    assert_eq!(dead.len(), 1, "{dead:?}");
    let dead = world.dead_task(end["output"]["text"].as_str().unwrap());
    assert_eq!((&dead["task"], &dead["payload"]["text"]), (&json!("panics"), &json!("line one\nline two")));
    assert_eq!(dead["metadata"], json!([["parent", end["id"]]]));
    server.stop();
}

#[test]
fn a_follow_up_of_a_task_run_without_a_server_is_kept_for_the_next_one() {
    let world = World::new();
    world.deploy("follow-up", &[]);
    world.deploy("panics", &[]);
    let (end, code) = world.wait_for(&["follow-up", "panics\nlater"]);
    assert_eq!(code, 0, "{end}");
    let id = end["output"]["text"].as_str().unwrap();
    let shown = world.run(&["show", id, "--json"]).ok().json();
    assert_eq!(shown["task"], "panics");
    let server = world.serve(&["--workers", "1"]);
    world.until_done();
    assert_eq!(world.dead_task(id)["payload"]["text"], "later");
    server.stop();
}

#[test]
fn a_follow_up_of_a_task_that_is_not_deployed_waits_until_it_is() {
    let world = World::new();
    world.deploy("follow-up", &[]);
    let server = world.serve(&["--workers", "1"]);
    let (end, code) = world.wait_for(&["follow-up", "panics\nwas waiting"]);
    assert_eq!(code, 0, "{end}");
    let id = end["output"]["text"].as_str().unwrap();
    let waiting = world.until_phase(id, "awaiting-deploy");
    assert_eq!((&waiting["attempts"], &waiting["task"]), (&json!(0), &json!("panics")));
    assert_eq!(waiting["lacks"], "no task panics is deployed; deploy it first");
    let status = world.status();
    assert_eq!(status["live"]["awaiting_deploy"], 1);
    assert!(status["problems"].to_string().contains("1 of 1: no task panics is deployed"), "{status}");
    world.deploy("panics", &[]);
    until("it has run", || world.dead().len() == 1);
    let dead = world.dead_task(id);
    assert_eq!((&dead["attempts"], &dead["payload"]["text"]), (&json!(1), &json!("was waiting")));
    server.stop();
}

#[test]
fn a_follow_up_with_a_bad_name_is_refused_and_nothing_is_enqueued() {
    let world = World::new();
    world.deploy("follow-up", &[]);
    let (end, code) = world.wait_for(&["follow-up", "No Name\nx"]);
    assert_eq!((code, &end["verdict"]), (20, &json!("error.permanent")), "{end}");
    assert_eq!(end["failure"]["problem"]["code"], "follow-up-refused");
    assert!(end["failure"]["problem"]["message"].as_str().unwrap().contains("task name"), "{end}");
    assert!(world.live().is_empty());
}

#[test]
fn what_is_enqueued_for_a_removed_task_waits_until_it_is_back() {
    let world = World::new();
    world.deploy("panics", &[]);
    let id = world.enqueue(&["panics", "patience"]);
    world.run(&["task", "remove", "panics"]).ok();
    let server = world.serve(&["--workers", "1"]);
    world.until_phase(&id, "awaiting-deploy");
    world.deploy("panics", &[]);
    until("it has run", || world.dead().len() == 1);
    let dead = world.dead_task(&id);
    assert_eq!((&dead["version"], &dead["payload"]["text"]), (&json!("v2"), &json!("patience")));
    server.stop();
}
