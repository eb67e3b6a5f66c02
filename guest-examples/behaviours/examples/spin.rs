//! Computes for ever and calls nothing: only a deadline ends it.

use std::hint;

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let mut counter = 0_u64;
    loop {
        // Keeps the compiler from seeing that the loop does nothing.
        counter = hint::black_box(counter).wrapping_add(1);
    }
}
