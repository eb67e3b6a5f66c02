//! The inspection of a file: any bytes have an answer, the same twice, a refusal is one sentence, and what
//! passes can be made a component.

use crate::runtime::inspect::{accept, inspect};

/// See the module.
pub fn run(bytes: &[u8]) {
    let answer = inspect(bytes);
    assert_eq!(answer, inspect(bytes));
    match answer {
        Ok((found, problems)) => {
            assert_eq!(found.size_bytes, bytes.len() as u64);
            assert_eq!(accept(bytes).err(), problems.into_iter().next());
        }
        Err(refused) => {
            assert!(!refused.to_string().is_empty());
            assert_eq!(accept(bytes).err(), Some(refused));
        }
    }
}
