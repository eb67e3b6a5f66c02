//! `wasmq dev`: watches a task's folder, and builds, deploys and runs it on every change.
//!
//! | file | duty |
//! |---|---|
//! | [`project`] | reads `task.toml` |
//! | [`tree`] | which files are watched, which have changed |
//! | [`alarm`] | wakes when something moves |
//! | [`habits`] | tells a build's own files from those that somebody edits |
//! | [`build`] | the build in its process group |
//! | [`trial`] | deploys, enqueues and waits, on a thread of its own |
//! | [`rounds`] | the loop over all of them |
//! | [`show`] | how it looks |
//!
//! Invariants: it talks to the queue as any command does, so what it leaves behind is an ordinary store with
//! ordinary dead tasks; Ctrl-C leaves neither a process of the build nor a live invocation. It removes old versions
//! from a store of its own only. Nothing that others remove meanwhile ends it: folders are waited for, the store is
//! made anew.
//!
//! Deliberately absent: compilers, and knowledge of any language; the project says how it is built.

mod alarm;
mod build;
pub(crate) mod error;
mod event;
mod habits;
mod project;
mod rounds;
mod show;
mod tree;
mod trial;

use std::sync::mpsc::Sender;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

pub use self::error::DevError;
use self::event::Event;
pub use self::rounds::Plan;
use self::rounds::Rounds;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::Output;
use crate::queue::Queue;

/// Where everything is stored, in the folder of the project.
pub const DATA: &str = ".wasmq";
/// How many of the latest versions stay there.
pub const KEPT_VERSIONS: usize = 3;

/// Develops until a signal comes, or for one round.
///
/// # Errors
/// When the project is wrong, or stdout cannot be written; of one round also why it came to no attempt.
pub fn run(plan: Plan, queue: Queue, out: &mut Output) -> Result<Exit, CliError> {
    let mut rounds = Rounds::new(plan, queue, out)?;
    listen(rounds.events())?;
    rounds.run()
}

/// Tells of signals from now on, instead of being ended by them.
fn listen(events: Sender<Event>) -> Result<(), DevError> {
    let wrong = |source| DevError::System { doing: "handle signals", source };
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(wrong)?;
    let entered = tokio.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(wrong)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(wrong)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(wrong)?;
    drop(entered);
    let told = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        tokio.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if events.send(Event::Signal).is_err() {
                    return;
                }
            }
        });
    });
    told.map(drop).map_err(wrong)
}
