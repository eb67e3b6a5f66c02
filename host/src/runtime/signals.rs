//! What goes between a running attempt and whoever runs it: a wish that it ends, and how far it has come.
//!
//! Invariant: neither side ever waits for the other longer than a copy of a short text takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use wasmq_core::Timestamp;
use wasmq_core::bytes::cap_text;

use crate::clock;

/// The longest note of a progress that is kept, in bytes.
const MAX_NOTE_BYTES: usize = 256;

/// How far an attempt says it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all; 0 when the guest does not know.
    pub total: u64,
    /// What is going on.
    pub note: String,
    /// When it was said.
    pub said_at: Timestamp,
}

/// What goes between a running attempt and whoever runs it. Cheap to clone and to ask.
#[derive(Debug, Clone, Default)]
pub struct Signals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    asked: AtomicBool,
    progress: Mutex<Option<Progress>>,
}

impl Signals {
    /// Tells the attempt to come to an end. There is no way back.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
    }

    /// Whether it was told to come to an end, as the guest asks.
    pub(super) fn ask(&self) -> bool {
        self.0.asked.store(true, Ordering::Release);
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Whether the guest has asked. One that has will ask again.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.0.asked.load(Ordering::Acquire)
    }

    /// Keeps how far the guest says it has come, instead of what it said before.
    pub(super) fn advance(&self, done: u64, total: u64, note: &str) {
        let progress = Progress { done, total, note: cap_text(note, MAX_NOTE_BYTES).0, said_at: clock::now() };
        *self.0.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    /// How far it has come, if it said anything.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
