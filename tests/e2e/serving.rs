//! Servers: they take up work at once, share it, and stop without losing or counting anything.

use std::time::{Duration, Instant};

use crate::stories::{between, enqueue_batch, figures, numbered, running, until_completed, until_running};
use crate::world::{World, is_alive, signal, until};

#[test]
fn work_enqueued_before_the_server_starts_is_done_by_it() {
    let world = World::new();
    world.deploy("echo", &[]);
    let id = world.enqueue(&["echo", "early"]);
    assert_eq!(world.live()[0]["id"], id.as_str());
    let server = world.serve(&["--workers", "1"]);
    world.until_done();
    until_completed(&world, 1);
    assert!(world.dead().is_empty());
    server.stop();
}

/// The bound is one second; here it is generous, because other tests run at the same time.
#[test]
fn a_running_server_starts_what_is_enqueued_at_once() {
    let world = World::new();
    world.deploy("slow", &[]);
    let server = world.serve(&["--workers", "2"]);
    world.enqueue(&["slow", "3000"]);
    until_running(&world, 1);
    let live = &running(&world)[0];
    let waited = between(&live["enqueued_at"], &live["running_since"]);
    assert!(waited < Duration::from_secs(3), "it waited {waited:?}");
    world.until_done();
    server.stop();
}

/// A producer that cannot reach the server writes a log of its own; a worker adopts it in a second.
#[test]
fn a_log_that_appears_while_a_server_runs_is_adopted_at_once() {
    let (world, other) = (World::new(), World::new());
    for one in [&world, &other] {
        one.deploy("slow", &[]);
    }
    other.enqueue(&["slow", "3000"]);
    let server = world.serve(&["--workers", "1"]);
    let before = Instant::now();
    for entry in std::fs::read_dir(other.data().join("journal")).unwrap().filter_map(Result::ok) {
        std::fs::rename(entry.path(), world.data().join("journal").join(entry.file_name())).unwrap();
    }
    until_running(&world, 1);
    assert!(before.elapsed() < Duration::from_secs(3), "it took {:?}", before.elapsed());
    world.until_done();
    server.stop();
}

#[test]
fn two_servers_on_one_directory_share_the_work() {
    let world = World::new();
    world.deploy("slow", &[]);
    let first = world.serve(&["--workers", "1", "--concurrency", "2"]);
    let second = world.serve(&["--workers", "1", "--concurrency", "2"]);
    enqueue_batch(&world, "slow", &vec!["200".to_owned(); 10]);
    for _ in 0..10 {
        world.enqueue(&["slow", "200"]);
    }
    world.until_done();
    until_completed(&world, 20);
    let completed = figures(&world, "completed");
    assert!(completed.iter().all(|count| *count > 0), "{completed:?}");
    first.stop();
    second.stop();
}

#[test]
fn a_second_server_leaves_what_the_first_one_runs_alone() {
    let world = World::new();
    world.deploy("slow", &[]);
    let first = world.serve(&["--workers", "1"]);
    world.enqueue(&["slow", "3000"]);
    until_running(&world, 1);
    let since = running(&world)[0]["running_since"].clone();
    let second = world.serve(&["--workers", "1"]);
    assert_eq!(running(&world)[0]["running_since"], since);
    world.until_done();
    until_completed(&world, 1);
    assert_eq!(figures(&world, "failed_attempts"), [0, 0]);
    first.stop();
    second.stop();
}

#[test]
fn sigterm_lets_what_runs_finish_and_keeps_what_is_delayed() {
    for signal in ["TERM", "INT"] {
        let world = World::new();
        world.deploy("slow", &[]);
        world.deploy("echo", &[]);
        let mut server = world.serve(&["--workers", "1"]);
        world.enqueue(&["slow", "1500"]);
        let delayed = world.enqueue(&["echo", "later", "--delay", "4s"]);
        until_running(&world, 1);
        server.signal(signal);
        assert_eq!(server.ended(), 0, "{}", server.log());
        let live = world.live();
        assert_eq!(live.len(), 1, "{live:?}");
        assert_eq!((live[0]["id"].as_str(), live[0]["attempts"].as_u64()), (Some(delayed.as_str()), Some(0)));
        let next = world.serve(&["--workers", "1"]);
        world.until_done();
        until_completed(&world, 1);
        assert!(world.dead().is_empty());
        next.stop();
    }
}

#[test]
fn the_status_of_a_server_that_drains_says_which_workers_have_ended_and_blames_no_attempt() {
    let world = World::new();
    world.deploy("slow", &["--timeout", "1h"]);
    world.deploy("cancel", &["--timeout", "1h"]);
    let mut server = world.serve(&["--workers", "2", "--concurrency", "1", "--grace", "1h"]);
    until("both are there", || world.workers().len() == 2);
    world.enqueue(&["cancel", "360000"]);
    until_running(&world, 1);
    world.enqueue(&["slow", "3000000"]);
    until_running(&world, 2);
    server.signal("TERM");
    until("one has ended", || world.workers().len() == 1);
    assert_eq!(figures(&world, "failed_attempts"), [0, 0], "what was put back did not fail");
    let page = world.run(&["status"]).ok().text();
    assert!(page.contains("ended") && !page.contains("starts again"), "{page}");
    server.press_until_ended("TERM");
}

#[test]
fn the_log_of_a_server_is_json_alone_when_that_is_wanted() {
    let world = World::new();
    world.deploy("panics", &["--max-attempts", "1"]);
    let server = world.serve(&["--workers", "1", "--log-format", "json"]);
    world.wait_for(&["panics", "x"]);
    until("it is told", || server.log().contains("moved to the dead letter queue"));
    assert!(server.log().contains("serving on"));
    for line in server.log().lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    server.stop();
}

#[test]
fn what_outlasts_the_grace_time_is_put_back_uncounted() {
    let world = World::new();
    world.deploy("slow", &[]);
    let mut server = world.serve(&["--workers", "1", "--grace", "200ms"]);
    let id = world.enqueue(&["slow", "5000"]);
    until_running(&world, 1);
    let since = Instant::now();
    server.signal("TERM");
    assert_eq!(server.ended(), 0, "{}", server.log());
    assert!(since.elapsed() < Duration::from_secs(4), "it took {:?}", since.elapsed());
    let live = world.live();
    assert_eq!(live.len(), 1, "{live:?}");
    assert_eq!(live[0]["id"], id.as_str());
    assert_eq!((live[0]["attempts"].as_u64(), live[0]["phase"].as_str()), (Some(0), Some("ready")));
    assert_eq!(live[0]["history"], serde_json::json!([]));
}

#[test]
fn a_second_signal_ends_at_once_and_loses_nothing() {
    let world = World::new();
    world.deploy("slow", &[]);
    let mut server = world.serve(&["--workers", "1", "--grace", "1m"]);
    let id = world.enqueue(&["slow", "30000"]);
    until_running(&world, 1);
    let workers = world.workers();
    server.signal("TERM");
    until("it drains", || server.log().contains("draining"));
    let since = Instant::now();
    server.press_until_ended("TERM");
    assert!(since.elapsed() < Duration::from_secs(4), "it took {:?}", since.elapsed());
    until("its workers are gone", || !workers.iter().any(|pid| is_alive(*pid)));
    let live = world.live();
    assert_eq!(live.len(), 1, "{live:?}");
    assert_eq!(live[0]["id"], id.as_str());
}

#[test]
fn signals_that_come_together_are_one() {
    let world = World::new();
    world.deploy("slow", &[]);
    let mut server = world.serve(&["--workers", "1"]);
    world.enqueue(&["slow", "1500"]);
    until_running(&world, 1);
    server.signal("INT");
    server.signal("TERM");
    assert_eq!(server.ended(), 0, "{}", server.log());
    assert_eq!(world.live(), [serde_json::Value::Null; 0], "what ran has come to its end");
}

#[test]
fn a_worker_that_drains_for_long_is_not_taken_for_stopped() {
    let world = World::new();
    world.deploy("slow", &[]);
    let mut server = world.serve(&["--workers", "1"]);
    world.enqueue(&["slow", "4000"]);
    until("it runs", || world.live().iter().any(|one| one["phase"] == "running"));
    server.signal("TERM");
    assert_eq!(server.ended(), 0);
    assert!(!server.log().contains("says nothing"), "{}", server.log());
}

#[test]
fn nothing_new_is_started_while_a_server_drains() {
    let world = World::new();
    world.deploy("slow", &["--timeout", "1h"]);
    world.deploy("echo", &[]);
    let mut server = world.serve(&["--workers", "1", "--concurrency", "1", "--grace", "1h"]);
    let runs = world.enqueue(&["slow", "3000000"]);
    until_running(&world, 1);
    let waiting = world.enqueue(&["slow", "20000"]);
    server.signal("TERM");
    until("it drains", || server.log().contains("draining"));
    let figures = &world.status()["servers"][0];
    assert_eq!((figures["pid"].as_u64(), &figures["draining"]), (Some(server.pid().into()), &true.into()));
    assert!(world.run(&["status"]).ok().text().contains("it stops"));
    let here = world.run(&["enqueue", "echo", "by myself", "--wait"]).ok();
    assert_eq!(here.text(), "by myself", "a server that drains is not waited for");
    let during = world.enqueue(&["slow", "20000"]);
    server.press_until_ended("TERM");
    let mut ids: Vec<String> = world.live().iter().map(|live| live["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    assert_eq!(ids, [runs.clone(), waiting, during]);
    assert!(world.live().iter().all(|live| live["id"] == runs.as_str() || live["attempts"] == 0), "{:?}", world.live());
}

#[test]
fn how_far_a_running_task_says_it_is_can_be_looked_at_meanwhile() {
    let world = World::new();
    world.deploy("cancel", &["--timeout", "1h"]);
    let server = world.serve(&["--workers", "1"]);
    let id = world.enqueue(&["cancel", "360000"]);
    let shown = || world.run(&["show", &id, "--json"]).ok().json()["progress"].clone();
    until("it has said something", || shown()["done"].as_u64().is_some_and(|done| done > 1));
    let progress = shown();
    assert_eq!((&progress["total"], &progress["note"]), (&360_000.into(), &"working".into()), "{progress}");
    until("it has said more", || shown()["done"].as_u64() > progress["done"].as_u64());
    let page = world.run(&["show", &id]).ok().text();
    assert!(page.contains(" of 360000 (0 %), working"), "{page}");
    assert!(world.run(&["list"]).ok().text().contains("running, 0 %"));
    world.run(&["cancel", &id]).ok();
    server.stop();
}

#[test]
fn a_long_backlog_in_one_log_is_worked_on_by_all_workers() {
    let world = World::new();
    world.deploy("echo", &[]);
    assert_eq!(enqueue_batch(&world, "echo", &numbered(20_000)).len(), 20_000);
    let server = world.serve(&["--workers", "2"]);
    world.until_done();
    until_completed(&world, 20_000);
    let completed = figures(&world, "completed");
    assert!(completed.len() == 2 && completed.iter().all(|count| *count > 0), "{completed:?}");
    server.stop();
}

#[test]
fn what_waits_for_long_goes_to_a_worker_with_a_free_place_that_is_not_idle() {
    let world = World::new();
    world.deploy("slow", &["--timeout", "1h"]);
    let server = world.serve(&["--workers", "2", "--concurrency", "2"]);
    until("both are there", || world.workers().len() == 2);
    // One batch goes to one worker, and a half of it from there to the other, which is idle.
    assert_eq!(enqueue_batch(&world, "slow", &vec!["3000000".to_owned(); 12]).len(), 12);
    for _ in 0..8 {
        until_running(&world, 4);
        let oldest = running(&world)[0]["id"].as_str().unwrap().to_owned();
        world.run(&["cancel", &oldest]).ok();
    }
    until_running(&world, 4);
    running(&world).iter().for_each(|live| drop(world.run(&["cancel", live["id"].as_str().unwrap()]).ok()));
    server.stop();
}

#[test]
fn a_worker_that_was_stopped_is_named_and_holds_nobody_up() {
    let world = World::new();
    world.deploy("echo", &[]);
    let server = world.serve(&["--workers", "2"]);
    until("both are there", || world.workers().len() == 2);
    let stopped = world.workers()[0];
    signal(stopped, "STOP");
    until("it is missed", || world.status()["problems"].to_string().contains(&format!("pid {stopped}")));
    for payload in ["a", "b", "c", "d"] {
        assert_eq!(world.run(&["enqueue", "echo", payload, "--wait"]).ok().text(), payload);
    }
    signal(stopped, "CONT");
    until("it is back", || !world.status()["problems"].to_string().contains(&format!("pid {stopped}")));
    server.stop();
}

#[test]
fn a_cancellation_is_answered_when_the_worker_that_was_asked_dies() {
    let world = World::new();
    world.deploy("slow", &[]);
    let server = world.serve(&["--workers", "1"]);
    let id = world.enqueue(&["slow", "20000"]);
    until_running(&world, 1);
    let worker = world.workers()[0];
    signal(worker, "STOP");
    let asking = world.command(&["cancel", &id]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let waits_in = format!("/proc/{}/wchan", asking.id());
    until("it has asked", || std::fs::read_to_string(&waits_in).is_ok_and(|place| place.contains("unix_stream")));
    // Its question is with the server before the answer to this one.
    world.status();
    signal(worker, "KILL");
    let answer = asking.wait_with_output().unwrap();
    let says = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(!answer.status.success() && says.contains("died before it answered"), "{says}");
    server.stop();
}

#[test]
fn a_server_that_was_stopped_does_not_hide_what_is_on_the_disk() {
    let world = World::new();
    world.deploy("echo", &[]);
    let server = world.serve(&["--workers", "1"]);
    world.enqueue(&["echo", "x", "--delay", "1h"]);
    server.signal("STOP");
    let status = world.status();
    assert_eq!(status["live"]["delayed"], 1, "{status}");
    assert!(status["problems"].to_string().contains("has not answered for 3 s"), "{status}");
    server.signal("CONT");
    server.stop();
}
