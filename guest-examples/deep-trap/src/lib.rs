//! A task that divides a hundred by its payload, a number, and traps on zero a few calls down.
//!
//! Its component keeps function names and the line table (see the profile in `../../Cargo.toml`), so a
//! backtrace names files and lines, also those of functions that the compiler has inlined.

use exports::wasmq::task::handler::Guest;
use wasmq::task::types::{Failure, Invocation, Problem};

wit_bindgen::generate!({ path: "../../wit", world: "task" });

struct DeepTrap;

impl Guest for DeepTrap {
    fn handle(_: Invocation, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let share = share_of(number(&payload)?);
        Ok(share.to_string().into_bytes())
    }
}

fn number(payload: &[u8]) -> Result<u32, Failure> {
    let text = str::from_utf8(payload).unwrap_or_default().trim();
    text.parse().map_err(|error| {
        Failure::Permanent(Problem {
            code: "not-a-number".to_owned(),
            message: format!("the payload is not a number: {error}"),
            details: None,
        })
    })
}

/// A function of its own, so that the backtrace has two frames of this file.
#[inline(never)]
fn share_of(people: u32) -> u32 {
    divided(100, people)
}

/// Always inlined, so that only the line table knows of it.
#[inline(always)]
fn divided(amount: u32, people: u32) -> u32 {
    match people {
        // The instruction, without the panic that Rust puts before a division.
        0 => core::arch::wasm32::unreachable(),
        _ => amount / people,
    }
}

export!(DeepTrap);
