//! Poison pills: payloads at whose start the worker is killed, beside others that are not to blame.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;

use crate::stories::{dead_count, deploy_as, enqueue_batch, kill, running, until_completed, until_running};
use crate::world::{World, guest_file, until};

/// Plays poison: kills the worker that holds an invocation whenever an attempt of it starts, until it is
/// dead. Returns how many attempts were killed. `each` is told of every start before the kill.
fn kill_at_every_start(world: &World, id: &str, mut each: impl FnMut(u32)) -> u32 {
    let (mut kills, mut killed) = (0, None);
    until("the poison is dead", || {
        let started = running(world).iter().find(|live| live["id"] == id).map(|live| live["running_since"].clone());
        // A dying worker still seems to run what it ran; only another start is a new attempt.
        if started.is_some() && started != killed {
            killed = started;
            kills += 1;
            each(kills);
            holders(world, id).into_iter().for_each(kill);
        }
        world.dead().iter().any(|dead| dead["id"] == id)
    });
    kills
}

/// The workers in whose logs an invocation is.
fn holders(world: &World, id: &str) -> Vec<u32> {
    let raw = u128::from_str_radix(&id.replace('-', ""), 16).unwrap().to_be_bytes();
    let status = world.status();
    let servers = status["servers"].as_array().unwrap();
    let workers = servers.iter().flat_map(|server| server["workers"].as_array().unwrap());
    let holds = |worker: &&Value| log_bytes(world, worker["log"].as_str().unwrap()).windows(16).any(|some| some == raw);
    workers.filter(holds).map(|worker| worker["pid"].as_u64().unwrap() as u32).collect()
}

fn log_bytes(world: &World, log: &str) -> Vec<u8> {
    let files = std::fs::read_dir(world.data().join("journal")).unwrap().filter_map(Result::ok);
    let own = files.filter(|file| file.file_name().to_string_lossy().starts_with(&format!("wal-v1-{log}-")));
    own.flat_map(|file| std::fs::read(file.path()).unwrap_or_default()).collect()
}

fn verdicts(task: &Value) -> Vec<&str> {
    task["history"].as_array().unwrap().iter().map(|attempt| attempt["verdict"].as_str().unwrap()).collect()
}

#[test]
fn it_is_dead_after_exactly_as_many_crashes_as_it_may_have_attempts() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "7"]);
    let server = world.serve(&["--workers", "1"]);
    for attempts in 1..=3 {
        let id = world.enqueue(&["slow", "60000", "--max-attempts", &attempts.to_string()]);
        assert_eq!(kill_at_every_start(&world, &id, |_| {}), attempts);
        let dead = world.dead_task(&id);
        assert_eq!((&dead["verdict"], &dead["attempts"]), (&"host-crash".into(), &attempts.into()), "{dead}");
        assert_eq!(dead["max_attempts"], attempts);
        assert_eq!(verdicts(&dead), vec!["host-crash"; attempts as usize]);
    }
    assert!(world.live().is_empty());
    server.stop();
}

#[test]
fn a_policy_can_give_up_at_the_first_crash() {
    let world = World::new();
    deploy_as(&world, "slow", "slow", &["--max-attempts", "3", "--policy", "host-crash=dead"]);
    let server = world.serve(&["--workers", "1"]);
    let id = world.enqueue(&["slow", "60000"]);
    assert_eq!(kill_at_every_start(&world, &id, |_| {}), 1);
    assert_eq!(world.dead_task(&id)["attempts"], 1);
    server.stop();
}

#[test]
fn it_can_be_retried_and_has_its_whole_budget_again() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "1"]);
    let server = world.serve(&["--workers", "1"]);
    let id = world.enqueue(&["slow", "60000"]);
    kill_at_every_start(&world, &id, |_| {});
    world.run(&["dlq", "retry", &id, "--max-attempts", "2"]).ok();
    assert_eq!(kill_at_every_start(&world, &id, |_| {}), 2);
    let dead = world.dead_task(&id);
    assert_eq!((&dead["attempts"], &dead["replays"]), (&2.into(), &1.into()));
    assert_eq!(dead["deaths"].as_array().unwrap().len(), 1);
    server.stop();
}

/// With a budget of one, a crash that counted against a neighbour would be its end.
#[test]
fn neighbours_with_a_single_attempt_complete_and_are_blamed_for_nothing() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "1"]);
    let payloads = ["60000", "2500", "2500"].map(str::to_owned);
    let ids = enqueue_batch(&world, "slow", &payloads);
    let server = world.serve(&["--workers", "1"]);
    until_running(&world, 3);
    let kills = kill_at_every_start(&world, &ids[0], |start| {
        assert!(start == 1 || running(&world).len() == 1, "a suspect runs alone: {:?}", running(&world));
    });
    assert_eq!(kills, 2, "once in company, once alone");
    world.until_done();
    assert_eq!(world.dead().len(), 1, "{:?}", world.dead());
    assert_eq!(verdicts(&world.dead_task(&ids[0])), ["host-crash", "host-crash"]);
    server.stop();
}

#[test]
fn everybody_elses_work_goes_on_while_workers_are_killed() {
    let world = World::new();
    deploy_as(&world, "poison", "spin", &["--timeout", "10m", "--max-attempts", "3"]);
    world.deploy("slow", &["--max-attempts", "2"]);
    world.deploy("echo", &["--max-attempts", "2"]);
    let server = world.serve(&["--workers", "2", "--concurrency", "4"]);
    let id = world.enqueue(&["poison"]);
    let kills = kill_at_every_start(&world, &id, |start| {
        enqueue_batch(&world, "slow", &vec!["30".to_owned(); 40]);
        let payload = format!("beside start {start}");
        let mut echo = world.command(&["enqueue", "echo", &payload, "--wait"]).stdout(Stdio::null()).spawn().unwrap();
        until("an echo is answered meanwhile", || echo.try_wait().unwrap().is_some_and(|status| status.success()));
        assert!(running(&world).iter().any(|live| live["id"] == id.as_str()), "it still runs meanwhile");
    });
    assert!(kills >= 3, "{kills}");
    world.until_done();
    let dead = world.dead();
    assert_eq!(dead.iter().map(|dead| dead["id"].as_str().unwrap()).collect::<Vec<_>>(), [id.as_str()]);
    assert_eq!(dead[0]["verdict"], "host-crash");
    server.stop();
}

#[test]
fn suspects_are_marked_wherever_somebody_looks() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "2"]);
    let ids = enqueue_batch(&world, "slow", &vec!["3000".to_owned(); 3]);
    let server = world.serve(&["--workers", "1"]);
    until_running(&world, 3);
    kill(world.workers()[0]);
    let suspects = || -> Vec<Value> { world.live().into_iter().filter(|live| live["suspect"] == true).collect() };
    until("one runs alone and two wait", || running(&world).len() == 1 && suspects().len() == 2);
    let first = &suspects()[0];
    assert_eq!((&first["suspect_since_attempt"], &first["phase"]), (&1.into(), &"ready".into()), "{first}");
    assert_eq!(verdicts(first), ["host-crash"]);
    let listed = world.run(&["list"]).ok();
    assert_eq!(listed.text().matches("ready, suspect").count(), 2, "{}", listed.text());
    assert!(listed.stderr.contains("suspect: its worker died during its last attempt; it runs alone next"));
    let shown = world.run(&["show", first["id"].as_str().unwrap()]).ok().text();
    assert!(shown.contains("a suspect: its worker died during attempt 1, it runs alone next"), "{shown}");
    let live = world.status()["live"].clone();
    assert_eq!((&live["suspects"], &live["alone"]), (&2.into(), &1.into()), "{live}");
    assert!(world.run(&["status"]).ok().text().contains("suspects of a crash"));
    let alone = &running(&world)[0];
    assert_eq!((&alone["suspect"], &alone["attempts"]), (&false.into(), &2.into()), "it runs alone now: {alone}");
    world.until_done();
    assert!(world.dead().is_empty() && ids.len() == 3);
    server.stop();
}

/// What backs off says so, whoever owns its log.
#[test]
fn a_suspect_that_backs_off_is_listed_as_delayed() {
    let world = World::new();
    let settings = ["--backoff", "fixed:1h", "--max-attempts", "2"];
    world.deploy_as("slow", &guest_file("slow"), &settings);
    let server = world.serve(&["--workers", "1"]);
    let id = world.enqueue(&["slow", "60000"]);
    until_running(&world, 1);
    kill(world.workers()[0]);
    let waiting = world.until_phase(&id, "delayed");
    let due = waiting["due_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(due.duration_since(jiff::Timestamp::now()).as_secs() > 3000, "{waiting}");
    assert_eq!((&waiting["suspect"], &waiting["attempts"]), (&true.into(), &1.into()));
    server.stop();
    let next = world.serve(&["--workers", "1"]);
    assert_eq!(world.until_phase(&id, "delayed")["due_at"], waiting["due_at"], "a restart does not cut it short");
    next.stop();
}

#[test]
fn twenty_graceful_restarts_use_up_no_attempt() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "1"]);
    let id = world.enqueue(&["slow", "60000"]);
    for round in 0..20 {
        let mut server = world.serve(&["--workers", "1", "--grace", "0s"]);
        until_running(&world, 1);
        assert_eq!(running(&world)[0]["attempts"], 1, "round {round}");
        server.signal("TERM");
        assert_eq!(server.ended(), 0, "{}", server.log());
    }
    let live = world.live();
    assert_eq!((live.len(), &live[0]["id"], &live[0]["attempts"]), (1, &id.as_str().into(), &0.into()));
    assert_eq!((&live[0]["history"], &live[0]["suspect"]), (&Value::Array(Vec::new()), &false.into()));
    assert!(world.dead().is_empty());
}

/// A worker that is told to stop by somebody else than its server does it in the same orderly way.
#[test]
fn workers_that_are_restarted_one_by_one_use_up_no_attempt() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "1"]);
    let server = world.serve(&["--workers", "1", "--grace", "0s"]);
    let id = world.enqueue(&["slow", "3000"]);
    let mut stopped = BTreeSet::new();
    for _ in 0..3 {
        until("it runs in a new worker", || {
            running(&world).len() == 1 && world.workers().iter().any(|pid| !stopped.contains(pid))
        });
        assert_eq!(running(&world)[0]["attempts"], 1);
        let worker = *world.workers().iter().find(|pid| !stopped.contains(*pid)).unwrap();
        crate::world::signal(worker, "TERM");
        stopped.insert(worker);
    }
    world.until_done();
    until_completed(&world, 1);
    assert!(world.dead().is_empty(), "{id}: {:?}", world.dead());
    server.stop();
}

/// It has not shown itself to be harmless, so it must not take neighbours along.
#[test]
fn a_suspect_that_a_graceful_stop_put_back_still_runs_alone() {
    let world = World::new();
    world.deploy("slow", &["--max-attempts", "3"]);
    let server = world.serve(&["--workers", "1", "--grace", "0s"]);
    let id = world.enqueue(&["slow", "60000"]);
    until_running(&world, 1);
    kill(world.workers()[0]);
    until("it runs again", || running(&world).iter().any(|live| live["attempts"] == 2));
    server.stop();
    assert_eq!((&world.live()[0]["suspect"], &world.live()[0]["attempts"]), (&true.into(), &1.into()));
    enqueue_batch(&world, "slow", &vec!["50".to_owned(); 10]);
    let next = world.serve(&["--workers", "1"]);
    assert_eq!(kill_at_every_start(&world, &id, |_| assert_eq!(running(&world).len(), 1, "it runs alone")), 2);
    assert_eq!(world.dead_task(&id)["attempts"], 3);
    world.until_done();
    assert_eq!(dead_count(&world), 1);
    next.stop();
}
