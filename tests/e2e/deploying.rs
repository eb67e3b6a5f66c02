//! Deploying: versions, labels, the current one, and what is refused with which words.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{World, guest_file};

const ECHO: &str = "echo";

fn show(world: &World, task: &str) -> Value {
    world.run(&["task", "show", task, "--json"]).ok().json()
}

#[test]
fn the_first_version_is_current_and_the_same_bytes_again_change_nothing() {
    let world = World::new();
    let file = guest_file(ECHO);
    let first = world.deploy_as("t", &file, &[]);
    assert_eq!(
        (&first["version"], &first["unchanged"], &first["current"]),
        (&json!("v1"), &json!(false), &json!(true))
    );
    let before = show(&world, "t");
    let again = world.deploy_as("t", &file, &[]);
    assert_eq!((&again["version"], &again["unchanged"]), (&json!("v1"), &json!(true)));
    assert_eq!(again["component"], first["component"]);
    assert_eq!(show(&world, "t"), before);
    let said = world.run(&["deploy", "t", file.to_str().unwrap()]).ok().text();
    assert!(said.starts_with("unchanged, v1 of t"), "{said}");
    let duration = said.lines().next().unwrap().rsplit_once("after ").unwrap().1;
    assert!(duration.ends_with(" ms") && !duration.contains('.') || duration.ends_with(" s"), "{said}");
}

#[test]
fn other_bytes_or_other_settings_make_the_next_version() {
    let world = World::new();
    world.deploy_as("t", &guest_file(ECHO), &[]);
    let settings = world.deploy_as("t", &guest_file(ECHO), &["--timeout", "5s", "--policy", "trap=retry"]);
    assert_eq!((&settings["version"], &settings["previous"]), (&json!("v2"), &json!("v1")));
    assert_eq!(world.deploy_as("t", &guest_file("facts"), &[])["version"], "v3");
    let task = show(&world, "t");
    assert_eq!(task["current"], "v3");
    let versions = task["versions"].as_array().unwrap();
    assert_eq!(versions.iter().map(|version| &version["number"]).collect::<Vec<_>>(), ["v1", "v2", "v3"]);
    assert_eq!(versions[1]["settings"]["timeout_ms"], 5000);
    assert_eq!(versions[1]["settings"]["policy"], json!({ "trap": "retry" }));
    assert_eq!(versions[0]["digest"], versions[1]["digest"]);
    assert_ne!(versions[0]["digest"], versions[2]["digest"]);
}

#[test]
fn what_is_pinned_to_a_version_that_is_gone_says_so() {
    let world = World::new();
    world.deploy("echo", &[]);
    let pinned = world.enqueue(&["echo", "x", "--component", "v1"]);
    let free = world.enqueue(&["echo", "y"]);
    assert_eq!(world.run(&["show", &pinned, "--json"]).ok().json()["pinned"], "v1");
    world.run(&["task", "remove", "echo"]).ok();
    world.deploy("echo", &[]);
    let page = world.run(&["show", &pinned]).ok().text();
    assert!(
        page.contains("due, but task echo has no version v1; it has v2") && page.contains("version   v1"),
        "{page}"
    );
    assert_eq!(world.run(&["show", &free, "--json"]).ok().json()["phase"], "ready");
    let problems = world.status()["problems"].to_string();
    assert!(problems.contains("1 of 1: task echo has no version v1; it has v2"), "{problems}");
    world.run(&["cancel", &pinned]).ok();
    assert!(!world.status()["problems"].to_string().contains("awaiting"));
}

#[test]
fn a_label_that_is_given_is_told_of_also_when_nothing_else_changes() {
    let world = World::new();
    let file = guest_file("echo");
    for _ in 0..2 {
        let ran = world.run(&["deploy", "echo", file.to_str().unwrap(), "--label", "good"]).ok();
        assert!(ran.stderr.contains("v1 has the label good"), "{}", ran.stderr);
    }
}

#[test]
fn a_version_that_is_not_activated_waits_for_task_activate() {
    let world = World::new();
    world.deploy_as("t", &guest_file(ECHO), &[]);
    let second = world.deploy_as("t", &guest_file("facts"), &["--no-activate", "--label", "hotfix"]);
    assert_eq!((&second["version"], &second["current"]), (&json!("v2"), &json!(false)));
    assert_eq!(show(&world, "t")["current"], "v1");
    let (echoed, _) = world.wait_for(&["t", "same"]);
    assert_eq!(echoed["output"]["text"], "same");
    world.run(&["task", "activate", "t", "hotfix"]).ok();
    assert_eq!(show(&world, "t")["current"], "v2");
    let (told, _) = world.wait_for(&["t", "same"]);
    assert_eq!(told["version"], "v2");
    assert_ne!(told["output"]["text"], "same");
    world.run(&["task", "activate", "t", "v1"]).ok();
    assert_eq!(show(&world, "t")["current"], "v1");
    let digest = second["component"].as_str().unwrap();
    world.run(&["task", "activate", "t", digest]).ok();
    assert_eq!(show(&world, "t")["current"], "v2");
}

#[test]
fn a_version_that_does_not_exist_cannot_be_activated() {
    let world = World::new();
    world.deploy_as("t", &guest_file(ECHO), &["--label", "good"]);
    world.run(&["task", "activate", "t", "v2"]).fails(3, "task t has no version v2; it has v1");
    world
        .run(&["task", "activate", "t", "bad"])
        .fails(3, "no version of task t has the label \"bad\"; it has v1 (good)");
    world.run(&["task", "activate", "other", "v1"]).fails(3, "no task other is deployed");
    assert_eq!(show(&world, "t")["current"], "v1");
}

#[test]
fn a_label_is_a_word_and_none_that_means_something_else() {
    let world = World::new();
    let file = guest_file(ECHO);
    for label in ["v2", "current", "original", "", "Fix", "a b"] {
        world.run(&["deploy", "t", file.to_str().unwrap(), "--label", label]).fails(2, "label");
    }
    world.run(&["task", "show", "t"]).fails(3, "no task t is deployed");
}

#[test]
fn a_removed_task_is_gone_and_its_numbers_go_on_when_it_comes_back() {
    let world = World::new();
    world.deploy_as("t", &guest_file(ECHO), &[]);
    world.deploy_as("t", &guest_file("facts"), &[]);
    world.deploy_as("u", &guest_file(ECHO), &[]);
    let names =
        || world.run(&["task", "list", "--json"]).ok().lines().iter().map(|t| t["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(), ["t", "u"]);
    world.run(&["task", "remove", "t"]).ok();
    assert_eq!(names(), ["u"]);
    world.run(&["task", "show", "t"]).fails(3, "no task t is deployed");
    world.run(&["task", "remove", "t"]).fails(3, "no task t is deployed");
    world.run(&["enqueue", "t"]).fails(3, "no task t is deployed");
    assert_eq!(world.deploy_as("t", &guest_file(ECHO), &[])["version"], "v3");
    assert_eq!(world.wait_for(&["t", "back"]).0["output"]["text"], "back");
}

#[test]
fn deploys_at_once_from_several_processes_get_consecutive_numbers() {
    let world = World::new();
    let guests = ["echo", "facts", "flaky", "spin"];
    let files = guests.map(guest_file);
    let children: Vec<_> = files
        .iter()
        .map(|file| {
            world.command(&["deploy", "t", file.to_str().unwrap(), "--json"]).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut versions = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let deployed: Value = serde_json::from_slice(&output.stdout).unwrap();
        versions.push(deployed["version"].as_str().unwrap().to_owned());
    }
    versions.sort();
    assert_eq!(versions, ["v1", "v2", "v3", "v4"]);
    let task = show(&world, "t");
    assert_eq!(task["versions"].as_array().unwrap().len(), 4);
    let current = task["current"].as_str().unwrap();
    assert_eq!(current, "v4", "the last deploy is current");
}

fn wat(world: &World, name: &str, text: &str) -> PathBuf {
    world.file(name, &wat::parse_str(text).unwrap())
}

/// Deploys what has to be refused and checks that nothing has changed.
#[track_caller]
fn refused(world: &World, file: &Path, says: &[&str]) {
    let before = show(world, "t");
    let ran = world.run(&["deploy", "t", file.to_str().unwrap()]).fails(6, "error: ");
    assert!(ran.stdout.is_empty(), "{}", ran.text());
    for words in says {
        assert!(ran.stderr.contains(words), "expected \"{words}\" in: {}", ran.stderr);
    }
    assert_eq!(show(world, "t"), before);
    assert_eq!(world.run(&["deploy", "new", file.to_str().unwrap()]).code, 6);
    world.run(&["task", "show", "new"]).fails(3, "no task new");
}

/// The file of the one component that was deployed.
fn only_component(world: &World) -> PathBuf {
    let mut files = std::fs::read_dir(world.data().join("components/sha256")).unwrap();
    files.next().unwrap().unwrap().path()
}

fn with_echo() -> World {
    let world = World::new();
    world.deploy_as("t", &guest_file(ECHO), &[]);
    world
}

#[test]
fn a_file_that_is_no_wasm_is_refused() {
    let world = with_echo();
    refused(&world, &world.file("empty.wasm", b""), &["the file is empty", "build the component again"]);
    refused(&world, &world.file("text.wasm", b"hello\n"), &["not WebAssembly", "pass the .wasm file"]);
    refused(&world, &world.file("native.wasm", b"\x7fELF\x02\x01\x01"), &["this is a native program"]);
    refused(&world, &world.file("text.wat", b"(module)"), &["text format", "turn it into binary"]);
}

#[test]
fn a_truncated_component_is_refused_wherever_it_was_cut() {
    let world = with_echo();
    let whole = std::fs::read(guest_file(ECHO)).unwrap();
    for kept in [3, 4, 9, whole.len() / 3, whole.len() - 1] {
        let file = world.file("cut.wasm", &whole[..kept]);
        let says: &[&str] = if kept < 4 { &["cut off"] } else { &["damaged WebAssembly", "build or copy it again"] };
        refused(&world, &file, says);
    }
}

#[test]
fn a_core_module_without_a_main_function_is_refused_with_what_to_build() {
    let world = with_echo();
    let module = wat(&world, "core.wasm", "(module)");
    refused(&world, &module, &["has no main function", "build it as a program for wasm32-wasip1"]);
}

/// The section is what Go's linker writes.
#[test]
fn a_program_in_go_whose_heap_is_not_found_is_refused_and_check_says_so() {
    let world = with_echo();
    let text = r#"(module (@custom "go:buildid" "") (memory (export "memory") 1) (func (export "_start")))"#;
    let module = wat(&world, "go.wasm", text);
    let says = "it was made by Go, and the end of its heap";
    refused(&world, &module, &[says]);
    let checked = world.run(&["check", module.to_str().unwrap()]).fails(6, says);
    assert!(checked.text().contains("cannot be deployed"), "{}", checked.text());
}

#[test]
fn a_program_for_wasip1_is_deployed_as_a_component_and_found_by_either_digest() {
    let world = World::new();
    let text = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1) (func (export "_start") (call $exit (i32.const 65))))"#;
    let module = wat(&world, "leaves.wasm", text);
    let checked = world.run(&["check", module.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!((&checked["shape"], &checked["core_module"]), (&json!("command"), &json!(true)));
    let first = world.deploy_as("leaves", &module, &[]);
    assert_eq!((&first["shape"], &first["module"]), (&json!("command"), &checked["digest"]));
    assert_ne!(first["component"], first["module"]);
    assert_eq!(world.deploy_as("leaves", &module, &[])["unchanged"], true);
    let by_module = world.run(&["task", "activate", "leaves", first["module"].as_str().unwrap()]).ok();
    assert!(by_module.text().contains("v1"), "{}", by_module.text());
    assert!(world.run(&["task", "show", "leaves"]).ok().text().contains(first["module"].as_str().unwrap()));
    let (end, code) = world.wait_for(&["leaves"]);
    assert_eq!((&end["verdict"], &end["attempts"], code), (&json!("exit.65"), &json!(1), 22));
    assert_eq!(world.dead_task(end["id"].as_str().unwrap())["component"], first["component"]);
}

#[test]
fn arguments_reach_a_command_and_a_change_of_arguments_is_a_version() {
    let world = World::new();
    let file = guest_file("command-arguments");
    let first = world.deploy_as("tell", &file, &["--arg", "--level", "--arg", "two words"]);
    assert_eq!(world.run(&["enqueue", "tell", "--wait"]).ok().text(), "task\n--level\ntwo words\n");
    assert_eq!(world.deploy_as("tell", &file, &["--arg", "--level", "--arg", "two words"])["unchanged"], true);
    assert!(world.run(&["task", "show", "tell"]).ok().text().contains("two words"));
    let second = world.deploy_as("tell", &file, &["--arg", "--level"]);
    assert_eq!((&first["version"], &second["version"]), (&json!("v1"), &json!("v2")));
    assert_eq!(second["settings_changed"], json!(["arg"]));
    let ran = world.run(&["run", file.to_str().unwrap(), "--arg", "-x"]).ok();
    assert_eq!(ran.text(), "task\n-x\n");
    let typed = guest_file(ECHO);
    let says = "arg is given, but must be left out, because a typed task has no arguments";
    world.run(&["deploy", "t", typed.to_str().unwrap(), "--arg", "x"]).fails(2, says);
    world.run(&["run", typed.to_str().unwrap(), "--arg", "x"]).fails(2, says);
}

#[test]
fn a_component_without_an_entry_point_is_refused() {
    let world = with_echo();
    let component = wat(&world, "none.wasm", "(component)");
    refused(&world, &component, &["exports neither wasmq:task/handler@0.1.0 nor wasi:cli/run", "export the handler"]);
}

#[test]
fn a_handler_of_another_wit_version_is_refused_with_both_versions() {
    let world = with_echo();
    let text = r#"(component (instance $i) (export "wasmq:task/handler@0.2.0" (instance $i)))"#;
    let component = wat(&world, "v2.wasm", text);
    refused(
        &world,
        &component,
        &["wasmq:task/handler@0.2.0", "wasmq:task@0.1.0", "build it against what `wasmq wit` writes"],
    );
}

#[test]
fn all_imports_that_are_not_offered_are_named() {
    let world = with_echo();
    let text = r#"(component
        (import "wasi:http/outgoing-handler@0.2.0" (instance)) (import "acme:db/query@1.0.0" (instance))
        (import "wasi:cli/environment@0.2.0" (instance))
        (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#;
    let component = wat(&world, "imports.wasm", text);
    refused(&world, &component, &["wasi:http/outgoing-handler@0.2.0, acme:db/query@1.0.0", "build it without"]);
    let said = world.run(&["deploy", "t", component.to_str().unwrap()]).stderr;
    assert!(!said.contains("wasi:cli/environment"), "{said}");
}

#[test]
fn an_offered_interface_with_functions_of_another_type_is_refused() {
    let world = with_echo();
    let text = r#"(component
        (import "wasi:random/random@0.2.0" (instance (export "get-random-u64" (func (param "x" string) (result u64)))))
        (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#;
    refused(&world, &wat(&world, "type.wasm", text), &["component"]);
}

#[test]
fn a_bad_task_name_is_refused_with_the_grammar() {
    let world = World::new();
    let file = guest_file(ECHO);
    for name in ["", "Echo", "-a", "a-", "a b", "a/b", "../a", "ü", "a\u{1b}[2J", ".a", &"x".repeat(64)] {
        let ran = world.run(&["deploy", "--", name, file.to_str().unwrap()]).fails(2, "task name");
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    }
    for name in ["a", "0", "a.b_c-d", &"x".repeat(63)] {
        world.deploy_as(name, &file, &[]);
    }
    assert_eq!(world.run(&["task", "list", "--json"]).ok().lines().len(), 4);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let world = World::new();
    world.run(&["deploy", "t", "no/such.wasm"]).fails(2, "no/such.wasm");
    world.run(&["deploy", "t", "."]).fails(2, "failed to read the component .: is a directory");
}

#[test]
fn settings_outside_their_range_are_refused_and_nothing_is_deployed() {
    let world = World::new();
    let file = guest_file(ECHO);
    let cases = [
        ("--jitter", "NaN", "between 0 and 1"),
        ("--jitter", "-0.1", "between 0 and 1"),
        ("--jitter", "inf", "between 0 and 1"),
        ("--jitter", "1.01", "between 0 and 1"),
        ("--timeout", "0", "between 1 ms and 24 hours"),
        ("--timeout", "25h", "between 1 ms and 24 hours"),
        ("--timeout", "99999999999999999999d", "too large"),
        ("--timeout", "18446744073709551615d", "too large"),
        ("--timeout", "10", "expected a duration"),
        ("--max-attempts", "0", "between 1 and 1000"),
        ("--max-attempts", "1001", "between 1 and 1000"),
        ("--max-attempts", "4294967296", "max-attempts"),
        ("--policy", "traps=dead", "a verdict such as"),
        ("--policy", "trap=die", "retry"),
        ("--policy", "completed=retry", "a verdict such as"),
        ("--policy", "trap", "retry"),
        ("--backoff", "linear:1s", "expected polynomial"),
        ("--backoff", "fixed:31d", "at most 30 days"),
        ("--backoff", "exponential:1s,NaN,1m", "between 1 and 100"),
        ("--backoff", "exponential:1s,0.5,1m", "between 1 and 100"),
        ("--backoff", "exponential:1s,2,31d", "at most 30 days"),
        ("--memory", "1B", "between 64 KiB and 4 GiB"),
        ("--memory", "5GiB", "between 64 KiB and 4 GiB"),
        ("--output-limit", "65MiB", "at most 64 MiB"),
    ];
    for (option, value, says) in cases {
        world.run(&["deploy", "t", file.to_str().unwrap(), option, value]).fails(2, says);
    }
    for (option, value, says) in [
        ("--backoff", "fixed:40d", "backoff is 40d,"),
        ("--memory", "5GiB", "memory is 5GiB,"),
        ("--timeout", "25h", "timeout is 25h,"),
        ("--timeout", "-5s", "cannot be negative; expected a duration"),
        ("--memory", "-1MiB", "cannot be negative; expected a size"),
        ("--max-attempts", "-1", "expected a whole number from 1 to 1000"),
    ] {
        world.run(&["deploy", "t", file.to_str().unwrap(), option, value]).fails(2, says);
    }
    world.run(&["deploy", "t", file.to_str().unwrap(), "--timeout=-1s"]).fails(2, "expected a duration");
    assert!(world.run(&["task", "list", "--json"]).ok().stdout.is_empty());
}

#[test]
fn deploying_the_same_component_again_repairs_its_file_and_says_so() {
    let world = World::new();
    world.deploy("echo", &[]);
    let file = only_component(&world);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, b"rubbish").unwrap();
    let guest = guest_file("echo");
    let deploy = ["deploy", "echo", guest.to_str().unwrap()];
    let ran = world.run(&deploy).ok();
    assert!(ran.stderr.contains("it is whole again"), "{}", ran.stderr);
    assert_eq!(std::fs::read(&file).unwrap(), whole);
    assert!(!world.run(&deploy).ok().stderr.contains("whole again"));
}

#[test]
fn what_needs_a_damaged_component_waits_visibly_and_runs_after_a_repair() {
    let world = World::new();
    world.deploy("echo", &[]);
    let file = only_component(&world);
    std::fs::write(&file, b"rubbish").unwrap();
    std::fs::remove_dir_all(world.data().join("cache")).unwrap();
    let id = world.enqueue(&["echo", "x"]);
    let server = world.serve(&["--workers", "1"]);
    world.until_phase(&id, "awaiting-deploy");
    crate::world::until("the status names it", || {
        let problems = world.status()["problems"].to_string();
        problems.contains("cannot be used") && problems.contains(file.file_stem().unwrap().to_str().unwrap())
    });
    world.deploy("echo", &[]);
    world.until_done();
    server.stop();
}

#[test]
fn a_deploy_says_which_settings_differ_from_the_version_before() {
    let world = World::new();
    let (echo, slow) = (guest_file("echo"), guest_file("slow"));
    let first = ["deploy", "job", echo.to_str().unwrap(), "--timeout", "2m", "--memory", "1GiB"];
    assert!(!world.run(&first).ok().stderr.contains("other settings"));
    let ran = world.run(&["deploy", "job", slow.to_str().unwrap(), "--memory", "1GiB"]).ok();
    assert!(ran.stderr.contains("other settings than v1: timeout; they are not taken over"), "{}", ran.stderr);
}

/// A worker looks for deploys now and then; what is enqueued right behind one must not slip through before.
#[test]
fn what_is_enqueued_right_after_a_deploy_runs_on_what_was_deployed() {
    let world = World::new();
    let deploy = |guest: &str| world.deploy_as("job", &guest_file(guest), &["--max-attempts", "1"]);
    deploy(ECHO);
    let server = world.serve(&["--workers", "1"]);
    for _ in 0..8 {
        for (guest, code) in [("permanent", 20), (ECHO, 0)] {
            let version = deploy(guest)["version"].clone();
            let (end, left_with) = world.wait_for(&["job", "x"]);
            assert_eq!((&end["version"], left_with), (&version, code), "{end}");
        }
    }
    server.stop();
}
