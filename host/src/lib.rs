//! wasmq.
