//! Enqueueing: where a payload comes from, when and with which version it runs, and what is refused.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, guest_file, signal, until};

fn with(guests: &[&str]) -> World {
    let world = World::new();
    guests.iter().for_each(|guest| world.deploy(guest, &[]));
    world
}

#[test]
fn a_payload_is_an_argument_a_file_stdin_or_nothing() {
    let world = with(&["echo"]);
    let file = world.file("a file", b"from the file\n");
    let at = format!("@{}", file.display());
    let echoed = |arguments: &[&str], stdin: &[u8]| {
        world.run_with(&[&["enqueue", "echo", "--wait"], arguments].concat(), stdin).ok().stdout
    };
    assert_eq!(echoed(&["two words"], b"not read"), b"two words");
    assert_eq!(echoed(&["-5"], b"not read"), b"-5");
    assert_eq!(echoed(&[&at], b"not read"), b"from the file\n");
    assert_eq!(echoed(&["-"], b"from stdin"), b"from stdin");
    assert_eq!(echoed(&["-"], b"@not a file"), b"@not a file");
    assert_eq!(echoed(&["-"], b""), b"");
    assert_eq!(echoed(&[""], b"not read"), b"");
    assert_eq!(echoed(&[], b"not read"), b"");
}

#[test]
fn a_payload_file_that_is_not_there_is_named_and_nothing_is_enqueued() {
    let world = with(&["echo"]);
    world.run(&["enqueue", "echo", "@no/such"]).fails(2, "no/such");
    world.run(&["enqueue", "echo", "@"]).fails(2, "read");
    world.run(&["enqueue", "echo", "@."]).fails(2, "directory");
    assert!(world.live().is_empty());
}

#[test]
fn bytes_that_are_no_text_come_back_as_they_were() {
    let world = with(&["echo"]);
    let bytes: Vec<u8> = (0..=255).rev().cycle().take(70_000).collect();
    let file = world.file("bytes", &bytes);
    assert!(world.run(&["enqueue", "echo", &format!("@{}", file.display()), "--wait"]).ok().stdout == bytes);
    assert!(world.run_with(&["enqueue", "echo", "-", "--wait"], &bytes).ok().stdout == bytes);
    let argument = b"\xff\xfe \xc3\x28";
    let output = world.command(&["enqueue", "echo", "--wait"]).arg(OsStr::from_bytes(argument)).output().unwrap();
    assert_eq!(output.stdout, argument);
}

#[test]
fn bytes_that_are_no_text_survive_death() {
    let world = with(&["permanent"]);
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let ran = world.run_with(&["enqueue", "permanent", "-", "--wait", "--json"], &bytes);
    assert_eq!(ran.code, 20, "{}", ran.stderr);
    let end = ran.json();
    let shown = world.run(&["dlq", "show", end["id"].as_str().unwrap(), "--payload"]).ok();
    assert!(shown.stdout == bytes);
}

#[test]
fn a_payload_at_the_limit_is_taken_and_one_byte_more_is_refused() {
    let world = with(&["echo"]);
    for size in [999, 1000] {
        let payload = vec![7; size];
        let ran = world.run_with(&["enqueue", "echo", "-", "--wait", "--payload-limit", "1000B"], &payload).ok();
        assert!(ran.stdout == payload, "{size}");
    }
    let over = [7; 1001];
    world.run_with(&["enqueue", "echo", "-", "--payload-limit", "1000B"], &over).fails(2, "1000 bytes");
    let file = world.file("over", &over);
    let at = format!("@{}", file.display());
    let ran = world.run(&["enqueue", "echo", &at, "--payload-limit", "1000B"]).fails(2, "1000 bytes");
    assert!(ran.stderr.contains("1001 bytes") && ran.stderr.contains("--payload-limit"), "{}", ran.stderr);
    let mut command = world.command(&["enqueue", "echo", &at]);
    let output = command.env("WASMQ_PAYLOAD_LIMIT", "1000").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("1001 bytes"));
    let mut command = world.command(&["enqueue", "echo", &at, "--wait", "--payload-limit", "1001"]);
    let output = command.env("WASMQ_PAYLOAD_LIMIT", "1000").output().unwrap();
    assert_eq!(output.stdout, over, "the flag wins over the environment");
    assert!(world.live().is_empty() && world.dead().is_empty());
}

#[test]
fn a_payload_that_cannot_be_read_is_told_with_path_cause_and_next_step() {
    let world = with(&["echo"]);
    std::fs::create_dir(world.path("folder")).unwrap();
    for (payload, code, cause, next) in [
        ("@missing", 2, "payload missing: No such file", "relative to the current directory"),
        ("@folder", 2, "payload folder: is a directory", "name a file in it"),
        ("@", 2, "payload @: there is no name of a file", "write @FILE"),
        ("--wiat", 2, "there is no option --wiat", "did you mean --wait?"),
    ] {
        let refused = world.run(&["enqueue", "echo", payload]).fails(code, cause);
        assert!(refused.stderr.contains(next) && refused.stderr.lines().count() == 2, "{}", refused.stderr);
    }
    assert!(world.live().is_empty());
}

#[test]
fn a_limit_is_only_to_be_raised_where_that_helps() {
    let world = with(&["echo"]);
    let sparse = std::fs::File::create(world.path("huge")).unwrap();
    sparse.set_len((64 << 20) + 1).unwrap();
    for arguments in [&["enqueue", "echo", "@huge"][..], &["enqueue", "echo", "@huge", "--payload-limit", "64MiB"]] {
        let refused = world.run(arguments).fails(2, "no payload may have more than 64MiB");
        assert!(!refused.stderr.contains("raise"), "{}", refused.stderr);
    }
    sparse.set_len((1 << 20) + 1).unwrap();
    let refused = world.run(&["enqueue", "echo", "@huge"]).fails(2, "payload_limit in wasmq.toml");
    assert!(refused.stderr.contains("the maximum is 64MiB"), "{}", refused.stderr);
}

#[test]
fn the_limit_is_one_mebibyte_unless_said_otherwise_and_never_over_64() {
    let world = with(&["echo"]);
    let payload = vec![b'x'; 1 << 20];
    assert!(world.run_with(&["enqueue", "echo", "-", "--wait"], &payload).ok().stdout == payload);
    let over = vec![b'x'; (1 << 20) + 1];
    world.run_with(&["enqueue", "echo", "-"], &over).fails(2, "1048576 bytes");
    world.run(&["enqueue", "echo", "x", "--payload-limit", "65MiB"]).fails(2, "64");
    let large = vec![b'y'; 12 << 20];
    let ran = world.run_with(&["enqueue", "echo", "-", "--wait", "--payload-limit", "64MiB"], &large).ok();
    assert!(ran.stdout == large);
}

#[test]
fn an_endless_stdin_is_refused_while_it_streams() {
    let world = with(&["echo"]);
    let endless = std::fs::File::open("/dev/zero").unwrap();
    let output = world.command(&["enqueue", "echo", "-"]).stdin(endless).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    world.run(&["enqueue", "echo", "@/dev/zero"]).fails(2, "1048576 bytes");
}

#[test]
fn an_unknown_task_is_refused_with_the_names_that_are_close() {
    let world = with(&["echo", "flaky"]);
    for name in ["eco", "ecko", "echoo"] {
        let ran = world.run(&["enqueue", name, "x"]).fails(3, "did you mean echo?");
        assert!(!ran.stderr.contains("flaky") && ran.stdout.is_empty(), "{}", ran.stderr);
    }
    world.run(&["enqueue", "zzzzzz", "x"]).fails(3, "no task zzzzzz is deployed");
    world.run(&["enqueue", "Not A Name", "x"]).fails(2, "task name");
    assert!(world.live().is_empty());
}

#[test]
fn two_letters_that_changed_places_are_close() {
    let world = with(&["echo"]);
    world.run(&["enqueue", "ehco", "x"]).fails(3, "did you mean echo?");
}

#[test]
fn a_delayed_invocation_waits_its_time_and_runs_then() {
    let world = with(&["retryable"]);
    let server = world.serve(&["--workers", "1"]);
    let since = jiff::Timestamp::now();
    let id = world.enqueue(&["retryable", "--delay", "2s", "--max-attempts", "1"]);
    let waiting = world.until_phase(&id, "delayed");
    let due: jiff::Timestamp = waiting["due_at"].as_str().unwrap().parse().unwrap();
    let ahead = due.duration_since(since).as_millis();
    assert!((1990..20_000).contains(&ahead), "due {ahead} ms after it was asked for");
    world.until_done();
    let started: jiff::Timestamp = world.dead_task(&id)["history"][0]["started_at"].as_str().unwrap().parse().unwrap();
    let late = started.duration_since(due).as_millis();
    assert!((0..10_000).contains(&late), "started {late} ms after it was due");
    server.stop();
}

#[test]
fn a_point_in_time_is_honoured_and_one_in_the_past_is_now() {
    let world = with(&["echo"]);
    let at = jiff::Timestamp::now() + Duration::from_millis(1500);
    let (end, code) = world.wait_for(&["echo", "x", "--at", &at.to_string()]);
    assert_eq!(code, 0, "{end}");
    assert!(jiff::Timestamp::now() >= at);
    let (end, code) = world.wait_for(&["echo", "x", "--at", "2001-01-01T00:00:00Z"]);
    assert_eq!(code, 0, "{end}");
    let id = world.enqueue(&["echo", "--at", "2060-01-31 09:00"]);
    let live = world.run(&["show", &id, "--json"]).ok().json();
    assert_eq!(live["phase"], "delayed");
    assert!(live["due_at"].as_str().unwrap().starts_with("2060-01-3"), "{live}");
}

#[test]
fn absurd_times_are_refused() {
    let world = with(&["echo"]);
    for arguments in [
        ["--delay", "3651d"],
        ["--delay", "-1s"],
        ["--delay", "99999999999999999999s"],
        ["--at", "tomorrow"],
        ["--at", "1969-12-31T23:59:59Z"],
        ["--at", "2030-02-30T00:00:00Z"],
        ["--priority", "10"],
        ["--max-attempts", "0"],
        ["--max-attempts", "99999999999"],
        ["--meta", "no-value"],
    ] {
        let ran = world.run(&[&["enqueue", "echo", "x"][..], &arguments].concat()).fails(2, "error");
        assert!(ran.stdout.is_empty(), "{arguments:?}");
    }
    let negative = "a delay cannot be negative; expected a duration from 0s to 3650d";
    world.run(&["enqueue", "echo", "x", "--delay", "-5s"]).fails(2, negative);
    world.run(&["enqueue", "echo", "--delay", "1s", "--at", "2030-01-01T00:00:00Z"]).fails(2, "--at");
    assert!(world.live().is_empty());
}

#[test]
fn an_invocation_may_have_a_budget_of_its_own() {
    let world = with(&["retryable"]);
    for attempts in [1, 5] {
        let (end, _) = world.wait_for(&["retryable", "--max-attempts", &attempts.to_string()]);
        assert_eq!(end["attempts"], attempts, "{end}");
        let dead = world.dead_task(end["id"].as_str().unwrap());
        assert_eq!((&dead["max_attempts"], dead["history"].as_array().unwrap().len()), (&json!(attempts), attempts));
    }
}

#[test]
fn the_higher_priority_starts_first_and_equals_in_the_order_they_came() {
    let world = with(&["spin"]);
    world.deploy("slow", &["--timeout", "20ms", "--max-attempts", "1"]);
    let server = world.serve(&["--workers", "1", "--concurrency", "1"]);
    let blocker = world.enqueue(&["spin"]);
    world.until_phase(&blocker, "running");
    let mut ids = Vec::new();
    for priority in ["0", "5", "9", "5", "1"] {
        ids.push(world.enqueue(&["slow", "60000", "--priority", priority]));
    }
    assert!(world.live().iter().skip(1).all(|live| live["phase"] == "ready"), "{:?}", world.live());
    world.run(&["cancel", &blocker]).ok();
    world.until_done();
    let started = |id: &String| world.dead_task(id)["history"][0]["started_at"].as_str().unwrap().to_owned();
    let expected = [2, 1, 3, 4, 0].map(|at: usize| started(&ids[at]));
    assert!(expected.windows(2).all(|pair| pair[0] < pair[1]), "{expected:?}");
    server.stop();
}

#[test]
fn a_batch_has_an_invocation_a_line_without_its_line_break_of_either_kind() {
    let world = with(&["permanent"]);
    let ran = world.run_with(&["enqueue", "permanent", "--batch", "-"], b"a\r\n\n\xff\0\nlast").ok();
    let ids: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), 4);
    let server = world.serve(&["--workers", "1"]);
    world.until_done();
    let payloads: Vec<Vec<u8>> =
        ids.iter().map(|id| world.run(&["dlq", "show", id, "--payload"]).ok().stdout).collect();
    assert_eq!(payloads, [&b"a"[..], b"", b"\xff\0", b"last"]);
    server.stop();
}

#[test]
fn a_batch_from_a_file_of_thousands_has_as_many_ids_and_all_complete() {
    let world = with(&["echo"]);
    let lines: String = (0..2500).map(|line| format!("{line}\n")).collect();
    let file = world.file("lines", lines.as_bytes());
    let ran = world.run(&["enqueue", "echo", "--batch", file.to_str().unwrap(), "--json"]).ok();
    let ids: std::collections::BTreeSet<String> =
        ran.lines().iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 2500);
    assert_eq!(world.status()["live"]["ready"], 2500);
    let server = world.serve(&["--workers", "2"]);
    world.until_done();
    assert!(world.dead().is_empty());
    server.stop();
}

#[test]
fn a_batch_with_a_line_over_the_limit_says_which_and_how_many_are_safe() {
    let world = with(&["echo"]);
    let ran = world.run_with(&["enqueue", "echo", "--batch", "-", "--payload-limit", "4"], b"1234\n12345\nx\n");
    let ran = ran.fails(7, "line 2 of stdin");
    assert!(ran.stderr.contains("enqueued and safe: 1 of the lines"), "{}", ran.stderr);
    assert_eq!(ran.text().lines().count(), 1);
    assert_eq!(world.live().len(), 1);
}

#[test]
fn metadata_reaches_the_task() {
    let world = with(&["facts"]);
    let (end, _) = world.wait_for(&["facts", "--meta", "tenant=42", "--meta", "trace=a=b ü"]);
    let facts: Value = serde_json::from_str(end["output"]["text"].as_str().unwrap()).unwrap();
    assert_eq!(facts["metadata"], json!({ "tenant": "42", "trace": "a=b ü" }));
}

#[test]
fn an_invocation_can_name_its_version_and_keeps_it_whatever_is_current() {
    let world = World::new();
    world.deploy_as("t", &guest_file("panics"), &["--label", "old"]);
    let digest = world.deploy_as("t", &guest_file("echo"), &[])["component"].as_str().unwrap().to_owned();
    for (component, version) in [("v1", "v1"), ("old", "v1"), ("v2", "v2"), (digest.as_str(), "v2"), ("current", "v2")]
    {
        let (end, _) = world.wait_for(&["t", "x", "--component", component]);
        assert_eq!(end["version"], version, "{component}");
    }
    let pinned = world.enqueue(&["t", "pinned", "--component", "v1"]);
    let free = world.enqueue(&["t", "free"]);
    world.deploy_as("t", &guest_file("permanent"), &[]);
    let server = world.serve(&["--workers", "1"]);
    world.until_done();
    assert_eq!(world.dead_task(&pinned)["version"], "v1");
    assert_eq!(world.dead_task(&free)["version"], "v3");
    server.stop();
}

#[test]
fn a_version_that_does_not_exist_is_refused_and_nothing_is_enqueued() {
    let world = with(&["echo"]);
    world.run(&["enqueue", "echo", "--component", "v9"]).fails(3, "no version v9");
    world.run(&["enqueue", "echo", "--component", "nope"]).fails(3, "label \"nope\"");
    world.run(&["enqueue", "echo", "--component", "sha256:000000000000"]).fails(3, "sha256:000000000000");
    world.run(&["enqueue", "echo", "--component", "V1"]).fails(2, "version");
    assert!(world.live().is_empty());
}

#[test]
fn a_running_server_starts_what_is_enqueued_at_once() {
    let world = with(&["permanent"]);
    let server = world.serve(&["--workers", "1"]);
    let (end, _) = world.wait_for(&["permanent", "x"]);
    let dead = world.dead_task(end["id"].as_str().unwrap());
    let at = |what: &Value| what.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let waited = at(&dead["history"][0]["started_at"]).duration_since(at(&dead["enqueued_at"]));
    // It takes milliseconds; the rest is room for a busy machine.
    assert!(waited.as_millis() < 3000, "{waited:?}");
    server.stop();
}

#[test]
fn whoever_waits_is_told_of_every_attempt_that_failed() {
    let world = with(&["flaky"]);
    for server in [None, Some(world.serve(&["--workers", "1"]))] {
        let ran = world.run(&["enqueue", "flaky", "3", "--wait"]).ok();
        for attempt in ["attempt 1 of 3: error.retryable", "attempt 2 of 3: error.retryable"] {
            assert!(ran.stderr.contains(attempt), "{}", ran.stderr);
        }
        assert!(!ran.stderr.contains("attempt 3"), "{}", ran.stderr);
        server.into_iter().for_each(crate::world::Server::stop);
    }
}

#[test]
fn a_waiter_whose_server_is_killed_is_told_the_id_and_that_it_goes_on() {
    let world = with(&["slow"]);
    let mut server = world.serve(&["--workers", "1"]);
    let waiter = world.command(&["enqueue", "slow", "20000", "--wait"]).stderr(Stdio::piped()).spawn().unwrap();
    crate::stories::until_running(&world, 1);
    let id = world.live()[0]["id"].as_str().unwrap().to_owned();
    server.signal("KILL");
    server.ended();
    let ended = waiter.wait_with_output().unwrap();
    let says = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(says.contains(&format!("while {id} was waited for; it is safe")), "{says}");
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn whoever_is_interrupted_while_waiting_hears_that_the_invocation_is_kept() {
    let world = with(&["slow"]);
    let mut command = world.command(&["enqueue", "slow", "60000", "--wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it runs", || world.live().iter().any(|one| one["phase"] == "running"));
    let id = world.live()[0]["id"].as_str().unwrap().to_owned();
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("error: interrupted before {id} had ended; it is kept")), "{said}");
    assert!(said.contains(&format!("`wasmq cancel {id}` ends it")), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!((&world.live()[0]["id"], &world.live()[0]["attempts"]), (&id.into(), &0.into()));
}
