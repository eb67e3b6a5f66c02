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

use std::io;
use std::thread;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use self::stage::Stage;
use crate::cli::error::CliError;
use crate::cli::output::Output;

/// Tells the story.
///
/// # Errors
/// The first step that did not show what it should, or the interruption.
pub fn run(out: &mut Output) -> Result<(), CliError> {
    let signals = Signals::listen([SignalKind::interrupt(), SignalKind::terminate()])
        .map_err(|source| CliError::Demo(format!("cannot handle signals: {source}")))?;
    let stage = Stage::set_up(out)?;
    let (told, end) = oneshot::channel();
    let result = thread::scope(|scope| {
        let story = scope.spawn(|| {
            let result = story::tell(&stage, out);
            let _ = told.send(());
            result
        });
        stage.interrupt_if(signals.come_before(end));
        story.join().unwrap_or_else(|_| Err(CliError::Demo("the story broke off; this is a fault of wasmq".to_owned())))
    });
    let cleaned = stage.clean_up();
    result.and(cleaned)
}

/// Signals that, from [`Signals::listen`] on and until the process ends, end the story and not the
/// process. So they must be listened to before there is anything to clean up.
struct Signals {
    tokio: Runtime,
    streams: [Signal; 2],
}

impl Signals {
    fn listen(kinds: [SignalKind; 2]) -> io::Result<Self> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = tokio.enter();
        let streams = [signal(kinds[0])?, signal(kinds[1])?];
        drop(entered);
        Ok(Self { tokio, streams })
    }

    /// Waits for the end of the story; true when a signal came first, be it before this call.
    fn come_before(self, end: oneshot::Receiver<()>) -> bool {
        let Self { tokio, streams: [mut one, mut other] } = self;
        tokio.block_on(async {
            tokio::select! {
                _ = end => false,
                _ = one.recv() => true,
                _ = other.recv() => true,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal as Number, getpid, kill_process};

    use super::*;

    #[test]
    fn a_signal_that_came_before_the_story_began_ends_it() {
        for number in [Number::USR1, Number::USR2] {
            let signals = Signals::listen([SignalKind::user_defined1(), SignalKind::user_defined2()]).unwrap();
            kill_process(getpid(), number).unwrap();
            let (_story, end) = oneshot::channel();
            assert!(signals.come_before(end));
        }
    }

    #[test]
    fn a_story_that_ends_by_itself_was_not_interrupted() {
        let signals = Signals::listen([SignalKind::window_change(), SignalKind::hangup()]).unwrap();
        let (story, end) = oneshot::channel();
        story.send(()).unwrap();
        assert!(!signals.come_before(end));
    }
}
