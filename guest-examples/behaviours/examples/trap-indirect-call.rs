//! Calls a function through a pointer of another type.

use std::{hint::black_box, mem::transmute};

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let right: fn(i32) -> i32 = black_box(twice);
    // Wrong on purpose: the sandbox checks the type at the call.
    let wrong: fn(i64, f64) -> f64 = black_box(unsafe { transmute::<fn(i32) -> i32, _>(right) });
    Ok(wrong(1, 2.0).to_string().into_bytes())
}

fn twice(number: i32) -> i32 {
    number.wrapping_mul(2)
}
