//! The program `wasmq`. Everything it does is in the library.

use std::process::ExitCode;

/// Each attempt makes and drops a few dozen small objects, some of them on another thread; the system's
/// allocator spends a tenth of a worker's time on that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    wasmq::cli::main()
}
