//! Manners of the command line: pipes, full devices, JSON, colours, control characters, settings, paths.

use std::fs::File;
use std::process::Command;

use serde_json::Value;

use crate::stories::{deploy_as, enqueue_batch, numbered, ran, run_until_dead, world_of_dead};
use crate::world::{Ran, World, guest_file};

/// Runs `wasmq ARGUMENTS | head -1` and returns what was said on stderr, the exit code at its end.
fn into_head(world: &World, arguments: &[&str]) -> Ran {
    let wasmq = world.command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "{ \"$0\" \"$@\"; echo \"code $?\" >&2; } | head -1"]).arg(wasmq.get_program()).args(arguments);
    shell.env("WASMQ_DATA", world.data()).current_dir(world.path(""));
    ran(shell.output().unwrap())
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (world, _) = world_of_dead(400);
    enqueue_batch(&world, "job", &numbered(600));
    for arguments in [
        vec!["list", "--limit", "100000"],
        vec!["list", "--limit", "100000", "--json"],
        vec!["dlq", "list", "--limit", "100000"],
        vec!["dlq", "list", "--limit", "100000", "--json"],
        vec!["dlq", "retry", "--all", "--dry-run", "--json"],
        vec!["completions", "bash"],
    ] {
        let ran = into_head(&world, &arguments);
        assert_eq!(ran.text().lines().count(), 1, "{arguments:?}");
        let noise: Vec<&str> = ran.stderr.lines().filter(|line| *line != "code 0").collect();
        assert!(ran.stderr.contains("code 0"), "{arguments:?}: {}", ran.stderr);
        assert!(!noise.iter().any(|line| line.contains("panicked") || line.contains("error")), "{noise:?}");
    }
}

#[test]
fn a_full_device_is_an_error_of_its_own() {
    let (world, ids) = world_of_dead(1);
    let live = world.enqueue(&["job", "x"]);
    for arguments in [
        vec!["list"],
        vec!["list", "--json"],
        vec!["show", &live],
        vec!["status"],
        vec!["config"],
        vec!["task", "list"],
        vec!["dlq", "list"],
        vec!["dlq", "show", &ids[0]],
        vec!["dlq", "show", &ids[0], "--payload"],
        vec!["completions", "zsh"],
        vec!["enqueue", "job", "y"],
        vec!["--help"],
        vec!["--version"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = ran(world.command(&arguments).stdout(full).output().unwrap());
        assert_eq!(ran.code, 10, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("stdout"), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn every_command_speaks_json() {
    let (world, ids) = world_of_dead(4);
    let (first, second) = (world.enqueue(&["job", "x"]), world.enqueue(&["job", "y"]));
    let (file, pages) = (guest_file("echo"), world.path("man"));
    let (file, pages) = (file.to_str().unwrap(), pages.to_str().unwrap());
    for arguments in [
        vec!["deploy", "new", file],
        vec!["deploy", "new", file],
        vec!["task", "list"],
        vec!["task", "show", "job"],
        vec!["task", "activate", "job", "v1"],
        vec!["task", "remove", "new"],
        vec!["check", file],
        vec!["run", file, "--payload", "x"],
        vec!["enqueue", "job", "z"],
        vec!["status"],
        vec!["list"],
        vec!["show", &first],
        vec!["show", &ids[0]],
        vec!["cancel", &second],
        vec!["dlq", "list"],
        vec!["dlq", "groups"],
        vec!["dlq", "stats"],
        vec!["dlq", "show", &ids[0]],
        vec!["dlq", "show", &ids[0], "--payload"],
        vec!["dlq", "retry", &ids[0], "--dry-run"],
        vec!["dlq", "retry", &ids[0]],
        vec!["dlq", "delete", &ids[1]],
        vec!["dlq", "delete", "--all", "--yes"],
        vec!["config"],
        vec!["man", pages],
    ] {
        let ran = world.run(&[&["--json"], arguments.as_slice()].concat()).ok();
        assert!(!ran.stdout.is_empty(), "{arguments:?}");
        for line in ran.text().lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{arguments:?}: {line}");
        }
    }
}

#[test]
fn a_batch_and_a_wait_speak_json() {
    let world = World::new();
    world.deploy("echo", &[]);
    let ids = world.run_with(&["enqueue", "echo", "--batch", "-", "--json"], b"a\nb\n").ok().lines();
    assert!(ids.len() == 2 && ids.iter().all(|line| line["id"].is_string()), "{ids:?}");
    let (completion, code) = world.wait_for(&["echo", "hello"]);
    assert_eq!((completion["verdict"].as_str(), code), (Some("completed"), 0));
    assert_eq!(completion["output"]["text"], "hello");
}

#[test]
fn errors_are_json_for_programs() {
    let (world, ids) = world_of_dead(1);
    let unknown = "01935d2c-7b3e-7cc0-98c4-dc0c0c07398f";
    for (arguments, code) in [
        (vec!["enqueue", "jop", "x"], 3),
        (vec!["task", "show", "jop"], 3),
        (vec!["show", unknown], 3),
        (vec!["cancel", unknown], 3),
        (vec!["dlq", "retry", &ids[0], unknown], 7),
        (vec!["dlq", "delete", &ids[0]], 5),
        (vec!["run", "/nowhere.wasm"], 2),
        (vec!["check", "/dev/null"], 6),
        (vec!["list", "--limit", "many"], 2),
        (vec!["frobnicate"], 2),
        (vec!["deploy", "no/name", "x.wasm"], 2),
    ] {
        let ran = world.run(&[&["--json"], arguments.as_slice()].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        let line = ran.stderr.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why} in {line}: {arguments:?}"));
        assert!(error["error"]["code"].is_string() && error["error"]["message"].is_string(), "{line}");
    }
}

#[test]
fn cancelling_what_is_dead_is_a_conflict() {
    let (world, ids) = world_of_dead(1);
    let refused = world.run(&["cancel", &ids[0]]).fails(5, &ids[0]);
    assert!(!refused.stderr.contains("the server"), "there is none: {}", refused.stderr);
}

/// A world with dead tasks whose payload, output and error want to drive the terminal.
fn hostile_world() -> (World, Vec<String>) {
    let world = World::new();
    deploy_as(&world, "chatty", "chatty-trap", &["--max-attempts", "1"]);
    deploy_as(&world, "panics", "panics", &["--max-attempts", "1"]);
    let evil = "\u{1b}[2J\u{1b}]0;pwn\u{7}\r\0\u{9b}31m\u{202e}\u{2028}<script>";
    let ids = vec![
        world.enqueue(&["chatty", "200000"]),
        world.run_with(&["enqueue", "panics", "-"], evil.as_bytes()).ok().text().trim().to_owned(),
        world.run_with(&["enqueue", "panics", "-"], b"\xff\xfe\x00\x80").ok().text().trim().to_owned(),
    ];
    run_until_dead(&world, 3);
    (world, ids)
}

/// The first character that a terminal could obey or that could forge a line.
fn obeyed(text: &str) -> Option<char> {
    let direction = ['\u{202a}', '\u{202d}', '\u{202e}', '\u{2028}', '\u{2029}', '\u{2066}', '\u{2067}'];
    text.chars().find(|c| (c.is_control() && *c != '\n') || direction.contains(c))
}

#[test]
fn what_guests_wrote_never_drives_the_terminal() {
    let (world, ids) = hostile_world();
    let mut commands = vec![vec!["dlq", "list"], vec!["dlq", "groups"], vec!["dlq", "stats"]];
    commands.extend(ids.iter().map(|id| vec!["dlq", "show", id.as_str()]));
    for arguments in commands {
        let ran = world.run(&arguments).ok();
        assert_eq!(obeyed(&ran.text()), None, "{arguments:?}: {}", ran.text().escape_debug());
        assert_eq!(obeyed(&ran.stderr), None, "{arguments:?}");
        assert!(String::from_utf8(ran.stdout).is_ok(), "{arguments:?}");
    }
    let evil = world.run(&["dlq", "show", &ids[1], "--payload"]).ok();
    assert!(evil.stdout.starts_with(b"\x1b[2J"), "the payload itself is byte for byte");
    let shown = world.run(&["dlq", "show", &ids[1]]).ok().text();
    assert!(shown.contains("<script>"), "{shown}");
}

#[test]
fn the_json_of_hostile_bytes_is_whole_and_harmless() {
    let (world, ids) = hostile_world();
    for id in &ids {
        let ran = world.run(&["dlq", "show", id, "--json"]).ok();
        assert_eq!(obeyed(&String::from_utf8(ran.stdout.clone()).unwrap()), None, "{}", ran.text().escape_debug());
        assert_eq!(ran.json()["id"], id.as_str());
    }
}

#[test]
fn colours_come_only_when_they_are_wanted() {
    let (world, ids) = hostile_world();
    for arguments in [vec!["dlq", "list"], vec!["dlq", "show", &ids[0]], vec!["status"]] {
        let always = world.run(&[&["--color", "always"], arguments.as_slice()].concat()).ok().text();
        assert!(always.contains("\u{1b}["), "{arguments:?}");
        assert_eq!(obeyed(&without_colours(&always)), None, "{arguments:?}: only colours");
        let never = world.run(&[&["--color", "never"], arguments.as_slice()].concat()).ok().text();
        let auto = world.run(&arguments).ok().text();
        assert!(!never.contains('\u{1b}') && !auto.contains('\u{1b}'), "{arguments:?}");
    }
    let refused = world.run(&["--color", "always", "show", "01935d2c-7b3e-7cc0-98c4-dc0c0c07398f"]);
    assert!(refused.fails(3, "").stderr.contains("\u{1b}["));
}

/// The text without the sequences `ESC [ digits m`.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';')).unwrap();
        assert_eq!(&part[end..=end], "m", "a sequence that is no colour");
        plain.push_str(&part[end + 1..]);
    }
    plain
}

#[test]
fn scripts_for_shells_and_man_pages_are_written() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(&["completions", shell]).ok().text();
        assert!(script.contains("wasmq") && script.contains("dlq") && script.contains("retry"), "{shell}");
    }
    let bash = world.file("wasmq.bash", &world.run(&["completions", "bash"]).ok().stdout);
    let checked = ran(Command::new("bash").arg("-n").arg(bash).output().unwrap());
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""));
    let dir = world.path("man/man1");
    let listed = world.run(&["man", dir.to_str().unwrap()]).ok().text();
    for page in ["wasmq.1", "wasmq-enqueue.1", "wasmq-dlq-retry.1"] {
        let text = std::fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".TH") && listed.contains(page), "{page}");
    }
    assert!(!listed.contains("worker"), "what is hidden has no page");
    assert!(!world.data().exists());
}
