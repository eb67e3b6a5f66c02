//! Takes secure random bytes, then panics: the host must not call this trap deterministic.
//!
//! The standard library itself asks for secure bytes nowhere: on this target it seeds `HashMap` from
//! `wasi:random/insecure-seed` (see `hash-map`).

use behaviours::{Failure, Invocation, Payload};
use wasip2::random::random::get_random_bytes;

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    panic!("the dice say {:?}", get_random_bytes(8));
}
