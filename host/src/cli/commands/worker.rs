//! `wasmq worker`: one worker process, started by `wasmq serve` and by nobody else.

use crate::cli::context::Flags;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::config::Config;
use crate::worker::{WorkerConfig, run_process};

/// Run one worker process of a server. `wasmq serve` starts it and talks to it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The least severe log records.
    #[arg(long)]
    log: String,
    /// How log records are written.
    #[arg(long)]
    log_format: String,
    /// What the supervisor tells it, as JSON.
    told: String,
}

impl Args {
    /// The settings that its options give.
    #[must_use]
    pub fn flags(&self) -> Flags {
        vec![("log", self.log.clone().into()), ("log_format", self.log_format.clone().into())]
    }
}

/// The arguments of a worker before what the supervisor tells it.
#[must_use]
pub fn arguments(config: &Config) -> Vec<String> {
    ["worker", "--log", config.log.word(), "--log-format", config.log_format.word()].map(str::to_owned).to_vec()
}

/// Works until the supervisor says stop.
///
/// # Errors
/// When the worker cannot start or its store fails.
pub fn run(args: &Args) -> Result<Exit, CliError> {
    let config: WorkerConfig = serde_json::from_str(&args.told).map_err(|error| CliError::Worker(error.into()))?;
    run_process(&config).map_err(CliError::Worker)?;
    Ok(Exit::Ok)
}
