//! Where settings come from, and data directories that cannot be one.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::stories::ran;
use crate::world::{World, guest_file};

/// The value and the source of a setting.
fn setting(world: &World, variable: Option<(&str, &str)>, more: &[&str], name: &str) -> (String, String) {
    let mut command = world.command(&[&["config", "--json"], more].concat());
    command.envs(variable);
    let lines = ran(command.output().unwrap()).ok().lines();
    let line = lines.into_iter().find(|line| line["name"] == name).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&line["value"]), text(&line["source"]))
}

fn pair(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let world = World::new();
    let variable = Some(("WASMQ_COLOR", "auto"));
    assert_eq!(setting(&world, None, &[], "color"), pair("auto", "default"));
    world.file("wasmq.toml", b"color = \"never\"\nworkers = 3\n");
    assert_eq!(setting(&world, None, &[], "color"), pair("never", "file"));
    assert_eq!(setting(&world, variable, &[], "color"), pair("auto", "environment"));
    assert_eq!(setting(&world, variable, &["--color", "always"], "color"), pair("always", "flag"));
    assert_eq!(setting(&world, variable, &[], "workers"), pair("3", "file"));
    assert_eq!(setting(&world, Some(("WASMQ_WORKERS", "5")), &[], "workers"), pair("5", "environment"));
    let text = world.run(&["config"]).ok().text();
    assert!(text.contains("wasmq.toml") && text.contains("environment WASMQ_DATA"), "{text}");
}

#[test]
fn the_data_directory_of_a_file_is_beside_the_file() {
    let world = World::new();
    std::fs::create_dir(world.path("etc")).unwrap();
    let file = world.file("etc/other.toml", b"data = \"here\"\n");
    let mut command = world.command(&["--config", file.to_str().unwrap(), "deploy", "echo"]);
    command.arg(guest_file("echo")).env_remove("WASMQ_DATA");
    ran(command.output().unwrap()).ok();
    assert!(world.path("etc/here/tasks-v1.json").exists());
    assert!(!world.path("here").exists() && !world.path("wasmq-data").exists());
}

#[test]
fn a_mistake_in_the_file_names_the_file_and_what_was_meant() {
    let world = World::new();
    for (text, says) in [
        ("worker = 3", "did you mean workers?"),
        ("workers = 0", "workers"),
        ("workers = \"many\"", "workers"),
        ("fsync = \"sometimes\"", "always"),
        ("payload_limit = \"65MiB\"", "64"),
        ("workers = ", "wasmq.toml"),
    ] {
        world.file("wasmq.toml", text.as_bytes());
        let refused = world.run(&["list"]).fails(2, says);
        assert!(refused.stderr.contains("wasmq.toml"), "{text}: {}", refused.stderr);
    }
    std::fs::remove_file(world.path("wasmq.toml")).unwrap();
    world.run(&["--config", "missing.toml", "list"]).fails(2, "missing.toml");
    assert!(!world.data().exists());
}

#[test]
fn a_mistake_in_the_environment_names_the_variable() {
    let world = World::new();
    let refused = ran(world.command(&["list"]).env("WASMQ_WORKERS", "-1").output().unwrap());
    refused.fails(2, "WASMQ_WORKERS");
    let misspelt = ran(world.command(&["config"]).env("WASMQ_WORKER", "3").output().unwrap()).ok();
    assert!(misspelt.stderr.contains("WASMQ_WORKERS"), "{}", misspelt.stderr);
}

#[test]
fn a_variable_that_means_nothing_is_warned_of_and_a_slip_in_every_command() {
    let world = World::new();
    let with = |variable: &str, arguments: &[&str]| {
        let mut command = world.command(arguments);
        ran(command.env(variable, "3").output().unwrap()).ok().stderr
    };
    for command in ["config", "list"] {
        let said = with("WASMQ_WORKRES", &[command]);
        assert!(said.contains("WASMQ_WORKRES") && said.contains("did you mean WASMQ_WORKERS?"), "{said}");
        assert!(said.contains("`wasmq config`"), "{said}");
    }
    let said = with("WASMQ_BOGUS", &["config"]);
    assert!(said.contains("WASMQ_BOGUS") && !said.contains("did you mean"), "{said}");
    assert!(!with("WASMQ_BOGUS", &["list"]).contains("WASMQ_BOGUS"), "somebody else's, perhaps");
    let shown = world.run(&["config"]).ok();
    assert!(shown.stderr.is_empty() && shown.text().contains("WASMQ_PAYLOAD_LIMIT"), "{}", shown.text());
}

/// Every command refuses a path with one line of cause and path, and exit code 8.
#[track_caller]
fn is_refused(world: &World, path: &std::path::Path, commands: &[&[&str]]) {
    let path = path.to_str().unwrap();
    for arguments in commands {
        let refused = world.run(&[&["--data", path], *arguments].concat());
        assert_eq!(refused.code, 8, "{path} {arguments:?}: {}{}", refused.text(), refused.stderr);
        let (errors, rest): (Vec<&str>, Vec<&str>) =
            refused.stderr.lines().partition(|line| line.starts_with("error:"));
        assert!(errors.len() == 1 && errors[0].contains(path), "{arguments:?}: {}", refused.stderr);
        assert!(rest.iter().all(|line| line.contains("hint:")), "{arguments:?}: {}", refused.stderr);
    }
}

const READING: [&[&str]; 4] = [&["list"], &["status"], &["dlq", "list"], &["task", "list"]];

#[test]
fn a_path_that_cannot_be_a_data_directory_is_one_line_with_cause_and_path() {
    let world = World::new();
    let component = guest_file("echo");
    let deploy = ["deploy", "echo", component.to_str().unwrap()];
    let file = world.file("file", b"precious");
    for path in [file.clone(), file.join("below")] {
        is_refused(&world, &path, &READING);
        is_refused(&world, &path, &[&deploy, &["serve"]]);
    }
    is_refused(&world, "/proc/wasmq".as_ref(), &[&deploy, &["serve"]]);
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_dangling_symlink_is_no_data_directory() {
    let world = World::new();
    let component = guest_file("echo");
    let dangling = world.path("dangling");
    symlink("nowhere", &dangling).unwrap();
    is_refused(&world, &dangling, &[&["deploy", "echo", component.to_str().unwrap()], &["serve"]]);
    assert!(!world.path("nowhere").exists());
    is_refused(&world, &dangling, &READING);
}

#[test]
fn looking_in_the_wrong_folder_leaves_nothing_there() {
    let world = World::new();
    let unknown = "01935d2c-7b3e-7cc0-98c4-dc0c0c07398f";
    let mut left = Vec::new();
    for (arguments, code) in [
        (vec!["list"], 0),
        (vec!["status"], 0),
        (vec!["dlq", "list"], 0),
        (vec!["dlq", "stats"], 0),
        (vec!["dlq", "groups"], 0),
        (vec!["task", "list"], 0),
        (vec!["config"], 0),
        (vec!["show", unknown], 3),
        (vec!["dlq", "show", unknown], 3),
        (vec!["dlq", "retry", "--all"], 0),
        (vec!["dlq", "delete", unknown], 3),
        (vec!["cancel", unknown], 3),
        (vec!["enqueue", "nothing", "x"], 3),
        (vec!["deploy", "nothing", "/dev/null"], 6),
    ] {
        world.run(&arguments).fails(code, "");
        if world.data().exists() {
            left.push(arguments.join(" "));
            std::fs::remove_dir_all(world.data()).unwrap();
        }
    }
    assert!(left.is_empty(), "these made a data directory: {left:?}");
}
