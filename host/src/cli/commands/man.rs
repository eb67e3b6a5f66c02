//! `wasmq man`: man pages.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use crate::cli::args::Cli;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::safe::safe;

/// Write a man page for every command into a directory.
///
/// The directory is created when it is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  wasmq man ~/.local/share/man/man1")]
pub struct Args {
    /// The directory.
    pub dir: PathBuf,
}

/// Writes the pages and lists them; with JSON a text a line.
///
/// # Errors
/// When the directory or stdout cannot be written.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    make_dir(&args.dir)?;
    let mut root = Cli::command();
    root.build();
    write_pages(&root, &args.dir, context)?;
    Ok(Exit::Ok)
}

fn write_pages(command: &clap::Command, dir: &Path, context: &mut Context) -> Result<(), CliError> {
    let page = clap_mangen::Man::new(command.clone());
    let path = dir.join(page.get_filename());
    page.generate_to(dir).map_err(CliError::from_file("write", &path))?;
    let shown = path.display().to_string();
    if context.out.is_json() {
        context.out.json(&shown)?
    } else {
        context.out.line(safe(&shown))?
    }
    let children = command.get_subcommands().filter(|child| !child.is_hide_set());
    children.into_iter().try_for_each(|child| write_pages(child, dir, context))
}

#[allow(clippy::disallowed_methods)] // What a user names on the command line is not part of the store.
fn make_dir(dir: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(dir).map_err(CliError::from_file("create", dir))
}
