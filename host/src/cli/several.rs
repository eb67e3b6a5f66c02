//! The end of a command that was asked to do something with several things: what was refused, and
//! the exit code that follows.
//!
//! Invariants: all done is 0; none done is the code of the first refusal; anything between is
//! "partly", 7. Every refusal is told on stderr with its own message and hint.

use super::context::Context;
use super::error::{CliError, Description};
use super::exit::Exit;

/// How many refusals a person is told in full.
const MAX_TOLD: usize = 20;
/// How many ids of one reason a person is told.
const MAX_IDS: usize = 3;

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
        if context.out.is_json() {
            self.refused.iter().for_each(|(id, error)| context.out.error(&error.describe(), Some(id)));
        } else {
            self.tell_person(context);
        }
        Ok(exit)
    }

    /// Tells each reason once, with the ids it is true of.
    fn tell_person(&self, context: &mut Context) {
        let mut reasons: Vec<(Description, Vec<&str>)> = Vec::new();
        for (id, error) in &self.refused {
            let description = error.describe();
            if let Some((_, ids)) = reasons.iter_mut().find(|(known, _)| *known == description) {
                ids.push(id);
            } else if reasons.len() < MAX_TOLD {
                reasons.push((description, vec![id]));
            }
        }
        let told: usize = reasons.iter().map(|(_, ids)| ids.len()).sum();
        for (description, ids) in &reasons {
            context.out.error(description, None);
            if !ids.iter().all(|id| description.message.contains(id)) {
                context.out.note(format_args!("that is so for {}", listed(ids)));
            }
        }
        if told < self.refused.len() {
            context.out.note(format_args!("… and {} more; --json tells them all", self.refused.len() - told));
        }
    }
}

/// A few ids, and how many more there are.
fn listed(ids: &[&str]) -> String {
    let shown: Vec<_> = ids.iter().take(MAX_IDS).copied().collect();
    match ids.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
