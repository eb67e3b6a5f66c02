#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wasmq_fuzz::symbols_file::run(bytes));
