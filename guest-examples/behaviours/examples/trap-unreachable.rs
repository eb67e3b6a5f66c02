//! Executes `unreachable` without a word on stderr.

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    core::arch::wasm32::unreachable()
}
