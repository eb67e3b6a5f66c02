//! `wasmq store`: whether what is on the disk is whole.

pub mod repair;
pub mod verify;

use clap::Subcommand;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// The commands about the files of the data directory.
#[derive(Debug, Subcommand)]
pub enum Command {
    Verify(verify::Args),
    Repair(repair::Args),
}

/// Runs one of the commands about the files of the data directory.
///
/// # Errors
/// As the command says.
pub fn run(command: &Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Verify(_) => verify::run(context),
        Command::Repair(_) => repair::run(context),
    }
}
