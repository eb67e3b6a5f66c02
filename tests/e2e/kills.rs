//! Rounds of SIGKILL at random: servers, workers, enqueuers and retries on one directory, under load.
//!
//! Half of the invocations die for good, again and again, so each of them that was acknowledged must be dead
//! at the end. The others append their ids to a log and complete, so each of them must be in the log, and
//! the log says how many were run more than once. Whatever is missing was lost.
//!
//! ```text
//! WASMQ_KILL_ROUNDS=1000 cargo test -p wasmq --test e2e -- kills:: --nocapture
//! ```
//!
//! `WASMQ_KILL_SEED` repeats the choices of a run, though not its timing.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::stories::kill;
use crate::world::{Server, World, guest_file, until};

const ROUNDS: u64 = 25;
const SERVERS: usize = 2;
const LINES: u64 = 60;
/// What dies for good each time that it is run.
const SINK: &str = "sink";
/// What completes, and appends its id to the log of its server each time that it is run.
const LOGS: &str = "logs";

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// A process that enqueues many lines.
fn start_enqueue(world: &World, task: &str) -> Child {
    let lines: String = (0..LINES).map(|n| format!("payload {n}\n")).collect();
    let file = world.file("lines", lines.as_bytes());
    let mut command = world.command(&["enqueue", task, "--batch", file.to_str().unwrap()]);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The ids that it printed. The last line may have been cut.
fn printed(enqueuer: Child) -> Vec<String> {
    let text = String::from_utf8(enqueuer.wait_with_output().unwrap().stdout).unwrap();
    text.lines().filter(|id| id.len() == 36).map(str::to_owned).collect()
}

/// The workers of a server, found without asking it: that would take longer than what is to be hit.
fn workers_of(server: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap_or_default();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn start_retry(world: &World) -> Child {
    let mut command = world.command(&["dlq", "retry", "--task", SINK]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn serve(world: &World) -> Server {
    world.serve(&["--workers", "2", "--verbose"])
}

/// Processes on one directory, what they acknowledged, and what was killed.
struct Field {
    world: World,
    dice: Dice,
    servers: Vec<Server>,
    acknowledged: BTreeMap<&'static str, BTreeSet<String>>,
    killed: BTreeMap<&'static str, u64>,
}

impl Field {
    fn new(seed: u64) -> Self {
        let world = World::new();
        for (task, guest) in [(SINK, "permanent"), (LOGS, "log-progress")] {
            let quick = ["--max-attempts", "1000", "--backoff", "fixed:50ms", "--jitter", "0"];
            world.deploy_as(task, &guest_file(guest), &quick);
        }
        let servers = (0..SERVERS).map(|_| serve(&world)).collect();
        Self { world, dice: Dice(seed), servers, acknowledged: BTreeMap::new(), killed: BTreeMap::new() }
    }

    fn round(&mut self) {
        let mut enqueuers = [SINK, LOGS].map(|task| (task, start_enqueue(&self.world, task)));
        let mut retries = [start_retry(&self.world), start_retry(&self.world)];
        self.wait_at_most(60);
        for (_, enqueuer) in &mut enqueuers {
            if self.dice.below(3) == 0 {
                self.kill("enqueuers", enqueuer);
            }
        }
        self.wait_at_most(100);
        let fallen = self.kill_servers();
        self.wait_at_most(40);
        for retry in &mut retries {
            self.kill("retries", retry);
            retry.wait().unwrap();
        }
        for (task, enqueuer) in enqueuers {
            for id in printed(enqueuer) {
                assert!(self.acknowledged.entry(task).or_default().insert(id), "an id was given out twice");
            }
        }
        if let Some(at) = fallen {
            self.servers[at].ended();
            self.servers[at] = serve(&self.world);
        }
    }

    fn wait_at_most(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(self.dice.below(ms)));
    }

    fn kill(&mut self, kind: &'static str, child: &mut Child) {
        *self.killed.entry(kind).or_default() += u64::from(child.try_wait().unwrap().is_none());
        let _ = child.kill();
    }

    /// A supervisor, workers, both, or nobody. Returns the place of the supervisor.
    fn kill_servers(&mut self) -> Option<usize> {
        let at = self.dice.below(SERVERS as u64) as usize;
        let pid = self.servers[at].pid();
        let what = self.dice.below(4);
        if what & 1 == 1 {
            let victims: Vec<u32> = workers_of(pid).into_iter().take(1 + self.dice.below(2) as usize).collect();
            *self.killed.entry("workers").or_default() += victims.len() as u64;
            victims.into_iter().for_each(kill);
        }
        if what & 2 == 0 {
            return None;
        }
        kill(pid);
        *self.killed.entry("supervisors").or_default() += 1;
        Some(at)
    }

    /// How often each id was appended to the logs of the servers.
    fn runs(&self) -> BTreeMap<String, u64> {
        let mut runs = BTreeMap::new();
        for log in self.world.server_logs() {
            // One of the records that the task writes in each run.
            for line in log.lines().filter(|line| line.contains(" level=\"TRACE\" ")) {
                if let Some((_, after)) = line.split_once(" id=") {
                    *runs.entry(after.chars().take(36).collect()).or_default() += 1;
                }
            }
        }
        runs
    }

    /// Fails if any of these acknowledged ids is not among those that are accounted for.
    fn none_is_lost(&self, task: &str, seed: u64, is_there: impl Fn(&String) -> bool) -> usize {
        let acknowledged = &self.acknowledged[task];
        let lost: Vec<_> = acknowledged.iter().filter(|id| !is_there(id)).collect();
        // Whether they are gone or were only overlooked makes all the difference to whoever reads this.
        let is_gone = |id: &&&String| self.world.run(&["show", id]).stderr.contains("neither live nor");
        assert!(
            lost.is_empty(),
            "{task}: of {} acknowledged {} are not accounted for, {} of the first ten are gone; seed {seed}: {:?}",
            acknowledged.len(),
            lost.len(),
            lost.iter().take(10).filter(is_gone).count(),
            lost.iter().take(10).collect::<Vec<_>>()
        );
        acknowledged.len()
    }
}

fn dead(world: &World) -> BTreeMap<String, Value> {
    let listed = world.run(&["dlq", "list", "--json", "--limit", "1000000"]).ok().lines();
    let count = listed.len();
    let dead: BTreeMap<_, _> = listed.into_iter().map(|one| (one["id"].as_str().unwrap().to_owned(), one)).collect();
    assert_eq!(dead.len(), count, "an id is dead twice");
    dead
}

#[test]
fn nothing_acknowledged_is_lost_whoever_is_killed_and_when() {
    let (rounds, seed) =
        (number("WASMQ_KILL_ROUNDS", ROUNDS), number("WASMQ_KILL_SEED", u64::from(std::process::id())));
    println!("{rounds} rounds, seed {seed}");
    let mut field = Field::new(seed);
    (0..rounds).for_each(|_| field.round());
    until("nothing is live", || field.world.live().is_empty());
    let (dead, runs) = (dead(&field.world), field.runs());
    let sunk = field.none_is_lost(SINK, seed, |id| dead.contains_key(id));
    let done = field.none_is_lost(LOGS, seed, |id| runs.contains_key(id));
    assert!(dead.values().all(|one| one["task"] == SINK), "what completes is not dead");
    let twice = runs.values().filter(|runs| **runs > 1).count();
    let again = dead.values().filter(|one| one["attempts"].as_u64() > Some(1)).count();
    let replayed: u64 = dead.values().filter_map(|one| one["replays"].as_u64()).sum();
    println!(
        "{} acknowledged, none lost: {sunk} to die and {done} to complete; killed {:?}",
        sunk + done,
        field.killed
    );
    println!("{} dead, {replayed} replays, {again} of them ran more than once since their last one", dead.len());
    println!("{} done, {twice} of them ran more than once", runs.len());
    field.servers.into_iter().for_each(Server::stop);
}

#[test]
fn what_a_killed_worker_ran_runs_again_soon_and_its_place_is_free() {
    let world = World::new();
    world.deploy("spin", &["--timeout", "1h"]);
    world.deploy("echo", &[]);
    let server = world.serve(&["--workers", "1", "--concurrency", "1"]);
    let id = world.enqueue(&["spin", "x"]);
    world.until_phase(&id, "running");
    kill(world.workers()[0]);
    let since = Instant::now();
    until("it runs again", || world.live().iter().any(|live| live["phase"] == "running" && live["attempts"] == 2));
    // The README says a second; nothing here waits for a lease of half a minute.
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    world.run(&["cancel", &id]).ok();
    assert_eq!(world.run(&["enqueue", "echo", "hello", "--wait"]).ok().text(), "hello");
    server.stop();
}
