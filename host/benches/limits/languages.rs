//! A no-op in every language, warm: `wasmq run --repeat` beside the bare engine.
//!
//! Each is the contract guest of its language, which gives back the 16 bytes behind the first line
//! of its payload. What a call costs ranges over three orders of magnitude, so each language has its
//! own number of calls. Both sides time every call alone, from before the instance is made until it
//! is gone, and the medians of the turns are compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::guest::{self, Raw, Readied};
use crate::report::{Figure, Report, Target, median};
use crate::server::program;
use crate::{Fallible, Scale, directory};

const PAYLOAD: &str = "echo\n0123456789abcdef";
const ECHOED: &str = "0123456789abcdef";
/// Calls of the raw limit before anything is counted.
const WARM_UP: u32 = 20;
/// The most calls of a turn; `--repeat` takes more.
const MOST_CALLS: f64 = 200_000.0;

/// A contract guest, and the name of its figure.
struct Language {
    guest: &'static str,
    figure: &'static str,
}

const LANGUAGES: [Language; 8] = [
    Language { guest: "contract-rust", figure: "a call of a guest in Rust" },
    Language { guest: "contract-c", figure: "a call of a guest in C" },
    Language { guest: "contract-javascript", figure: "a call of a guest in JavaScript" },
    Language { guest: "contract-typescript", figure: "a call of a guest in TypeScript" },
    Language { guest: "contract-python", figure: "a call of a guest in Python" },
    Language { guest: "contract-go", figure: "a call of a command in Go" },
    Language { guest: "contract-c-command", figure: "a call of a command in C" },
    Language { guest: "contract-zig", figure: "a call of a command in Zig" },
];

/// What `--repeat` says of a turn, in microseconds.
struct Turn {
    first: f64,
    median: f64,
    p99: f64,
}

pub(crate) fn measure(scale: Scale, report: &mut Report) -> Fallible<()> {
    let (mut details, mut left_out) = (BTreeMap::new(), Vec::new());
    for language in &LANGUAGES {
        if guest::file(language.guest).exists() {
            eprintln!("  {} ...", language.guest);
            details.insert(language.guest, one(language, scale, report)?);
        } else {
            eprintln!("  {} is left out: it is not built; guest-examples/build makes it", language.guest);
            left_out.push(language.guest);
        }
    }
    report.explain("languages", json!(details));
    report.explain("languages_left_out", json!(left_out));
    Ok(())
}

/// Measures one language and returns what explains its figure.
fn one(language: &Language, scale: Scale, report: &mut Report) -> Fallible<Value> {
    let file = guest::component(language.guest)?;
    let accepted = wasmq::queue::accept(&file)?;
    let (raw, readied) = Raw::timed(&accepted.component)?;
    let calls = calls(&raw, scale)?;
    let cache = directory::temporary()?;
    // Compiles, so that no turn has to.
    turn(language, 1, cache.path())?;
    let (mut turns, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        turns.push(turn(language, calls, cache.path())?);
        limit.push(median(&raw.times(calls, PAYLOAD.as_bytes())?));
    }
    let of_turns = |value: fn(&Turn) -> f64| turns.iter().map(value).collect::<Vec<_>>();
    let details = details(&file, &accepted.component, readied, calls, &of_turns);
    let note = format!(
        "{} KiB, compiled in {:.0} ms, loaded in {:.1} ms; the first call took {:.0} us",
        file.len() >> 10,
        readied.compiled.as_secs_f64() * 1e3,
        readied.loaded.as_secs_f64() * 1e3,
        median(&of_turns(|turn| turn.first)),
    );
    report.add(Figure {
        name: language.figure,
        unit: "us",
        measured: of_turns(|turn| turn.median),
        limit,
        target: Target::Times(1.25),
        note,
    });
    Ok(details)
}

fn details(
    file: &[u8],
    component: &[u8],
    readied: Readied,
    calls: u32,
    of_turns: &dyn Fn(fn(&Turn) -> f64) -> Vec<f64>,
) -> Value {
    json!({
        "file_bytes": file.len(),
        "component_bytes": component.len(),
        "compile_ms": readied.compiled.as_secs_f64() * 1e3,
        "load_ms": readied.loaded.as_secs_f64() * 1e3,
        "calls_in_a_turn": calls,
        "first_us": median(&of_turns(|turn| turn.first)),
        "p99_us": median(&of_turns(|turn| turn.p99)),
    })
}

/// So many calls that a turn takes about as long as it should.
fn calls(raw: &Raw, scale: Scale) -> Fallible<u32> {
    let echoed = raw.call(PAYLOAD.as_bytes())?;
    if echoed != ECHOED.as_bytes() {
        return Err(format!("the guest returned {:?}", String::from_utf8_lossy(&echoed)).into());
    }
    let each = median(&raw.times(WARM_UP, PAYLOAD.as_bytes())?);
    let calls = (scale.calls_ms as f64 * 1000.0 / each).clamp(3.0, MOST_CALLS);
    Ok(format!("{calls:.0}").parse()?)
}

/// A turn of the product, in a process of its own.
fn turn(language: &Language, calls: u32, cache: &Path) -> Fallible<Turn> {
    let output = program()
        .arg("run")
        .arg(guest::file(language.guest))
        .args(["--payload", PAYLOAD, "--json", "--repeat", &calls.to_string()])
        .env("XDG_CACHE_HOME", cache)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("wasmq run {} left with {}: {error}", language.guest, output.status))?;
    let is_done = said.pointer("/output/text").is_some_and(|text| text == ECHOED)
        && said.pointer("/repeat/count").is_some_and(|count| *count == calls);
    if !is_done {
        return Err(format!("wasmq run {} did something else: {said}", language.guest).into());
    }
    let figure = |name: &str| {
        let value = said.pointer("/repeat").and_then(|repeat| repeat.get(name)).and_then(Value::as_f64);
        value.ok_or("wasmq run --repeat said no times")
    };
    Ok(Turn { first: figure("first_us")?, median: figure("median_us")?, p99: figure("p99_us")? })
}
