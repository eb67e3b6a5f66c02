//! Divides by zero with the instruction itself.

use std::hint::{assert_unchecked, black_box};

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    Ok(divide(black_box(7), black_box(0)).to_string().into_bytes())
}

#[inline(never)]
fn divide(number: i32, by: i32) -> i32 {
    // Wrong on purpose: without Rust's own check, which would panic, the instruction traps.
    unsafe { assert_unchecked(by != 0 && by != -1) };
    number / by
}
