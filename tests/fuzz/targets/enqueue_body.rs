#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wasmq_fuzz::enqueue_body::run(bytes));
