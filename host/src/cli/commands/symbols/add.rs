//! `wasmq symbols add`: keep the names and lines of an unstripped build.

use std::path::PathBuf;

use super::{component_name, words_of};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::read_symbols;
use crate::cli::output::time;
use crate::queue::{AddedSymbols, ComponentName, MAX_SYMBOLS_BYTES};

/// Add names and lines for the backtraces of a component that was deployed without them.
///
/// FILE is an unstripped build of the same code: the component before it was stripped, or the core module that
/// it was made of. It is accepted only when its code is byte for byte that of the component. What it says of
/// functions is kept beside the component, which does not change; whatever was added before is replaced.
/// Backtraces have it from now on wherever they are shown, also those of tasks that are dead already.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq symbols add resize target/wasm32-wasip2/release/resize.wasm
  wasmq symbols add resize@v2 resize-v2.debug.wasm
  wasmq symbols add sha256:0f1e2d3c4b5a resize.debug.wasm

Leaves with 6 and a sentence that says why when the file is of other code, or has been stripped too.")]
pub struct Args {
    /// The component: TASK for its current version, TASK@v2, TASK@LABEL, or sha256: and at least 12 digits.
    #[arg(value_name = "COMPONENT", value_parser = component_name)]
    pub component: ComponentName,
    /// The unstripped .wasm file.
    pub file: PathBuf,
}

/// Adds them.
///
/// # Errors
/// When there is no such component, the file cannot be read or is refused, or the disk is full or fails.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    let component = queue.find_component(&args.component)?;
    let file = read_symbols(&args.file, MAX_SYMBOLS_BYTES)?;
    let added = queue.add_symbols(component, &file)?;
    if context.out.is_json() {
        context.out.json(&added)?;
    } else {
        context.out.line(sentence(&added))?;
    }
    Ok(Exit::Ok)
}

fn sentence(added: &AddedSymbols) -> String {
    let AddedSymbols { component, described, replaced, size_bytes } = added;
    let done = if *replaced { "replaced the symbols of" } else { "added symbols for" };
    format!("{done} {}: {} ({})", component.short(), words_of(*described), time::bytes(*size_bytes))
}
