//! Processes that die at any moment: nothing acknowledged is lost, and what kills workers ends as dead.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::stories::{dead_count, dead_task, enqueue_batch, figures, kill, running, until_completed, until_running};
use crate::world::{World, is_alive, until};

#[test]
fn the_work_of_a_killed_worker_goes_on_in_another() {
    let world = World::new();
    world.deploy("slow", &[]);
    let server = world.serve(&["--workers", "2"]);
    for _ in 0..6 {
        world.enqueue(&["slow", "2000"]);
    }
    until_running(&world, 6);
    let victim = world.workers()[0];
    kill(victim);
    world.until_done();
    until("the server has two workers again", || world.workers().len() == 2);
    assert!(!world.workers().contains(&victim));
    assert_eq!(figures(&world, "restarts").iter().sum::<u64>(), 1);
    assert!(world.dead().is_empty());
    server.stop();
}

#[test]
fn workers_of_a_killed_server_exit_and_the_next_server_finishes_everything() {
    let world = World::new();
    world.deploy("slow", &[]);
    let mut server = world.serve(&["--workers", "2", "--concurrency", "2"]);
    let mut ids: BTreeSet<String> = (0..8).map(|_| world.enqueue(&["slow", "4000"])).collect();
    until_running(&world, 4);
    let workers = world.workers();
    server.signal("KILL");
    assert_eq!(server.ended(), -1);
    until("the workers are gone", || !workers.iter().any(|pid| is_alive(*pid)));
    let left: BTreeSet<String> = world.live().iter().map(|live| live["id"].as_str().unwrap().to_owned()).collect();
    ids.retain(|id| left.contains(id));
    assert_eq!(ids, left);
    assert!(left.len() >= 4, "what waited is there: {left:?}");
    let orphaned = world.live().iter().filter(|live| live["phase"] == "orphaned").count();
    let counts = world.status()["live"].clone();
    assert_eq!(
        (&counts["orphaned"], &counts["ready"]),
        (&orphaned.into(), &(left.len() - orphaned).into()),
        "{counts}"
    );
    let next = world.serve(&["--workers", "1"]);
    world.until_done();
    assert!(world.dead().is_empty());
    until_completed(&world, left.len() as u64);
    next.stop();
}

#[test]
fn workers_of_a_server_that_is_killed_while_it_drains_do_not_go_on_until_the_grace_ends() {
    let world = World::new();
    world.deploy("slow", &["--timeout", "1h"]);
    let mut server = world.serve(&["--workers", "1", "--grace", "1h"]);
    let id = world.enqueue(&["slow", "3000000"]);
    until_running(&world, 1);
    let worker = world.workers()[0];
    server.signal("TERM");
    until("it drains", || server.log().contains("draining"));
    assert!(is_alive(worker));
    server.signal("KILL");
    assert_eq!(server.ended(), -1);
    until("its worker is gone", || !is_alive(worker));
    let live = world.live();
    assert_eq!((live[0]["id"].as_str(), &live[0]["attempts"]), (Some(id.as_str()), &0.into()), "{live:?}");
}

#[test]
fn an_id_that_was_printed_is_never_lost() {
    let world = World::new();
    world.deploy("echo", &[]);
    let ids: BTreeSet<String> = (0..10).map(|_| enqueue_and_kill(&world)).collect();
    let live: BTreeSet<String> = world.live().iter().map(|live| live["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(live, ids);
    let server = world.serve(&["--workers", "1"]);
    world.until_done();
    until_completed(&world, 10);
    server.stop();
}

/// Kills `enqueue` with the signal that nobody can handle, as soon as it printed the id.
fn enqueue_and_kill(world: &World) -> String {
    let mut child = world.command(&["enqueue", "echo", "safe"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(line.trim().len(), 36, "an id: {line}");
    line.trim().to_owned()
}

/// Plays a payload that kills its worker: kills all workers whenever it runs, until it is dead.
fn kill_workers_under(world: &World, id: &str) -> u32 {
    let (mut kills, mut killed) = (0, None);
    until("the poison is dead", || {
        let runs = running(world);
        let since = runs.iter().find(|live| live["id"] == id).map(|live| live["running_since"].clone());
        // A dying worker still seems to run what it ran; only another start is a new attempt.
        if since.is_some() && since != killed {
            killed = since;
            assert!(kills == 0 || runs.len() == 1, "a suspect runs alone: {runs:?}");
            world.workers().into_iter().for_each(kill);
            kills += 1;
        }
        dead_count(world) > 0
    });
    kills
}

#[test]
fn a_payload_that_kills_its_worker_at_every_attempt_ends_as_dead() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "2"]);
    let server = world.serve(&["--workers", "1"]);
    let id = world.enqueue(&["slow", "60000"]);
    let kills = kill_workers_under(&world, &id);
    assert!(kills >= 2, "{kills}");
    let dead = dead_task(&world, &id);
    assert_eq!(dead["verdict"], "host-crash");
    assert_eq!(dead["attempts"], 2);
    assert_eq!(dead["history"].as_array().unwrap().len(), 2);
    assert!(world.live().is_empty());
    world.enqueue(&["slow", "1"]);
    world.until_done();
    assert_eq!(dead_count(&world), 1);
    server.stop();
}

/// They were there when it killed the worker, but they are not to blame: with a budget of two, a
/// second crash beside the poison would be their end.
#[test]
fn neighbours_of_a_poison_all_complete() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "2"]);
    let poison = enqueue_batch(&world, "slow", &["60000", "900", "900", "900", "900"].map(str::to_owned))[0].clone();
    let server = world.serve(&["--workers", "1"]);
    until_running(&world, 5);
    kill_workers_under(&world, &poison);
    world.until_done();
    let dead = world.dead();
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["id"], poison.as_str());
    server.stop();
}

#[test]
fn a_worker_that_dies_once_makes_nobody_dead() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "2"]);
    let server = world.serve(&["--workers", "1"]);
    for _ in 0..4 {
        world.enqueue(&["slow", "1500"]);
    }
    until_running(&world, 4);
    kill(world.workers()[0]);
    world.until_done();
    assert!(world.dead().is_empty(), "{:?}", world.dead());
    until_completed(&world, 4);
    server.stop();
}

#[test]
fn two_hundred_are_done_although_workers_are_killed_again_and_again() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "20"]);
    let server = world.serve(&["--workers", "2", "--concurrency", "4"]);
    for round in 1..=4 {
        enqueue_batch(&world, "slow", &vec!["40".to_owned(); 50]);
        until("some run", || !running(&world).is_empty());
        let workers = world.workers();
        kill(workers[round % workers.len()]);
        until("it was seen", || figures(&world, "restarts").iter().sum::<u64>() == round as u64);
    }
    world.until_done();
    assert!(world.dead().is_empty(), "{:?}", world.dead());
    let status = world.status();
    assert_eq!((status["live"]["ready"].as_u64(), status["dead"].as_u64()), (Some(0), Some(0)));
    server.stop();
}
