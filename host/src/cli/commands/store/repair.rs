//! `wasmq store repair`: set aside what is damaged, so that the rest is served.

use super::verify;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::queue::{Repair, repair_store};

/// Set aside what is damaged, so that the rest is served.
///
/// Damaged bytes of logs and lines of the dead letter queue move to files beside them, a damaged registry
/// is replaced by its copy, and leftovers are removed. Nothing that was set aside is ever deleted. What a
/// running process owns, and what another version wrote, is left and named. Doing it twice, or again after
/// it was killed, changes nothing more. Then everything is verified, as by wasmq store verify.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wasmq store repair\n  wasmq store repair --json | jq .done")]
pub struct Args {}

/// Repairs, and shows what was done and what is left.
///
/// # Errors
/// When the data directory cannot be used.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let repair = repair_store(&context.config.data)?;
    let exit = if repair.failures.is_empty() { verify::exit(&repair.left) } else { Exit::Store };
    if context.out.is_json() {
        context.out.json(&repair)?;
        return Ok(exit);
    }
    done(context, &repair)?;
    for failure in &repair.failures {
        context.out.line(format_args!("failed: {}", crate::cli::output::safe::safe(failure)))?;
    }
    verify::findings(context, &repair.left)?;
    context.out.line(verify::summary(&repair.left))?;
    context.note_no_directory();
    Ok(exit)
}

fn done(context: &mut Context, repair: &Repair) -> Result<(), CliError> {
    if repair.done.is_empty() {
        return context.out.line("nothing was to be repaired");
    }
    let mut table = Table::new(&["REPAIRED", "WHAT WAS DONE"]).unabridged();
    for mended in &repair.done {
        table.row([Cell::new(verify::short(context, &mended.path), Tone::Good), Cell::plain(&mended.what)]);
    }
    context.out.table(&table)
}
