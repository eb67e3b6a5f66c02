//! `wasmq dlq show`: the whole story of a dead task, for the person who was woken up by it.

use crate::cli::candidates::explained;
use crate::cli::commands::show::show_dead;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::values::IdArg;

/// Show the whole story of a dead task.
///
/// What ran, on which bytes, how every attempt ended, the error or trap with its backtrace, what it
/// wrote, its limits and what it used, its earlier deaths, and what to type next.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq dlq show 01935d2c-7b3e-7cc0-98c4-dc0c0c07398f
  wasmq dlq show 01935d2c-7b3e --full | less
  wasmq dlq show 01935d2c-7b3e --payload > payload.bin
  wasmq dlq show 01935d2c-7b3e --json | jq .failure.trap.frames")]
pub struct Args {
    /// The id, or at least its first 8 characters.
    pub id: IdArg,
    /// Write only the payload, byte for byte.
    #[arg(long)]
    pub payload: bool,
    /// Leave out nothing: every frame of the backtrace, every line of what the task wrote.
    #[arg(long, conflicts_with = "payload")]
    pub full: bool,
}

/// Shows it, or writes its payload.
///
/// # Errors
/// When the id is unknown or ambiguous, is not dead, or the dead letter queue cannot be read.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    let dead = queue.dead_tasks().get(&args.id.to_string()).map_err(|error| explained(error, &queue))?;
    if args.payload && context.out.is_json() {
        context.out.json(&dead.payload)?;
    } else if args.payload {
        context.out.content(&dead.payload.0)?;
    } else {
        show_dead(&dead, args.full, context)?;
    }
    Ok(Exit::Ok)
}
