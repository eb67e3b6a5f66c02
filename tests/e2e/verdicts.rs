//! Every way an attempt can end, from the deploy to what the waiter and the dead letter queue see.
//!
//! No server runs here except where a test says so: `enqueue --wait` runs the task itself.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{World, guest_file, until};

/// Deploys a guest, lets it fail, and checks what a waiter and `dlq show` say. Returns the dead task.
#[track_caller]
fn dies(guest: &str, payload: &str, more: &[&str], verdict: &str, code: i32, attempts: u64) -> Value {
    let world = World::new();
    world.deploy(guest, more);
    let (end, left_with) = world.wait_for(&[guest, payload]);
    assert_eq!(end["verdict"], verdict, "{end}");
    assert_eq!((left_with, &end["attempts"], &end["dead"]), (code, &json!(attempts), &json!(true)), "{end}");
    let dead = world.dead_task(end["id"].as_str().unwrap());
    assert_eq!((&dead["verdict"], &dead["attempts"]), (&json!(verdict), &json!(attempts)));
    assert_eq!(dead["failure"], end["failure"]);
    assert_eq!(dead["component"], end["component"]);
    assert_eq!(dead["payload"]["text"], payload);
    let history = dead["history"].as_array().unwrap();
    assert_eq!(
        history.iter().map(|attempt| attempt["number"].as_u64().unwrap()).collect::<Vec<_>>(),
        (1..=attempts).collect::<Vec<_>>()
    );
    assert!(history.iter().all(|attempt| attempt["verdict"] == verdict), "{history:?}");
    assert!(world.live().is_empty());
    dead
}

fn frames(dead: &Value) -> Vec<String> {
    let frames = dead["failure"]["trap"]["frames"].as_array().unwrap();
    frames.iter().map(|frame| frame["function"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A trap of a task that looked at nothing else than its payload.
#[track_caller]
fn traps_for_certain(guest: &str, code: &str) -> Value {
    let dead = dies(guest, "", &[], &format!("trap.{code}"), 21, 1);
    assert_eq!(dead["failure"]["trap"]["code"], code);
    assert_eq!(dead["failure"]["deterministic"], true);
    assert!(dead["failure"].get("observed").is_none(), "{dead}");
    let names = frames(&dead);
    assert!(names.iter().any(|name| name.ends_with("#handle")), "{names:?}");
    dead
}

#[test]
fn every_trap_has_its_code_and_is_dead_after_one_attempt() {
    for (guest, code) in [
        ("trap-unreachable", "unreachable"),
        ("trap-memory-out-of-bounds", "out-of-bounds-memory"),
        ("trap-divide-by-zero", "divide-by-zero"),
        ("trap-integer-overflow", "integer-overflow"),
        ("trap-indirect-call", "indirect-call-type-mismatch"),
    ] {
        traps_for_certain(guest, code);
    }
}

#[test]
fn too_deep_recursion_is_a_stack_overflow_and_dead_after_one_attempt() {
    let dead = dies("recursion", "", &[], "trap.stack-overflow", 21, 1);
    assert_eq!(
        (&dead["failure"]["trap"]["code"], &dead["failure"]["deterministic"]),
        (&json!("stack-overflow"), &json!(true))
    );
    let names = frames(&dead);
    assert_eq!(names[0], "recursion::dive");
    assert!(names.len() <= 64, "{}", names.len());
}

#[test]
fn a_deep_backtrace_keeps_both_ends_and_counts_what_is_left_out() {
    let dead = dies("recursion", "", &[], "trap.stack-overflow", 21, 1);
    let names = frames(&dead);
    assert!(names.last().unwrap().ends_with("#handle"), "the outermost frame is {:?}", names.last());
    assert!(dead["failure"]["trap"]["frames_omitted"].as_u64().unwrap() > 0);
}

#[test]
fn a_panic_shows_its_message_and_where_it_was() {
    let dead = dies("panics", "the fuse blew", &[], "trap.unreachable", 21, 1);
    let message = dead["failure"]["problem"]["message"].as_str().unwrap();
    assert!(message.contains("panics.rs:") && message.contains("asked to panic: the fuse blew"), "{message}");
    assert!(frames(&dead).contains(&"panics::handle".to_owned()), "{:?}", frames(&dead));
    assert!(dead["failure"]["stderr"]["text"].as_str().unwrap().contains("asked to panic: the fuse blew"));
    let dead = dies("command-panics", "in a command", &["--max-attempts", "1"], "trap.unreachable", 21, 1);
    assert!(dead["failure"]["problem"]["message"].as_str().unwrap().contains("asked to: in a command"), "{dead}");
}

#[test]
fn a_trap_after_a_look_at_clock_or_chance_is_retried_to_the_end_of_the_budget() {
    for (guest, observed) in [("clock-trap", "wall-clock"), ("random-trap", "random")] {
        let dead = dies(guest, "", &["--max-attempts", "4"], "trap.unreachable", 21, 4);
        assert_eq!(dead["failure"]["deterministic"], false);
        assert_eq!(dead["max_attempts"], 4);
        let seen = dead["failure"]["observed"].as_array().unwrap();
        assert!(seen.iter().any(|what| what.as_str().unwrap().contains(observed)), "{seen:?}");
    }
}

#[test]
fn a_policy_overrides_what_follows_from_a_verdict() {
    dies("trap-unreachable", "", &["--policy", "trap=retry"], "trap.unreachable", 21, 3);
    dies("retryable", "", &["--policy", "error.retryable=dead"], "error.retryable", 20, 1);
    dies("permanent", "", &["--policy", "error=retry"], "error.permanent", 20, 3);
}

#[test]
fn a_permanent_error_is_dead_at_once_in_the_tasks_own_words() {
    let dead = dies("permanent", "x", &[], "error.permanent", 20, 1);
    let problem = &dead["failure"]["problem"];
    assert!(!problem["code"].as_str().unwrap().is_empty() && !problem["message"].as_str().unwrap().is_empty());
    assert_eq!(dead["failure"]["deterministic"], false, "the task says so, the host has not proved it");
}

#[test]
fn a_retryable_error_uses_the_budget_exactly() {
    let dead = dies("retryable", "", &[], "error.retryable", 20, 3);
    assert_eq!(dead["failure"]["problem"]["message"], "the other side does not answer");
    dies("retryable", "", &["--max-attempts", "1"], "error.retryable", 20, 1);
}

#[test]
fn a_task_that_asks_for_a_delay_is_called_again_after_it_and_not_after_the_backoff() {
    let world = World::new();
    world.deploy_as("retry-after", &guest_file("retry-after"), &["--backoff", "fixed:1d"]);
    let since = Instant::now();
    let (end, code) = world.wait_for(&["retry-after", "900"]);
    assert_eq!((code, &end["attempts"], &end["output"]["text"]), (0, &json!(2), &json!("ok")), "{end}");
    assert!(since.elapsed() >= Duration::from_millis(900), "{:?}", since.elapsed());
}

#[test]
fn a_flaky_task_completes_at_the_attempt_that_succeeds() {
    let world = World::new();
    world.deploy("flaky", &[]);
    let (end, code) = world.wait_for(&["flaky", "3"]);
    assert_eq!((code, &end["attempts"], &end["output"]["text"]), (0, &json!(3), &json!("ok after 3")), "{end}");
    let (end, code) = world.wait_for(&["flaky", "4"]);
    assert_eq!((code, &end["attempts"], &end["dead"]), (20, &json!(3), &json!(true)), "{end}");
}

#[test]
fn an_enormous_error_message_is_cut_and_its_length_kept() {
    let dead = dies("big-error", "10000001", &[], "error.permanent", 20, 1);
    let problem = &dead["failure"]["problem"];
    assert_eq!(problem["message_bytes"], 10_000_001);
    let message = problem["message"].as_str().unwrap();
    assert!((32_000..=65_536).contains(&message.len()), "{}", message.len());
    assert!(message.starts_with('🦀') && message.ends_with('.'), "head and tail are kept");
}

#[test]
fn an_output_over_the_limit_is_an_output_limit_and_one_at_it_is_fine() {
    let dead = dies("big-output", "1025", &["--output-limit", "1KiB"], "output-limit", 24, 1);
    assert_eq!(dead["failure"]["deterministic"], true);
    assert_eq!(dead["limits"]["output_bytes"], 1024);
    let world = World::new();
    world.deploy("big-output", &["--output-limit", "1KiB"]);
    let ran = world.run(&["enqueue", "big-output", "1024", "--wait"]).ok();
    assert_eq!(ran.stdout, [b'x'; 1024]);
}

#[test]
fn a_greedy_task_hits_the_memory_limit_and_never_has_more() {
    let dead = dies("greedy", "", &["--memory", "16MiB"], "memory-limit", 24, 1);
    assert_eq!(dead["failure"]["deterministic"], true);
    assert!(dead["failure"]["problem"]["message"].as_str().unwrap().contains("the limit is 16MiB"), "{dead}");
    assert!(dead["usage"]["memory_peak_bytes"].as_u64().unwrap() <= 16 << 20);
}

#[test]
fn a_task_that_never_ends_times_out_in_every_attempt() {
    let dead = dies("spin", "", &["--timeout", "200ms", "--max-attempts", "2"], "timeout", 23, 2);
    assert_eq!(dead["failure"]["deterministic"], false);
    let dead = dies("slow", "60000", &["--timeout", "200ms", "--max-attempts", "1"], "timeout", 23, 1);
    assert_eq!(dead["limits"]["timeout_ms"], 200);
}

#[test]
fn exit_codes_decide_what_follows() {
    for (exit, attempts) in [("64", 1), ("65", 1), ("75", 3), ("1", 3)] {
        let dead = dies("command-exit-code", exit, &[], &format!("exit.{exit}"), 22, attempts);
        let said = &dead["failure"]["problem"]["message"];
        assert_eq!(said, &json!(format!("leaving with exit code {exit}")));
    }
    dies("command-exit", "7", &["--max-attempts", "1"], "exit.1", 22, 1);
    dies("exit", "7", &["--max-attempts", "1"], "exit.1", 22, 1);
}

#[test]
fn a_command_has_its_payload_on_stdin_and_its_output_from_stdout() {
    let world = World::new();
    world.deploy("command-echo", &[]);
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let ran = world.run_with(&["enqueue", "command-echo", "-", "--wait"], &bytes).ok();
    assert!(ran.stdout == bytes);
}

/// How many bytes of a tail were kept.
fn kept(tail: &Value) -> usize {
    match (tail["text"].as_str(), tail["base64"].as_str()) {
        (Some(text), _) => text.len(),
        (_, Some(text)) => text.trim_end_matches('=').len() * 3 / 4,
        _ => panic!("no tail: {tail}"),
    }
}

#[test]
fn a_task_that_floods_its_streams_completes_or_leaves_the_ends_of_them() {
    let world = World::new();
    world.deploy("chatty", &[]);
    let ran = world.run(&["enqueue", "chatty", "5000000", "--wait"]).ok();
    assert_eq!(ran.stdout, b"ok");
    assert!(ran.stderr.len() < 16_000, "only the ends of five million bytes: {} bytes", ran.stderr.len());
    let dead = dies("chatty-trap", "5000000", &[], "trap.unreachable", 21, 1);
    for stream in ["stdout", "stderr"] {
        let tail = &dead["failure"][stream];
        assert_eq!(kept(tail), 16 * 1024, "{stream}");
        assert!(tail["total_bytes"].as_u64().unwrap() >= 2_500_000, "{stream}: {}", tail["total_bytes"]);
    }
    assert!(dead["failure"]["problem"]["message"].as_str().unwrap().contains("said everything, and now this"));
}

#[test]
fn control_characters_of_a_task_never_reach_the_reader_raw() {
    let world = World::new();
    world.deploy("chatty-trap", &[]);
    let ran = world.run(&["enqueue", "chatty-trap", "10000", "--wait"]);
    assert_eq!(ran.code, 21, "{}", ran.stderr);
    let id = world.dead()[0]["id"].as_str().unwrap().to_owned();
    for shown in [ran.stderr, world.run(&["dlq", "show", &id]).ok().text()] {
        assert!(shown.contains("said everything, and now this"));
        let raw = shown.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(raw, None);
    }
}

#[test]
fn one_task_that_spins_does_not_keep_another_from_completing_on_the_same_worker() {
    let world = World::new();
    world.deploy("spin", &["--timeout", "1h"]);
    world.deploy("echo", &[]);
    let _server = world.serve(&["--workers", "1"]);
    let spinning = world.enqueue(&["spin"]);
    world.until_phase(&spinning, "running");
    for payload in ["a", "b", "c"] {
        let (end, code) = world.wait_for(&["echo", payload]);
        assert_eq!((code, &end["output"]["text"]), (0, &json!(payload)));
    }
    assert_eq!(world.until_phase(&spinning, "running")["attempts"], 1, "its first attempt still runs");
    world.run(&["cancel", &spinning]).ok();
    until("the spinning one is gone", || world.live().is_empty());
    assert!(world.dead().is_empty());
}

/// Asking again would be refused again, whatever the task thinks.
#[test]
fn a_task_that_needs_what_is_not_granted_is_dead_at_once() {
    let dead = dies("needs-network", "", &[], "denied", 25, 1);
    assert_eq!(dead["failure"]["problem"]["code"], "no-network", "{dead}");
}
