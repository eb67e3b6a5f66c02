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
            total += amount(line).ok_or_else(|| {
                permanent("bad-amount", format!("line {}: no amount of 1 to 9 digits", at + 1))
            })?;
            items += 1;
        }
        Ok(format!("{{\"items\":{items},\"total\":{total}}}\n").into_bytes())
    }
}

/// The one to nine digits behind the first comma.
fn amount(line: &str) -> Option<u64> {
    let (_, digits) = line.split_once(',')?;
    let well_formed = digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if well_formed { digits.parse().ok() } else { None }
}

/// A failure that another attempt cannot help. `Failure::Retryable` asks for another attempt.
fn permanent(code: &str, message: String) -> Failure {
    Failure::Permanent(Problem { code: code.to_owned(), message, details: None })
}

export!(Task);
