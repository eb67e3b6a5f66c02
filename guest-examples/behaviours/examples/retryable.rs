//! Fails in every attempt, and says each time that another one is worth it.

use behaviours::{Failure, Invocation, Payload, retryable};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    Err(retryable("not-yet", "the other side does not answer"))
}
