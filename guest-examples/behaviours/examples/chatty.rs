//! Floods stdout and stderr with as many bytes as its payload names, of the kinds that break
//! terminals and logs, then succeeds.

use behaviours::{Failure, Invocation, Payload, flood, number};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    flood(number(&payload)?);
    Ok(b"ok".to_vec())
}
