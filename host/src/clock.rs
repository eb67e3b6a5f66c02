//! The one place that reads clocks and dice for the rest of the host.
//!
//! Invariant: [`now`] is only for what people and records need; durations inside a process are
//! measured with clocks that nobody sets ([`Stopwatch`], [`moment`]), so a clock that is set never
//! breaks them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use wasmq_core::{InvocationId, Millis, Moment, Timestamp};

/// The time of day. A clock before 1970 reads as 1970.
#[must_use]
#[allow(clippy::disallowed_methods)] // The one place for it.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Now on both clocks. The steady one goes on while the machine sleeps, as waits should.
#[must_use]
pub fn moment() -> Moment {
    at(now())
}

#[cfg(test)]
thread_local! {
    static PRETENDED: std::cell::Cell<Option<Millis>> = const { std::cell::Cell::new(None) };
}

/// Lets the steady clock of this thread show this.
#[cfg(test)]
pub fn pretend(steady: Millis) {
    PRETENDED.set(Some(steady));
}

/// What the steady clock shows when it is `wall` by the other one.
#[must_use]
pub fn at(wall: Timestamp) -> Moment {
    #[cfg(test)]
    if let Some(steady) = PRETENDED.get() {
        return Moment { wall, steady };
    }
    let steady = clock_gettime(ClockId::Boottime);
    let secs = Millis::from_secs(u64::try_from(steady.tv_sec).unwrap_or(0));
    Moment { wall, steady: secs.plus(Millis(u64::try_from(steady.tv_nsec).unwrap_or(0) / 1_000_000)) }
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
