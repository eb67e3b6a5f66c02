//! Panics with its payload in the message.

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    panic!("asked to panic: {}", String::from_utf8_lossy(&payload));
}
