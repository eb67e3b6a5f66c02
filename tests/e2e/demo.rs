//! `wasmq demo`: the whole story, and nothing left of it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::stories::ran;
use crate::world::{World, signal, until};

/// The demo with a temporary directory inside the world.
fn demo(world: &World, arguments: &[&str]) -> Command {
    let temporary = world.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = world.command(&[&["demo"], arguments].concat());
    command.env("TMPDIR", temporary);
    command
}

/// The processes that work in a directory or name it on their command line.
fn processes_in(dir: &Path) -> Vec<String> {
    let dir = dir.to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let about = |path: &Path| {
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let at = std::fs::read_link(path.join("cwd")).unwrap_or_default();
        format!("{} in {}", String::from_utf8_lossy(&words).replace('\0', " "), at.display())
    };
    entries.map(|entry| about(&entry.path())).filter(|text| text.contains(&dir)).collect()
}

#[track_caller]
fn nothing_is_left(world: &World) {
    let temporary = world.path("tmp");
    until("no process is left", || processes_in(&temporary).is_empty());
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().filter_map(Result::ok).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!world.data().exists(), "the demo keeps away from the user's data");
}

#[test]
fn the_demo_tells_the_whole_story_and_leaves_nothing() {
    let world = World::new();
    let since = Instant::now();
    let ran = ran(demo(&world, &[]).output().unwrap()).ok();
    assert!(since.elapsed() < Duration::from_secs(60), "it took {:?}", since.elapsed());
    let text = ran.text();
    for said in ["panicked at", "sha256:", "--component v2", "--component original", "trap.unreachable"] {
        assert!(text.contains(said), "expected \"{said}\" in: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours without a terminal");
    nothing_is_left(&world);
}

#[test]
fn the_demo_speaks_json() {
    let world = World::new();
    let lines = ran(demo(&world, &["--json"]).output().unwrap()).ok().lines();
    let commands: Vec<_> = lines.iter().filter_map(|line| line["command"].as_str()).collect();
    assert!(commands.iter().any(|command| command.starts_with("wasmq dlq retry")), "{commands:?}");
    nothing_is_left(&world);
}

/// Stops a demo in the middle by a signal.
#[track_caller]
fn stopped_by(name: &str) {
    let world = World::new();
    let mut command = demo(&world, &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("its server runs", || processes_in(&world.path("tmp")).iter().any(|text| text.contains("worker")));
    signal(child.id(), name);
    assert_ne!(ended(&mut child), Some(0), "an interrupted story is not a success");
    nothing_is_left(&world);
}

#[test]
fn a_demo_that_ctrl_c_ends_leaves_nothing() {
    stopped_by("INT");
}

#[test]
fn a_demo_that_sigterm_ends_leaves_nothing() {
    stopped_by("TERM");
}

#[test]
fn a_demo_that_is_stopped_as_soon_as_it_has_a_directory_leaves_nothing() {
    let world = World::new();
    let mut child = demo(&world, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while std::fs::read_dir(world.path("tmp")).unwrap().next().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it began");
    }
    // Faster than a `kill` that has to be started first.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_ne!(ended(&mut child), Some(0), "an interrupted story is not a success");
    nothing_is_left(&world);
}

#[track_caller]
fn ended(child: &mut Child) -> Option<i32> {
    let mut ended = None;
    until("the demo ends", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    ended.and_then(|status| status.code())
}
