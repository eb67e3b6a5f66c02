//! `wasmq config`: every setting, its value and where it came from.

use serde_json::json;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::config::close::close_names;
use crate::config::file::FILE_VARIABLE;
use crate::config::settings::{SETTINGS, find};
use crate::config::{Config, Source};

/// Show every setting, its value and where it came from.
///
/// Flags win over the environment, the environment over the file, the file over the default.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq config
  wasmq config --json
  WASMQ_FSYNC=interval wasmq config

A file with the names as keys, for instance:
  data = \"/var/lib/wasmq\"
  workers = 4
  payload_limit = \"8MiB\"")]
pub struct Args {}

/// Shows the settings; with JSON an object with name, value, source and more for each, one a line.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let Context { config, out } = context;
    for note in unknown_variables() {
        out.note(note);
    }
    if out.is_json() {
        for origin in &config.origins {
            let setting = find(origin.name);
            out.json(&json!({
                "name": origin.name,
                "value": origin.value,
                "source": source_word(&origin.source),
                "place": origin.source.to_string(),
                "variable": setting.map(|setting| setting.variable),
                "flag": setting.map(|setting| setting.flag),
                "meaning": setting.map(|setting| setting.meaning),
            }))?;
        }
        return Ok(Exit::Ok);
    }
    out.table(&table(config))?;
    Ok(Exit::Ok)
}

fn table(config: &Config) -> Table {
    let mut table = Table::new(&["SETTING", "VALUE", "FROM", "MEANING"]);
    for origin in &config.origins {
        let tone = if origin.source == Source::Default { Tone::Faint } else { Tone::Strong };
        table.row([
            Cell::plain(origin.name),
            Cell::new(&origin.value, tone),
            Cell::plain(&origin.source),
            Cell::new(find(origin.name).map_or("", |setting| setting.meaning), Tone::Faint),
        ]);
    }
    table
}

const fn source_word(source: &Source) -> &'static str {
    match source {
        Source::Default => "default",
        Source::File(_) => "file",
        Source::Environment(_) => "environment",
        Source::Flag => "flag",
    }
}

/// A line for every variable that looks like a setting and is close to one, but is none.
fn unknown_variables() -> Vec<String> {
    let known = || SETTINGS.iter().map(|setting| setting.variable).chain([FILE_VARIABLE]);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown = names.filter(|name| name.starts_with("WASMQ_") && !known().any(|known| known == name));
    unknown
        .filter_map(|name| {
            let close = close_names(&name, known()).first().copied()?;
            Some(format!("the variable {name} is set and means nothing; did you mean {close}?"))
        })
        .collect()
}
