//! Time, memory and output are limited, and one guest's excess is nobody else's problem.

use std::sync::Arc;
use std::time::Duration;

use wasmq_core::{Millis, TrapCode, Verdict};

use super::support::{
    ECHO, Parts, SPIN, block_on, handler, import_write, input, options, prepare, run, run_with, runtime,
};
use crate::runtime::{Allocator, Options, Purpose, Runtime};

#[test]
fn a_spinning_guest_ends_at_its_deadline() {
    let mut spinning = input(b"");
    spinning.limits.timeout = Millis(200);
    let report = run_with(&handler(SPIN), spinning);
    assert_eq!(report.verdict, Verdict::Timeout);
    // Generous above, because a busy machine may not give the test its turn.
    assert!((200_000..2_000_000).contains(&report.usage.wall_us), "{:?}", report.usage);
    assert!(report.usage.cpu_us > 100_000, "{:?}", report.usage);
    assert!(!report.failure.unwrap().deterministic);
}

#[test]
fn waiting_for_other_guests_does_not_count_towards_the_deadline() {
    let runtime = runtime();
    let spin = prepare(&runtime, &handler(SPIN));
    let mut spinning = input(b"");
    spinning.limits.timeout = Millis(200);
    let one = || runtime.run(&spin, spinning.clone());
    let (first, second, third, fourth) = block_on(async { tokio::join!(one(), one(), one(), one()) });
    for report in [first, second, third, fourth] {
        assert_eq!(report.verdict, Verdict::Timeout);
        // Without the rule each would get a quarter of its time.
        assert!(report.usage.cpu_us > 150_000, "{:?}", report.usage);
    }
}

#[test]
fn others_on_the_thread_of_a_spinning_guest_complete() {
    let runtime = runtime();
    let (spin, echo) = (prepare(&runtime, &handler(SPIN)), prepare(&runtime, &handler(ECHO)));
    block_on(async {
        let others = async {
            for _ in 0..5 {
                // A timer in between: it has to fire although the guest never lets go by itself.
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert_eq!(runtime.run(&echo, input(b"x")).await.verdict, Verdict::Completed);
            }
        };
        tokio::select! {
            report = runtime.run(&spin, input(b"")) => panic!("the others had to wait for the spinning guest: {report:?}"),
            () = others => {}
        }
    });
}

#[test]
fn a_guest_that_sleeps_times_out_without_using_the_processor() {
    let imports = r#"(import "wasi:io/poll@0.2.0" (instance $poll
        (export "pollable" (type $p (sub resource)))
        (export "[method]pollable.block" (func (param "self" (borrow $p))))))
      (alias export $poll "pollable" (type $pollable))
      (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
        (alias outer 1 $pollable (type $p0)) (export "pollable" (type $p (eq $p0)))
        (export "subscribe-duration" (func (param "when" u64) (result (own $p))))))
      (core func $subscribe (canon lower (func $clock "subscribe-duration")))
      (core func $block (canon lower (func $poll "[method]pollable.block")))"#;
    let parts = Parts {
        imports,
        with: r#"(export "subscribe" (func $subscribe)) (export "block" (func $block))"#,
        core_imports: r#"(import "host" "subscribe" (func $subscribe (param i64) (result i32))) (import "host" "block" (func $block (param i32)))"#,
        handle: "(call $block (call $subscribe (i64.const -1))) (unreachable)",
        ..Parts::default()
    };
    let mut sleeping = input(b"");
    sleeping.limits.timeout = Millis(100);
    let report = run_with(&parts.typed(), sleeping);
    assert_eq!(report.verdict, Verdict::Timeout);
    assert!(report.usage.wall_us >= 100_000 && report.usage.cpu_us < 50_000, "{:?}", report.usage);
    assert_eq!(report.failure.unwrap().observed, ["monotonic-clock"]);
}

#[test]
fn a_guest_that_spins_in_its_start_function_times_out_too() {
    let parts = Parts { core: "(func $spin (loop (br 0))) (start $spin)", handle: ECHO, ..Parts::default() };
    let mut spinning = input(b"");
    spinning.limits.timeout = Millis(50);
    assert_eq!(run_with(&parts.typed(), spinning).verdict, Verdict::Timeout);
}

#[test]
fn dropping_the_future_stops_the_guest() {
    let runtime = runtime();
    let spin = prepare(&runtime, &handler(SPIN));
    block_on(async {
        let attempt = runtime.run(&spin, input(b""));
        assert!(tokio::time::timeout(Duration::from_millis(50), attempt).await.is_err());
    });
    assert!(format!("{runtime:?}").contains("running: 0"));
}

const GROW: &str = "(if (i32.eq (memory.grow (i32.const 512)) (i32.const -1)) (then (unreachable))) ";

#[test]
fn a_guest_that_dies_for_lack_of_memory_hit_the_memory_limit() {
    let report = run(&handler(&format!("{GROW} {ECHO}")), b"");
    assert_eq!(report.verdict, Verdict::MemoryLimit);
    let failure = report.failure.unwrap();
    assert!(failure.deterministic);
    assert_eq!(failure.problem.message, "the task wanted 32832KiB of memory, the limit is 16MiB");
    assert_eq!(failure.trap.unwrap().code, "unreachable");
    assert_eq!(report.usage.memory_peak_bytes, 65_536, "what was refused was never used");
}

#[test]
fn a_guest_that_copes_with_a_refusal_completes() {
    let body = format!("(drop (memory.grow (i32.const 512))) {ECHO}");
    assert_eq!(run(&handler(&body), b"x").verdict, Verdict::Completed);
}

#[test]
fn a_component_that_needs_more_than_the_limit_to_start_says_so() {
    let parts = Parts { pages: 512, handle: ECHO, ..Parts::default() };
    let report = run(&parts.typed(), b"");
    assert_eq!(report.verdict, Verdict::MemoryLimit);
    assert_eq!(report.failure.unwrap().problem.message, "the task needs at least 32MiB of memory, the limit is 16MiB");
}

#[test]
fn tables_count_as_memory() {
    let core = "(table $t 1 funcref)";
    let body = "(if (i32.eq (table.grow $t (ref.null func) (i32.const 100000)) (i32.const -1)) (then (unreachable))) (i32.const 1024)";
    let mut small = input(b"");
    small.limits.memory_bytes = 128 * 1024;
    assert_eq!(
        run_with(&Parts { core, handle: body, ..Parts::default() }.typed(), small).verdict,
        Verdict::MemoryLimit
    );
}

#[test]
fn the_output_limit_is_exact() {
    let echo = handler(ECHO);
    let mut exact = input(&[1; 1000]);
    exact.limits.output_bytes = 1000;
    assert_eq!(run_with(&echo, exact).verdict, Verdict::Completed);
    let mut over = input(&[1; 1001]);
    over.limits.output_bytes = 1000;
    let report = run_with(&echo, over);
    assert_eq!(report.verdict, Verdict::OutputLimit);
    assert!(report.output.is_empty() && report.failure.unwrap().deterministic);
}

#[test]
fn an_output_that_would_strain_the_host_is_not_even_copied() {
    let body = "(i32.store (i32.const 1032) (i32.const 0)) (i32.store (i32.const 1036) (i32.const 200000000)) (i32.const 1024)";
    let mut roomy = input(b"");
    roomy.limits.memory_bytes = 256 << 20;
    let report = run_with(&Parts { pages: 3200, handle: body, ..Parts::default() }.typed(), roomy);
    assert_eq!(report.verdict, Verdict::OutputLimit);
}

#[test]
fn a_guest_that_hoards_streams_traps_and_the_host_lives() {
    let (imports, with, core_imports) = import_write("stderr");
    let handle = "(loop (drop (call $get)) (br 0)) (unreachable)";
    let parts = Parts { imports: &imports, with: &with, core_imports: &core_imports, handle, ..Parts::default() };
    let report = run(&parts.typed(), b"");
    assert_eq!(report.verdict, Verdict::Trap(TrapCode::Canonical));
}

#[test]
fn a_command_is_stopped_when_its_stdout_exceeds_the_limit() {
    let (imports, with, core_imports) = import_write("stdout");
    let handle = "(loop (call $write (i32.const 2048) (i32.const 1000)) (br 0)) (unreachable)";
    let bytes =
        Parts { imports: &imports, with: &with, core_imports: &core_imports, handle, ..Parts::default() }.command();
    let report = run(&bytes, b"");
    assert_eq!(report.verdict, Verdict::OutputLimit);
    assert_eq!(report.failure.unwrap().stdout.bytes.0.len(), 16 * 1024);
}

#[test]
fn a_guest_that_floods_stderr_leaves_a_capped_tail_and_a_count() {
    let (imports, with, core_imports) = import_write("stderr");
    let handle = "(local $n i32) (loop (call $write (i32.const 0) (i32.const 4000)) (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if 0 (i32.lt_u (local.get $n) (i32.const 1000)))) (unreachable)";
    let bytes =
        Parts { imports: &imports, with: &with, core_imports: &core_imports, handle, ..Parts::default() }.typed();
    let stderr = run(&bytes, b"").failure.unwrap().stderr;
    assert_eq!((stderr.bytes.0.len(), stderr.total_bytes), (16 * 1024, 4_000_000));
}

#[test]
fn more_attempts_than_places_wait_for_each_other() {
    let runtime = Arc::new(Runtime::new(&Options { max_concurrent: 1, ..options() }).unwrap());
    let Allocator::Pooling { .. } = runtime.allocator() else { return };
    let echo = prepare(&runtime, &handler(ECHO));
    let spin = prepare(&runtime, &handler(SPIN));
    block_on(async {
        let mut spinning = input(b"");
        spinning.limits.timeout = Millis(50);
        let (first, second, third) = tokio::join!(
            runtime.run(&spin, spinning),
            runtime.run(&echo, input(b"a")),
            runtime.run(&echo, input(b"b"))
        );
        assert_eq!(
            (first.verdict, second.verdict, third.verdict),
            (Verdict::Timeout, Verdict::Completed, Verdict::Completed)
        );
    });
}

#[test]
fn an_attempt_that_is_dropped_frees_its_place() {
    let runtime = Runtime::new(&Options { max_concurrent: 1, ..options() }).unwrap();
    let (echo, spin) = (prepare(&runtime, &handler(ECHO)), prepare(&runtime, &handler(SPIN)));
    let report = block_on(async {
        let dropped = tokio::time::timeout(Duration::from_millis(50), runtime.run(&spin, input(b"")));
        tokio::join!(dropped, runtime.run(&echo, input(b"a"))).1
    });
    assert_eq!(report.verdict, Verdict::Completed);
}

#[test]
fn attempts_run_without_a_pool_too() {
    let runtime = Runtime::new(&Options { purpose: Purpose::Once, ..options() }).unwrap();
    assert!(matches!(runtime.allocator(), Allocator::OnDemand { .. }));
    let echo = prepare(&runtime, &handler(ECHO));
    assert_eq!(block_on(runtime.run(&echo, input(b"x"))).output, b"x");
}
