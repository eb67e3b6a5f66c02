//! The program `wasmq`. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    wasmq::cli::main()
}
