//! `wasmq dev` and the versions that its rounds make: which is current, and which stay in the store.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::dev_project::{Dev, Project};
use crate::world::until;

const COPY: &str = "cp good.wasm out.wasm";

/// The numbers of the versions in the store.
fn versions(project: &Project) -> Vec<String> {
    let task = project.on_store(&["task", "show", "job", "--json"]).ok().json();
    let numbers = task["versions"].as_array().unwrap().iter();
    numbers.map(|version| version["number"].as_str().unwrap().to_owned()).collect()
}

fn files_below(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.insert(entry.file_name().into_string().unwrap());
        }
    }
    found
}

/// How many components are stored, and how many of them compiled.
fn files(project: &Project) -> (usize, usize) {
    let count = |part: &str| files_below(&project.path(".wasmq").join(part)).len();
    (count("components"), count("cache"))
}

/// A round with another guest.
#[track_caller]
fn next(project: &Project, dev: &Dev, guest: &str) -> Value {
    project.guest(guest);
    let round = dev.round();
    assert_eq!(round["ended"], "ran", "{round}");
    round
}

#[test]
fn a_build_that_makes_what_was_there_before_says_that_it_is_current_again() {
    let project = Project::new("echo", COPY);
    let dev = Dev::start(project.command(&[]), project.world.path("stderr"));
    let says = |what: &str| until(what, || dev.said().contains(what));
    says("deployed job v1");
    says("waiting for the next change");
    project.guest("facts");
    says("deployed job v2");
    project.guest("echo");
    says("deployed job v1 again  the same component as then; v2 was current before");
    project.write("sample.txt", "other");
    says("unchanged, v1 of job");
}

#[test]
fn programs_are_told_which_version_was_current_before() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    assert_eq!(dev.ran("completed")["deployed"]["previous"], Value::Null);
    assert_eq!(next(&project, &dev, "facts")["deployed"]["previous"], "v1");
    let again = next(&project, &dev, "echo");
    assert_eq!((&again["deployed"]["version"], &again["deployed"]["previous"]), (&"v1".into(), &"v2".into()));
}

#[test]
fn old_versions_go_unless_a_dead_task_names_them() {
    let project = Project::new("panics", COPY);
    let dev = project.dev(&[]);
    let dead = dev.ran("trap.unreachable")["id"].as_str().unwrap().to_owned();
    for guest in ["echo", "facts", "log-progress", "insecure-random"] {
        next(&project, &dev, guest);
    }
    assert_eq!(versions(&project), ["v1", "v3", "v4", "v5"], "v1 is what the dead task ran");
    assert_eq!(files(&project), (4, 3), "what was compiled of v1 can be made again");
    let verified = project.on_store(&["store", "verify"]).ok();
    assert!(!verified.text().contains("components"), "{}", verified.text());
    let retried = project.on_store(&["dlq", "retry", &dead, "--component", "original", "--json"]).ok();
    assert!(retried.text().contains("\"v1\""), "{}", retried.text());
    next(&project, &dev, "echo");
    assert_eq!(versions(&project), ["v1", "v4", "v5", "v6"], "v1 is what its retry will run; no number comes twice");
    project.on_store(&["cancel", &dead]).ok();
    next(&project, &dev, "facts");
    assert_eq!((versions(&project), files(&project)), (["v5", "v6", "v7"].map(String::from).to_vec(), (3, 3)));
}

#[test]
fn versions_with_a_label_and_the_current_one_stay() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    dev.ran("completed");
    let file = project.path("good.wasm");
    project.on_store(&["deploy", "job", file.to_str().unwrap(), "--label", "good"]).ok();
    for guest in ["facts", "log-progress", "insecure-random", "panics"] {
        next(&project, &dev, guest);
    }
    assert_eq!(versions(&project), ["v1", "v3", "v4", "v5"]);
}

#[test]
fn one_round_for_scripts_removes_old_versions_too() {
    let project = Project::new("echo", COPY);
    for guest in ["echo", "facts", "log-progress", "insecure-random", "echo"] {
        project.guest(guest);
        project.once(&[]).ok();
    }
    assert_eq!(versions(&project), ["v3", "v4", "v5"]);
}

#[test]
fn a_store_that_was_named_keeps_every_version() {
    let project = Project::new("echo", COPY);
    for guest in ["echo", "facts", "log-progress", "insecure-random"] {
        project.guest(guest);
        project.once(&["--data", "named"]).ok();
    }
    let named = project.path("named");
    let task = project.world.run(&["task", "show", "job", "--json", "--data", named.to_str().unwrap()]).ok().json();
    assert_eq!(task["versions"].as_array().unwrap().len(), 4);
}
