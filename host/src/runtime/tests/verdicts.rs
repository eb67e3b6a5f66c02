//! Every way an attempt can end gets its own verdict.

use wasmq_core::{Millis, TrapCode, Verdict};

use super::support::{ECHO, Parts, handler, import_write, run};

#[test]
fn an_echo_completes_with_the_payload_byte_for_byte() {
    let bytes = handler(ECHO);
    for payload in [&b""[..], b"hello", b"\xff\xfe\0\x80", &[7; 300_000]] {
        let report = run(&bytes, payload);
        assert_eq!(report.verdict, Verdict::Completed);
        assert_eq!(report.output, payload);
        assert_eq!(report.failure, None);
        assert!(report.usage.memory_peak_bytes >= 65_536);
    }
}

#[test]
fn every_trap_has_its_code_and_is_deterministic() {
    let table = "(table 2 funcref) (type $other (func (param f32)))";
    let cases = [
        ("(unreachable)", TrapCode::Unreachable),
        ("(i32.load (i32.const -4))", TrapCode::OutOfBoundsMemory),
        ("(i32.div_s (i32.const 1) (i32.const 0))", TrapCode::DivideByZero),
        ("(i32.div_s (i32.const 0x80000000) (i32.const -1))", TrapCode::IntegerOverflow),
        ("(i32.trunc_f32_s (f32.const nan))", TrapCode::InvalidConversion),
        ("(call_indirect (type $other) (f32.const 0) (i32.const 0)) (i32.const 0)", TrapCode::IndirectCallToNull),
        ("(call_indirect (type $other) (f32.const 0) (i32.const 9)) (i32.const 0)", TrapCode::OutOfBoundsTable),
        ("(call_indirect (type $other) (f32.const 0) (i32.const 1)) (i32.const 0)", TrapCode::IndirectCallType),
        ("(call $deep)", TrapCode::StackOverflow),
        // A result area outside the memory, and a discriminant that does not exist.
        ("(i32.const -8)", TrapCode::Canonical),
        ("(i32.store8 (i32.const 1024) (i32.const 9)) (i32.const 1024)", TrapCode::Canonical),
    ];
    let core = format!(
        "{table} (elem (i32.const 1) func $deep) (func $deep (result i32) (i32.add (call $deep) (i32.const 1)))"
    );
    for (body, code) in cases {
        let bytes = Parts { core: &core, handle: body, ..Parts::default() }.typed();
        let report = run(&bytes, b"");
        assert_eq!(report.verdict, Verdict::Trap(code), "{body}");
        let failure = report.failure.unwrap();
        assert!(failure.deterministic, "{body}: {:?}", failure.observed);
        assert_eq!(failure.trap.unwrap().code, code.name());
        assert!(!failure.problem.message.is_empty());
    }
}

#[test]
fn a_backtrace_names_the_functions_innermost_first() {
    let core = "(func $inner (result i32) (unreachable)) 
        (func $_RNvCs1234_5guest3new (result i32) (call $inner))
        (func $_ZN5guest5outer17h0123456789abcdefE (result i32) (call $_RNvCs1234_5guest3new))";
    let bytes = Parts { core, handle: "(call $_ZN5guest5outer17h0123456789abcdefE)", ..Parts::default() }.typed();
    let trap = run(&bytes, b"").failure.unwrap().trap.unwrap();
    let names: Vec<_> = trap.frames.iter().map(|frame| frame.function.as_deref().unwrap()).collect();
    assert_eq!(names, ["inner", "guest::new", "guest::outer", "handle"]);
    assert_eq!(trap.frames[0].module.as_deref(), Some("main"));
    assert!(trap.frames[0].offset.is_some());
}

#[test]
fn endless_recursion_keeps_a_capped_backtrace() {
    let core = "(func $deep (result i32) (i32.add (call $deep) (i32.const 1)))";
    let trap =
        run(&Parts { core, handle: "(call $deep)", ..Parts::default() }.typed(), b"").failure.unwrap().trap.unwrap();
    assert_eq!(trap.frames.len(), 64);
}

const FAIL: &str = r#"(i32.store8 (i32.const 1024) (i32.const 1))
  (i32.store8 (i32.const 1032) (i32.const CASE))
  (i32.store (i32.const 1040) (i32.const 2048)) (i32.store (i32.const 1044) (i32.const 3))
  (i32.store (i32.const 1048) (i32.const 2051)) (i32.store (i32.const 1052) (i32.const LENGTH))
  (i64.store (i32.const 1072) (i64.const 1500))
  (i32.const 1024)"#;

fn failing(case: u32, length: u32) -> Vec<u8> {
    let body = FAIL.replace("CASE", &case.to_string()).replace("LENGTH", &length.to_string());
    let core = r#"(data (i32.const 2048) "bad broken beyond repair")"#;
    Parts { pages: length / 65_536 + 2, core, handle: &body, ..Parts::default() }.typed()
}

#[test]
fn a_returned_failure_is_kept_in_the_tasks_own_words() {
    let cases = [
        (0, Verdict::ErrorRetryable, None),
        (1, Verdict::ErrorRetryAfter, Some(Millis(1500))),
        (2, Verdict::ErrorPermanent, None),
    ];
    for (case, verdict, retry_after) in cases {
        let report = run(&failing(case, 21), b"");
        assert_eq!(report.verdict, verdict);
        let failure = report.failure.unwrap();
        assert_eq!(failure.problem.code, "bad");
        assert_eq!(failure.problem.message, " broken beyond repair");
        assert_eq!(failure.retry_after, retry_after);
        assert!(!failure.deterministic);
    }
}

#[test]
fn an_error_text_of_64_mib_is_cut_and_its_length_kept() {
    let mut input = super::support::input(b"");
    input.limits.memory_bytes = 128 << 20;
    let report = super::support::run_with(&failing(2, 64 << 20), input);
    assert_eq!(report.verdict, Verdict::ErrorPermanent);
    let problem = report.failure.unwrap().problem;
    assert_eq!(problem.message_bytes, Some(64 << 20));
    assert!(problem.message.len() <= 64 * 1024);
}

#[test]
fn an_error_text_that_is_not_utf_8_breaks_the_canonical_abi() {
    let body = FAIL.replace("CASE", "2").replace("LENGTH", "2");
    let bytes = Parts { core: r#"(data (i32.const 2051) "\c3\28")"#, handle: &body, ..Parts::default() }.typed();
    assert_eq!(run(&bytes, b"").verdict, Verdict::Trap(TrapCode::Canonical));
}

fn last_words(text: &str, end: &str) -> wasmq_core::report::FailureReport {
    let (imports, with, core_imports) = import_write("stderr");
    let escaped: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let core = format!(r#"(data (i32.const 2048) "{escaped}")"#);
    let handle = format!("(call $write (i32.const 2048) (i32.const {})) {end}", text.len());
    let bytes = Parts {
        imports: &imports,
        with: &with,
        core_imports: &core_imports,
        core: &core,
        handle: &handle,
        ..Parts::default()
    }
    .typed();
    *run(&bytes, b"").failure.unwrap()
}

#[test]
fn a_panic_message_becomes_the_message_of_the_problem() {
    let panic =
        "noise\nthread 'main' panicked at src/lib.rs:3:5:\nindex out of bounds\nnote: run with RUST_BACKTRACE=1\n";
    let failure = last_words(panic, "(unreachable)");
    assert_eq!(failure.problem.code, "unreachable");
    assert_eq!(failure.problem.message, "panicked at src/lib.rs:3:5: index out of bounds");
    assert_eq!(failure.stderr.bytes.0, panic.as_bytes());
    assert!(failure.deterministic, "writing to stderr is no observation");
}

#[test]
fn a_python_exception_is_named_although_its_interpreter_panics_too() {
    let text = "Traceback (most recent call last):\n  File \"a.py\", line 6, in handle\nKeyError: 'a'\n\nDuring handling of it:\n\n\
        Traceback (most recent call last):\n  File \"a.py\", line 8, in handle\nValueError: no\n\n\
        thread '<unnamed>' panicked at runtime/src/lib.rs:1293:29:\nPython function threw an unexpected exception\n";
    assert_eq!(last_words(text, "(unreachable)").problem.message, "ValueError: no");
}

#[test]
fn without_a_panic_the_last_line_of_stderr_speaks() {
    let failure =
        last_words("Traceback (most recent call last):\n  File \"app.py\"\nValueError: no\n\n", "(unreachable)");
    assert_eq!(failure.problem.message, "ValueError: no");
    assert_eq!(
        last_words("no memory\nnote: run with `RUST_BACKTRACE=1` to\n", "(unreachable)").problem.message,
        "no memory"
    );
    assert_eq!(last_words("\n \n", "(unreachable)").problem.message, "wasm `unreachable` instruction executed");
}

fn exiting(body: &str) -> Parts<'_> {
    let imports = r#"(import "wasi:cli/exit@0.2.0" (instance $exit (export "exit" (func (param "status" (result))))))
        (core func $exit (canon lower (func $exit "exit")))"#;
    Parts {
        imports,
        with: r#"(export "exit" (func $exit))"#,
        core_imports: r#"(import "host" "exit" (func $exit (param i32)))"#,
        handle: body,
        ..Parts::default()
    }
}

#[test]
fn leaving_a_typed_handler_by_exit_is_an_exit() {
    let report = run(&exiting("(call $exit (i32.const 1)) (unreachable)").typed(), b"");
    assert_eq!(report.verdict, Verdict::Exit(1));
    let report = run(&exiting("(call $exit (i32.const 0)) (unreachable)").typed(), b"");
    assert_eq!(report.verdict, Verdict::Exit(0), "no output was returned");
}

#[test]
fn a_command_ends_with_its_exit_code() {
    let cases = [
        ("(i32.const 0)", Verdict::Completed),
        ("(i32.const 1)", Verdict::Exit(1)),
        ("(call $exit (i32.const 0)) (unreachable)", Verdict::Completed),
        ("(call $exit (i32.const 1)) (unreachable)", Verdict::Exit(1)),
        ("(unreachable)", Verdict::Trap(TrapCode::Unreachable)),
    ];
    for (body, verdict) in cases {
        assert_eq!(run(&exiting(body).command(), b"").verdict, verdict, "{body}");
    }
}

#[test]
fn what_a_command_writes_to_stdout_is_its_output() {
    let (imports, with, core_imports) = import_write("stdout");
    let core = r#"(data (i32.const 2048) "nul\00 inside")"#;
    let handle =
        "(call $write (i32.const 2048) (i32.const 11)) (call $write (i32.const 2048) (i32.const 3)) (i32.const 0)";
    let bytes = Parts { imports: &imports, with: &with, core_imports: &core_imports, core, handle, ..Parts::default() }
        .command();
    let report = run(&bytes, b"");
    assert_eq!((report.verdict, report.output), (Verdict::Completed, b"nul\0 insidenul".to_vec()));
}
