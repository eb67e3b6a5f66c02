//! Beginnings and looks that several tests share: dead tasks that are there, work that runs.

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::world::{Ran, World, guest_file, until};

/// Deploys a guest under another name, with quick retries; every call makes a new version.
#[track_caller]
pub fn deploy_as(world: &World, name: &str, guest: &str, more: &[&str]) -> Value {
    let file = guest_file(guest);
    let mut arguments = vec!["deploy", name, file.to_str().unwrap(), "--backoff", "fixed:50ms", "--jitter", "0"];
    arguments.extend(more);
    arguments.push("--json");
    world.run(&arguments).ok().json()
}

/// Enqueues one invocation a payload in one batch, and returns the ids.
#[track_caller]
pub fn enqueue_batch(world: &World, task: &str, payloads: &[String]) -> Vec<String> {
    let lines: String = payloads.iter().map(|payload| format!("{payload}\n")).collect();
    let ran = world.run_with(&["enqueue", task, "--batch", "-"], lines.as_bytes()).ok();
    ran.text().lines().map(str::to_owned).collect()
}

/// `count` payloads that differ.
pub fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("payload {n}")).collect()
}

/// A world with so many dead tasks of the task `job`, whose v1 fails for good and whose v2 echoes.
/// No server runs. Returns the ids in the order they were enqueued.
#[track_caller]
pub fn world_of_dead(count: usize) -> (World, Vec<String>) {
    let world = World::new();
    deploy_as(&world, "job", "permanent", &[]);
    let ids = enqueue_batch(&world, "job", &numbered(count));
    assert_eq!(ids.len(), count);
    run_until_dead(&world, count as u64);
    deploy_as(&world, "job", "echo", &[]);
    (world, ids)
}

/// Serves until nothing is live and so many are dead.
#[track_caller]
pub fn run_until_dead(world: &World, count: u64) {
    let server = world.serve(&["--workers", "1"]);
    until("they are dead", || dead_count(world) == count && world.live().is_empty());
    server.stop();
}

/// Serves until nothing is live.
#[track_caller]
pub fn run_until_done(world: &World) {
    let server = world.serve(&["--workers", "1"]);
    world.until_done();
    server.stop();
}

#[track_caller]
pub fn dead_count(world: &World) -> u64 {
    world.run(&["dlq", "stats", "--json"]).ok().json()["total"].as_u64().unwrap()
}

/// The whole dead task.
#[track_caller]
pub fn dead_task(world: &World, id: &str) -> Value {
    world.run(&["dlq", "show", id, "--json"]).ok().json()
}

/// The live invocations that run right now.
pub fn running(world: &World) -> Vec<Value> {
    world.live().into_iter().filter(|live| live["phase"] == "running").collect()
}

#[track_caller]
pub fn until_running(world: &World, count: usize) {
    until("they run", || running(world).len() == count);
}

/// A figure of every worker of every server.
pub fn figures(world: &World, name: &str) -> Vec<u64> {
    let status = world.status();
    let servers = status["servers"].as_array().cloned().unwrap_or_default();
    let workers = servers.iter().flat_map(|server| server["workers"].as_array().cloned().unwrap_or_default());
    workers.map(|worker| worker[name].as_u64().unwrap()).collect()
}

/// Waits until the workers together have completed so many; their figures lag behind the work.
#[track_caller]
pub fn until_completed(world: &World, count: u64) {
    let mut seen = Vec::new();
    until("all are counted as completed", || {
        seen = figures(world, "completed");
        assert!(seen.iter().sum::<u64>() <= count, "more than {count}: {seen:?}");
        seen.iter().sum::<u64>() == count
    });
}

/// Kills a process that may be gone already.
pub fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output().unwrap();
}

/// The time from one RFC 3339 text to a later one.
#[track_caller]
pub fn between(from: &Value, to: &Value) -> Duration {
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    Duration::try_from(time(to) - time(from)).unwrap()
}

/// What a command that was set up by hand did.
pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
