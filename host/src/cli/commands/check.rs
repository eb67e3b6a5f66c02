//! `wasmq check`: what a component is, and whether it could be deployed.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::read_component;
use crate::cli::output::Output;
use crate::cli::output::paint::Tone;
use crate::cli::output::time;
use crate::queue::{Inspection, QueueError, Shape, inspect};
use crate::runtime::MAX_COMPONENT_BYTES;

/// Say what a component exports and imports, and whether it could be deployed.
///
/// Nothing is compiled or stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq check resize.wasm
  wasmq check resize.wasm --json

Leaves with 6 and a sentence that says what is missing when the file would be refused.")]
pub struct Args {
    /// The .wasm file.
    pub file: PathBuf,
}

/// Shows what the component is.
///
/// # Errors
/// When the file cannot be read, or would be refused.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let bytes = read_component(&args.file, MAX_COMPONENT_BYTES)?;
    let found = inspect(&bytes).map_err(QueueError::Refused)?;
    if context.out.is_json() {
        context.out.json(&as_json(&found))?;
    } else {
        show(&mut context.out, &found, &args.file.display().to_string())?;
    }
    Ok(Exit::Ok)
}

const fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Typed => "handler",
        Shape::Command => "command",
    }
}

fn as_json(found: &Inspection) -> serde_json::Value {
    json!({
        "shape": word(found.shape),
        "digest": found.digest,
        "size_bytes": found.size_bytes,
        "wit": found.wit_version,
        "imports": found.imports,
        "exports": found.exports,
        "has_names": found.has_names,
        "has_debug_info": found.has_debug_info,
        "languages": found.languages,
        "producers": found.producers,
    })
}

fn show(out: &mut Output, found: &Inspection, file: &str) -> Result<(), CliError> {
    let mut sheet = out.sheet();
    sheet.heading("COMPONENT", file);
    let shape = match found.shape {
        Shape::Typed => format!("a task: exports wasmq:task/handler@{}", found.wit_version),
        Shape::Command => "a command: payload on stdin, output from stdout, exit code as verdict".to_owned(),
    };
    let yes = |has: bool, yes: &str, no: &str| if has { yes.to_owned() } else { no.to_owned() };
    let mut facts = vec![
        ("can be deployed", shape, Tone::Good),
        ("digest", found.digest.to_string(), Tone::Plain),
        ("size", format!("{} ({} bytes)", time::bytes(found.size_bytes), found.size_bytes), Tone::Plain),
        ("backtraces", yes(found.has_names, "with function names", "without function names"), Tone::Plain),
        ("debug info", yes(found.has_debug_info, "yes: backtraces name files and lines", "no"), Tone::Plain),
    ];
    facts.extend(found.languages.iter().map(|language| ("language", language.clone(), Tone::Plain)));
    facts.extend(found.producers.iter().map(|tool| ("made by", tool.clone(), Tone::Plain)));
    sheet.facts(&facts);
    names(&mut sheet, "EXPORTS", &found.exports);
    names(&mut sheet, "IMPORTS", &found.imports);
    out.page(sheet)
}

fn names(sheet: &mut crate::cli::render::sheet::Sheet, title: &str, names: &[String]) {
    sheet.heading(title, if names.is_empty() { "none" } else { "" });
    names.iter().for_each(|name| sheet.sentence(Tone::Plain, name));
}
