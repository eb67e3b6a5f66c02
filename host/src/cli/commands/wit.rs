//! `wasmq wit`: the WIT package for task authors.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::safe::safe;
use crate::scaffold::{self, PACKAGE, Written};

/// Write the WIT package that tasks are built against.
///
/// It is the very package that this wasmq speaks: types.wit, handler.wit, host.wit and world.wit.
/// Files that hold just that are left alone. When one holds something else, nothing is written
/// without --force.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq wit                       into the folder wit
  wasmq wit my-task/wit --force   bring an older package up to date
  wasmq wit --stdout > task.wit   as one document")]
pub struct Args {
    /// The directory. It is created when it is missing.
    #[arg(default_value = "wit")]
    pub dir: PathBuf,
    /// Replace files that hold something else.
    #[arg(long)]
    pub force: bool,
    /// Print the package as one document and write no file.
    #[arg(long, conflicts_with_all = ["dir", "force"])]
    pub stdout: bool,
}

/// Writes the package and lists its files; with JSON an object a file.
///
/// # Errors
/// When a file holds something else, or the directory or stdout cannot be written.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let out = &mut context.out;
    if args.stdout {
        let document = scaffold::merged();
        if out.is_json() {
            out.json(&json!({ "package": PACKAGE, "document": document }))?;
        } else {
            out.raw(document.as_bytes())?;
        }
        return Ok(Exit::Ok);
    }
    let files = scaffold::write(&args.dir, args.force)?;
    for (path, written) in &files {
        let word = word(*written);
        let path = path.display().to_string();
        if out.is_json() {
            out.json(&json!({ "package": PACKAGE, "path": path, "state": word }))?;
        } else {
            out.line(format_args!("{word} {}", safe(&path)))?;
        }
    }
    out.note(PACKAGE);
    Ok(Exit::Ok)
}

const fn word(written: Written) -> &'static str {
    match written {
        Written::New => "written",
        Written::Unchanged => "unchanged",
        Written::Replaced => "replaced",
    }
}
