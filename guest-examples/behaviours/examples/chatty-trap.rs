//! Floods stdout and stderr as `chatty` does, then panics.

use behaviours::{Failure, Invocation, Payload, flood, number};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    flood(number(&payload)?);
    panic!("said everything, and now this");
}
