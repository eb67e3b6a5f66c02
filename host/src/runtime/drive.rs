//! Drives an attempt: stops it at its deadline and measures the time spent inside it.
//!
//! Invariants: the deadline is looked at after every turn, so a spinning guest that yields at each
//! epoch tick ends within one tick of it, whatever else the executor has to do. A timer is only
//! registered once the attempt has really waited, so an attempt that ends in its first turn pays
//! nothing for its deadline.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elapsed;

/// A future with a deadline and a stop-watch.
pub(super) struct Driven<'a, F> {
    inner: Pin<&'a mut F>,
    deadline: Instant,
    busy: &'a mut Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<'a, F: Future> Driven<'a, F> {
    /// `busy` receives the time spent inside `inner`.
    pub(super) fn new(inner: Pin<&'a mut F>, deadline: Instant, busy: &'a mut Duration) -> Self {
        Self { inner, deadline, busy, sleep: None }
    }
}

impl<F: Future> Future for Driven<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let started = Instant::now();
        if this.sleep.is_some() && started >= this.deadline {
            return Poll::Ready(Err(Elapsed));
        }
        let turn = this.inner.as_mut().poll(context);
        let ended = Instant::now();
        *this.busy += ended - started;
        if let Poll::Ready(output) = turn {
            return Poll::Ready(Ok(output));
        }
        if ended >= this.deadline {
            return Poll::Ready(Err(Elapsed));
        }
        let deadline = this.deadline;
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        sleep.as_mut().poll(context).map(|()| Err(Elapsed))
    }
}
