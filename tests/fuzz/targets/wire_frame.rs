#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wasmq_fuzz::wire_frame::run(bytes));
