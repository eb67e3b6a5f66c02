//! The imports of `wit/host.wit` as a guest sees them.

use wasmq_core::{Millis, Verdict};

use super::support::{Parts, handler, id, import_number, input, run, run_with};
use crate::runtime::Signals;

/// A handler that returns the number an import gives, as 8 bytes.
fn asking(name: &str, ty: &str) -> Vec<u8> {
    let (imports, with, core_imports) = import_number("wasmq:task/host@0.1.0", name, ty);
    let handle = "(i64.store (i32.const 2048) (i64.extend_i32_u (call $number)))
        (i32.store (i32.const 1032) (i32.const 2048)) (i32.store (i32.const 1036) (i32.const 8)) (i32.const 1024)";
    Parts { imports: &imports, with: &with, core_imports: &core_imports, handle, ..Parts::default() }.typed()
}

#[test]
fn a_task_can_ask_for_its_attempt_number() {
    let mut third = input(b"");
    third.attempt = 3;
    assert_eq!(run_with(&asking("attempt-number", "u32"), third).output, 3_u64.to_le_bytes());
}

#[test]
fn a_task_sees_that_it_is_cancelled() {
    let bytes = asking("cancelled", "bool");
    let signals = Signals::default();
    let with_flag = || {
        let mut flagged = input(b"");
        flagged.signals = Some(&signals);
        run_with(&bytes, flagged).output
    };
    assert_eq!(with_flag(), 0_u64.to_le_bytes());
    assert!(signals.was_asked());
    signals.cancel();
    assert_eq!(with_flag(), 1_u64.to_le_bytes());
    assert_eq!(run(&bytes, b"").output, 0_u64.to_le_bytes());
}

#[test]
fn the_facts_of_the_invocation_reach_the_guest() {
    let body = "(i32.store (i32.const 1032) (local.get 0)) (i32.store (i32.const 1036) (local.get 1)) (i32.const 1024)";
    assert_eq!(run(&handler(body), b"").output, id(1).to_string().as_bytes());
    let metadata = [("key".to_owned(), "wörld".to_owned())];
    let mut with_metadata = input(b"");
    with_metadata.facts.metadata = &metadata;
    // The first value of the first pair: pointer at +8, length at +12.
    let body = "(i32.store (i32.const 1032) (i32.load offset=8 (local.get 7))) (i32.store (i32.const 1036) (i32.load offset=12 (local.get 7))) (i32.const 1024)";
    assert_eq!(run_with(&handler(body), with_metadata).output, "wörld".as_bytes());
}

const LOG: &str = r#"
  (import "wasmq:task/host@0.1.0" (instance $host-api
    (type $l (enum "trace" "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $l)))
    (export "log" (func (param "level" $level) (param "message" string) (param "fields" (list (tuple string string)))))
    (export "progress" (func (param "done" u64) (param "total" u64) (param "note" string)))))
  (core func $log (canon lower (func $host-api "log") (memory (core memory $libc "memory"))))
  (core func $progress (canon lower (func $host-api "progress") (memory (core memory $libc "memory"))))"#;

fn logging(handle: &str) -> Vec<u8> {
    Parts {
        pages: 2,
        imports: LOG,
        with: r#"(export "log" (func $log)) (export "progress" (func $progress))"#,
        core_imports: r#"(import "host" "log" (func $log (param i32 i32 i32 i32 i32)))
            (import "host" "progress" (func $progress (param i64 i64 i32 i32)))"#,
        // A message with a line end, then one pair: key "k", value "v w".
        core: r#"(data (i32.const 2048) "two\nlineskv w") (data (i32.const 2100) "\09\08\00\00\01\00\00\00\0a\08\00\00\03\00\00\00")"#,
        handle,
    }
    .typed()
}

#[test]
fn log_records_and_progress_are_kept_as_lines() {
    let handle = "(call $log (i32.const 3) (i32.const 2048) (i32.const 9) (i32.const 2100) (i32.const 1))
        (call $progress (i64.const 1) (i64.const 9) (i32.const 2048) (i32.const 3))
        (call $progress (i64.const 2) (i64.const 9) (i32.const 2048) (i32.const 3))
        (unreachable)";
    let failure = run(&logging(handle), b"").failure.unwrap();
    assert_eq!(failure.log, ["WARN two\\nlines k=v w", "PROGRESS 2/9 two"]);
    assert!(failure.deterministic);
}

#[test]
fn only_the_last_lines_are_kept_and_each_is_capped() {
    let handle = "(local $n i32) (loop (call $log (i32.const 2) (i32.const 0) (i32.const 60000) (i32.const 0) (i32.const 0))
        (local.set $n (i32.add (local.get $n) (i32.const 1))) (br_if 0 (i32.lt_u (local.get $n) (i32.const 100)))) (unreachable)";
    let log = run(&logging(handle), b"").failure.unwrap().log;
    assert_eq!(log.len(), 64);
    assert!(log.iter().all(|line| line.len() <= 1024));
}

#[test]
fn the_latest_progress_is_to_be_had_while_the_guest_runs() {
    let signals = Signals::default();
    let mut watched = input(b"");
    watched.signals = Some(&signals);
    let handle = "(call $progress (i64.const 1) (i64.const 9) (i32.const 2048) (i32.const 3))
        (call $progress (i64.const 2) (i64.const 9) (i32.const 2048) (i32.const 3)) (i32.const 1024)";
    run_with(&logging(handle), watched);
    let progress = signals.progress().unwrap();
    assert_eq!((progress.done, progress.total, progress.note.as_str()), (2, 9, "two"));
}

const ENQUEUE: &str = r#"
  (import "wasmq:task/host@0.1.0" (instance $host-api
    (alias outer 1 $payload (type $p0)) (export "payload" (type $p (eq $p0)))
    (type $f0 (record (field "task" string) (field "payload" $p) (field "delay-ms" u64) (field "metadata" (list (tuple string string)))))
    (export "follow-up" (type $f (eq $f0)))
    (export "enqueue" (func (param "follow-up" $f) (result (result string (error string)))))))
  (core func $enqueue (canon lower (func $host-api "enqueue") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))"#;

/// A handler that enqueues a follow-up for the task of this name and returns what it was told.
fn enqueueing(name: &str, payload_bytes: u32, times: u32, end: &str) -> Vec<u8> {
    let handle = format!(
        "(local $n i32)
        (loop (call $enqueue (i32.const 2048) (i32.const {}) (i32.const 0) (i32.const {payload_bytes}) (i64.const 5) (i32.const 0) (i32.const 0) (i32.const 512))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if 0 (i32.lt_u (local.get $n) (i32.const {times}))))
        (i32.store (i32.const 1032) (i32.load (i32.const 516))) (i32.store (i32.const 1036) (i32.load (i32.const 520)))
        {end}",
        name.len()
    );
    Parts {
        pages: 40,
        imports: ENQUEUE,
        with: r#"(export "enqueue" (func $enqueue))"#,
        core_imports: r#"(import "host" "enqueue" (func $enqueue (param i32 i32 i32 i32 i64 i32 i32 i32)))"#,
        core: &format!(r#"(data (i32.const 2048) "{name}")"#),
        handle: &handle,
    }
    .typed()
}

#[test]
fn follow_ups_of_a_completed_attempt_have_stable_ids() {
    let mut replayed = input(b"");
    replayed.facts.replays = 2;
    let report = run_with(&enqueueing("next", 3, 2, "(i32.const 1024)"), replayed);
    assert_eq!(report.verdict, Verdict::Completed);
    let ids: Vec<_> = report.follow_ups.iter().map(|follow_up| follow_up.id).collect();
    assert_eq!(ids, [id(1).follow_up(2, 0), id(1).follow_up(2, 1)]);
    assert_eq!(report.output, ids[1].to_string().as_bytes());
    let first = &report.follow_ups[0];
    assert_eq!((first.task.as_str(), first.payload.len(), first.delay), ("next", 3, Millis(5)));
}

#[test]
fn follow_ups_of_a_failed_attempt_are_dropped() {
    let report = run(&enqueueing("next", 3, 2, "(unreachable)"), b"");
    assert!(report.follow_ups.is_empty() && report.verdict != Verdict::Completed);
}

#[test]
fn a_follow_up_over_a_limit_is_refused_in_a_sentence() {
    let told = |name, bytes, times| {
        let report = run(&enqueueing(name, bytes, times, "(i32.const 1024)"), b"");
        (String::from_utf8(report.output).unwrap(), report.follow_ups.len())
    };
    assert!(told("no/name", 1, 1).0.contains("character 3 is '/'"));
    assert!(told("next", 1024 * 1024 + 1, 1).0.contains("at most 1048576 bytes, this one has 1048577"));
    let (sentence, kept) = told("next", 1, 1001);
    assert!(sentence.contains("at most 1000 follow-ups"), "{sentence}");
    assert_eq!(kept, 1000);
    let (sentence, kept) = told("next", 1024 * 1024, 33);
    assert!(sentence.contains("may come to at most"), "{sentence}");
    assert_eq!(kept, 32);
}
