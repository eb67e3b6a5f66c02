//! The frames between clients, supervisor and workers on local sockets.
//!
//! A frame is: length of what follows as u32 LE, kind as one byte, request number as u64 LE, body.
//! The sender chooses request numbers; an answer carries the number of its request. An invocation
//! travels in exactly the bytes that the log will hold, so nobody encodes it twice.
//!
//! Invariants: a frame longer than [`MAX_FRAME_BYTES`] is refused before anything is allocated for
//! it; decoding never panics.

use std::io::{self, Read, Write};

use wasmq_core::Invocation;
use wasmq_core::codec::{DecodeError, Decoder, Encoder};
use wasmq_core::invocation::MAX_PAYLOAD_BYTES;

/// The longest frame, in bytes: the largest payload and room for a batch's framing.
#[allow(clippy::cast_possible_truncation)] // 128 MiB.
pub const MAX_FRAME_BYTES: u32 = 2 * MAX_PAYLOAD_BYTES as u32;

const HEADER_BYTES: usize = 9;

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Enqueue a batch; answered by `Ack` or `Refused`, and with the wait flag later by an `Attempt` for
    /// each one that fails and is followed by another, and by `Finished`.
    Enqueue = 1,
    /// Cancel one invocation; answered by `Ack` or `Refused`.
    Cancel = 2,
    /// Ask a server for its figures; answered by `Figures`.
    Status = 3,
    /// Tell a worker to stop: finish what runs within the grace time, put the rest back.
    Drain = 4,
    /// Ask a worker to hand ready invocations over to others; the body is how many at most. Answered by
    /// `Ack` when others can take them.
    HandOver = 5,
    /// Tell a worker that there is something to adopt.
    Adopt = 6,
    /// Everything asked for is durable.
    Ack = 129,
    /// It was not done; the body is a [`Refusal`] in JSON.
    Refused = 130,
    /// A waited-for invocation is over; the body is a length-prefixed JSON head and the output.
    Finished = 131,
    /// Figures of a server or worker, in JSON.
    Figures = 132,
    /// An attempt of a waited-for invocation failed and another will follow, in JSON.
    Attempt = 133,
}

impl Kind {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Enqueue,
            2 => Self::Cancel,
            3 => Self::Status,
            4 => Self::Drain,
            5 => Self::HandOver,
            6 => Self::Adopt,
            129 => Self::Ack,
            130 => Self::Refused,
            131 => Self::Finished,
            132 => Self::Figures,
            133 => Self::Attempt,
            _ => return None,
        })
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it says.
    pub kind: Kind,
    /// The request it is or answers.
    pub request: u64,
    /// The rest, by kind.
    pub body: Vec<u8>,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Refusal {
    /// Which kind of reason.
    pub reason: Reason,
    /// A sentence.
    pub message: String,
}

/// The kinds of reasons for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The disk is full; later it may work.
    NoSpace,
    /// The log failed, or the worker went away before it answered.
    Failed,
    /// Nothing is taken at the moment, because the server stops or has no worker; nothing was done.
    Unavailable,
    /// No such live invocation here.
    Unknown,
    /// The request made no sense.
    Malformed,
}

/// A frame that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The socket failed or ended.
    #[error("the local socket failed")]
    Io(#[from] io::Error),
    /// The other side is of another version or sent rubbish.
    #[error("the other side sent a frame of kind {kind} and {len} bytes, which this version does not know")]
    Unknown {
        /// Its kind.
        kind: u8,
        /// Its length.
        len: u32,
    },
}

impl Frame {
    /// A frame.
    #[must_use]
    pub const fn new(kind: Kind, request: u64, body: Vec<u8>) -> Self {
        Self { kind, request, body }
    }

    /// A frame whose body is JSON.
    #[must_use]
    pub fn json(kind: Kind, request: u64, value: &impl serde::Serialize) -> Self {
        Self::new(kind, request, serde_json::to_vec(value).unwrap_or_default())
    }

    /// A refusal.
    #[must_use]
    pub fn refused(request: u64, reason: Reason, message: impl Into<String>) -> Self {
        Self::json(Kind::Refused, request, &Refusal { reason, message: message.into() })
    }

    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let len = u32::try_from(self.body.len() + HEADER_BYTES).unwrap_or(u32::MAX);
        out.extend_from_slice(&len.to_le_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.request.to_le_bytes());
        out.extend_from_slice(&self.body);
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(self.body.len() + HEADER_BYTES + 4);
        self.encode(&mut bytes);
        to.write_all(&bytes)
    }

    /// Reads the next frame; `None` at the end of the stream.
    ///
    /// # Errors
    /// When the socket fails or the frame makes no sense.
    pub fn read(from: &mut impl Read) -> Result<Option<Self>, WireError> {
        let mut head = [0; 4 + HEADER_BYTES];
        if !read_or_end(from, &mut head)? {
            return Ok(None);
        }
        let (kind, request, len) = Self::parse_head(&head)?;
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        Ok(Some(Self { kind, request, body }))
    }

    /// Reads the next frame from an async stream; `None` at its end.
    ///
    /// # Errors
    /// When the socket fails or the frame makes no sense.
    pub async fn read_async(from: &mut (impl tokio::io::AsyncRead + Unpin)) -> Result<Option<Self>, WireError> {
        use tokio::io::AsyncReadExt as _;
        let mut head = [0; 4 + HEADER_BYTES];
        let first = from.read(&mut head[..1]).await?;
        if first == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..]).await?;
        let (kind, request, len) = Self::parse_head(&head)?;
        let mut body = vec![0; len];
        from.read_exact(&mut body).await?;
        Ok(Some(Self { kind, request, body }))
    }

    fn parse_head(head: &[u8; 4 + HEADER_BYTES]) -> Result<(Kind, u64, usize), WireError> {
        let [l0, l1, l2, l3, kind, request @ ..] = *head;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let rest = (len as usize).checked_sub(HEADER_BYTES).filter(|_| len <= MAX_FRAME_BYTES);
        match (Kind::from_byte(kind), rest) {
            (Some(kind), Some(rest)) => Ok((kind, u64::from_le_bytes(request), rest)),
            _ => Err(WireError::Unknown { kind, len }),
        }
    }
}

fn read_or_end(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match from.read(rest) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Builds the body of an `Enqueue` frame.
#[derive(Debug)]
pub struct EnqueueBody {
    body: Vec<u8>,
    scratch: Vec<u8>,
}

impl EnqueueBody {
    /// An empty batch. With `wait` it must hold exactly one invocation.
    #[must_use]
    pub fn new(wait: bool) -> Self {
        Self { body: vec![u8::from(wait)], scratch: Vec::new() }
    }

    /// Adds an invocation.
    pub fn push(&mut self, invocation: &Invocation, payload: &[u8]) {
        self.scratch.clear();
        invocation.encode(&mut self.scratch);
        let mut encoder = Encoder(&mut self.body);
        encoder.uint((self.scratch.len() + payload.len()) as u64);
        encoder.raw(&self.scratch);
        encoder.raw(payload);
    }

    /// How many bytes there are so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.body.len() <= 1
    }

    /// The finished body.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.body
    }
}

/// The body of an `Enqueue` frame, read one invocation at a time.
#[derive(Debug)]
pub struct EnqueueReader {
    body: Vec<u8>,
    /// Where the next invocation begins.
    at: usize,
    waits: bool,
}

impl EnqueueReader {
    /// Starts with the first invocation.
    ///
    /// # Errors
    /// When there is not even the wait flag.
    pub fn new(body: Vec<u8>) -> Result<Self, DecodeError> {
        let waits = Decoder::new(&body).byte("wait")? != 0;
        Ok(Self { body, at: 1, waits })
    }

    /// Whether somebody waits for the end of the one invocation.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.waits
    }

    /// The next invocation and its payload; `None` after the last.
    ///
    /// # Errors
    /// When the body is not what [`EnqueueBody`] writes.
    pub fn next(&mut self) -> Result<Option<(Invocation, &[u8])>, DecodeError> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let mut decoder = Decoder::new(rest);
        let record = decoder.bytes("invocation")?;
        self.at = self.body.len() - decoder.rest().len();
        let mut record = Decoder::new(record);
        let invocation = Invocation::decode(&mut record)?;
        Ok(Some((invocation, record.rest())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wasmq_core::{InvocationId, Timestamp};

    proptest! {
        #[test]
        fn a_frame_survives_the_socket(request: u64, body: Vec<u8>) {
            let frame = Frame::new(Kind::Finished, request, body);
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            prop_assert_eq!(Frame::read(&mut &bytes[..]).unwrap(), Some(frame));
            for cut in 1..bytes.len() {
                prop_assert!(Frame::read(&mut &bytes[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_read_or_fail_without_a_panic(bytes: Vec<u8>) {
            let _ = Frame::read(&mut &bytes[..]);
            if let Ok(mut batch) = EnqueueReader::new(bytes) {
                while let Ok(Some(_)) = batch.next() {}
            }
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
        let mut bytes = (MAX_FRAME_BYTES + 1).to_le_bytes().to_vec();
        bytes.extend_from_slice(&[1; 20]);
        assert!(matches!(Frame::read(&mut &bytes[..]), Err(WireError::Unknown { .. })));
    }

    #[test]
    fn a_batch_without_its_flag_is_malformed() {
        assert!(EnqueueReader::new(Vec::new()).is_err());
    }

    #[test]
    fn a_batch_gives_back_every_invocation_with_its_payload() {
        let mut batch = EnqueueBody::new(false);
        for n in 0..3 {
            let id = InvocationId::new(Timestamp(1), n);
            batch.push(&Invocation::new(id, "t".parse().unwrap(), Timestamp(1)), &[n as u8; 2]);
        }
        let mut batch = EnqueueReader::new(batch.finish()).unwrap();
        let mut seen = Vec::new();
        while let Some((invocation, payload)) = batch.next().unwrap() {
            seen.push((invocation.id, payload.to_vec()));
        }
        assert!(!batch.waits());
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[2].1, [2, 2]);
    }
}
