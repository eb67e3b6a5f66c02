//! An invocation: one durable request to run a task on a payload.
//!
//! Invariants: id, first enqueue time and payload never change (a new payload given by an operator
//! at a retry is recorded as such); limits on names and metadata are checked before anything is
//! written.

use std::num::NonZeroU32;

use crate::codec::{DecodeError, Decoder, Encoder};
use crate::dead_task::Death;
use crate::id::{Digest, InvocationId};
use crate::name::{TaskName, VersionNumber};
use crate::time::Timestamp;

/// The default limit of a payload, in bytes.
pub const DEFAULT_PAYLOAD_BYTES: u64 = 1024 * 1024;
/// The largest limit of a payload an operator can set, in bytes.
pub const MAX_PAYLOAD_BYTES: u64 = 64 * 1024 * 1024;
/// The most metadata pairs of an invocation.
pub const MAX_METADATA_PAIRS: usize = 64;
/// The most bytes of all metadata keys and values together.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// The highest priority; 0 is the default and the lowest.
pub const MAX_PRIORITY: u8 = 9;
/// The bit beside the priority that says that the invocation was delayed by a span.
const IS_DELAY: u8 = 0x80;
/// How many earlier deaths an invocation carries along; of more, the first and the latest stay.
pub const MAX_DEATHS_KEPT: usize = 16;

/// Which version runs an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Pin {
    /// Whatever is current when an attempt starts.
    #[default]
    Current,
    /// This version.
    Version(VersionNumber),
    /// A version with exactly this component.
    Digest(Box<Digest>),
}

/// One durable request to run a task, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Its identity over all attempts and replays.
    pub id: InvocationId,
    /// The task to run.
    pub task: TaskName,
    /// Which version runs it.
    pub pin: Pin,
    /// When it was first enqueued.
    pub enqueued_at: Timestamp,
    /// The earliest first attempt. Not after `enqueued_at` means at once, whatever the clock says.
    pub due_at: Timestamp,
    /// Whether it was asked for as a delay: then the time from `enqueued_at` to `due_at` has to pass, whatever the
    /// clock shows meanwhile.
    pub is_delay: bool,
    /// 0 to [`MAX_PRIORITY`]; among due invocations the higher one starts first.
    pub priority: u8,
    /// Its own budget of attempts, over the task's.
    pub max_attempts: Option<NonZeroU32>,
    /// How often it was put back from the dead letter queue.
    pub replays: u32,
    /// Key-value pairs of the enqueuer.
    pub metadata: Vec<(String, String)>,
    /// Its earlier deaths, oldest first.
    pub deaths: Vec<Death>,
}

/// Metadata over the limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// Too many pairs.
    #[error("an invocation has at most {MAX_METADATA_PAIRS} metadata pairs, this one has {0}")]
    TooMany(usize),
    /// Too many bytes.
    #[error("metadata has at most {MAX_METADATA_BYTES} bytes in all, this has {0}")]
    TooLarge(usize),
}

/// Checks metadata against the limits.
///
/// # Errors
/// The limit that is passed.
pub fn check_metadata(metadata: &[(String, String)]) -> Result<(), MetadataError> {
    if metadata.len() > MAX_METADATA_PAIRS {
        return Err(MetadataError::TooMany(metadata.len()));
    }
    let bytes = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_METADATA_BYTES {
        return Err(MetadataError::TooLarge(bytes));
    }
    Ok(())
}

impl Invocation {
    /// A plain invocation, due at once, for the current version.
    #[must_use]
    pub fn new(id: InvocationId, task: TaskName, now: Timestamp) -> Self {
        Self {
            id,
            task,
            pin: Pin::Current,
            enqueued_at: now,
            due_at: now,
            is_delay: false,
            priority: 0,
            max_attempts: None,
            replays: 0,
            metadata: Vec::new(),
            deaths: Vec::new(),
        }
    }

    /// Appends the binary form. The payload is not part of it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut encoder = Encoder(out);
        encoder.raw(&self.id.as_u128().to_be_bytes());
        encoder.bytes(self.task.as_str().as_bytes());
        encode_pin(&mut encoder, &self.pin);
        encoder.uint(self.enqueued_at.0);
        encoder.uint(self.due_at.0);
        encoder.byte(self.priority | if self.is_delay { IS_DELAY } else { 0 });
        encoder.uint(self.max_attempts.map_or(0, |n| u64::from(n.get())));
        encoder.uint(u64::from(self.replays));
        encoder.uint(self.metadata.len() as u64);
        for (key, value) in &self.metadata {
            encoder.bytes(key.as_bytes());
            encoder.bytes(value.as_bytes());
        }
        encode_json(&mut encoder, &self.deaths);
    }

    /// Takes an invocation from the front of a record.
    ///
    /// # Errors
    /// When the bytes are not what [`Invocation::encode`] writes.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let id = decode_id(decoder)?;
        let task = decoder.text("task")?.parse().map_err(|_| DecodeError::Invalid("task"))?;
        let pin = decode_pin(decoder)?;
        let enqueued_at = Timestamp(decoder.uint("enqueued_at")?);
        let due_at = Timestamp(decoder.uint("due_at")?);
        let priority = decoder.byte("priority")?;
        Ok(Self {
            id,
            task,
            pin,
            enqueued_at,
            due_at,
            is_delay: priority & IS_DELAY != 0,
            priority: (priority & !IS_DELAY).min(MAX_PRIORITY),
            max_attempts: NonZeroU32::new(decoder.uint32("max_attempts")?),
            replays: decoder.uint32("replays")?,
            metadata: decode_metadata(decoder)?,
            deaths: decode_json(decoder, "deaths")?,
        })
    }
}

fn encode_pin(encoder: &mut Encoder<'_>, pin: &Pin) {
    match pin {
        Pin::Current => encoder.byte(0),
        Pin::Version(version) => {
            encoder.byte(1);
            encoder.uint(u64::from(version.get()));
        }
        Pin::Digest(digest) => {
            encoder.byte(2);
            encoder.raw(digest.as_bytes());
        }
    }
}

fn decode_pin(decoder: &mut Decoder<'_>) -> Result<Pin, DecodeError> {
    match decoder.byte("pin")? {
        0 => Ok(Pin::Current),
        1 => decode_version(decoder).map(Pin::Version),
        2 => Ok(Pin::Digest(Box::new(Digest::new(decoder.array("pin")?)))),
        _ => Err(DecodeError::Invalid("pin")),
    }
}

pub(crate) fn decode_version(decoder: &mut Decoder<'_>) -> Result<VersionNumber, DecodeError> {
    NonZeroU32::new(decoder.uint32("version")?).map(VersionNumber).ok_or(DecodeError::Invalid("version"))
}

pub(crate) fn decode_id(decoder: &mut Decoder<'_>) -> Result<InvocationId, DecodeError> {
    Ok(InvocationId::from_u128(u128::from_be_bytes(decoder.array("id")?)))
}

fn decode_metadata(decoder: &mut Decoder<'_>) -> Result<Vec<(String, String)>, DecodeError> {
    let count = decoder.uint("metadata")?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let key = decoder.text("metadata key")?.to_owned();
        pairs.push((key, decoder.text("metadata value")?.to_owned()));
    }
    Ok(pairs)
}

/// Rare lists (attempts, deaths) are JSON inside the binary form: empty for none.
pub(crate) fn encode_json<T: serde::Serialize>(encoder: &mut Encoder<'_>, list: &[T]) {
    if list.is_empty() {
        encoder.uint(0);
    } else {
        encoder.bytes(&serde_json::to_vec(list).unwrap_or_default());
    }
}

pub(crate) fn decode_json<T: serde::de::DeserializeOwned>(
    decoder: &mut Decoder<'_>,
    what: &'static str,
) -> Result<Vec<T>, DecodeError> {
    let bytes = decoder.bytes(what)?;
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice(bytes).map_err(|_| DecodeError::Invalid(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(pin: Pin, metadata: Vec<(String, String)>, replays: u32) -> Invocation {
        let id = InvocationId::new(Timestamp(77), 5);
        let plain = Invocation::new(id, "resize".parse().unwrap(), Timestamp(77));
        let (max_attempts, is_delay) = (NonZeroU32::new(9), replays.is_multiple_of(2));
        Invocation { pin, metadata, replays, max_attempts, priority: 3, is_delay, ..plain }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn an_invocation_survives_its_binary_form(
            metadata: Vec<(String, String)>, replays: u32, which in 0..3u8, version in 1..u32::MAX,
        ) {
            let pin = match which {
                0 => Pin::Current,
                1 => Pin::Version(VersionNumber(NonZeroU32::new(version).unwrap())),
                _ => Pin::Digest(Box::new(Digest::new([7; 32]))),
            };
            let invocation = sample(pin, metadata, replays);
            let mut buffer = Vec::new();
            invocation.encode(&mut buffer);
            let whole = Invocation::decode(&mut Decoder::new(&buffer));
            prop_assert_eq!(whole, Ok(invocation));
            for cut in 0..buffer.len() {
                prop_assert!(Invocation::decode(&mut Decoder::new(&buffer[..cut])).is_err());
            }
        }
    }

    #[test]
    fn metadata_over_the_limits_is_refused() {
        let pair = |n: usize| ("k".to_owned(), "v".repeat(n));
        assert!(check_metadata(&vec![pair(1); 64]).is_ok());
        assert_eq!(check_metadata(&vec![pair(1); 65]), Err(MetadataError::TooMany(65)));
        assert_eq!(check_metadata(&[pair(16 * 1024)]), Err(MetadataError::TooLarge(16 * 1024 + 1)));
    }
}
