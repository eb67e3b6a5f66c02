//! Returns what it got from `wasi:random/insecure-seed` and `wasi:random/insecure`.
//!
//! The host derives both from the invocation id, so every attempt returns the same.

use behaviours::{Failure, Invocation, Payload, json};
use serde_json::json;
use wasip2::random::{
    insecure::{get_insecure_random_bytes, get_insecure_random_u64},
    insecure_seed::insecure_seed,
};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let (low, high) = insecure_seed();
    Ok(json(&json!({
        "seed": [low.to_string(), high.to_string()],
        "bytes": get_insecure_random_bytes(16),
        "number": get_insecure_random_u64().to_string(),
    })))
}
