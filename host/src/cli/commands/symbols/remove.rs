//! `wasmq symbols remove`: forget the names and lines that were added.

use serde_json::json;

use super::component_name;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::queue::ComponentName;

/// Remove the symbols that were added for a component.
///
/// Its backtraces are shown as they are stored again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wasmq symbols remove resize@v2\n  wasmq symbols remove sha256:0f1e2d3c4b5a")]
pub struct Args {
    /// The component: TASK for its current version, TASK@v2, TASK@LABEL, or sha256: and at least 12 digits.
    #[arg(value_name = "COMPONENT", value_parser = component_name)]
    pub component: ComponentName,
}

/// Removes them.
///
/// # Errors
/// When there is no such component, it has no symbols, or the disk fails.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    let component = queue.find_component(&args.component)?;
    queue.remove_symbols(component)?;
    if context.out.is_json() {
        context.out.json(&json!({ "component": component, "removed": true }))?;
    } else {
        context.out.line(format_args!("removed the symbols of {}", component.short()))?;
    }
    Ok(Exit::Ok)
}
