//! `check` and `run`: a component on its own, without a store.

use crate::world::{World, guest_file};

fn guest(name: &str) -> String {
    guest_file(name).to_str().unwrap().to_owned()
}

#[test]
fn check_says_what_a_typed_task_is() {
    let world = World::new();
    let checked = world.run(&["check", &guest("echo"), "--json"]).ok().json();
    assert_eq!((&checked["shape"], &checked["wit"]), (&"handler".into(), &"0.1.0".into()));
    assert_eq!(checked["size_bytes"], std::fs::metadata(guest_file("echo")).unwrap().len());
    let exports = checked["exports"].as_array().unwrap();
    assert!(exports.contains(&"wasmq:task/handler@0.1.0".into()), "{exports:?}");
    assert!(checked["imports"].as_array().unwrap().iter().all(|import| import.as_str().unwrap().contains('@')));
    let text = world.run(&["check", &guest("echo")]).ok().text();
    assert!(text.contains("exports wasmq:task/handler@0.1.0"), "{text}");
    assert!(text.contains("with function names"), "{text}");
    assert!(!world.data().exists(), "check stores nothing");
}

#[test]
fn check_says_what_a_command_is() {
    let world = World::new();
    let checked = world.run(&["check", &guest("command-echo"), "--json"]).ok().json();
    assert_eq!(checked["shape"], "command");
    let text = world.run(&["check", &guest("command-echo")]).ok().text();
    assert!(text.contains("payload on stdin, output from stdout, exit code as verdict"), "{text}");
}

#[test]
fn check_gives_the_digest_that_deploy_gives() {
    let world = World::new();
    let checked = world.run(&["check", &guest("echo"), "--json"]).ok().json();
    let deployed = world.deploy_as("t", &guest_file("echo"), &[]);
    assert_eq!(checked["digest"], deployed["component"]);
}

#[test]
fn check_refuses_what_deploy_would_refuse() {
    let world = World::new();
    let file = world.file("text.wasm", b"hello");
    let ran = world.run(&["check", file.to_str().unwrap()]).fails(6, "not WebAssembly");
    assert!(ran.stdout.is_empty());
    let ran = world.run(&["check", file.to_str().unwrap(), "--json"]).fails(6, "component-refused");
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("not WebAssembly"), "{error}");
    world.run(&["check", "no-such.wasm"]).fails(2, "no-such.wasm");
}

#[test]
fn run_gives_back_every_byte() {
    let world = World::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let file = world.file("bytes", &bytes);
    for name in ["echo", "command-echo"] {
        let ran = world.run(&["run", &guest(name), "--payload", &format!("@{}", file.display())]).ok();
        assert!(ran.stdout == bytes, "{name}");
        assert!(ran.stderr.contains("completed"), "{}", ran.stderr);
        let ran = world.run_with(&["run", &guest(name), "--payload", "-"], &bytes).ok();
        assert!(ran.stdout == bytes, "{name} through stdin");
        assert!(world.run(&["run", &guest(name)]).ok().stdout.is_empty(), "{name} without payload");
    }
    assert!(!world.data().exists(), "run stores nothing");
}

#[test]
fn run_tells_the_task_its_attempt_and_metadata() {
    let world = World::new();
    let facts = world.run(&["run", &guest("facts"), "--attempt", "7", "--meta", "tenant=42", "--payload", "abc"]).ok();
    let facts = facts.json();
    assert_eq!((&facts["attempt"], &facts["metadata"]["tenant"]), (&7.into(), &"42".into()));
    assert_eq!((&facts["task"], &facts["payload_bytes"]), (&"facts".into(), &3.into()));
}

#[test]
fn run_in_json_has_the_verdict_and_the_output_in_a_form_for_any_bytes() {
    let world = World::new();
    let done = world.run_with(&["run", &guest("echo"), "--payload", "-", "--json"], b"\xff\xfe\0").ok().json();
    assert_eq!((&done["verdict"], &done["output"]["base64"]), (&"completed".into(), &"//4A".into()));
    assert!(done["failure"].is_null() && done["usage"]["memory_peak_bytes"].as_u64().unwrap() > 0);
    let done = world.run(&["run", &guest("echo"), "--payload", "text", "--json"]).ok().json();
    assert_eq!(done["output"]["text"], "text");
}

#[test]
fn run_shows_what_a_typed_task_wrote_to_stdout_beside_its_output() {
    let world = World::new();
    let done = world.run(&["run", &guest("chatty"), "--payload", "9", "--json"]).ok().json();
    assert_eq!((&done["output"]["text"], &done["said"]["stdout"]["total_bytes"]), (&"ok".into(), &106.into()));
    let ran = world.run(&["run", &guest("chatty"), "--payload", "9"]).ok();
    assert!(ran.text() == "ok" && ran.stderr.contains("STDOUT"), "{}", ran.stderr);
    let command = world.run(&["run", &guest("command-echo"), "--payload", "x"]).ok();
    assert!(!command.stderr.contains("STDOUT"), "it is the output: {}", command.stderr);
}

#[test]
fn run_says_that_follow_ups_go_nowhere() {
    let world = World::new();
    let ran = world.run(&["run", &guest("follow-up"), "--payload", "mail\nhello"]).ok();
    assert!(ran.stderr.contains("1 follow-up for mail not enqueued: `wasmq run` has no queue"), "{}", ran.stderr);
    let done = world.run(&["run", &guest("follow-up"), "--payload", "mail\nhello", "--json"]).ok().json();
    let follow_up = &done["follow_ups"][0];
    assert_eq!((&follow_up["task"], &follow_up["payload"]["text"]), (&"mail".into(), &"hello".into()));
    assert_eq!(follow_up["id"], done["output"]["text"]);
}

/// Runs a guest that fails, both ways, and returns what it said on stderr.
#[track_caller]
fn failing(arguments: &[&str], code: i32, verdict: &str) -> String {
    let world = World::new();
    let file = guest(arguments[0]);
    let arguments = [&["run", &file], &arguments[1..]].concat();
    let report = world.run(&[&arguments[..], &["--json"]].concat());
    assert_eq!((report.code, &report.json()["verdict"]), (code, &verdict.into()), "{}", report.text());
    let ran = world.run(&arguments).fails(code, verdict);
    assert!(ran.stdout.is_empty(), "{}", ran.text());
    ran.stderr
}

#[test]
fn a_trap_leaves_with_21_and_shows_its_message_and_backtrace() {
    let said = failing(&["panics", "--payload", "the fuse blew"], 21, "trap.unreachable");
    assert!(said.contains("asked to panic: the fuse blew") && said.contains("panics::handle"), "{said}");
    assert!(said.contains("--full shows them") && !said.contains("rust_begin_unwind"), "{said}");
    let said = failing(&["panics", "--payload", "the fuse blew", "--full"], 21, "trap.unreachable");
    assert!(said.contains("rust_begin_unwind") && !said.contains("--full"), "{said}");
    assert!(said.contains("deterministic"), "{said}");
}

#[test]
fn an_error_of_the_task_leaves_with_20() {
    failing(&["permanent", "--payload", "x"], 20, "error.permanent");
    let said = failing(&["retryable"], 20, "error.retryable");
    assert!(said.contains("the other side does not answer"), "{said}");
    failing(&["retry-after", "--payload", "5"], 20, "error.retry-after");
}

#[test]
fn an_exit_code_leaves_with_22_and_is_in_the_verdict() {
    failing(&["command-exit-code", "--payload", "7"], 22, "exit.7");
    failing(&["command-exit-code", "--payload", "255"], 22, "exit.255");
    failing(&["exit", "--payload", "3"], 22, "exit.1");
}

#[test]
fn a_timeout_leaves_with_23_in_time() {
    let since = std::time::Instant::now();
    let said = failing(&["spin", "--timeout", "300ms"], 23, "timeout");
    assert!(said.contains("300"), "{said}");
    assert!(since.elapsed().as_secs() < 20, "a timeout of 300 ms took {:?}", since.elapsed());
}

#[test]
fn a_limit_leaves_with_24_and_says_how_much_was_wanted() {
    let said = failing(&["greedy", "--memory", "32MiB"], 24, "memory-limit");
    assert!(said.contains("the limit is 32MiB"), "{said}");
    let said = failing(&["big-output", "--payload", "1025", "--output-limit", "1KiB"], 24, "output-limit");
    assert!(said.contains("1025") && said.contains("1KiB"), "{said}");
}

#[test]
fn the_output_limit_is_exact() {
    let world = World::new();
    let ran = world.run(&["run", &guest("big-output"), "--payload", "1024", "--output-limit", "1KiB"]).ok();
    assert_eq!(ran.stdout, [b'x'; 1024]);
}

#[test]
fn run_refuses_what_check_refuses() {
    let world = World::new();
    let file = world.file("empty.wasm", b"");
    world.run(&["run", file.to_str().unwrap()]).fails(6, "the file is empty");
    world.run(&["run", &guest("echo"), "--timeout", "25h"]).fails(2, "between 1 ms and 24 hours");
    world.run_with(&["run", &guest("echo"), "--payload", "-", "--payload-limit", "3"], b"abcd").fails(2, "3 bytes");
}

#[test]
fn a_repetition_says_how_long_the_attempts_took_and_gives_the_last_output() {
    let world = World::new();
    for name in ["echo", "command-echo"] {
        let ran = world.run(&["run", &guest(name), "--payload", "abc", "--repeat", "20"]).ok();
        assert_eq!(ran.stdout, b"abc", "{name}");
        assert!(ran.stderr.contains("ran 20 in one process: the first in "), "{}", ran.stderr);
        let shown = world.run(&["run", &guest(name), "--payload", "abc", "--repeat", "20", "--json"]).ok().json();
        assert_eq!((&shown["verdict"], &shown["output"]["text"]), (&"completed".into(), &"abc".into()));
        assert_eq!(shown["repeat"]["count"], 20);
        let times = ["first_us", "median_us", "p99_us", "max_us"].map(|name| shown["repeat"][name].as_f64().unwrap());
        let [first, median, p99, max] = times;
        assert!(0.0 < median && median <= p99 && p99 <= max && first <= max, "{times:?}");
    }
    let once = world.run(&["run", &guest("echo"), "--json"]).ok().json();
    assert!(once.get("repeat").is_none(), "{once}");
}

#[test]
fn every_attempt_of_a_repetition_has_a_fresh_instance_and_all_its_time() {
    let world = World::new();
    // Twenty of them take longer than one may, and hold more memory together than one may.
    let arguments = ["--payload", "20", "--repeat", "20", "--timeout", "300ms", "--memory", "4MiB"];
    world.run(&[&["run", &guest("slow")], &arguments[..]].concat()).ok();
}

#[test]
fn a_repetition_ends_with_the_first_attempt_that_does_not_complete() {
    let world = World::new();
    let repeated = ["run", &guest("panics"), "--payload", "the fuse blew", "--repeat", "20"];
    let ran = world.run(&repeated).fails(21, "trap.unreachable");
    assert!(ran.stdout.is_empty() && ran.stderr.contains("asked to panic: the fuse blew"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ran 1 of 20 in one process"), "{}", ran.stderr);
    let shown = world.run(&[&repeated[..], &["--json"]].concat()).json();
    assert_eq!((&shown["verdict"], &shown["repeat"]["count"]), (&"trap.unreachable".into(), &1.into()));
}

#[test]
fn a_repetition_has_a_count_that_makes_sense() {
    let world = World::new();
    for count in ["0", "-1", "1000001", "many"] {
        world.run(&["run", &guest("echo"), "--repeat", count]).fails(2, "from 1 to 1000000");
    }
}
