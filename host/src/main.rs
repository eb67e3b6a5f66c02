//! The wasmq binary.
fn main() {}
