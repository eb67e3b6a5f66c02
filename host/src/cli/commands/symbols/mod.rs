//! `wasmq symbols`: names and lines for backtraces of components that were deployed without them.

pub mod add;
pub mod list;
pub mod remove;

use clap::Subcommand;
use wasmq_core::TaskName;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::time;
use crate::cli::values;
use crate::queue::{ComponentName, DescribedBySymbols, SymbolContents};

/// The commands about symbols.
#[derive(Debug, Subcommand)]
pub enum Command {
    Add(add::Args),
    List(list::Args),
    Remove(remove::Args),
}

/// Runs one of the commands about symbols.
///
/// # Errors
/// As the command says.
pub fn run(command: &Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Add(args) => add::run(args, context),
        Command::List(_) => list::run(context),
        Command::Remove(args) => remove::run(args, context),
    }
}

/// What backtraces get from symbols, or from a component itself.
#[must_use]
pub const fn words(contents: SymbolContents) -> &'static str {
    match contents {
        SymbolContents { names: true, lines: true } => "function names, files and lines",
        SymbolContents { names: true, lines: false } => "function names",
        SymbolContents { names: false, lines: true } => "files and lines",
        SymbolContents { names: false, lines: false } => "nothing",
    }
}

/// What backtraces get from symbols, and for how much of the component when it is not all.
#[must_use]
pub fn words_of(symbols: DescribedBySymbols) -> String {
    let DescribedBySymbols { contents, modules, described } = symbols;
    let words = words(contents);
    if described == modules {
        return words.to_owned();
    }
    format!("{words}, for {described} of its {}", time::count(modules as u64, "core module", "core modules"))
}

/// A component where no task is named: `TASK`, `TASK@v2`, `TASK@LABEL` or `sha256:…`.
///
/// # Errors
/// When the text can be none of these.
pub fn component_name(text: &str) -> Result<ComponentName, String> {
    if text.starts_with("sha256:") {
        return values::version(text).map(ComponentName::Digest);
    }
    let (task, chosen) = text.split_once('@').unwrap_or((text, "current"));
    let task = task.parse::<TaskName>().map_err(|error| format!("expected TASK, TASK@VERSION or sha256:…: {error}"))?;
    Ok(ComponentName::Version { task, version: values::version(chosen)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_a_task_with_or_without_a_version_or_a_digest() {
        let of = |task: &str, version: &str| {
            Ok(ComponentName::Version { task: task.parse().unwrap(), version: version.to_owned() })
        };
        assert_eq!(component_name("resize"), of("resize", "current"));
        assert_eq!(component_name("resize@v2"), of("resize", "v2"));
        assert_eq!(component_name("resize@hotfix"), of("resize", "hotfix"));
        let digest = "sha256:0123456789ab";
        assert_eq!(component_name(digest), Ok(ComponentName::Digest(digest.to_owned())));
        for text in ["", "@v1", "resize@", "resize@v0 1", "sha256:0123", "sha256:xyz456789abc", "a b"] {
            assert!(component_name(text).is_err(), "{text:?}");
        }
    }
}
