//! The same promises on real guests. They are built by `guest-examples`; a test of one that is not
//! there says so and passes.

use std::path::PathBuf;

use wasmq_core::{Millis, TrapCode, Verdict};

use super::support::{block_on, input, prepare, run, runtime};
use crate::runtime::accept;

fn guest(name: &str) -> Option<Vec<u8>> {
    let root = std::env::var_os("WASMQ_GUESTS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guest-examples/target/components"),
        PathBuf::from,
    );
    let read = std::fs::read(root.join(format!("{name}.wasm"))).ok();
    if read.is_none() {
        eprintln!("skipped: {name}.wasm is not built, see guest-examples");
    }
    read
}

#[test]
fn every_guest_passes_the_inspection_and_links() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guest-examples/target/components");
    let Ok(entries) = std::fs::read_dir(root) else {
        return eprintln!("skipped: no guests are built, see guest-examples");
    };
    let runtime = runtime();
    for entry in entries {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 1 << 20 {
            continue;
        }
        let accepted = accept(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        runtime.prepare(accepted.digest, &mut || Ok(accepted.component.to_vec())).unwrap();
    }
}

#[test]
fn an_echo_in_rust_completes() {
    let Some(echo) = guest("echo") else { return };
    assert_eq!(run(&echo, b"payload\0\xff").output, b"payload\0\xff");
}

#[test]
fn a_rust_panic_says_why_and_is_deterministic() {
    let Some(panics) = guest("panics") else { return };
    let report = run(&panics, b"");
    assert_eq!(report.verdict, Verdict::Trap(TrapCode::Unreachable));
    let failure = report.failure.unwrap();
    assert!(failure.problem.message.starts_with("panicked at "), "{}", failure.problem.message);
    assert!(failure.deterministic, "{:?}", failure.observed);
}

#[test]
fn a_hash_map_does_not_stand_in_the_way_of_determinism() {
    let Some(map) = guest("hash-map") else { return };
    let (one, two) = (run(&map, b"x"), run(&map, b"x"));
    assert_eq!((one.verdict, one.output), (two.verdict, two.output));
}

#[test]
fn traps_of_real_guests_have_their_codes() {
    let cases = [
        ("trap-unreachable", TrapCode::Unreachable),
        ("trap-divide-by-zero", TrapCode::DivideByZero),
        ("trap-integer-overflow", TrapCode::IntegerOverflow),
        ("trap-memory-out-of-bounds", TrapCode::OutOfBoundsMemory),
        ("recursion", TrapCode::StackOverflow),
    ];
    for (name, code) in cases {
        let Some(bytes) = guest(name) else { continue };
        let report = run(&bytes, b"");
        assert_eq!(report.verdict, Verdict::Trap(code), "{name}");
        assert!(report.failure.unwrap().deterministic, "{name}");
    }
}

#[test]
fn looking_at_the_clock_or_at_chance_is_seen() {
    for (name, observation) in [("clock-trap", "clock"), ("random-trap", "secure-random")] {
        let Some(bytes) = guest(name) else { continue };
        let failure = run(&bytes, b"").failure.unwrap();
        assert!(failure.observed.iter().any(|what| what.contains(observation)), "{name}: {:?}", failure.observed);
        assert!(!failure.deterministic);
    }
}

#[test]
fn a_greedy_guest_hits_the_memory_limit_and_a_spinning_one_its_deadline() {
    if let Some(greedy) = guest("greedy") {
        assert_eq!(run(&greedy, b"").verdict, Verdict::MemoryLimit);
    }
    if let Some(spin) = guest("spin") {
        let runtime = runtime();
        let spin = prepare(&runtime, &spin);
        let mut short = input(b"");
        short.limits.timeout = Millis(100);
        assert_eq!(block_on(runtime.run(&spin, short)).verdict, Verdict::Timeout);
    }
}

#[test]
fn a_command_in_rust_reads_stdin_and_writes_stdout() {
    let Some(echo) = guest("command-echo") else { return };
    let report = run(&echo, b"through a pipe");
    assert_eq!(
        (report.verdict, report.output),
        (Verdict::Completed, b"through a pipe".to_vec()),
        "{:?}",
        report.failure
    );
}
