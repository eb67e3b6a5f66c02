//! Fails, worth another attempt, until the attempt that its payload names; that one succeeds.

use behaviours::{Failure, Invocation, Payload, host, number, retryable};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let wanted = number(&payload)?;
    let attempt = host::attempt_number();
    if u64::from(attempt) < wanted {
        return Err(retryable("flaky", format!("attempt {attempt} of the {wanted} it takes")));
    }
    Ok(format!("ok after {attempt}").into_bytes())
}
