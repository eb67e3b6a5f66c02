//! A plain program as a task: leaves with the exit code that its payload names.
//!
//! `wasi:cli/exit.exit`, which `std::process::exit` ends up in, knows success and failure only: every
//! code but 0 reaches the host as 1. `command-exit-code` shows the way around.

use std::{io, process};

fn main() -> io::Result<()> {
    let payload = io::read_to_string(io::stdin().lock())?;
    let Ok(code) = payload.trim().parse() else {
        eprintln!("the payload {payload:?} is not an exit code");
        process::exit(64);
    };
    eprintln!("leaving with exit code {code}");
    process::exit(code);
}
