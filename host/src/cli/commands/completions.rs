//! `wasmq completions`: completions for a shell.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::args::Cli;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Write the completions for a shell to stdout.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq completions bash > ~/.local/share/bash-completion/completions/wasmq
  wasmq completions zsh > ~/.zfunc/_wasmq
  wasmq completions fish > ~/.config/fish/completions/wasmq.fish")]
pub struct Args {
    /// The shell.
    pub shell: Shell,
}

/// Writes the completions.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wasmq", &mut script);
    context.out.raw(&script)?;
    Ok(Exit::Ok)
}
