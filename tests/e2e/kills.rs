//! Rounds of SIGKILL at random: servers, workers, enqueuers and retries on one directory, under load.
//!
//! Every invocation here dies for good, again and again, so each one that was acknowledged must be live
//! or dead at every moment, and dead at the end: whatever is missing was lost.
//!
//! ```text
//! WASMQ_KILL_ROUNDS=1000 cargo test -p wasmq --test e2e -- kills --nocapture
//! ```
//!
//! `WASMQ_KILL_SEED` repeats the choices of a run, though not its timing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::stories::kill;
use crate::world::{Server, World, until};

const ROUNDS: u64 = 12;
const SERVERS: usize = 2;
const LINES: u64 = 300;

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

/// Enqueues many lines, is killed after some of them were acknowledged, and returns the ids it printed.
fn enqueue_and_kill(world: &World, dice: &mut Dice) -> Vec<String> {
    let lines: String = (0..LINES).map(|n| format!("payload {n}\n")).collect();
    let file = world.file("lines", lines.as_bytes());
    let mut child = world
        .command(&["enqueue", "sink", "--batch", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut printed: Vec<String> = lines.by_ref().take(dice.below(LINES) as usize).collect();
    let _ = child.kill();
    printed.extend(lines);
    child.wait().unwrap();
    // The last line may have been cut.
    printed.into_iter().filter(|id| id.len() == 36).collect()
}

fn start_retry(world: &World) -> Child {
    let mut command = world.command(&["dlq", "retry", "--task", "sink"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn serve(world: &World) -> Server {
    world.serve(&["--workers", "2"])
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
    let mut dice = Dice(seed);
    let world = World::new();
    world.deploy_as("sink", &crate::world::guest_file("permanent"), &["--max-attempts", "1000"]);
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| serve(&world)).collect();
    let mut acknowledged = BTreeSet::new();
    let mut cut_short = 0;
    for _ in 0..rounds {
        acknowledged.extend(enqueue_and_kill(&world, &mut dice));
        let mut retry = start_retry(&world);
        match dice.below(3) {
            0 => {
                let at = dice.below(SERVERS as u64) as usize;
                servers[at].signal("KILL");
                servers[at].ended();
                servers[at] = serve(&world);
            }
            1 => world.workers().into_iter().take(1 + dice.below(2) as usize).for_each(kill),
            _ => std::thread::sleep(Duration::from_millis(dice.below(50))),
        }
        std::thread::sleep(Duration::from_millis(dice.below(40)));
        cut_short += u32::from(retry.try_wait().unwrap().is_none());
        let _ = retry.kill();
        retry.wait().unwrap();
    }
    until("nothing is live", || world.live().is_empty());
    let dead = dead(&world);
    let lost: Vec<_> = acknowledged.iter().filter(|id| !dead.contains_key(*id)).collect();
    // Whether they are gone or were only overlooked makes all the difference to whoever reads this.
    let still = || lost.iter().filter(|id| world.run(&["show", id]).stderr.contains("neither live nor")).count();
    assert!(
        lost.is_empty(),
        "of {} acknowledged {} are not listed, {} are gone; seed {seed}",
        acknowledged.len(),
        lost.len(),
        still()
    );
    let twice = dead.values().filter(|one| one["attempts"].as_u64() > Some(1)).count();
    let replayed: u64 = dead.values().filter_map(|one| one["replays"].as_u64()).sum();
    println!(
        "{} acknowledged, none lost; {} dead, {twice} of them ran more than once since their last replay; {replayed} \
         replays, {cut_short} retries cut short",
        acknowledged.len(),
        dead.len()
    );
    servers.into_iter().for_each(Server::stop);
}
