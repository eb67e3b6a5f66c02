//! `wasmq demo`: the whole story in a temporary directory.

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Show the whole story in a temporary directory: fail, look, fix, retry.
///
/// Deploys a task with a fault, runs it on real files, shows what failed and why, deploys a repaired
/// version and retries with it. Each step prints the command you would type and what it prints.
///
/// Everything happens in a temporary directory that is removed at the end.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  wasmq demo")]
pub struct Args {}

/// Tells the story.
///
/// # Errors
/// The first step that did not show what it should.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    crate::demo::run(&mut context.out)?;
    Ok(Exit::Ok)
}
