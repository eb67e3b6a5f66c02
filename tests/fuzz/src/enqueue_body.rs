//! The body of a request to enqueue: invocations and their payloads, which are written again to the same
//! invocations; and what a worker would record of them decodes.

use wasmq_core::Invocation;
use wasmq_core::event::{self, Event, kind};

use crate::wire::{EnqueueBody, EnqueueReader};

/// See the module.
pub fn run(bytes: &[u8]) {
    let Some((waits, found)) = read(bytes.to_vec()) else { return };
    let mut body = EnqueueBody::new(waits);
    for (invocation, payload) in &found {
        body.push(invocation, payload);
        let mut record = Vec::new();
        invocation.encode(&mut record);
        record.extend_from_slice(payload);
        let decoded = event::decode(kind::ENQUEUED, &record);
        assert_eq!(decoded, Ok(Some(Event::Enqueued(Box::new(invocation.clone()), payload))));
    }
    assert_eq!(read(body.finish()), Some((waits, found)));
}

fn read(body: Vec<u8>) -> Option<(bool, Vec<(Invocation, Vec<u8>)>)> {
    let mut reader = EnqueueReader::new(body).ok()?;
    let mut found = Vec::new();
    while let Ok(Some((invocation, payload))) = reader.next() {
        found.push((invocation, payload.to_vec()));
    }
    Some((reader.waits(), found))
}
