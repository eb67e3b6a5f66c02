//! A typed task that leaves by `exit` with the code that its payload names, instead of returning.
//!
//! `wasi:cli/exit` knows success and failure only, so every code but 0 reaches the host as 1.

use std::process;

use behaviours::{Failure, Invocation, Payload, number};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let code = number(&payload)?;
    eprintln!("leaving with exit code {code}");
    process::exit(code as i32)
}
