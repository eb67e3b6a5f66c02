//! Divides the smallest integer by -1 with the instruction itself.

use std::hint::{assert_unchecked, black_box};

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    Ok(divide(black_box(i32::MIN), black_box(-1)).to_string().into_bytes())
}

#[inline(never)]
fn divide(number: i32, by: i32) -> i32 {
    // Wrong on purpose: without Rust's own check, which would panic, the instruction traps.
    unsafe { assert_unchecked(by != 0 && number != i32::MIN) };
    number / by
}
