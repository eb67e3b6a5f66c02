//! A disk whose syncs fail: what was acknowledged is there afterwards, what was not is refused with a
//! reason, and the worker ends and goes on with a new log.
//!
//! The failure is injected by strace; where that is missing or not permitted these tests say so and pass.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::privileges::{has_injection, injected};
use crate::stories::{dead_count, figures, ran, run_until_dead};
use crate::world::{Ran, World, guest_file, is_alive, signal, until};

/// The sync of each worker from which on all of its syncs fail.
const FIRST_FAILURE: &str = "8";

/// A server whose workers' syncs fail after a while.
struct Injected {
    strace: Child,
    server: u32,
    log: std::path::PathBuf,
}

impl Injected {
    /// `None`, and a word about it, where nothing can be injected.
    fn serve(world: &World) -> Option<Self> {
        if !has_injection() {
            return None;
        }
        let log = world.path("injected.log");
        let what = format!("fdatasync:error=EIO:when={FIRST_FAILURE}+");
        let mut command = injected(&what, Path::new("/dev/null"), &world.command(&["serve", "--workers", "1"]));
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let strace = command.spawn().unwrap();
        let mut server = None;
        until("the server answers", || {
            server = world.status()["servers"][0]["pid"].as_u64();
            server.is_some()
        });
        Some(Self { strace, server: server.unwrap() as u32, log })
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        // Its workers end with it.
        if is_alive(self.server) {
            signal(self.server, "KILL");
        }
        let _ = self.strace.wait();
    }
}

fn id_of(live: &serde_json::Value) -> String {
    live["id"].as_str().unwrap().to_owned()
}

/// The logs in the journal, by the names of their lock files.
fn logs(world: &World) -> BTreeSet<String> {
    let names = std::fs::read_dir(world.data().join("journal")).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.ends_with(".lock")).collect()
}

/// Enqueues until a worker has died and been started again so often. Returns what was acknowledged, and
/// the refusals.
fn enqueue_until_restarted(world: &World, restarts: u64) -> (BTreeSet<String>, Vec<Ran>) {
    let (mut acknowledged, mut refused) = (BTreeSet::new(), Vec::new());
    until("workers have been started again", || {
        let ran = world.run(&["enqueue", "echo", "later", "--delay", "1h"]);
        if ran.code == 0 {
            acknowledged.insert(ran.text().trim().to_owned());
        } else {
            refused.push(ran);
        }
        figures(world, "restarts").iter().sum::<u64>() >= restarts
    });
    (acknowledged, refused)
}

#[test]
fn after_failed_syncs_everything_acknowledged_is_there_and_workers_go_on_with_new_logs() {
    let world = World::new();
    world.deploy("echo", &[]);
    let Some(server) = Injected::serve(&world) else { return };
    until("a worker has a log", || !logs(&world).is_empty());
    let first_logs = logs(&world);
    let (acknowledged, refused) = enqueue_until_restarted(&world, 3);
    assert!(acknowledged.len() >= 6, "{acknowledged:?}");
    assert!(!refused.is_empty(), "a sync failed under somebody's eyes");
    for ran in &refused {
        assert!(ran.code != 0 && ran.stderr.starts_with("error: "), "{ran:?}");
        assert!(ran.text().is_empty(), "nothing that was not synced was acknowledged: {ran:?}");
    }
    let log = server.log();
    assert!(log.contains("sync ") && log.contains(".log: Input/output error"), "{log}");
    drop(server);

    let live: BTreeSet<String> = world.live().iter().map(id_of).collect();
    assert!(live.is_superset(&acknowledged), "{:?} are lost", acknowledged.difference(&live));
    let next = world.serve(&["--workers", "1"]);
    until("one log is left", || logs(&world).len() == 1);
    assert!(logs(&world).is_disjoint(&first_logs), "it is a new one");
    let live: BTreeSet<String> = world.live().iter().map(id_of).collect();
    assert!(live.is_superset(&acknowledged), "{:?} are lost", acknowledged.difference(&live));
    next.stop();
}

/// A command of which each sync fails in turn, and what is to be found when it said that it did it.
struct Attempted {
    arguments: Vec<String>,
    holds: fn(&World) -> bool,
}

/// A world with a dead task, which is the first argument of `retry` and `delete`.
fn world_with_dead_task() -> (World, String) {
    let world = World::new();
    world.deploy("permanent", &[]);
    world.deploy("echo", &[]);
    let dead = world.enqueue(&["permanent", "payload"]);
    run_until_dead(&world, 1);
    (world, dead)
}

fn attempted(dead: &str) -> Vec<Attempted> {
    let new = guest_file("facts");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    vec![
        Attempted { arguments: words("enqueue echo hello --delay 1h"), holds: |world| has_live(world, "echo") },
        Attempted { arguments: words("enqueue echo hello --wait"), holds: |_| true },
        Attempted { arguments: words(&format!("dlq retry {dead}")), holds: |world| has_live(world, "permanent") },
        Attempted { arguments: words(&format!("dlq delete {dead} --yes")), holds: |world| dead_count(world) == 0 },
        Attempted {
            arguments: words(&format!("deploy facts {}", new.display())),
            holds: |world| has_task(world, "facts"),
        },
        Attempted { arguments: words("task remove echo"), holds: |world| !has_task(world, "echo") },
    ]
}

fn has_live(world: &World, task: &str) -> bool {
    world.live().iter().any(|live| live["task"] == task)
}

fn has_task(world: &World, task: &str) -> bool {
    world.run(&["task", "show", task]).code == 0
}

/// Puts the data directory back as it was.
fn restore(world: &World) {
    let _ = std::fs::remove_dir_all(world.data());
    assert!(Command::new("cp").args(["-a", "before", "data"]).current_dir(world.path(".")).status().unwrap().success());
}

/// Runs it with the nth sync of a kind failing. `None` when it has fewer.
fn with_failing(world: &World, call: &str, nth: u32, arguments: &[&str]) -> Option<Ran> {
    let trace = world.path("trace");
    let what = format!("{call}:error=EIO:when={nth}");
    let done = ran(injected(&what, &trace, &world.command(arguments)).output().unwrap());
    std::fs::read_to_string(trace).unwrap().contains("INJECTED").then_some(done)
}

/// What was said is what a fresh process finds.
#[track_caller]
fn is_no_lie(world: &World, done: &Ran, one: &Attempted) {
    if done.code == 0 {
        // The cache of compiled code may fail; everything else must not.
        assert!(done.stderr.contains("cannot keep the precompiled component"), "a sync failed: {done:?}");
        assert!((one.holds)(world), "{done:?}");
    } else {
        assert_eq!(done.code, 8, "{done:?}");
        let told: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(told.len() == 1 && told[0].contains("Input/output error"), "{done:?}");
        assert!(done.text().is_empty(), "{done:?}");
    }
}

#[test]
fn whichever_sync_of_a_command_fails_it_says_so_and_can_be_repeated() {
    if !has_injection() {
        return;
    }
    let (world, dead) = world_with_dead_task();
    std::fs::rename(world.data(), world.path("before")).unwrap();
    for one in attempted(&dead) {
        let arguments: Vec<&str> = one.arguments.iter().map(String::as_str).collect();
        let mut failed = 0;
        for call in ["fsync", "fdatasync"] {
            for nth in 1.. {
                restore(&world);
                let Some(done) = with_failing(&world, call, nth, &arguments) else { break };
                failed += 1;
                is_no_lie(&world, &done, &one);
                let found = world.live().len() as u64 + dead_count(&world);
                assert!(found >= 1 || arguments.contains(&"delete"), "{arguments:?}: the dead task is lost");
                // Again: it succeeds, or had been done all the same.
                let again = world.run(&arguments);
                assert!([0, 3, 5].contains(&again.code), "{arguments:?}: {again:?}");
                assert!((one.holds)(&world), "{arguments:?}: {again:?}");
            }
        }
        assert!(failed >= 3, "{arguments:?} syncs only {failed} times");
    }
}
