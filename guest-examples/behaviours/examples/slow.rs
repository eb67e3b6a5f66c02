//! Sleeps for as many milliseconds as its payload names, then succeeds.

use std::{thread, time::Duration};

use behaviours::{Failure, Invocation, Payload, number};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let ms = number(&payload)?;
    thread::sleep(Duration::from_millis(ms));
    Ok(format!("slept {ms} ms").into_bytes())
}
