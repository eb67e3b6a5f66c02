//! The clock that interrupts guests: a thread that advances the engine's epoch every 10 ms.
//!
//! Invariants: while an attempt runs, the epoch advances, so no guest keeps a thread for longer than
//! one tick without giving the others a turn. With nothing to run for a second the thread parks and
//! the process is completely idle. Starting an attempt costs two atomic operations; only the first
//! attempt after an idle second wakes the thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::Engine;

/// The time between two ticks.
pub(super) const TICK: Duration = Duration::from_millis(10);
/// How many ticks without an attempt pass before the thread parks.
const IDLE_TICKS_BEFORE_PARKING: u32 = 100;

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    parked: AtomicBool,
    stopped: AtomicBool,
}

/// Owns the thread.
#[derive(Debug)]
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Says that an attempt is running for as long as it lives.
#[derive(Debug)]
pub(super) struct Running<'a>(&'a Shared);

impl Ticker {
    pub(super) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (ours, engine) = (Arc::clone(&shared), engine.clone());
        let thread = thread::Builder::new()
            .name("wasmq-epoch".into())
            .stack_size(128 * 1024)
            .spawn(move || tick(&ours, &engine))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Marks an attempt as running and makes sure that the epoch advances.
    pub(super) fn running(&self) -> Running<'_> {
        self.shared.running.fetch_add(1, SeqCst);
        // Pairs with `park_while_idle`: either we see the flag, or the thread sees our count.
        if self.shared.parked.load(SeqCst) {
            self.unpark();
        }
        Running(&self.shared)
    }

    /// How many attempts are running.
    pub(super) fn count(&self) -> usize {
        self.shared.running.load(SeqCst)
    }

    fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, SeqCst);
        self.unpark();
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that can panic; there is nobody to tell if it had.
            let _ = thread.join();
        }
    }
}

fn tick(shared: &Shared, engine: &Engine) {
    let mut idle_ticks = IDLE_TICKS_BEFORE_PARKING;
    while !shared.stopped.load(SeqCst) {
        if shared.running.load(SeqCst) > 0 {
            idle_ticks = 0;
        } else {
            idle_ticks += 1;
        }
        if idle_ticks > IDLE_TICKS_BEFORE_PARKING {
            park_while_idle(shared);
            idle_ticks = 0;
        } else {
            // A park and not a sleep, so that dropping the runtime does not wait for the tick.
            thread::park_timeout(TICK);
        }
        engine.increment_epoch();
    }
}

fn park_while_idle(shared: &Shared) {
    shared.parked.store(true, SeqCst);
    while shared.running.load(SeqCst) == 0 && !shared.stopped.load(SeqCst) {
        thread::park();
    }
    shared.parked.store(false, SeqCst);
}
