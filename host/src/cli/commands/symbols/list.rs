//! `wasmq symbols list`: for which components there are symbols.

use serde_json::{Value, json};

use super::words;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::queue::KeptSymbols;

/// List the components that symbols were added for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wasmq symbols list\n  wasmq symbols list --json | jq -r .component")]
pub struct Args {}

/// Shows them.
///
/// # Errors
/// When the registry cannot be read.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let all = context.queue()?.symbols()?;
    if context.out.is_json() {
        all.iter().try_for_each(|kept| context.out.json(&as_json(kept)))?;
        return Ok(Exit::Ok);
    }
    if all.is_empty() {
        let command = format!("{} symbols add COMPONENT FILE.wasm", context.program());
        context.out.next_step("no symbols were added; to add some", &command);
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["COMPONENT", "VERSIONS", "SYMBOLS", ">SIZE"]).uncut();
    for kept in &all {
        let versions = versions(kept);
        table.row([
            Cell::new(kept.component.short(), Tone::Strong),
            if versions.is_empty() { Cell::new("none", Tone::Faint) } else { Cell::plain(versions.join(" ")) },
            kept.contents.map_or_else(|| Cell::new("damaged", Tone::Bad), |contents| Cell::plain(words(contents))),
            Cell::plain(time::bytes(kept.size_bytes)),
        ]);
    }
    context.out.table(&table)?;
    Ok(Exit::Ok)
}

fn versions(kept: &KeptSymbols) -> Vec<String> {
    kept.versions.iter().map(|(task, version)| format!("{task}@{version}")).collect()
}

fn as_json(kept: &KeptSymbols) -> Value {
    json!({
        "component": kept.component,
        "versions": versions(kept),
        "names": kept.contents.map(|contents| contents.names),
        "lines": kept.contents.map(|contents| contents.lines),
        "damaged": kept.contents.is_none(),
        "size_bytes": kept.size_bytes,
    })
}
