//! Reads the clock, then panics: the host must not call this trap deterministic.

use std::time::SystemTime;

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    panic!("the time is {:?}", SystemTime::now());
}
