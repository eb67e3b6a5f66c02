//! The inspection of a component: any bytes have an answer, the same twice, and a refusal is one sentence.

use crate::runtime::inspect::inspect;

/// See the module.
pub fn run(bytes: &[u8]) {
    let answer = inspect(bytes);
    assert_eq!(answer, inspect(bytes));
    match answer {
        Ok(found) => assert_eq!(found.size_bytes, bytes.len() as u64),
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}
