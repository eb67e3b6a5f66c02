//! Whether a file is valid WebAssembly, as far as the engine goes.
//!
//! Invariant: how deep components are nested is known before anything is kept of them. The validator has no limit
//! for that, and keeps what it knows of every component that has not ended; all other counts it limits itself.

use wasmparser::{BinaryReaderError, Parser, Payload, Validator, WasmFeatures};

use super::rejection::Rejection;

/// How deep components may be nested; toolchains need 2 or 3.
pub(super) const MAX_DEPTH: usize = 100;

/// Validates a module or a component.
///
/// # Errors
/// It is not valid, or nested too deep.
pub(super) fn validate(bytes: &[u8]) -> Result<(), Rejection> {
    let malformed = |error: BinaryReaderError| Rejection::malformed(&error);
    if is_nested_too_deep(bytes).map_err(malformed)? {
        return Err(Rejection::NestedTooDeep);
    }
    Validator::new_with_features(WasmFeatures::default()).validate_all(bytes).map(|_| ()).map_err(malformed)
}

fn is_nested_too_deep(bytes: &[u8]) -> Result<bool, BinaryReaderError> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Ok(true);
        }
    }
    Ok(false)
}
