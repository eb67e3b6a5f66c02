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
    match command {
        Command::List(args) => list::run(args, context),
        Command::Groups(_) => groups::run(context),
        Command::Show(args) => show::run(args, context),
        Command::Retry(args) => retry::run(args, context),
        Command::Delete(args) => delete::run(args, context),
        Command::Stats(_) => stats::run(context),
    }
}
