//! `wasmq symbols list`: for which components there are symbols.

use serde_json::{Value, json};

use super::words_of;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::cli::output::time;
use crate::queue::{KeptState, KeptSymbols};

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
            symbols(&kept.state),
            size_bytes(&kept.state).map_or_else(|| Cell::plain(""), |size| Cell::plain(time::bytes(size))),
        ]);
    }
    context.out.table(&table)?;
    Ok(Exit::Ok)
}

fn versions(kept: &KeptSymbols) -> Vec<String> {
    kept.versions.iter().map(|(task, version)| format!("{task}@{version}")).collect()
}

fn symbols(state: &KeptState) -> Cell {
    match state {
        KeptState::Whole { described, .. } => Cell::plain(words_of(*described)),
        KeptState::Damaged => Cell::new("damaged", Tone::Bad),
        KeptState::Unreadable { why } => Cell::new(format!("cannot be read: {why}"), Tone::Bad),
    }
}

const fn size_bytes(state: &KeptState) -> Option<u64> {
    match state {
        KeptState::Whole { size_bytes, .. } => Some(*size_bytes),
        KeptState::Damaged | KeptState::Unreadable { .. } => None,
    }
}

fn as_json(kept: &KeptSymbols) -> Value {
    let described = match kept.state {
        KeptState::Whole { described, .. } => Some(described),
        _ => None,
    };
    let why = match &kept.state {
        KeptState::Unreadable { why } => Some(why),
        _ => None,
    };
    json!({
        "component": kept.component,
        "versions": versions(kept),
        "names": described.map(|described| described.contents.names),
        "lines": described.map(|described| described.contents.lines),
        "modules": described.map(|described| described.modules),
        "described": described.map(|described| described.described),
        "damaged": kept.state == KeptState::Damaged,
        "unreadable": why,
        "size_bytes": size_bytes(&kept.state).unwrap_or_default(),
    })
}
