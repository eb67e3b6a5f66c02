//! `wasmq check`: what a file is, and whether it could be deployed.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::read_component;
use crate::cli::output::Output;
use crate::cli::output::paint::Tone;
use crate::cli::output::time;
use crate::cli::render::sheet::Sheet;
use crate::queue::{Inspection, Need, QueueError, Rejection, Shape, inspect};
use crate::runtime::MAX_COMPONENT_BYTES;

/// Say what a file is, what it would need, and whether it could be deployed.
///
/// Nothing is compiled or stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq check resize.wasm
  wasmq check resize.wasm --json

Leaves with 6 and says every reason when the file would be refused.")]
pub struct Args {
    /// The .wasm file.
    pub file: PathBuf,
}

/// Shows what the file is.
///
/// # Errors
/// When the file cannot be read, or would be refused.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let bytes = read_component(&args.file, MAX_COMPONENT_BYTES)?;
    let (found, problems) = inspect(&bytes).map_err(QueueError::Refused)?;
    if context.out.is_json() {
        context.out.json(&as_json(&found, &problems))?;
    } else {
        show(&mut context.out, &found, &problems, &args.file.display().to_string())?;
    }
    problems.into_iter().next().map_or(Ok(Exit::Ok), |problem| Err(QueueError::Refused(problem).into()))
}

const fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Typed => "handler",
        Shape::Command => "command",
    }
}

fn as_json(found: &Inspection, problems: &[Rejection]) -> serde_json::Value {
    json!({
        "shape": found.shape.map(word),
        "core_module": found.is_core_module,
        "digest": found.digest,
        "size_bytes": found.size_bytes,
        "wit": found.wit_version,
        "imports": found.imports,
        "exports": found.exports,
        "needs": found.needs.iter().map(Need::to_string).collect::<Vec<_>>(),
        "has_names": found.has_names,
        "has_debug_info": found.has_debug_info,
        "languages": found.languages,
        "producers": found.producers,
        "problems": problems.iter().map(Rejection::to_string).collect::<Vec<_>>(),
    })
}

/// What kind of file it is, in a sentence.
fn kind(found: &Inspection) -> String {
    let what = match found.shape {
        Some(Shape::Typed) => format!("a task: exports wasmq:task/handler@{}", found.wit_version),
        Some(Shape::Command) => "a command: payload on stdin, output from stdout, exit code as verdict".to_owned(),
        None if found.is_core_module => return "a core module".to_owned(),
        None => return "a component without an entry point that this host knows".to_owned(),
    };
    if found.is_core_module { format!("{what}; a core module, made a component at deploy") } else { what }
}

fn needs(found: &Inspection) -> String {
    let names = found.needs.iter().map(|need| match need {
        Need::Files => "files, which no task is granted: opening one fails",
        Need::Network => "the network, which no task is granted: using it is denied",
    });
    let text = names.collect::<Vec<_>>().join("; ");
    if text.is_empty() { "nothing that has to be granted".to_owned() } else { text }
}

const fn backtraces(found: &Inspection) -> &'static str {
    match (found.has_names, found.has_debug_info) {
        (_, true) => "with function names, files and lines",
        (true, false) => "with function names; debug information would add files and lines",
        (false, false) => "without function names; keep the name section when you build",
    }
}

fn show(out: &mut Output, found: &Inspection, problems: &[Rejection], file: &str) -> Result<(), CliError> {
    let mut sheet = out.sheet();
    sheet.heading(if found.is_core_module { "CORE MODULE" } else { "COMPONENT" }, file);
    let verdict = if problems.is_empty() {
        ("can be deployed", kind(found), Tone::Good)
    } else {
        ("cannot be deployed", kind(found), Tone::Bad)
    };
    let mut facts = vec![
        verdict,
        ("digest", found.digest.to_string(), Tone::Plain),
        ("size", format!("{} ({} bytes)", time::bytes(found.size_bytes), found.size_bytes), Tone::Plain),
        ("may use", needs(found), Tone::Plain),
        ("backtraces", backtraces(found).to_owned(), Tone::Plain),
    ];
    facts.extend(found.languages.iter().map(|language| ("language", language.clone(), Tone::Plain)));
    facts.extend(found.producers.iter().map(|tool| ("made by", tool.clone(), Tone::Plain)));
    sheet.facts(&facts);
    // Those of a core module are known once it was made a component.
    if !found.is_core_module || problems.is_empty() {
        names(&mut sheet, "EXPORTS", &found.exports);
        names(&mut sheet, "IMPORTS", &found.imports);
    }
    if problems.len() > 1 {
        sheet.heading("REASONS", "");
        problems.iter().for_each(|problem| sheet.sentence(Tone::Bad, &problem.to_string()));
    }
    out.page(sheet)
}

fn names(sheet: &mut Sheet, title: &str, names: &[String]) {
    sheet.heading(title, if names.is_empty() { "none" } else { "" });
    names.iter().for_each(|name| sheet.sentence(Tone::Plain, name));
}
