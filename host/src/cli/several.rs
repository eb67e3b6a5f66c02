//! The end of a command that was asked to do something with several things: what was refused, and
//! the exit code that follows.
//!
//! Invariants: all done is 0; none done is the code of the first refusal; anything between is
//! "partly", 7. Every refusal is told on stderr with its own message and hint.

use super::context::Context;
use super::error::CliError;
use super::exit::Exit;

/// How many refusals a person is told in full.
const MAX_TOLD: usize = 20;

/// Collects what was done and what was refused.
#[derive(Debug, Default)]
pub struct Several {
    done: u64,
    refused: Vec<(String, CliError)>,
}

impl Several {
    /// One more was done.
    pub const fn done(&mut self) {
        self.done += 1;
    }

    /// One was refused.
    pub fn refused(&mut self, id: String, error: CliError) {
        self.refused.push((id, error));
    }

    /// Tells about the refusals.
    ///
    /// # Errors
    /// The refusal itself, when there was exactly one and nothing was done.
    pub fn finish(mut self, context: &mut Context) -> Result<Exit, CliError> {
        context.out.flush()?;
        if self.done == 0
            && self.refused.len() == 1
            && let Some((_, error)) = self.refused.pop()
        {
            return Err(error);
        }
        let exit = match self.refused.first() {
            None => Exit::Ok,
            Some(_) if self.done > 0 => Exit::Partly,
            Some((_, error)) => error.describe().exit,
        };
        let told = if context.out.is_json() { self.refused.len() } else { MAX_TOLD };
        for (id, error) in self.refused.iter().take(told) {
            context.out.error(&error.describe(), Some(id));
        }
        if let Some(more) = self.refused.len().checked_sub(MAX_TOLD + 1) {
            context.out.note(format_args!("… and {} more like that; --json tells them all", more + 1));
        }
        Ok(exit)
    }
}
