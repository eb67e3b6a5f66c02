//! `new` and `wit`: a folder with a task that builds, and the package it is built against.

mod project;
mod templates;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::world::{World, repository};

const LANGUAGES: [&str; 6] = ["rust", "python", "javascript", "typescript", "go", "c"];

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn new_makes_a_folder_with_the_package_and_programs_and_says_what_to_type() {
    let world = World::new();
    for language in LANGUAGES {
        let task = format!("sum-{language}");
        let made = world.run(&["new", &task, "--lang", language]).ok();
        assert!(made.stderr.contains(&format!("cd {task} && ./build && ./test")), "{}", made.stderr);
        assert!(made.stderr.contains(&format!("wasmq deploy {task} task.wasm")), "{}", made.stderr);
        let folder = world.path(&task);
        for program in ["build", "test"] {
            assert!(folder.join(program).metadata().unwrap().permissions().mode() & 0o111 != 0, "{program}");
        }
        assert!(std::fs::read_to_string(folder.join("task.toml")).unwrap().contains(&format!("task = \"{task}\"\n")));
        let wit = folder.join("wit");
        assert_eq!(wit.exists(), language != "go");
        if wit.exists() {
            let states = world.run(&["wit", wit.to_str().unwrap()]).ok().text();
            assert_eq!(states.matches("unchanged ").count(), 4, "{states}");
        }
    }
    assert!(!world.data().exists(), "new stores nothing");
    assert_eq!(names(&world.path(".")).len(), LANGUAGES.len(), "nothing is left over");
}

#[test]
fn new_in_json_names_the_folder_and_every_file() {
    let world = World::new();
    let made = world.run(&["new", "sum", "--lang", "ts", "--dir", "deep/er/place", "--json"]).ok().json();
    assert_eq!((&made["task"], &made["language"]), (&"sum".into(), &"typescript".into()));
    assert_eq!(made["dir"], "deep/er/place");
    let files = made["files"].as_array().unwrap();
    assert!(files.contains(&"wit/world.wit".into()) && files.contains(&".gitignore".into()), "{files:?}");
    assert!(files.iter().all(|file| world.path("deep/er/place").join(file.as_str().unwrap()).is_file()));
}

#[test]
fn new_fills_an_empty_folder_and_touches_nothing_else() {
    let world = World::new();
    std::fs::create_dir(world.path("empty")).unwrap();
    let mut here = world.command(&["new", "sum", "--lang", "c", "--dir", "."]);
    assert!(here.current_dir(world.path("empty")).output().unwrap().status.success());
    let before = names(&world.path("empty"));
    assert!(before.contains(&"task.toml".to_owned()), "{before:?}");
    world.run(&["new", "sum", "--lang", "rust", "--dir", "empty"]).fails(5, "empty exists and is not an empty folder");
    assert_eq!(names(&world.path("empty")), before);
    world.file("file", b"mine");
    world.run(&["new", "file", "--lang", "rust", "--json"]).fails(5, "not-empty");
    assert_eq!(std::fs::read(world.path("file")).unwrap(), b"mine");
}

#[test]
fn new_takes_the_name_of_a_task_and_no_path() {
    let world = World::new();
    for name in ["7", "a.b_c-d", &"x".repeat(63)] {
        world.run(&["new", name, "--lang", "go"]).ok();
        assert!(world.path(name).join("go.mod").exists());
    }
    world.run(&["new", "tasks/sum", "--lang", "go"]).fails(2, "say `sum --dir tasks/sum` in its place");
    world.run(&["new", "../sum", "--lang", "go", "--json"]).fails(2, "is a path");
    for name in ["", "Sum", "..", "ä", &"x".repeat(64)] {
        let ran = world.run(&["new", name, "--lang", "go"]).fails(2, "a task name");
        assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{}", ran.stderr);
    }
    assert_eq!(names(&world.path(".")).len(), 3);
}

#[test]
fn new_without_a_language_or_with_an_unknown_one_names_them_all() {
    let world = World::new();
    for arguments in [&["new", "sum"][..], &["new", "sum", "--lang", "cobol"], &["new", "sum", "--lang", ""]] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(LANGUAGES.iter().all(|language| ran.stderr.contains(language)), "{arguments:?}: {}", ran.stderr);
        assert!(!world.path("sum").exists());
    }
    world.run(&["new"]).fails(2, "NAME");
}

#[test]
fn the_list_is_aligned_and_in_json_an_object_a_language() {
    let world = World::new();
    let list = world.run(&["new", "--list"]).ok().text();
    let needs = list.lines().next().unwrap().find("NEEDS").unwrap();
    assert_eq!(list.lines().count(), 1 + LANGUAGES.len());
    for (line, language) in list.lines().skip(1).zip(LANGUAGES) {
        assert!(line.starts_with(language) && line[..needs].ends_with("  ") && line.len() > needs, "{line}");
    }
    let lines = world.run(&["new", "--list", "--json"]).ok().lines();
    assert_eq!(lines.iter().map(|line| line["name"].as_str().unwrap()).collect::<Vec<_>>(), LANGUAGES);
    assert!(lines.iter().all(|line| line["needs"].is_string() && line["kind"].is_string()));
}

#[test]
fn wit_writes_the_package_once_and_never_over_something_else_unasked() {
    let world = World::new();
    let states = |arguments: &[&str]| {
        let lines = world.run(&[&["wit", "--json"], arguments].concat()).ok().lines();
        lines.iter().map(|line| line["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&[]), ["written"; 4]);
    for name in names(&repository().join("wit")).iter().filter(|name| name.ends_with(".wit")) {
        let (ours, theirs) = (world.path("wit").join(name), repository().join("wit").join(name));
        assert_eq!(std::fs::read(ours).unwrap(), std::fs::read(theirs).unwrap(), "{name}");
    }
    assert_eq!(states(&[]), ["unchanged"; 4]);
    std::fs::write(world.path("wit/host.wit"), "mine").unwrap();
    std::fs::remove_file(world.path("wit/world.wit")).unwrap();
    world.run(&["wit"]).fails(5, "wit/host.wit differs from the package wasmq:task@");
    world.run(&["wit", "--json"]).fails(5, "\"differs\"");
    assert_eq!(std::fs::read(world.path("wit/host.wit")).unwrap(), b"mine");
    assert!(!world.path("wit/world.wit").exists(), "nothing is written when one file is in the way");
    assert_eq!(states(&["--force"]), ["unchanged", "unchanged", "replaced", "written"]);
    world.run(&["wit", "wit/host.wit"]).fails(1, "wit/host.wit");
}

#[test]
fn wit_prints_the_package_as_one_document() {
    let world = World::new();
    let document = world.run(&["wit", "--stdout"]).ok().text();
    assert!(document.starts_with("package wasmq:task@") && document.matches("package ").count() == 1, "{document}");
    assert!(document.contains("handle: func(") && document.contains("world task {"), "{document}");
    assert_eq!(world.run(&["wit", "--stdout", "--json"]).ok().json()["document"], document);
    world.run(&["wit", "elsewhere", "--stdout"]).fails(2, "--stdout");
    assert!(names(&world.path(".")).is_empty());
}
