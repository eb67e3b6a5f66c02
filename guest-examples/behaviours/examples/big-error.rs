//! Fails for good with a message of as many bytes as its payload names.
//!
//! The message is made of characters of four bytes, so that a cut at a byte count is likely to fall
//! into the middle of one; the rest is filled with dots.

use behaviours::{Failure, Invocation, Payload, number, permanent};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let bytes = number(&payload)? as usize;
    let message = "🦀".repeat(bytes / 4) + &".".repeat(bytes % 4);
    Err(permanent("big-error", message))
}
