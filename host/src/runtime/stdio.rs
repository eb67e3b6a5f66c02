//! Where a guest's stdout and stderr go, and where its stdin comes from.
//!
//! Invariants: writing never blocks and never makes the host's memory grow beyond the cap, however
//! much a guest prints; every byte is counted even when it is not kept.
//!
//! Deliberately absent: any look at the content. Control characters are the concern of whoever shows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmq_core::bytes::{Bytes as RawBytes, Tail};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// How much of the end of each stream is kept, in bytes.
pub(super) const TAIL_BYTES: usize = 16 * 1024;
/// How much a guest may write at once; a wasi-libc write loop asks before each piece.
const PERMIT_BYTES: usize = 64 * 1024;

/// A command wrote more to stdout than its output limit allows.
#[derive(Debug, thiserror::Error)]
#[error("the output is larger than the limit of {limit_bytes} bytes")]
pub(super) struct OutputTooLarge {
    /// The limit, in bytes.
    pub(super) limit_bytes: usize,
}

/// What was written to one stream.
#[derive(Debug, Default)]
struct Written {
    kept: Vec<u8>,
    total_bytes: u64,
}

impl Written {
    fn keep_tail(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let end = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        if self.kept.len() + end.len() > 2 * TAIL_BYTES {
            let surplus = self.kept.len().saturating_sub(TAIL_BYTES);
            self.kept.drain(..surplus);
        }
        self.kept.extend_from_slice(end);
    }

    fn keep_all(&mut self, bytes: &[u8], limit_bytes: usize) -> Result<(), OutputTooLarge> {
        self.total_bytes += bytes.len() as u64;
        let room = limit_bytes.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if bytes.len() > room { Err(OutputTooLarge { limit_bytes }) } else { Ok(()) }
    }
}

/// Collects one output stream; every handle the guest asks for writes to the same place.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    written: Arc<Mutex<Written>>,
    /// Keep everything up to this many bytes; without it only the tail.
    limit_bytes: Option<usize>,
}

impl Capture {
    /// Keeps the tail and forgets the rest.
    pub(super) fn tail() -> Self {
        Self { written: Arc::default(), limit_bytes: None }
    }

    /// Keeps everything, and stops the guest when it is more than the limit.
    pub(super) fn whole(limit_bytes: usize) -> Self {
        Self { written: Arc::default(), limit_bytes: Some(limit_bytes) }
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out everything that was kept.
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().kept)
    }

    /// The end of what was written.
    pub(super) fn to_tail(&self) -> Tail {
        let written = self.lock();
        let start = written.kept.len().saturating_sub(TAIL_BYTES);
        let kept = written.kept.get(start..).unwrap_or_default();
        Tail { bytes: RawBytes(kept.to_vec()), total_bytes: written.total_bytes }
    }
}

#[async_trait]
impl Pollable for Capture {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Capture {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        match self.limit_bytes {
            None => self.lock().keep_tail(&bytes),
            Some(limit) => self.lock().keep_all(&bytes, limit).map_err(|error| StreamError::Trap(error.into()))?,
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT_BYTES)
    }
}
