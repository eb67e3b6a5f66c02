//! Bodies of records of every kind: what decodes is encoded and decoded to the same again, and any
//! sequence of records can be applied to a ledger.
//!
//! The input is a sequence of: kind, length in two bytes, body.

use wasmq_core::Timestamp;
use wasmq_core::event::{self, Event, kind};
use wasmq_core::state::Ledger;

use crate::input::Input;

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut ledger: Ledger<Vec<u8>> = Ledger::default();
    while !input.is_empty() {
        let kind = input.byte() % 12;
        let len = input.short();
        let body = input.take(len);
        let _ = event::payload_of(kind, body);
        let Ok(Some(event)) = event::decode(kind, body) else { continue };
        assert_survives(kind, &event);
        ledger.apply(event, <[u8]>::to_vec);
    }
    for (id, entry) in ledger.iter() {
        assert_eq!(*id, entry.invocation.id);
    }
    ledger.accept_copies();
    let live = ledger.len();
    assert_eq!(ledger.into_recovered(Timestamp(5)).len(), live);
}

fn assert_survives(kind: u8, event: &Event<'_>) {
    let body = encode(event);
    assert_eq!(event::decode(kind, &body).as_ref(), Ok(&Some(event.clone())));
    let payload = event::payload_of(kind, &body);
    assert_eq!(payload.is_ok(), matches!(kind, kind::ENQUEUED | kind::SNAPSHOT | kind::COPIED));
}

fn encode(event: &Event<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match event {
        Event::Enqueued(invocation, payload) => {
            invocation.encode(&mut out);
            out.extend_from_slice(payload);
        }
        Event::Started(id, started) => event::encode_started(&mut out, *id, started),
        Event::Retry(id, due, attempt) => event::encode_retry(&mut out, *id, *due, attempt),
        Event::Released(id) => event::encode_released(&mut out, *id),
        Event::Exhausted(id, exhausted) => event::encode_exhausted(&mut out, *id, exhausted),
        Event::Done(id, outcome) => event::encode_done(&mut out, *id, *outcome),
        Event::Snapshot(entry, payload) | Event::Copied(entry, payload) => {
            event::encode_entry(&mut out, entry);
            out.extend_from_slice(payload);
        }
        Event::Adopted(log) => out.extend_from_slice(log),
        Event::HandedOver(log, ids) => event::encode_handed_over(&mut out, *log, ids),
    }
    out
}
