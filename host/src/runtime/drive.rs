//! Drives an attempt: stops it at its deadline and measures the time spent inside it.
//!
//! Invariants: the deadline is looked at after every turn, so a spinning guest that yields at each
//! epoch tick ends within one tick of it, whatever else the executor has to do. The time from such a
//! yield to the next turn does not count: it is the other guests', and an attempt must not time out
//! because its worker is busy. A timer is only registered once the attempt has really waited, so an
//! attempt that ends in its first turn pays nothing for its deadline.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elapsed;

thread_local! {
    /// Whether the turn that runs on this thread ended because the epoch advanced.
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

/// Gives the others on the thread a turn; for the engine to wait on when the epoch has advanced. Tokio's own
/// yield lets timers and sockets have their turn too.
pub(super) async fn interrupted() {
    INTERRUPTED.set(true);
    tokio::task::yield_now().await;
}

/// A future with a deadline and a stop-watch.
pub(super) struct Driven<'a, F> {
    inner: Pin<&'a mut F>,
    deadline: Instant,
    busy: &'a mut Duration,
    /// When it was interrupted, if it has not had a turn since.
    interrupted_at: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<'a, F: Future> Driven<'a, F> {
    /// `busy` receives the time spent inside `inner`.
    pub(super) fn new(inner: Pin<&'a mut F>, deadline: Instant, busy: &'a mut Duration) -> Self {
        Self { inner, deadline, busy, interrupted_at: None, sleep: None }
    }

    /// Waits with a timer for the deadline as it is now.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(context)
    }
}

impl<F: Future> Future for Driven<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let started = Instant::now();
        if let Some(since) = this.interrupted_at.take() {
            this.deadline += started - since;
        }
        if this.sleep.is_some() && started >= this.deadline {
            return Poll::Ready(Err(Elapsed));
        }
        INTERRUPTED.set(false);
        let turn = this.inner.as_mut().poll(context);
        let ended = Instant::now();
        *this.busy += ended - started;
        if let Poll::Ready(output) = turn {
            return Poll::Ready(Ok(output));
        }
        if ended >= this.deadline {
            return Poll::Ready(Err(Elapsed));
        }
        if INTERRUPTED.get() {
            // It is woken already, so it needs no timer.
            this.interrupted_at = Some(ended);
            return Poll::Pending;
        }
        this.poll_deadline(context).map(|()| Err(Elapsed))
    }
}
