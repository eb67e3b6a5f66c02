//! The story of `wasmq demo`: real files, a task with a fault, the dead letter queue, a repaired
//! version. Told with the real program in a temporary directory.
//!
//! Invariants: every command that is shown is run as it is shown, by this very program, and its
//! output is what it printed; whatever happens (a step that fails, Ctrl-C), the server is stopped
//! and the directory removed before this returns.
//!
//! Deliberately absent: sleeping for luck; the story waits for what it wants to show.

mod files;
mod stage;
mod story;

use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use self::stage::Stage;
use crate::cli::error::CliError;
use crate::cli::output::Output;

/// Tells the story.
///
/// # Errors
/// The first step that did not show what it should, or the interruption.
pub fn run(out: &mut Output) -> Result<(), CliError> {
    let stage = Stage::set_up(out)?;
    let (told, end) = oneshot::channel();
    let result = thread::scope(|scope| {
        let story = scope.spawn(|| {
            let result = story::tell(&stage, out);
            let _ = told.send(());
            result
        });
        let watched = watch(end);
        stage.interrupt_if(!matches!(watched, Ok(false)));
        story.join().unwrap_or_else(|_| Err(CliError::Demo("the story broke off; this is a fault of wasmq".to_owned())))
    });
    let cleaned = stage.clean_up();
    result.and(cleaned)
}

/// Waits for the end of the story; true when a signal came first.
fn watch(end: oneshot::Receiver<()>) -> std::io::Result<bool> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(tokio::select! {
            _ = end => false,
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
        })
    })
}
