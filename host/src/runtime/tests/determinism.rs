//! What counts as an observation, and what is the same in every attempt.

use wasmq_core::{TrapCode, Verdict};

use super::support::{Parts, handler, id, import_number, input, run, run_with};

fn trap_after_asking(interface: &str, name: &str, ty: &str) -> wasmq_core::report::FailureReport {
    let (imports, with, core_imports) = import_number(interface, name, ty);
    let handle = "(drop (call $number)) (unreachable)";
    let bytes =
        Parts { imports: &imports, with: &with, core_imports: &core_imports, handle, ..Parts::default() }.typed();
    let report = run(&bytes, b"");
    assert_eq!(report.verdict, Verdict::Trap(TrapCode::Unreachable));
    *report.failure.unwrap()
}

#[test]
fn what_differs_between_attempts_is_observed() {
    let cases = [
        ("wasi:clocks/monotonic-clock@0.2.0", "now", "u64", "monotonic-clock"),
        ("wasi:random/random@0.2.9", "get-random-u64", "u64", "secure-random"),
        ("wasmq:task/host@0.1.0", "attempt-number", "u32", "attempt-number"),
        ("wasmq:task/host@0.1.0", "cancelled", "bool", "cancelled"),
    ];
    for (interface, name, ty, expected) in cases {
        let failure = trap_after_asking(interface, name, ty);
        assert_eq!(failure.observed, [expected], "{interface}");
        assert!(!failure.deterministic);
    }
}

#[test]
fn what_is_the_same_in_every_attempt_is_no_observation() {
    let cases = [
        ("wasi:random/insecure@0.2.0", "get-insecure-random-u64", "u64"),
        ("wasi:clocks/monotonic-clock@0.2.3", "resolution", "u64"),
    ];
    for (interface, name, ty) in cases {
        let failure = trap_after_asking(interface, name, ty);
        assert!(failure.deterministic && failure.observed.is_empty(), "{interface}");
    }
}

#[test]
fn an_observation_after_which_the_task_completes_costs_nothing() {
    let (imports, with, core_imports) = import_number("wasi:clocks/monotonic-clock@0.2.0", "now", "u64");
    let handle = "(drop (call $number)) (i32.const 1024)";
    let bytes =
        Parts { imports: &imports, with: &with, core_imports: &core_imports, handle, ..Parts::default() }.typed();
    assert_eq!(run(&bytes, b"").failure, None);
}

#[test]
fn insecure_random_numbers_belong_to_the_invocation() {
    let (imports, with, core_imports) = import_number("wasi:random/insecure@0.2.0", "get-insecure-random-u64", "u64");
    let handle = "(i64.store (i32.const 2048) (call $number)) (i64.store (i32.const 2056) (call $number))
        (i32.store (i32.const 1032) (i32.const 2048)) (i32.store (i32.const 1036) (i32.const 16)) (i32.const 1024)";
    let bytes =
        Parts { imports: &imports, with: &with, core_imports: &core_imports, handle, ..Parts::default() }.typed();
    let draw = |number, attempt| {
        let mut other = input(b"");
        other.facts.id = id(number);
        other.attempt = attempt;
        run_with(&bytes, other).output
    };
    assert_eq!(draw(1, 1), draw(1, 2));
    assert_ne!(draw(1, 1), draw(2, 1));
    assert_ne!(draw(1, 1)[..8], draw(1, 1)[8..]);
}

#[test]
fn the_insecure_seed_belongs_to_the_invocation() {
    let imports = r#"(import "wasi:random/insecure-seed@0.2.0" (instance $s (export "insecure-seed" (func (result (tuple u64 u64))))))
        (core func $seed (canon lower (func $s "insecure-seed") (memory (core memory $libc "memory"))))"#;
    let parts = Parts {
        imports,
        with: r#"(export "seed" (func $seed))"#,
        core_imports: r#"(import "host" "seed" (func $seed (param i32)))"#,
        handle: "(call $seed (i32.const 2048)) (i32.store (i32.const 1032) (i32.const 2048)) (i32.store (i32.const 1036) (i32.const 16)) (i32.const 1024)",
        ..Parts::default()
    };
    let bytes = parts.typed();
    let seed = |number| {
        let mut other = input(b"");
        other.facts.id = id(number);
        run_with(&bytes, other).output
    };
    assert_eq!(seed(1), seed(1));
    assert_ne!(seed(1), seed(2));
}

#[test]
fn using_the_network_is_denied_and_said_so() {
    let imports = r#"(import "wasi:sockets/network@0.2.0" (instance $network
          (export "network" (type (sub resource)))
          (type $c (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout" "concurrency-conflict"
            "not-in-progress" "would-block" "invalid-state" "new-socket-limit" "address-not-bindable" "address-in-use" "remote-unreachable"
            "connection-refused" "connection-reset" "connection-aborted" "datagram-too-large" "name-unresolvable"
            "temporary-resolver-failure" "permanent-resolver-failure"))
          (export "error-code" (type (eq $c)))
          (type $f (enum "ipv4" "ipv6")) (export "ip-address-family" (type (eq $f)))))
        (alias export $network "error-code" (type $code))
        (alias export $network "ip-address-family" (type $family))
        (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type (sub resource)))))
        (alias export $tcp "tcp-socket" (type $socket))
        (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $create
          (alias outer 1 $code (type $c0)) (export "error-code" (type $c (eq $c0)))
          (alias outer 1 $family (type $f0)) (export "ip-address-family" (type $f (eq $f0)))
          (alias outer 1 $socket (type $s0)) (export "tcp-socket" (type $s (eq $s0)))
          (export "create-tcp-socket" (func (param "address-family" $f) (result (result (own $s) (error $c)))))))
        (core func $create (canon lower (func $create "create-tcp-socket") (memory (core memory $libc "memory"))))"#;
    let parts = Parts {
        imports,
        with: r#"(export "create" (func $create))"#,
        core_imports: r#"(import "host" "create" (func $create (param i32 i32)))"#,
        handle: "(call $create (i32.const 0) (i32.const 2048)) (unreachable)",
        ..Parts::default()
    };
    let report = run(&parts.typed(), b"");
    assert_eq!(report.verdict, Verdict::Denied);
    let failure = report.failure.unwrap();
    assert_eq!(failure.problem.message, "the task used the network, which was not granted to it");
    assert_eq!((failure.observed, failure.deterministic), (vec!["network".to_owned()], false));
}

#[test]
fn timeouts_are_never_called_deterministic() {
    let mut short = input(b"");
    short.limits.timeout = wasmq_core::Millis(20);
    assert!(!run_with(&handler(super::support::SPIN), short).failure.unwrap().deterministic);
}
