//! The one place that reads clocks and dice for the rest of the host.
//!
//! Invariant: [`now`] is only for what people and records need; durations inside a process are
//! measured with the monotonic clock ([`Stopwatch`]), so a clock that is set never breaks them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmq_core::{InvocationId, Timestamp};

/// The time of day. A clock before 1970 reads as 1970.
#[must_use]
#[allow(clippy::disallowed_methods)] // The one place for it.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A new invocation id: a UUIDv7, unique also when the clock is set back.
#[must_use]
pub fn new_invocation_id() -> InvocationId {
    InvocationId::from_u128(uuid::Uuid::now_v7().as_u128())
}

/// The name of a new log or server: 32 hex digits that no other process makes.
#[must_use]
pub fn new_unique_name() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

/// A random number from 0 to 1, for jitter; not for secrets.
#[must_use]
pub fn chance() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

/// A random number below `count`, which is not 0.
#[must_use]
pub fn draw(count: usize) -> usize {
    let bits = RandomState::new().build_hasher().finish();
    usize::try_from(bits % count.max(1) as u64).unwrap_or(0)
}

/// Measures time that has passed, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // The one place for it.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What has passed since the start.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
