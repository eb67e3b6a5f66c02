//! `wasmq config`: every setting, its value and where it came from.

use serde_json::json;

use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::table::{Cell, Table};
use crate::config::settings::find;
use crate::config::{Config, Source};

/// Show every setting, its value and where it came from.
///
/// Flags win over the environment, the environment over the file, the file over the default. The file
/// is wasmq.toml in the current directory, or what --config or WASMQ_CONFIG names. A variable that
/// begins with WASMQ_ and is no setting is warned of.
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
    let Context { config, out, .. } = context;
    if out.is_json() {
        for origin in &config.origins {
            let setting = find(origin.name);
            out.json(&json!({
                "name": origin.name,
                "value": origin.value,
                "source": source_word(&origin.source),
                "place": origin.source.to_string(),
                "variable": setting.map(|setting| setting.variable),
                "flag": setting.map(|setting| setting.flag).filter(|flag| !flag.is_empty()),
                "meaning": setting.map(|setting| setting.meaning),
            }))?;
        }
        return Ok(Exit::Ok);
    }
    out.table(&table(config))?;
    Ok(Exit::Ok)
}

fn table(config: &Config) -> Table {
    let mut table = Table::new(&["SETTING", "VALUE", "FROM", "VARIABLE", "MEANING"]);
    for origin in &config.origins {
        let tone = if origin.source == Source::Default { Tone::Faint } else { Tone::Strong };
        table.row([
            Cell::plain(origin.name),
            Cell::new(&origin.value, tone),
            Cell::plain(&origin.source),
            Cell::plain(find(origin.name).map_or("", |setting| setting.variable)),
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
