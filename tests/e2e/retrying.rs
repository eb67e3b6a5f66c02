//! `wasmq dlq retry`: which version runs, what is kept, and that nothing is lost or doubled.

use std::process::{Child, Stdio};

use crate::stories::{dead_count, dead_task, deploy_as, run_until_dead, run_until_done, world_of_dead};
use crate::world::{World, until};

fn retried(world: &World, arguments: &[&str]) -> serde_json::Value {
    world.run(&[&["dlq", "retry", "--json"], arguments].concat()).ok().json()
}

#[test]
fn a_retry_says_which_version_failed_and_which_will_run() {
    let (world, ids) = world_of_dead(4);
    let task = world.run(&["task", "show", "job", "--json"]).ok().json();
    let digest = |at: usize| task["versions"][at]["digest"].as_str().unwrap().to_owned();
    let (bad, good) = (digest(0), digest(1));
    for (id, component, version, runs) in [
        (&ids[0], "current", "v2", &good),
        (&ids[1], "original", "v1", &bad),
        (&ids[2], "v2", "v2", &good),
        (&ids[3], good.as_str(), "v2", &good),
    ] {
        let one = retried(&world, &[id, "--component", component]);
        assert_eq!(one["id"], id.as_str());
        assert_eq!(one["failed"]["version"], "v1");
        assert_eq!(one["failed"]["component"], bad.as_str());
        assert_eq!(one["runs"]["version"], version, "{component}: {one}");
        assert_eq!(one["runs"]["component"], runs.as_str(), "{component}: {one}");
        assert_eq!(one["replays"], 1);
    }
    run_until_dead(&world, 1);
    assert_eq!(world.dead()[0]["id"], ids[1].as_str(), "only the original fails again");
    assert_eq!(world.dead()[0]["version"], "v1");
}

#[test]
fn a_person_reads_both_versions_too() {
    let (world, ids) = world_of_dead(1);
    let text = world.run(&["dlq", "retry", &ids[0], "--component", "original"]).ok().text();
    assert!(text.contains("the component that failed") && text.contains("v1"), "{text}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let (world, ids) = world_of_dead(2);
    let before = world.run(&["dlq", "list", "--json"]).ok().text();
    let one = world.run(&["dlq", "retry", "--all", "--dry-run", "--json"]).ok().lines();
    assert_eq!(one.len(), 2);
    assert!(one.iter().all(|one| one["dry_run"] == true && one["runs"]["version"] == "v2"), "{one:?}");
    world.run(&["dlq", "retry", &ids[0], "--component", "original", "--dry-run"]).ok();
    assert_eq!(world.run(&["dlq", "list", "--json"]).ok().text(), before);
    assert!(world.live().is_empty());
}

#[test]
fn a_version_that_does_not_exist_is_an_error_and_the_dead_task_stays() {
    let (world, ids) = world_of_dead(2);
    let digest = format!("sha256:{}", "0".repeat(64));
    for component in ["v9", digest.as_str(), "nolabel"] {
        world.run(&["dlq", "retry", &ids[0], "--component", component]).fails(3, component);
        world.run(&["dlq", "retry", "--all", "--component", component]).fails(3, component);
    }
    assert_eq!(dead_count(&world), 2);
    assert!(world.live().is_empty());
    assert_eq!(dead_task(&world, &ids[0])["replays"], 0);
}

#[test]
fn a_retry_for_a_removed_task_is_refused_and_the_dead_task_stays() {
    let (world, ids) = world_of_dead(1);
    world.run(&["task", "remove", "job"]).ok();
    world.run(&["dlq", "retry", &ids[0]]).fails(3, "job");
    assert_eq!(dead_count(&world), 1);
    assert!(world.live().is_empty());
    deploy_as(&world, "job", "echo", &[]);
    world.run(&["dlq", "retry", &ids[0]]).ok();
    run_until_done(&world);
    assert_eq!(dead_count(&world), 0);
}

#[test]
fn a_retry_keeps_the_past_and_gives_a_fresh_budget() {
    let world = World::new();
    deploy_as(&world, "job", "retryable", &["--max-attempts", "2"]);
    let id = world.enqueue(&["job", "again", "--meta", "tenant=42", "--priority", "7"]);
    run_until_dead(&world, 1);
    let first = dead_task(&world, &id);
    assert_eq!((first["attempts"].as_u64(), first["replays"].as_u64()), (Some(2), Some(0)));
    world.run(&["dlq", "retry", &id]).ok();
    let live = &world.live()[0];
    assert_eq!((live["attempts"].as_u64(), live["replays"].as_u64()), (Some(0), Some(1)));
    assert_eq!(live["enqueued_at"], first["enqueued_at"]);
    run_until_dead(&world, 1);
    assert_eq!(world.dead().len(), 1, "still one dead task");
    let second = dead_task(&world, &id);
    assert_eq!((second["attempts"].as_u64(), second["replays"].as_u64()), (Some(2), Some(1)));
    for kept in ["enqueued_at", "payload", "metadata", "priority", "max_attempts"] {
        assert_eq!(second[kept], first[kept], "{kept}");
    }
    let deaths = second["deaths"].as_array().unwrap();
    assert_eq!(deaths.len(), 1, "{deaths:?}");
    assert_eq!(deaths[0]["dead_at"], first["dead_at"]);
    assert!(second["dead_at"].as_str() > first["dead_at"].as_str());
    assert!(world.run(&["dlq", "show", &id]).ok().text().contains("EARLIER DEATHS"));
}

#[test]
fn whoever_waits_for_a_retry_learns_how_it_ended() {
    let (world, ids) = world_of_dead(3);
    let server = world.serve(&["--workers", "1"]);
    let again = world.run(&["dlq", "retry", "--all", "--component", "original", "--wait"]);
    let again = again.fails(20, "0 done, 3 dead again, the last one of error.permanent");
    assert!(again.stderr.contains("wasmq dlq show"), "{}", again.stderr);
    let lines = world.run(&["dlq", "retry", &ids[0], &ids[1], "--wait", "--json"]).ok().lines();
    assert_eq!(lines.last(), Some(&serde_json::json!({ "done": 2, "dead": [] })));
    server.stop();
    let mut waiting = world.command(&["dlq", "retry", &ids[2], "--wait"]);
    let waiting = waiting.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the replay is queued", || world.live().len() == 1);
    let _server = world.serve(&["--workers", "1"]);
    let ended = waiting.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(told.contains("no server runs") && told.contains("1 done"), "{told}");
}

#[test]
fn a_retry_may_have_a_budget_of_its_own() {
    let world = World::new();
    deploy_as(&world, "job", "retryable", &["--max-attempts", "1"]);
    let id = world.enqueue(&["job", "again"]);
    run_until_dead(&world, 1);
    world.run(&["dlq", "retry", &id, "--max-attempts", "4"]).ok();
    run_until_dead(&world, 1);
    let dead = dead_task(&world, &id);
    assert_eq!((dead["attempts"].as_u64(), dead["max_attempts"].as_u64()), (Some(4), Some(4)));
}

#[test]
fn a_retry_while_a_server_runs_is_started_by_it() {
    let (world, ids) = world_of_dead(2);
    let server = world.serve(&["--workers", "1"]);
    world.run(&["dlq", "retry", "--task", "job"]).ok();
    world.until_done();
    assert_eq!(dead_count(&world), 0);
    world.run(&["dlq", "retry", &ids[0]]).fails(5, "retried");
    server.stop();
}

#[test]
fn of_twenty_retries_at_once_exactly_one_wins() {
    let (world, ids) = world_of_dead(1);
    let retry = || {
        let mut command = world.command(&["dlq", "retry", &ids[0]]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..20).map(|_| retry()).collect();
    let codes: Vec<_> = children.into_iter().map(|mut child| child.wait().unwrap().code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(5)).count(), 19, "{codes:?}");
    assert_eq!(world.live().len(), 1);
    assert_eq!(world.live()[0]["replays"], 1);
}

#[test]
fn retries_and_a_delete_at_once_have_one_outcome() {
    let (world, ids) = world_of_dead(1);
    let start = |command: &str| {
        let mut command = world.command(&["dlq", command, &ids[0]]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..5).map(|_| start("retry")).collect();
    let mut delete = start("delete");
    children.extend((0..5).map(|_| start("retry")));
    let retried = children.into_iter().filter_map(|mut child| child.wait().unwrap().code());
    let retried = retried.filter(|code| *code == 0).count();
    let deleted = usize::from(delete.wait().unwrap().code() == Some(0));
    assert_eq!(retried + deleted, 1, "retried {retried}, deleted {deleted}");
    assert_eq!(world.live().len(), retried);
    assert_eq!(dead_count(&world), 0);
}

#[test]
fn five_hundred_are_retried_by_one_command_and_all_done() {
    let (world, _) = world_of_dead(500);
    let ran = world.run(&["dlq", "retry", "--all"]).ok();
    assert!(ran.stderr.contains("500 dead tasks put back"), "{}", ran.stderr);
    assert_eq!(dead_count(&world), 0);
    assert_eq!(world.run(&["list", "--limit", "1000", "--json"]).ok().lines().len(), 500);
    run_until_done(&world);
    assert_eq!(dead_count(&world), 0);
}

#[test]
fn one_reason_for_many_refusals_is_told_once_with_the_ids() {
    let (world, ids) = world_of_dead(5);
    world.run(&["task", "remove", "job"]).ok();
    let ran = world.run(&["dlq", "retry", "--all", "--component", "original"]).fails(3, "job");
    assert_eq!(ran.stderr.matches("error:").count(), 1, "{}", ran.stderr);
    assert_eq!(ids.iter().filter(|id| ran.stderr.contains(*id)).count(), 3, "{}", ran.stderr);
    assert!(ran.stderr.contains(" and 2 more"), "{}", ran.stderr);
    let file = std::fs::read_dir(world.data().join("components/sha256")).unwrap();
    let files: Vec<_> = file.map(|entry| entry.unwrap().path()).collect();
    for file in &files {
        world.deploy_as("job", file, &[]);
    }
    world.run(&["dlq", "retry", "--all", "--component", "original"]).ok();
    assert!(world.dead().is_empty());
}
