//! Reads beyond the end of its memory.

use std::hint::black_box;

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let beyond = black_box(0xFFFF_FFF0_usize) as *const u32;
    // Wrong on purpose: the sandbox has to catch it.
    let found = unsafe { beyond.read_volatile() };
    Ok(found.to_string().into_bytes())
}
