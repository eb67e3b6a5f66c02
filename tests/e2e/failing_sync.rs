//! A disk whose syncs fail: what was acknowledged is there afterwards, what was not is refused with a
//! reason, and the worker ends and goes on with a new log.
//!
//! The failure is injected by strace; where that is missing or not permitted these tests say so and pass.
#![allow(clippy::print_stderr)]

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Child, Command, Stdio};

use crate::stories::figures;
use crate::world::{Ran, World, is_alive, signal, until};

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
        let probe = Command::new("strace").args(["-f", "-qq", "-e", "trace=none", "true"]).output();
        if !probe.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: strace is missing or not permitted, so no sync failed: {probe:?}");
            return None;
        }
        let log = world.path("injected.log");
        let inject = format!("inject=fdatasync:error=EIO:when={FIRST_FAILURE}+");
        let server = world.command(&["serve", "--workers", "1"]);
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", &inject, "--"]);
        command.arg(server.get_program()).args(server.get_args()).current_dir(world.path("."));
        for (name, value) in server.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
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
