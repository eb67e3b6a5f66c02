//! Works in small steps until it is cancelled, then gives up with a retryable failure.
//!
//! Its payload is the number of steps of ten milliseconds after which it succeeds uncancelled.

use std::{thread, time::Duration};

use behaviours::{Failure, Invocation, Payload, host, number, retryable};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let steps = number(&payload)?;
    for step in 0..steps {
        if host::cancelled() {
            return Err(retryable("cancelled", format!("stopped at step {step} of {steps}")));
        }
        if step == 0 {
            host::log(host::Level::Info, "listening", &[]);
        }
        host::progress(step, steps, "working");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(b"never cancelled".to_vec())
}
