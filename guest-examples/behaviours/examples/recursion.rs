//! Calls itself until the stack is used up.

use std::hint::black_box;

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    Ok(dive(payload.len() as u64).to_string().into_bytes())
}

// The result is needed after the call, and the compiler cannot know that the depth never turns
// zero, so this does not become a loop.
#[inline(never)]
#[allow(unconditional_recursion)]
fn dive(depth: u64) -> u64 {
    let deeper = dive(black_box(depth + 1));
    black_box(deeper) ^ depth
}
