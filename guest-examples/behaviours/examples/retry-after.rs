//! Asks at its first attempt to be called again after as many milliseconds as its payload names.

use behaviours::{DelayedProblem, Failure, Invocation, Payload, host, number, problem};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let delay_ms = number(&payload)?;
    if host::attempt_number() == 1 {
        let problem = problem("come-back-later", format!("call again after {delay_ms} ms"));
        return Err(Failure::RetryAfter(DelayedProblem { problem, delay_ms }));
    }
    Ok(b"ok".to_vec())
}
