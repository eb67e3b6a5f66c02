//! The clock of a model: it stands still until a wait is over.

use std::cell::Cell;
use std::time::Duration;

use wasmq_core::{InvocationId, Millis, Moment, Timestamp};

thread_local! {
    // The threads of a model are all on one thread of the system.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets time pass.
pub(crate) fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
}

pub(crate) fn now() -> Timestamp {
    Timestamp(1_000_000 + PASSED.get().as_millis() as u64)
}

pub(crate) fn moment() -> Moment {
    at(now())
}

pub(crate) fn at(wall: Timestamp) -> Moment {
    Moment { wall, steady: Millis(1_000_000 + PASSED.get().as_millis() as u64) }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Duration);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(PASSED.get())
    }

    pub(crate) fn elapsed(self) -> Duration {
        PASSED.get().saturating_sub(self.0)
    }
}
