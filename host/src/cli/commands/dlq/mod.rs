//! `wasmq dlq`: what was given up.

pub mod delete;
pub mod groups;
pub mod list;
pub mod retry;
pub mod select;
pub mod show;
pub mod stats;

use clap::Subcommand;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::time;

/// The commands about dead tasks.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(list::Args),
    Groups(groups::Args),
    Show(show::Args),
    Retry(retry::Args),
    Delete(delete::Args),
    Stats(stats::Args),
}

/// Runs one of the commands about dead tasks.
///
/// # Errors
/// As the command says.
pub fn run(command: &Command, context: &mut Context) -> Result<Exit, CliError> {
    let exit = match command {
        Command::List(args) => list::run(args, context),
        Command::Groups(_) => groups::run(context),
        Command::Show(args) => show::run(args, context),
        Command::Retry(args) => retry::run(args, context),
        Command::Delete(args) => delete::run(args, context),
        Command::Stats(_) => stats::run(context),
    }?;
    context.note_absence()?;
    note_damage(context)?;
    Ok(exit)
}

/// Dead tasks on damaged lines are missing from every answer; whoever looks must know.
fn note_damage(context: &mut Context) -> Result<(), CliError> {
    let places = context.queue()?.dead_tasks().damage()?.len() as u64;
    if places > 0 {
        context.out.flush()?;
        let count = time::count(places, "damaged line", "damaged lines");
        let command = format!("{} status", context.program());
        context.out.next_step(&format!("{count} of the dead letter queue could not be read; where they are"), &command);
    }
    Ok(())
}
