//! `wasmq cancel`: live invocations that shall not run any more.

use serde_json::json;

use crate::cli::candidates::explained;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::several::Several;
use crate::cli::values::IdArg;

/// Cancel live invocations.
///
/// One that waits never starts. One that runs is told, if it asks whether it is cancelled, and has a second to end
/// by itself; any other is stopped at once. Nothing of them is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  wasmq cancel 01935d2c-7b3e-7cc0-98c4-dc0c0c07398f")]
pub struct Args {
    /// The ids, or at least their first 8 characters.
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<IdArg>,
}

/// Cancels them, each for itself.
///
/// # Errors
/// When none could be cancelled.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    let mut several = Several::default();
    for id in &args.ids {
        match queue.cancel(&id.to_string()) {
            Ok(id) => {
                several.done();
                let line = format!("cancelled {id}");
                if context.out.is_json() {
                    context.out.json(&json!({ "id": id, "cancelled": true }))?
                } else {
                    context.out.line(line)?
                }
            }
            Err(error) => several.refused(id.to_string(), explained(error, &queue)),
        }
    }
    several.finish(context)
}
