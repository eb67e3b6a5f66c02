//! `wasmq store verify`: read everything and say what is wrong.

use std::path::Path;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::findings::REPAIR;
use crate::queue::{Check, Effect, verify_store};

/// Read every file of the data directory and say what is damaged.
///
/// Changes nothing and works beside running servers. Each finding says the file and the place, what it
/// means (lost: it cannot be read any more; waits: it is not served until somebody acts; set aside: kept
/// from an earlier damage; harmless), what is wrong, and what to do. Leaves with 0 when nobody has to act,
/// else with 11. The cache and the content of the reserve mean nothing and are not read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wasmq store verify\n  wasmq store verify --json | jq .findings[].path")]
pub struct Args {}

/// Shows what is damaged.
///
/// # Errors
/// When the data directory cannot be used.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let check = verify_store(&context.config.data)?;
    if context.out.is_json() {
        context.out.json(&check)?;
        return Ok(exit(&check));
    }
    findings(context, &check)?;
    context.out.line(summary(&check))?;
    if check.findings.iter().any(|finding| finding.todo.contains(REPAIR)) {
        let command = format!("{} store repair", context.program());
        context.out.next_step("what can be repaired is repaired by", &command);
    }
    context.note_no_directory();
    Ok(exit(&check))
}

/// How a check ends.
pub(super) fn exit(check: &Check) -> Exit {
    if check.is_sound() { Exit::Ok } else { Exit::Damaged }
}

/// A line for each finding.
pub(super) fn findings(context: &mut Context, check: &Check) -> Result<(), CliError> {
    if check.findings.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["FILE", "PLACE", "MEANS", "WHAT AND WHAT TO DO"]).unabridged();
    for finding in &check.findings {
        let tone = match finding.effect {
            Effect::Lost => Tone::Bad,
            Effect::Waits => Tone::Warn,
            Effect::SetAside | Effect::Harmless => Tone::Plain,
        };
        table.row([
            Cell::plain(short(context, &finding.path)),
            Cell::plain(finding.place),
            Cell::new(finding.effect.word(), tone),
            Cell::plain(format!("{}; to do: {}", finding.what, finding.todo)),
        ]);
    }
    context.out.table(&table)
}

/// The path inside the data directory.
pub(super) fn short(context: &Context, path: &Path) -> String {
    path.strip_prefix(&context.config.data).unwrap_or(path).display().to_string()
}

/// "12 files, 3402 records, 2 findings".
pub(super) fn summary(check: &Check) -> String {
    let Check { files, records, findings } = check;
    [
        time::count(*files, "file", "files"),
        time::count(*records, "record", "records"),
        time::count(findings.len() as u64, "finding", "findings"),
    ]
    .join(", ")
}
