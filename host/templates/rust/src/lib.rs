//! The task: lines such as `coffee,350` in, how many there are and their total as JSON out.

use exports::wasmq::task::handler::Guest;
use wasmq::task::types::{Failure, Invocation, Problem};

wit_bindgen::generate!({ path: "wit", world: "task" });

struct Task;

impl Guest for Task {
    fn handle(_invocation: Invocation, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let text = String::from_utf8(payload)
            .map_err(|error| permanent("not-text", format!("the payload is not UTF-8: {error}")))?;
        let mut items = 0;
        let mut total: u64 = 0;
        for (at, line) in text.lines().enumerate() {
            let (_, amount) = line.split_once(',').unwrap_or((line, ""));
            let amount: u32 = amount.parse().map_err(|_| {
                permanent("bad-amount", format!("line {}: \"{amount}\" is not an amount", at + 1))
            })?;
            items += 1;
            total += u64::from(amount);
        }
        Ok(format!("{{\"items\":{items},\"total\":{total}}}\n").into_bytes())
    }
}

/// A failure that another attempt cannot help. `Failure::Retryable` asks for another attempt.
fn permanent(code: &str, message: String) -> Failure {
    Failure::Permanent(Problem { code: code.to_owned(), message, details: None })
}

export!(Task);
