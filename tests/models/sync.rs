//! What threads of a model share: the checker's primitives, and a condition variable whose waits can end
//! because time passes, which the checker's own never do.

use std::cell::Cell;
use std::time::Duration;

pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};
pub(crate) use shuttle::thread;
pub(crate) use std::sync::{LockResult, PoisonError};

use crate::clock;

thread_local! {
    static TIME_PASSES: Cell<bool> = const { Cell::new(false) };
}

/// Whether waits with a limit end by themselves. If not, whoever is never woken waits for ever, which the
/// checker notices.
pub(crate) fn let_time_pass(passes: bool) {
    TIME_PASSES.set(passes);
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(Arc<shuttle::sync::Condvar>);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// The second part, whether the time is over, is never asked for by the product.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        if TIME_PASSES.get() {
            let condition = Arc::clone(&self.0);
            thread::spawn(move || {
                clock::pass(limit);
                condition.notify_all();
            });
        }
        Ok((self.0.wait(guard).unwrap_or_else(PoisonError::into_inner), ()))
    }
}
