//! Tries to read, list and write files, and returns as JSON how each try ended.

use std::{fmt::Debug, fs, io};

use behaviours::{Failure, Invocation, Payload, json};
use serde_json::{Value, json};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let list = |folder: &str| {
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>())
    };
    Ok(json(&json!({
        "read /etc/passwd": outcome(fs::read_to_string("/etc/passwd")),
        "list /": outcome(list("/")),
        "list .": outcome(list(".")),
        "write /tmp/wasmq-escape": outcome(fs::write("/tmp/wasmq-escape", "out")),
    })))
}

fn outcome<T: Debug>(result: io::Result<T>) -> Value {
    match result {
        Ok(value) => json!({ "ok": format!("{value:?}") }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
