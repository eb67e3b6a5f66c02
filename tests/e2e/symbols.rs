//! Backtraces of components with names and lines, without them, and with symbols that were added later.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::world::{World, guest_file};

const HINT: &str = "built without names: keep `name` and debug sections, or add them later with `wasmq symbols add`";

/// The sections of a component or a core module: id and content.
fn sections(bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let (mut rest, mut found) = (&bytes[8..], Vec::new());
    while let [id, behind @ ..] = rest {
        let width = behind.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let length = behind[..width].iter().rev().fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
        found.push((*id, &behind[width..width + length]));
        rest = &behind[width + length..];
    }
    found
}

/// The same code without any custom section, as `wasm-tools strip --all` leaves it.
fn stripped(bytes: &[u8]) -> Vec<u8> {
    let is_component = bytes[4] == 0x0d;
    let mut out = bytes[..8].to_vec();
    for (id, content) in sections(bytes).into_iter().filter(|(id, _)| *id != 0) {
        let content = if is_component && id == 1 { stripped(content) } else { content.to_vec() };
        out.push(id);
        let mut length = content.len();
        while length > 0x7f {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend(content);
    }
    out
}

/// A stripped guest in a file of a world.
fn stripped_file(world: &World, guest: &str) -> PathBuf {
    let bytes = std::fs::read(guest_file(guest)).unwrap();
    world.file(&format!("{guest}-stripped.wasm"), &stripped(&bytes))
}

/// A world with a dead task of a stripped guest: its id, and the digest of the component.
fn dead_in_numbers(guest: &str, payload: &str) -> (World, String, String) {
    let world = World::new();
    let file = stripped_file(&world, guest);
    let deployed = world.deploy_as("job", &file, &["--max-attempts", "1"]);
    let (end, _) = world.wait_for(&["job", payload]);
    let id = end["id"].as_str().unwrap().to_owned();
    (world, id, deployed["component"].as_str().unwrap().to_owned())
}

fn frames(failed: &Value) -> Vec<Value> {
    failed["failure"]["trap"]["frames"].as_array().unwrap().clone()
}

fn functions(failed: &Value) -> Vec<Value> {
    frames(failed).iter().map(|frame| frame["function"].clone()).collect()
}

#[test]
fn a_component_with_a_line_table_dies_with_files_lines_and_inlined_functions() {
    let world = World::new();
    let file = guest_file("deep-trap");
    let failed = world.run(&["run", file.to_str().unwrap(), "--payload", "0", "--json"]);
    assert_eq!(failed.code, 21, "{}", failed.stderr);
    let frames = frames(&failed.json());
    assert!(frames.len() > 2 && frames[0]["function_index"] == frames[1]["function_index"], "{frames:?}");
    for (frame, function) in frames.iter().zip(["divided", "share_of"]) {
        assert!(frame["function"].as_str().unwrap().ends_with(function), "{frame}");
        assert!(frame["source"].as_str().unwrap().contains("deep-trap/src/lib.rs:"), "{frame}");
    }
    let text = world.run(&["run", file.to_str().unwrap(), "--payload", "0"]);
    assert!(text.stderr.contains("deep-trap/src/lib.rs:") && !text.stderr.contains(HINT), "{}", text.stderr);
}

#[test]
fn a_stripped_component_dies_in_numbers_and_every_page_says_what_to_do_about_it() {
    let (world, id, _) = dead_in_numbers("deep-trap", "0");
    let file = stripped_file(&world, "deep-trap");
    assert!(functions(&world.dead_task(&id)).iter().all(Value::is_null));
    let ran = world.run(&["run", file.to_str().unwrap(), "--payload", "0"]).stderr;
    let waited = world.run(&["enqueue", "job", "0", "--wait"]).stderr;
    let shown = world.run(&["dlq", "show", &id]).ok().text();
    for page in [ran, waited, shown] {
        assert_eq!(page.matches(HINT).count(), 1, "{page}");
        assert!(page.contains("   0  function "), "{page}");
    }
    let returned = world.run(&["run", guest_file("permanent").to_str().unwrap(), "--payload", "x"]).stderr;
    assert!(!returned.contains(HINT), "no backtrace, no hint: {returned}");
}

#[test]
fn symbols_turn_the_numbers_of_tasks_that_are_dead_already_into_names_and_lines() {
    let (world, id, digest) = dead_in_numbers("deep-trap", "0");
    let whole = guest_file("deep-trap");
    let groups = world.run(&["dlq", "groups", "--json"]).ok().text();
    let added = world.run(&["symbols", "add", "job", whole.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!((&added["component"], &added["names"], &added["lines"]), (&json!(digest), &json!(true), &json!(true)));
    assert_eq!(added["replaced"], false);

    let engine = world.run(&["run", whole.to_str().unwrap(), "--payload", "0", "--json"]).json();
    assert_eq!(frames(&world.dead_task(&id)), frames(&engine), "as if it had never been stripped");
    for command in [&["dlq", "show", &id][..], &["show", &id]] {
        let text = world.run(command).ok().text();
        assert!(text.contains("share_of  ") && text.contains("deep-trap/src/lib.rs:"), "{text}");
        assert!(!text.contains(HINT) && text.contains("executed in divided ("), "{text}");
    }
    let component = world.data().join("components/sha256").join(format!("{}.wasm", &digest[7..]));
    assert_eq!(std::fs::read(component).unwrap(), stripped(&std::fs::read(&whole).unwrap()), "it is as it was");
    assert_eq!(world.run(&["dlq", "groups", "--json"]).ok().text(), groups, "the same groups");

    world.run(&["symbols", "remove", "job"]).ok();
    assert!(functions(&world.dead_task(&id)).iter().all(Value::is_null), "what is stored never changed");
    world.run(&["symbols", "remove", "job"]).fails(3, &format!("no symbols were added for {digest}"));
}

#[test]
fn tasks_that_die_later_are_explained_too_and_join_the_same_group() {
    let (world, id, _) = dead_in_numbers("deep-trap", "0");
    let group = world.dead_task(&id)["fingerprint"].clone();
    world.run(&["symbols", "add", "job@v1", guest_file("deep-trap").to_str().unwrap()]).ok();
    let server = world.serve(&["--workers", "1"]);
    let (end, code) = world.wait_for(&["job", "0"]);
    assert_eq!((code, &functions(&end)[1]), (21, &json!("share_of")), "{end}");
    let waited = world.run(&["enqueue", "job", "0", "--wait"]);
    assert!(waited.stderr.contains("deep-trap/src/lib.rs:") && !waited.stderr.contains(HINT), "{}", waited.stderr);
    server.stop();
    assert_eq!(world.dead_task(end["id"].as_str().unwrap())["fingerprint"], group);
    let stored = std::fs::read_to_string(world.data().join("dlq/dead-tasks-v1.jsonl")).unwrap();
    assert!(!stored.contains("share_of"), "names are added when they are shown");
}

#[test]
fn names_alone_help_too_and_the_core_module_is_enough() {
    let (world, id, digest) = dead_in_numbers("panics", "boom");
    let whole = std::fs::read(guest_file("panics")).unwrap();
    let core = sections(&whole).into_iter().find(|(id, _)| *id == 1).unwrap().1;
    let file = world.file("core.wasm", core);
    let said = world.run(&["symbols", "add", &digest[..19], file.to_str().unwrap()]).ok().text();
    assert!(said.contains("function names, for 1 of its"), "{said}");
    let engine = world.run(&["run", guest_file("panics").to_str().unwrap(), "--payload", "boom", "--json"]).json();
    assert_eq!(functions(&world.dead_task(&id)), functions(&engine));
    let text = world.run(&["dlq", "show", &id]).ok().text();
    assert!(text.contains("panics::handle  ") && !text.contains(HINT), "{text}");
}

#[test]
fn a_file_of_other_code_or_of_nothing_is_refused_in_one_sentence() {
    let (world, id, digest) = dead_in_numbers("deep-trap", "0");
    let stripped = stripped_file(&world, "deep-trap");
    let junk = world.file("junk.wasm", b"\0asm\x0d\0\x01\0\x01\xff\xff\xff\xff\x0f");
    for (file, says) in [
        (guest_file("panics"), format!("its code is not that of {digest}: core module 0 of it, with ")),
        (stripped, format!("its code is that of {digest}, but it has neither names nor debug information")),
        (junk, "the file is no WebAssembly that can be read".to_owned()),
    ] {
        let refused = world.run(&["symbols", "add", "job", file.to_str().unwrap()]).fails(6, &says);
        assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{}", refused.stderr);
    }
    let refused = world.run(&["symbols", "add", "job", guest_file("echo").to_str().unwrap(), "--json"]);
    let error: Value = serde_json::from_str(refused.stderr.trim()).unwrap();
    assert_eq!(error["error"]["code"], "symbols-refused");
    assert!(!world.data().join("symbols").exists(), "nothing was written");
    assert!(functions(&world.dead_task(&id)).iter().all(Value::is_null));
}

#[test]
fn a_component_is_named_by_task_version_or_digest_and_slips_are_told() {
    let (world, _, digest) = dead_in_numbers("deep-trap", "0");
    let file = guest_file("deep-trap");
    let add = |component: &str| world.run(&["symbols", "add", component, file.to_str().unwrap()]);
    for component in ["job", "job@v1", "job@current", &digest, &digest[..19], &format!("job@{digest}")] {
        add(component).ok();
    }
    let mut slip = digest.clone().into_bytes();
    slip[10] = if slip[10] == b'0' { b'1' } else { b'0' };
    let slip = String::from_utf8(slip).unwrap();
    add(&slip).fails(3, &format!("did you mean {digest}?"));
    add("sha256:000000000000").fails(3, "no component sha256:000000000000 is in the store");
    add("jobb").fails(3, "did you mean job?");
    add("job@v2").fails(3, "task job has no version v2; it has v1");
    for wrong in ["sha256:1234", "job@", "@v1", ""] {
        add(wrong).fails(2, "");
    }
}

#[test]
fn what_there_is_of_names_is_listed_and_shown_with_the_task() {
    let (world, _, digest) = dead_in_numbers("deep-trap", "0");
    assert!(world.run(&["symbols", "list"]).ok().stderr.contains("no symbols were added"));
    let whole = guest_file("deep-trap");
    world.deploy_as("job", &whole, &[]);
    let backtraces = || {
        let task = world.run(&["task", "show", "job", "--json"]).ok().json();
        task["versions"].as_array().unwrap().iter().map(|version| version["backtraces"].clone()).collect::<Vec<_>>()
    };
    let whole_says = json!({ "names": true, "lines": true, "symbols": null });
    assert_eq!(backtraces(), [json!({ "names": false, "lines": false, "symbols": null }), whole_says.clone()]);
    world.run(&["symbols", "add", "job@v1", whole.to_str().unwrap()]).ok();
    let [bare, whole] = backtraces().try_into().unwrap();
    assert_eq!((&bare["names"], &bare["lines"], whole), (&json!(false), &json!(false), whole_says));
    assert_eq!((&bare["symbols"]["names"], &bare["symbols"]["lines"]), (&json!(true), &json!(true)));
    let text = world.run(&["task", "show", "job"]).ok().text();
    assert!(text.contains("symbols were added, with function names, files and lines"), "{text}");
    let listed = world.run(&["symbols", "list", "--json"]).ok().lines();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["component"], &listed[0]["versions"]), (&json!(digest), &json!(["job@v1"])));
    assert!(world.run(&["symbols", "list"]).ok().text().contains("job@v1"));
}

#[test]
fn symbols_outlive_the_task_as_its_component_and_its_dead_tasks_do() {
    let (world, id, digest) = dead_in_numbers("deep-trap", "0");
    let whole = guest_file("deep-trap");
    world.run(&["symbols", "add", "job", whole.to_str().unwrap()]).ok();
    world.run(&["task", "remove", "job"]).ok();
    assert_eq!(functions(&world.dead_task(&id))[0], "divided");
    world.run(&["symbols", "remove", &digest]).ok();
    world.run(&["symbols", "add", &digest, whole.to_str().unwrap()]).ok();
    assert_eq!(functions(&world.dead_task(&id))[0], "divided");
    let listed = world.run(&["symbols", "list", "--json"]).ok().lines();
    assert_eq!(listed[0]["versions"], json!([]));
    world.run(&["store", "verify"]).ok();
}

#[test]
fn damaged_symbols_hide_nothing_and_are_found_set_aside_and_replaced() {
    let (world, id, digest) = dead_in_numbers("deep-trap", "0");
    let whole = guest_file("deep-trap");
    world.run(&["symbols", "add", "job", whole.to_str().unwrap()]).ok();
    let file = world.data().join("symbols/sha256").join(format!("{}.wasm", &digest[7..]));
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();

    let shown = world.run(&["dlq", "show", &id]).ok();
    assert!(shown.text().contains("   0  function "), "{}", shown.text());
    assert!(shown.stderr.contains("are damaged"), "{}", shown.stderr);
    assert_eq!(world.run(&["symbols", "list", "--json"]).ok().lines()[0]["damaged"], true);
    world.run(&["store", "verify"]).fails(11, "");
    assert!(world.run(&["store", "repair"]).ok().text().contains("the damaged symbols were moved"));
    world.run(&["store", "verify"]).ok();
    world.run(&["symbols", "add", "job", whole.to_str().unwrap()]).ok();
    assert_eq!(functions(&world.dead_task(&id))[0], "divided");
}
