//! The store `none`: everything works from memory, nothing is kept, and every command says so.

use crate::stories::{deploy_as, figures};
use crate::world::{World, until};

/// A world whose `wasmq.toml` chooses the store `none`.
fn world() -> World {
    let world = World::new();
    world.file("wasmq.toml", b"store = \"none\"\n");
    world
}

#[test]
fn a_server_without_a_store_says_so() {
    let world = world();
    let server = world.serve(&["--workers", "1"]);
    until("it greets", || server.log().contains("serving"));
    assert!(server.log().contains("nothing is kept"), "{}", server.log());
    server.stop();
}

#[test]
fn without_a_store_a_server_runs_what_is_enqueued() {
    let world = world();
    deploy_as(&world, "echo", "echo", &[]);
    let server = world.serve(&["--workers", "1"]);
    let ran = world.run(&["enqueue", "echo", "hello", "--wait"]).ok();
    assert_eq!(ran.text(), "hello");
    world.enqueue(&["echo", "and gone"]);
    until("both are done", || figures(&world, "completed") == [2]);
    server.stop();
}

#[test]
fn without_a_store_nothing_is_written_for_what_runs_waits_or_dies() {
    let world = world();
    deploy_as(&world, "bad", "permanent", &[]);
    let server = world.serve(&["--workers", "1"]);
    world.run(&["enqueue", "bad", "x", "--wait"]).fails(20, "keeps no dead tasks");
    world.enqueue(&["bad", "x", "--delay", "1h"]);
    for folder in ["journal", "dlq"] {
        let path = world.data().join(folder);
        let names: Vec<_> = std::fs::read_dir(&path).map(Iterator::collect).unwrap_or_default();
        assert!(names.is_empty(), "{}: {names:?}", path.display());
    }
    server.stop();
}

#[test]
fn without_a_store_the_commands_about_dead_tasks_say_that_none_are_kept() {
    let world = world();
    let id = "01935d2c-7b3e-7cc0-98c4-dc0c0c07398f";
    for rest in [
        vec!["list"],
        vec!["groups"],
        vec!["stats"],
        vec!["show", id],
        vec!["retry", id],
        vec!["retry", "--all"],
        vec!["delete", id],
        vec!["delete", "--all", "--yes"],
    ] {
        world.run(&[&["dlq"], rest.as_slice()].concat()).fails(9, "no dead tasks are kept");
    }
    for live in [&["list"][..], &["show", id]] {
        let ran = world.run(live).fails(9, "live invocations are in the memory of the server only");
        assert!(ran.stderr.contains("`wasmq status` counts them"), "{}", ran.stderr);
    }
    let status = world.run(&["status"]).ok();
    assert!(status.stderr.contains("wasmq serve --store none"), "{}", status.stderr);
    assert!(!world.data().exists());
}

#[test]
fn without_a_store_and_a_server_nothing_is_accepted() {
    let world = world();
    deploy_as(&world, "echo", "echo", &[]);
    let ran = world.run(&["enqueue", "echo", "x"]).fails(9, "server");
    assert!(ran.stderr.contains("wasmq serve"), "{}", ran.stderr);
    assert!(ran.stdout.is_empty());
    let lines = world.run_with(&["enqueue", "echo", "--batch", "-"], b"a\nb\n");
    assert_eq!(lines.fails(9, "server").text(), "");
}

#[test]
fn a_command_does_not_take_a_server_with_another_store_for_its_own() {
    let world = World::new();
    world.deploy("echo", &[]);
    let server = world.serve(&["--workers", "1"]);
    let says = "the server there has the store dir, but the store none was asked for";
    for arguments in [&["enqueue", "echo", "x", "--store", "none"][..], &["status", "--store", "none"]] {
        let ran = world.run(arguments).fails(9, says);
        assert!(ran.stderr.contains("--store dir"), "{}", ran.stderr);
    }
    let second = world.run(&["serve", "--workers", "1", "--store", "none"]);
    assert!(second.fails(1, "a server with the store dir runs there already").text().is_empty());
    assert!(world.live().is_empty());
    server.stop();
}
