//! Returns as many bytes as its payload names.

use behaviours::{Failure, Invocation, Payload, number};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    Ok(vec![b'x'; number(&payload)? as usize])
}
