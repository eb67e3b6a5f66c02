//! The supervisor: the process of `wasmq serve`. It starts workers, restarts those that die, routes
//! requests to the least loaded one and collects their figures. It runs no guest code and owns no
//! durable state, so its death loses nothing.
//!
//! One task, the hub, owns all of its state; sockets and child processes are tasks that send it
//! messages.
//!
//! Invariants: a request is answered exactly once, also when the worker that had it dies; a worker
//! that dies is started again with a growing pause.

mod children;
mod hub;
mod listener;
mod slot;
mod socket;

use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

pub use hub::{ServerFigures, WITH_PROGRESS, WorkerStatus};
pub use socket::{connect, servers};

use crate::clock::Stopwatch;
use crate::worker::WorkerConfig;
use hub::{Event, Hub};

/// How a server works.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// How many workers.
    pub workers: usize,
    /// What each of them is told.
    pub worker: WorkerConfig,
    /// The program that a worker runs, with the arguments before its configuration.
    pub program: (PathBuf, Vec<String>),
}

/// Why a server could not start or run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The local socket cannot be made.
    #[error("cannot listen on a local socket in {}", dir.display())]
    Listen {
        /// The directory for sockets.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The process cannot be set up.
    #[error("cannot set up the server")]
    Setup(#[from] std::io::Error),
}

/// Runs a server until a signal ends it. `ready` is called once requests are answered.
///
/// # Errors
/// When it cannot start. Workers that die are not an error.
pub fn serve(options: ServeOptions, ready: impl FnOnce()) -> Result<(), ServeError> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        let (events, inbox) = tokio::sync::mpsc::unbounded_channel();
        let run_dir = crate::store::Layout::new(&options.worker.data_dir).run();
        let listening = listener::listen(&run_dir, options.worker.store, events.clone())
            .map_err(|source| ServeError::Listen { dir: run_dir, source })?;
        tokio::spawn(signals(events.clone()));
        tokio::spawn(ticks(events.clone()));
        let mut hub = Hub::new(options, events);
        hub.start_workers();
        ready();
        hub.run(inbox).await;
        listening.remove();
        tracing::info!("stopped");
        Ok(())
    })
}

/// Turns the first SIGTERM or SIGINT into an orderly stop and the second into a hurried one. A terminal, a shell
/// and whoever started this each pass on one press of Ctrl-C, so those that come together are one.
async fn signals(events: tokio::sync::mpsc::UnboundedSender<Event>) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be handled; only killing stops this server");
        return;
    };
    let mut last: Option<Stopwatch> = None;
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if last.is_some_and(|since| since.elapsed() < TOGETHER) {
            continue;
        }
        last = Some(Stopwatch::start());
        if events.send(Event::Stop).is_err() {
            return;
        }
    }
}

/// Lets the hub notice what does not happen.
async fn ticks(events: tokio::sync::mpsc::UnboundedSender<Event>) {
    loop {
        tokio::time::sleep(TICK).await;
        if events.send(Event::Tick).is_err() {
            return;
        }
    }
}

/// Signals that come within this time are one.
const TOGETHER: Duration = Duration::from_millis(300);
/// How often the hub looks for workers that say nothing.
const TICK: Duration = Duration::from_secs(1);
/// How long after the grace time a worker that does not end is killed.
const PATIENCE: Duration = Duration::from_secs(5);
