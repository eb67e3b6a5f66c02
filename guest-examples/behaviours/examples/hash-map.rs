//! Returns the order in which a `HashMap` yields its keys.
//!
//! The standard library seeds it from `wasi:random/insecure-seed`. The host derives that from the
//! invocation id, so the order differs between invocations and stays between attempts.

use std::collections::HashMap;

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let map: HashMap<u32, ()> = (0..16).map(|key| (key, ())).collect();
    let order: Vec<String> = map.keys().map(u32::to_string).collect();
    Ok(order.join(" ").into_bytes())
}
