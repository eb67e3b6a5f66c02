//! Takes memory without end, and writes to every page so that it is really taken.

use behaviours::{Failure, Invocation, Payload};

behaviours::task!(handle);

const CHUNK_BYTES: usize = 1 << 20;

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let mut chunks = Vec::new();
    loop {
        chunks.push(vec![0xA5_u8; CHUNK_BYTES]);
        std::hint::black_box(&chunks);
    }
}
