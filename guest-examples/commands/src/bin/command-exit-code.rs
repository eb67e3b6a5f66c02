//! A plain program as a task: leaves with exactly the exit code that its payload names.
//!
//! It calls `wasi:cli/exit.exit-with-code`, which a host has to offer; `command-exit` shows what
//! becomes of a code on the usual way.

use std::io;

use wasip2::cli::exit::exit_with_code;

fn main() -> io::Result<()> {
    let payload = io::read_to_string(io::stdin().lock())?;
    let Ok(code) = payload.trim().parse() else {
        eprintln!("the payload {payload:?} is not an exit code from 0 to 255");
        exit_with_code(64);
        return Ok(());
    };
    eprintln!("leaving with exit code {code}");
    exit_with_code(code);
    Ok(())
}
