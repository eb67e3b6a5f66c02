//! Events: what a journal records of an invocation, and their binary form.
//!
//! The kind of a record says which event it is; the body is written here and nowhere else. The
//! payload is the rest of the body, so it is never copied to be framed and can be skipped.
//! `host/wal/FORMAT.md` describes the frame around it.
//!
//! Invariant: decoding never panics; a body that no version of wasmq writes is an error that names
//! the field.

use serde::{Deserialize, Serialize};

use crate::codec::{DecodeError, Decoder, Encoder};
use crate::dead_task::DeadLimits;
use crate::id::{Digest, InvocationId};
use crate::invocation::{Invocation, decode_id, decode_json, decode_version, encode_json};
use crate::name::VersionNumber;
use crate::report::{Attempt, FailureReport, Usage};
use crate::state::{Entry, Phase, Suspicion};
use crate::time::Timestamp;

/// The kinds of journal records. Numbers are never reused.
pub mod kind {
    /// A new invocation.
    pub const ENQUEUED: u8 = 1;
    /// An attempt started.
    pub const STARTED: u8 = 2;
    /// An attempt failed and there will be another.
    pub const RETRY: u8 = 3;
    /// A started attempt was put back without counting.
    pub const RELEASED: u8 = 4;
    /// Given up; the dead letter queue has not confirmed it yet.
    pub const EXHAUSTED: u8 = 5;
    /// Over.
    pub const DONE: u8 = 6;
    /// The whole state of an invocation, copied forward by compaction.
    pub const SNAPSHOT: u8 = 7;
    /// The whole state of an invocation, copied from another log; counts once `ADOPTED` follows.
    pub const COPIED: u8 = 8;
    /// All records of another log have been copied.
    pub const ADOPTED: u8 = 9;
    /// Invocations that another log holds from here on.
    pub const HANDED_OVER: u8 = 10;
    /// The highest that this version knows.
    pub const LAST: u8 = HANDED_OVER;
}

/// How an invocation left the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It completed.
    Completed,
    /// The dead letter queue holds it.
    Dead,
    /// An operator cancelled it.
    Cancelled,
}

/// A started attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// Counted from 1, and again from 1 after a replay.
    pub attempt: u32,
    /// The version that runs.
    pub version: VersionNumber,
    /// The component that runs.
    pub digest: Digest,
    /// When it started.
    pub at: Timestamp,
    /// Whether nothing else ran in the worker, so that a crash is this attempt's fault.
    pub alone: bool,
}

/// What is known when an invocation is given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exhausted {
    /// When it was given up.
    pub dead_at: Timestamp,
    /// The last attempt.
    pub attempt: Attempt,
    /// Its failure.
    pub failure: FailureReport,
    /// What it used.
    pub usage: Usage,
    /// The limits it had.
    pub limits: DeadLimits,
    /// The budget it had.
    pub max_attempts: u32,
    /// The worker that gave it up.
    pub worker: String,
    /// Name and version of the engine.
    pub engine: String,
    /// The version of the WIT package the host spoke.
    pub wit: String,
}

/// One journal record about an invocation.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A new invocation with its payload.
    Enqueued(Box<Invocation>, &'a [u8]),
    /// An attempt started.
    Started(InvocationId, Started),
    /// An attempt failed; the next one is due at the given time.
    Retry(InvocationId, Timestamp, Box<Attempt>),
    /// A started attempt was put back without counting.
    Released(InvocationId),
    /// Given up.
    Exhausted(InvocationId, Box<Exhausted>),
    /// Over.
    Done(InvocationId, Outcome),
    /// The whole state of an invocation, with its payload.
    Snapshot(Box<Entry<()>>, &'a [u8]),
    /// The same from another log, not valid before `Adopted`.
    Copied(Box<Entry<()>>, &'a [u8]),
    /// The copies from this log are complete. The bytes are the log's id.
    Adopted([u8; 16]),
    /// The log with this id holds these invocations from here on.
    HandedOver([u8; 16], Vec<InvocationId>),
}

/// Appends the body of a `STARTED` record.
pub fn encode_started(out: &mut Vec<u8>, id: InvocationId, started: &Started) {
    let mut encoder = Encoder(out);
    encoder.raw(&id.as_u128().to_be_bytes());
    started_fields(&mut encoder, started);
}

fn started_fields(encoder: &mut Encoder<'_>, started: &Started) {
    encoder.uint(u64::from(started.attempt));
    encoder.uint(u64::from(started.version.get()));
    encoder.raw(started.digest.as_bytes());
    encoder.uint(started.at.0);
    encoder.byte(u8::from(started.alone));
}

/// Appends the body of a `RETRY` record.
pub fn encode_retry(out: &mut Vec<u8>, id: InvocationId, due: Timestamp, attempt: &Attempt) {
    let mut encoder = Encoder(out);
    encoder.raw(&id.as_u128().to_be_bytes());
    encoder.uint(due.0);
    encode_json(&mut encoder, std::slice::from_ref(attempt));
}

/// Appends the body of a `RELEASED` record.
pub fn encode_released(out: &mut Vec<u8>, id: InvocationId) {
    out.extend_from_slice(&id.as_u128().to_be_bytes());
}

/// Appends the body of an `EXHAUSTED` record.
pub fn encode_exhausted(out: &mut Vec<u8>, id: InvocationId, exhausted: &Exhausted) {
    let mut encoder = Encoder(out);
    encoder.raw(&id.as_u128().to_be_bytes());
    encode_json(&mut encoder, std::slice::from_ref(exhausted));
}

/// Appends the body of a `DONE` record.
pub fn encode_done(out: &mut Vec<u8>, id: InvocationId, outcome: Outcome) {
    out.extend_from_slice(&id.as_u128().to_be_bytes());
    out.push(match outcome {
        Outcome::Completed => 0,
        Outcome::Dead => 1,
        Outcome::Cancelled => 2,
    });
}

/// Appends the body of a `HANDED_OVER` record. It is one record, so it holds for all ids or for none.
pub fn encode_handed_over(out: &mut Vec<u8>, log: [u8; 16], ids: &[InvocationId]) {
    let mut encoder = Encoder(out);
    encoder.raw(&log);
    encoder.uint(ids.len() as u64);
    ids.iter().for_each(|id| encoder.raw(&id.as_u128().to_be_bytes()));
}

/// Appends the body of a `SNAPSHOT` or `COPIED` record up to the payload, which follows.
pub fn encode_entry<P>(out: &mut Vec<u8>, entry: &Entry<P>) {
    entry.invocation.encode(out);
    let mut encoder = Encoder(out);
    encoder.uint(u64::from(entry.attempts));
    encoder.byte(entry.suspicion.to_byte());
    encode_json(&mut encoder, &entry.history);
    match &entry.phase {
        Phase::Queued { due } => {
            encoder.byte(0);
            encoder.uint(due.0);
        }
        Phase::Running(started) => {
            encoder.byte(1);
            started_fields(&mut encoder, started);
        }
        Phase::Exhausted(exhausted) => {
            encoder.byte(2);
            encode_json(&mut encoder, std::slice::from_ref(exhausted.as_ref()));
        }
    }
}

/// Decodes the body of a record. `None` when the kind is of a later version.
///
/// # Errors
/// When the body is not what its kind promises.
pub fn decode(kind: u8, body: &[u8]) -> Result<Option<Event<'_>>, DecodeError> {
    let mut decoder = Decoder::new(body);
    let event = match kind {
        kind::ENQUEUED => {
            let invocation = Box::new(Invocation::decode(&mut decoder)?);
            return Ok(Some(Event::Enqueued(invocation, decoder.rest())));
        }
        kind::SNAPSHOT => {
            let entry = Box::new(decode_entry(&mut decoder)?);
            return Ok(Some(Event::Snapshot(entry, decoder.rest())));
        }
        kind::COPIED => {
            let entry = Box::new(decode_entry(&mut decoder)?);
            return Ok(Some(Event::Copied(entry, decoder.rest())));
        }
        kind::ADOPTED => Event::Adopted(decoder.array("log id")?),
        kind::HANDED_OVER => decode_handed_over(&mut decoder)?,
        kind::STARTED => Event::Started(decode_id(&mut decoder)?, decode_started(&mut decoder)?),
        kind::RETRY => {
            let id = decode_id(&mut decoder)?;
            let due = Timestamp(decoder.uint("due")?);
            Event::Retry(id, due, Box::new(decode_one(&mut decoder, "attempt")?))
        }
        kind::RELEASED => Event::Released(decode_id(&mut decoder)?),
        kind::EXHAUSTED => {
            let id = decode_id(&mut decoder)?;
            Event::Exhausted(id, Box::new(decode_one(&mut decoder, "exhausted")?))
        }
        kind::DONE => Event::Done(decode_id(&mut decoder)?, decode_outcome(&mut decoder)?),
        _ => return Ok(None),
    };
    if decoder.rest().is_empty() { Ok(Some(event)) } else { Err(DecodeError::Invalid("the end of the record")) }
}

/// Where the payload of an `ENQUEUED`, `SNAPSHOT` or `COPIED` record begins in its body.
///
/// # Errors
/// When the body is not what its kind promises.
pub fn payload_of(kind: u8, body: &[u8]) -> Result<&[u8], DecodeError> {
    match decode(kind, body)? {
        Some(Event::Enqueued(_, payload) | Event::Snapshot(_, payload) | Event::Copied(_, payload)) => Ok(payload),
        _ => Err(DecodeError::Invalid("the kind of a record with a payload")),
    }
}

fn decode_one<T: serde::de::DeserializeOwned>(decoder: &mut Decoder<'_>, what: &'static str) -> Result<T, DecodeError> {
    decode_json(decoder, what)?.pop().ok_or(DecodeError::Invalid(what))
}

fn decode_handed_over(decoder: &mut Decoder<'_>) -> Result<Event<'static>, DecodeError> {
    let log = decoder.array("log id")?;
    let count = decoder.uint("count")?;
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(decode_id(decoder)?);
    }
    Ok(Event::HandedOver(log, ids))
}

fn decode_outcome(decoder: &mut Decoder<'_>) -> Result<Outcome, DecodeError> {
    match decoder.byte("outcome")? {
        0 => Ok(Outcome::Completed),
        1 => Ok(Outcome::Dead),
        2 => Ok(Outcome::Cancelled),
        _ => Err(DecodeError::Invalid("outcome")),
    }
}

fn decode_started(decoder: &mut Decoder<'_>) -> Result<Started, DecodeError> {
    Ok(Started {
        attempt: decoder.uint32("attempt")?,
        version: decode_version(decoder)?,
        digest: Digest::new(decoder.array("digest")?),
        at: Timestamp(decoder.uint("started_at")?),
        alone: decoder.byte("alone")? != 0,
    })
}

fn decode_entry(decoder: &mut Decoder<'_>) -> Result<Entry<()>, DecodeError> {
    let invocation = Invocation::decode(decoder)?;
    let attempts = decoder.uint32("attempts")?;
    let suspicion = Suspicion::from_byte(decoder.byte("suspicion")?).ok_or(DecodeError::Invalid("suspicion"))?;
    let history = decode_json(decoder, "history")?;
    let phase = match decoder.byte("phase")? {
        0 => Phase::Queued { due: Timestamp(decoder.uint("due")?) },
        1 => Phase::Running(decode_started(decoder)?),
        2 => Phase::Exhausted(Box::new(decode_one(decoder, "exhausted")?)),
        _ => return Err(DecodeError::Invalid("phase")),
    };
    Ok(Entry { invocation, payload: (), attempts, suspicion, history, phase })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;
    use proptest::prelude::*;

    fn id() -> InvocationId {
        InvocationId::new(Timestamp(5), 6)
    }

    fn started() -> Started {
        let digest = Digest::new([3; 32]);
        Started { attempt: 2, version: VersionNumber::FIRST, digest, at: Timestamp(8), alone: true }
    }

    fn attempt() -> Attempt {
        Attempt {
            number: 2,
            version: VersionNumber::FIRST,
            digest: Digest::new([3; 32]),
            started_at: Timestamp(8),
            ended_at: Timestamp(9),
            verdict: Verdict::Timeout,
            deterministic: false,
            summary: "boom\0\u{1b}".into(),
        }
    }

    #[test]
    fn every_small_event_survives_its_binary_form_and_no_cut_of_it_passes() {
        let events = [
            (kind::STARTED, Event::Started(id(), started())),
            (kind::RETRY, Event::Retry(id(), Timestamp(70), Box::new(attempt()))),
            (kind::RELEASED, Event::Released(id())),
            (kind::DONE, Event::Done(id(), Outcome::Cancelled)),
            (kind::HANDED_OVER, Event::HandedOver([9; 16], vec![id(), InvocationId::new(Timestamp(6), 7)])),
        ];
        for (kind, event) in events {
            let mut body = Vec::new();
            match &event {
                Event::Started(id, started) => encode_started(&mut body, *id, started),
                Event::Retry(id, due, attempt) => encode_retry(&mut body, *id, *due, attempt),
                Event::Released(id) => encode_released(&mut body, *id),
                Event::Done(id, outcome) => encode_done(&mut body, *id, *outcome),
                Event::HandedOver(log, ids) => encode_handed_over(&mut body, *log, ids),
                _ => unreachable!(),
            }
            assert_eq!(decode(kind, &body), Ok(Some(event)));
            for cut in 0..body.len() {
                assert!(decode(kind, &body[..cut]).is_err(), "kind {kind} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_snapshot_keeps_phase_history_and_payload() {
        let invocation = Invocation::new(id(), "t".parse().unwrap(), Timestamp(5));
        for phase in [Phase::Queued { due: Timestamp(99) }, Phase::Running(started())] {
            let entry = Entry {
                invocation: invocation.clone(),
                payload: (),
                attempts: 2,
                suspicion: Suspicion::Alone,
                history: vec![attempt()],
                phase,
            };
            let mut body = Vec::new();
            encode_entry(&mut body, &entry);
            body.extend_from_slice(b"\xff payload");
            let decoded = decode(kind::SNAPSHOT, &body).unwrap();
            assert_eq!(decoded, Some(Event::Snapshot(Box::new(entry), b"\xff payload")));
            assert_eq!(payload_of(kind::SNAPSHOT, &body), Ok(&b"\xff payload"[..]));
        }
    }

    #[test]
    fn a_kind_of_a_later_version_is_told_apart_from_damage() {
        assert_eq!(decode(200, b"whatever"), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_a_panic(kind in 0..12u8, body: Vec<u8>) {
            let _ = decode(kind, &body);
        }
    }
}
