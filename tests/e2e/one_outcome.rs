//! Everything that happens at once has one outcome: one winner, a clear answer for the others, and an end.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stories::{
    dead_count, deploy_as, enqueue_batch, figures, numbered, ran, running, until_completed, until_running,
    world_of_dead,
};
use crate::world::{Ran, Server, World, guest_file, is_alive, signal, until};

fn start(world: &World, arguments: &[&str]) -> Child {
    world.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn end(child: Child) -> Ran {
    ran(child.wait_with_output().unwrap())
}

fn sum(world: &World, figure: &str) -> u64 {
    figures(world, figure).iter().sum()
}

#[track_caller]
fn until_exit(what: &str, mut child: Child) -> Ran {
    until(what, || child.try_wait().unwrap().is_some());
    end(child)
}

#[test]
fn of_twenty_retries_and_a_delete_one_wins_and_the_others_are_told_who() {
    let (world, ids) = world_of_dead(1);
    let mut children: Vec<Child> = (0..10).map(|_| start(&world, &["dlq", "retry", &ids[0]])).collect();
    children.push(start(&world, &["dlq", "delete", &ids[0]]));
    children.extend((0..10).map(|_| start(&world, &["dlq", "retry", &ids[0]])));
    let ends: Vec<Ran> = children.into_iter().map(end).collect();
    let winners: Vec<usize> = (0..ends.len()).filter(|at| ends[*at].code == 0).collect();
    assert_eq!(winners.len(), 1, "{ends:?}");
    let is_deleted = winners[0] == 10;
    let says = if is_deleted { "was already deleted" } else { "was already retried" };
    for loser in ends.into_iter().filter(|ran| ran.code != 0) {
        loser.fails(5, says);
    }
    assert_eq!((dead_count(&world), world.live().len()), (0, usize::from(!is_deleted)));
}

/// Every payload sleeps about as long as it may take.
#[test]
fn a_timeout_and_a_completion_at_once_have_one_outcome() {
    let world = World::new();
    deploy_as(&world, "slow", "slow", &["--timeout", "250ms", "--max-attempts", "1"]);
    let server = world.serve(&["--workers", "2"]);
    let payloads: Vec<String> = (0..50).map(|n| (235 + n * 30 / 50).to_string()).collect();
    let ids: BTreeSet<String> = enqueue_batch(&world, "slow", &payloads).into_iter().collect();
    world.until_done();
    until("all are counted", || sum(&world, "completed") + sum(&world, "dead") >= 50);
    let dead = world.dead();
    println!("{} timed out, {} completed", dead.len(), sum(&world, "completed"));
    assert_eq!(sum(&world, "completed") + dead.len() as u64, 50, "{dead:?}");
    for one in &dead {
        assert!(ids.contains(one["id"].as_str().unwrap()));
        assert_eq!((&one["verdict"], &one["attempts"]), (&"timeout".into(), &1.into()));
    }
    server.stop();
}

#[test]
fn what_is_cancelled_while_it_runs_ends_as_cancelled_for_everybody() {
    let world = World::new();
    for guest in ["slow", "spin"] {
        deploy_as(&world, guest, guest, &["--timeout", "1h"]);
    }
    let server = world.serve(&["--workers", "1"]);
    for arguments in [&["slow", "60000"][..], &["spin"]] {
        let waiter = start(&world, &[&["enqueue", "--wait", "--json"], arguments].concat());
        until_running(&world, 1);
        let id = world.live()[0]["id"].as_str().unwrap().to_owned();
        let cancels: Vec<Child> = (0..10).map(|_| start(&world, &["cancel", &id])).collect();
        let answers: Vec<Ran> = cancels.into_iter().map(end).collect();
        assert!(answers.iter().any(|ran| ran.code == 0), "{answers:?}");
        assert!(answers.iter().all(|ran| [0, 3].contains(&ran.code)), "{answers:?}");
        let told = until_exit("the waiter is told", waiter);
        assert_eq!((told.code, &told.json()["verdict"]), (26, &"cancelled".into()));
        world.until_done();
        world.run(&["cancel", &id]).fails(3, &id);
    }
    assert!(world.dead().is_empty());
    assert_eq!(sum(&world, "completed"), 0);
    server.stop();
}

#[test]
fn a_task_that_asks_is_told_that_it_is_cancelled_and_its_last_words_are_heard() {
    let world = World::new();
    deploy_as(&world, "cancel", "cancel", &["--timeout", "1h"]);
    let server = world.serve(&["--workers", "1", "-vv"]);
    let waiter = start(&world, &["enqueue", "cancel", "360000", "--wait", "--json"]);
    until("it has asked", || server.log().contains("listening"));
    let id = world.live()[0]["id"].as_str().unwrap().to_owned();
    world.run(&["cancel", &id]).ok();
    assert!(world.live().is_empty(), "it has ended when the cancellation is answered");
    let told = until_exit("the waiter is told", waiter);
    assert_eq!((told.code, &told.json()["verdict"]), (26, &"cancelled".into()));
    assert_eq!(told.json()["failure"]["problem"]["code"], "cancelled", "{}", told.text());
    server.stop();
}

#[test]
fn a_cancellation_that_meets_the_end_has_one_outcome() {
    let world = World::new();
    world.deploy("slow", &[]);
    let server = world.serve(&["--workers", "1"]);
    let ids = enqueue_batch(&world, "slow", &vec!["150".to_owned(); 16]);
    until("some run", || !running(&world).is_empty());
    let cancels: Vec<Child> = ids.iter().map(|id| start(&world, &["cancel", id])).collect();
    let answers: Vec<Ran> = cancels.into_iter().map(end).collect();
    assert!(answers.iter().all(|ran| [0, 3].contains(&ran.code)), "{answers:?}");
    let cancelled = answers.iter().filter(|ran| ran.code == 0).count();
    println!("{cancelled} of {} were cancelled", ids.len());
    world.until_done();
    until_completed(&world, (ids.len() - cancelled) as u64);
    assert!(world.dead().is_empty());
    server.stop();
}

/// Longer than a lease would last, if there were leases.
#[test]
fn a_worker_that_was_stopped_for_long_and_goes_on_has_done_everything_once() {
    let world = World::new();
    deploy_as(&world, "slow", "slow", &["--timeout", "1m"]);
    deploy_as(&world, "sink", "permanent", &[]);
    let server = world.serve(&["--workers", "2", "--concurrency", "4"]);
    enqueue_batch(&world, "slow", &vec!["1000".to_owned(); 8]);
    until("some run", || running(&world).len() >= 4);
    let stopped = world.workers()[0];
    signal(stopped, "STOP");
    let since = Instant::now();
    until("the server knows that it is silent", || world.status()["problems"].to_string().contains("has said nothing"));
    let ids = enqueue_batch(&world, "sink", &numbered(50));
    until("it was stopped for 5 s", || since.elapsed() > Duration::from_secs(5));
    signal(stopped, "CONT");
    world.until_done();
    until_completed(&world, 8);
    until("the failures are counted", || sum(&world, "dead") >= 50);
    assert_eq!(sum(&world, "failed_attempts"), 50, "nothing ran twice");
    assert_eq!(dead_count(&world), ids.len() as u64);
    server.stop();
}

fn server_and_workers(server: &Server, world: &World) -> Vec<u32> {
    world.workers().into_iter().chain([server.pid()]).collect()
}

#[test]
fn a_whole_server_that_is_stopped_keeps_its_work_beside_another_server() {
    let world = World::new();
    deploy_as(&world, "slow", "slow", &["--timeout", "1m"]);
    let first = world.serve(&["--workers", "1"]);
    let held = enqueue_batch(&world, "slow", &vec!["700".to_owned(); 4]);
    until_running(&world, 4);
    let processes = server_and_workers(&first, &world);
    processes.iter().for_each(|pid| signal(*pid, "STOP"));
    let second = world.serve(&["--workers", "1"]);
    let since = Instant::now();
    until("time enough to adopt has passed", || since.elapsed() > Duration::from_secs(2));
    let still: BTreeSet<String> = running(&world).iter().map(|live| live["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(still, held.into_iter().collect(), "the other server has not touched them");
    assert!(running(&world).iter().all(|live| live["attempts"] == 1));
    let other = world.enqueue(&["slow", "1"]);
    until("the other server works", || !world.live().iter().any(|live| live["id"] == other.as_str()));
    processes.iter().for_each(|pid| signal(*pid, "CONT"));
    world.until_done();
    until_completed(&world, 5);
    assert_eq!(sum(&world, "failed_attempts"), 0);
    first.stop();
    second.stop();
}

#[test]
fn nothing_is_entrusted_to_a_server_that_was_stopped_nor_to_its_only_worker() {
    let world = World::new();
    deploy_as(&world, "sink", "permanent", &[]);
    let server = world.serve(&["--workers", "1"]);
    let processes = server_and_workers(&server, &world);
    processes.iter().for_each(|pid| signal(*pid, "STOP"));
    let first = world.enqueue(&["sink", "to a server that was stopped"]);
    signal(server.pid(), "CONT");
    until("the server knows that its worker is silent", || {
        world.status()["problems"].to_string().contains("has said nothing")
    });
    let second = world.enqueue(&["sink", "to a worker that was stopped"]);
    assert_eq!(world.status()["free_logs"], 2, "both are in logs that anybody may adopt");
    processes.iter().for_each(|pid| signal(*pid, "CONT"));
    until("both are dead", || dead_count(&world) == 2);
    let dead: BTreeSet<String> = world.dead().iter().map(|dead| dead["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(dead, BTreeSet::from([first, second]));
    server.stop();
}

#[test]
fn two_servers_that_start_at_once_on_many_free_logs_run_nothing_twice() {
    let world = World::new();
    deploy_as(&world, "sink", "permanent", &[]);
    let children: Vec<Child> = (0..40).map(|n| start(&world, &["enqueue", "sink", &n.to_string()])).collect();
    let ids: BTreeSet<String> = children.into_iter().map(|child| end(child).ok().text().trim().to_owned()).collect();
    assert_eq!((ids.len(), &world.status()["free_logs"]), (40, &40.into()));
    let servers = [(), ()].map(|()| world.start_server(world.command(&["serve", "--workers", "2"])));
    until("all are dead", || dead_count(&world) == 40 && world.live().is_empty());
    until("all are counted", || sum(&world, "dead") >= 40);
    assert_eq!((sum(&world, "dead"), sum(&world, "failed_attempts")), (40, 40), "each ran once");
    for dead in world.dead() {
        assert!(ids.contains(dead["id"].as_str().unwrap()));
        assert_eq!((&dead["attempts"], &dead["replays"]), (&1.into(), &0.into()), "{dead}");
    }
    servers.into_iter().for_each(Server::stop);
}

/// Writes payloads, a thousand at a time, until nobody reads them any more.
fn stream_in(mut pipe: std::process::ChildStdin) {
    let lines = "again\n".repeat(1000);
    while pipe.write_all(lines.as_bytes()).is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn retry_all_ends_although_the_task_still_fails_and_new_failures_stream_in() {
    let world = World::new();
    deploy_as(&world, "job", "permanent", &[]);
    let first: BTreeSet<String> = enqueue_batch(&world, "job", &numbered(600)).into_iter().collect();
    let server = world.serve(&["--workers", "2"]);
    until("they are dead", || dead_count(&world) == 600);
    let output = world.path("retried");
    let mut feeder = world.command(&["enqueue", "job", "--batch", "-"]);
    let mut feeder = feeder.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pipe = feeder.stdin.take().unwrap();
    // It ends with the pipe, which the world's end closes too.
    let feed = std::thread::spawn(move || stream_in(pipe));
    until("new failures stream in", || dead_count(&world) > 640);
    let mut retry = world.command(&["dlq", "retry", "--all", "--json"]);
    let retry = retry.stdout(std::fs::File::create(&output).unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    until_exit("the retry ends", retry).ok();
    let more = dead_count(&world);
    until("failures still stream in", || dead_count(&world) != more);
    feeder.kill().unwrap();
    feeder.wait().unwrap();
    feed.join().unwrap();
    let retried = std::fs::read_to_string(output).unwrap();
    let retried: Vec<Value> = retried.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<&str> = retried.iter().map(|one| one["id"].as_str().unwrap()).collect();
    let distinct: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(distinct.len(), ids.len(), "an id was retried twice by one command");
    assert!(distinct.is_superset(&first), "all that were dead when it began were retried");
    assert!(retried.iter().all(|one| one["replays"] == 1), "nothing was retried again when it failed again");
    world.until_done();
    for dead in world.dead() {
        assert_eq!(dead["replays"], u64::from(distinct.contains(dead["id"].as_str().unwrap())), "{dead}");
    }
    server.stop();
}

/// The attempts time out at the moment at which the server that stops puts them back.
#[test]
fn an_error_at_the_moment_of_a_stop_has_one_outcome() {
    let world = World::new();
    let settings = ["--timeout", "300ms", "--max-attempts", "2", "--backoff", "fixed:1h", "--jitter", "0"];
    world.deploy_as("slow", &guest_file("slow"), &settings);
    for grace in ["0s", "100ms", "200ms", "300ms"] {
        let ids: BTreeSet<String> = enqueue_batch(&world, "slow", &vec!["60000".to_owned(); 8]).into_iter().collect();
        let mut server = world.serve(&["--workers", "1", "--grace", grace]);
        until("they run", || running(&world).len() >= 8);
        server.signal("TERM");
        assert_eq!(server.ended(), 0, "{}", server.log());
        let live: Vec<Value> =
            world.live().into_iter().filter(|live| ids.contains(live["id"].as_str().unwrap())).collect();
        assert_eq!(live.len(), 8, "{live:?}");
        for one in live {
            let ended = one["history"].as_array().unwrap();
            let phase = if ended.is_empty() { "ready" } else { "delayed" };
            assert_eq!((&one["attempts"], one["phase"].as_str()), (&ended.len().into(), Some(phase)), "{one}");
            assert!(ended.iter().all(|attempt| attempt["verdict"] == "timeout"), "{one}");
            world.run(&["cancel", one["id"].as_str().unwrap()]).ok();
        }
    }
    assert!(world.dead().is_empty());
}

#[test]
fn endless_tasks_do_not_hold_up_a_stop_and_use_up_no_attempt() {
    for name in ["TERM", "INT"] {
        let world = World::new();
        deploy_as(&world, "spin", "spin", &["--timeout", "1h", "--max-attempts", "1"]);
        let mut server = world.serve(&["--workers", "2", "--grace", "300ms"]);
        (0..4).for_each(|_| drop(world.enqueue(&["spin"])));
        until_running(&world, 4);
        let since = Instant::now();
        server.signal(name);
        assert_eq!(server.ended(), 0, "{}", server.log());
        assert!(since.elapsed() < Duration::from_secs(15), "it took {:?}", since.elapsed());
        let live = world.live();
        assert_eq!(live.len(), 4);
        for one in live {
            assert_eq!((&one["attempts"], one["phase"].as_str()), (&0.into(), Some("ready")), "{one}");
            assert_eq!((&one["history"], &one["suspect"]), (&Value::Array(Vec::new()), &false.into()));
        }
    }
}

#[test]
fn a_second_interrupt_ends_at_once_and_what_ran_is_still_there() {
    let world = World::new();
    deploy_as(&world, "spin", "spin", &["--timeout", "1h", "--max-attempts", "1"]);
    let mut server = world.serve(&["--workers", "1", "--grace", "1h"]);
    let id = world.enqueue(&["spin"]);
    until_running(&world, 1);
    let workers = world.workers();
    server.signal("INT");
    until("it drains", || server.log().contains("draining"));
    server.press_until_ended("INT");
    until("its workers are gone", || !workers.iter().any(|pid| is_alive(*pid)));
    let live = world.live();
    assert_eq!((live.len(), live[0]["id"].as_str()), (1, Some(id.as_str())));
    assert!(world.dead().is_empty(), "one crash with a budget of one is no verdict before it is taken over");
}

#[test]
fn what_runs_when_its_task_is_removed_ends_and_what_waits_is_kept() {
    let world = World::new();
    deploy_as(&world, "slow", "slow", &["--timeout", "900ms", "--max-attempts", "2"]);
    let server = world.serve(&["--workers", "1", "--concurrency", "3"]);
    let completes = world.enqueue(&["slow", "500"]);
    let dies = world.enqueue(&["slow", "60000", "--max-attempts", "1"]);
    let fails = world.enqueue(&["slow", "60000"]);
    until_running(&world, 3);
    let waits = world.enqueue(&["slow", "1"]);
    world.run(&["task", "remove", "slow"]).ok();
    until("what ran has ended", || running(&world).is_empty());
    world.until_phase(&waits, "awaiting-deploy");
    assert_eq!(world.until_phase(&fails, "awaiting-deploy")["attempts"], 1);
    assert_eq!(world.status()["live"]["awaiting_deploy"], 2);
    until("the dead one is dead", || dead_count(&world) == 1);
    assert_eq!(world.dead_task(&dies)["verdict"], "timeout", "it needs nothing of its component");
    until_completed(&world, 1);
    assert!(!world.live().iter().any(|live| live["id"] == completes.as_str()));
    deploy_as(&world, "slow", "echo", &[]);
    world.until_done();
    until_completed(&world, 3);
    server.stop();
}

#[test]
fn servers_that_were_started_before_a_deploy_run_what_it_brings() {
    let world = World::new();
    world.deploy("slow", &[]);
    let first = world.serve(&["--workers", "1", "--concurrency", "1"]);
    let second = world.serve(&["--workers", "1", "--concurrency", "1"]);
    deploy_as(&world, "late", "slow", &[]);
    enqueue_batch(&world, "late", &vec!["100".to_owned(); 10]);
    (0..10).for_each(|_| drop(world.enqueue(&["late", "100"])));
    world.until_done();
    until_completed(&world, 20);
    assert!(world.dead().is_empty());
    first.stop();
    second.stop();
}

/// Work moves from a busy worker to an idle one, but not away from whoever waits for it there.
#[test]
fn whoever_waits_hears_the_end_although_work_is_handed_over() {
    let world = World::new();
    world.deploy("slow", &[]);
    let server = world.serve(&["--workers", "2", "--concurrency", "1"]);
    until("both workers are there", || world.workers().len() == 2);
    enqueue_batch(&world, "slow", &vec!["3000".to_owned(); 4]);
    let waiters: Vec<Child> = (0..8).map(|_| start(&world, &["enqueue", "--wait", "slow", "10"])).collect();
    for waiter in waiters {
        assert_eq!(until_exit("whoever waits is told", waiter).ok().text(), "slept 10 ms");
    }
    world.until_done();
    let completed = figures(&world, "completed");
    assert!(completed.iter().all(|count| *count > 0), "nothing was handed over: {completed:?}");
    server.stop();
}
