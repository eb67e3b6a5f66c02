//! `wasmq serve`: the supervisor with its workers, until a signal.

use std::ffi::OsString;

use serde_json::json;
use wasmq_core::Millis;

use super::worker;
use crate::cli::context::{Context, Flags};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::safe::safe;
use crate::cli::output::time;
use crate::config::LogFormat;
use crate::queue::StoreKind;
use crate::supervisor::{self, ServeOptions};
use crate::worker::WorkerConfig;

/// Run what is enqueued, until told to stop.
///
/// Starts worker processes, watches them, and adopts the work of others that stopped or died. Several servers may share a data directory.
///
/// On SIGTERM or Ctrl-C it starts nothing new, lets running attempts finish within the grace time,
/// puts the rest back without using up an attempt, and leaves with 0. A second signal ends at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq serve
  wasmq serve --workers 2 --concurrency 50 --grace 1m
  WASMQ_DATA=/var/lib/wasmq wasmq serve --log-format json")]
pub struct Args {
    /// Worker processes, from 1 to 256. [env: WASMQ_WORKERS] [default: one per core]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub workers: Option<OsString>,
    /// Attempts that one worker runs at the same time, from 1 to 10000. [env: WASMQ_CONCURRENCY]
    /// [default: 16]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub concurrency: Option<OsString>,
    /// When acknowledged work is forced to the disk: before every acknowledgement (always), at the
    /// latest 100 ms after it (interval), or when the system likes (never). [env: WASMQ_FSYNC]
    /// [default: always]
    #[arg(long, value_name = "MODE", value_parser = ["always", "interval", "never"])]
    pub fsync: Option<String>,
    /// How long running attempts may go on after a signal, from 0s to 24h. [env: WASMQ_GRACE] [default: 30s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub grace: Option<OsString>,
    /// Log records as text or as JSON, one a line. [env: WASMQ_LOG_FORMAT] [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log_format: Option<String>,
}

impl Args {
    /// The settings that its options give.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        flags.extend(self.workers.clone().map(|count| ("workers", count)));
        flags.extend(self.concurrency.clone().map(|count| ("concurrency", count)));
        flags.extend(self.fsync.clone().map(|mode| ("fsync", mode.into())));
        flags.extend(self.grace.clone().map(|grace| ("grace", grace)));
        flags.extend(self.log_format.clone().map(|format| ("log_format", format.into())));
        flags
    }
}

/// Serves until a signal.
///
/// # Errors
/// When the data directory cannot be used or the server cannot start.
pub fn run(context: &mut Context) -> Result<Exit, CliError> {
    let queue = context.queue()?;
    queue.prepare_to_serve()?;
    context.warn_of_place()?;
    // A registry that cannot be read would make every worker end again and again.
    queue.tasks()?;
    let config = &context.config;
    let Millis(grace_ms) = config.grace;
    let worker = WorkerConfig {
        data_dir: config.data.clone(),
        store: context.store(),
        fsync: context.fsync(),
        concurrency: u32::try_from(config.concurrency.get()).unwrap_or(u32::MAX),
        grace_ms,
    };
    let program = std::env::current_exe().map_err(CliError::from_file("find", "the program itself".as_ref()))?;
    let arguments = worker::arguments(config);
    let options = ServeOptions { workers: config.workers.get(), worker, program: (program, arguments) };
    let (json, text) = (as_json(context), greeting(context));
    supervisor::serve(options, || {
        // A server goes on when nobody reads its greeting.
        let _ = if context.out.is_json() { context.out.json(&json) } else { Ok(()) };
        match context.config.log_format {
            LogFormat::Json => tracing::info!("{text}"),
            LogFormat::Text => context.out.note(text),
        }
    })?;
    Ok(Exit::Ok)
}

/// The line that tells a program that the server is ready.
fn as_json(context: &Context) -> serde_json::Value {
    json!({
        "serving": context.config.data,
        "store": context.config.store.word(),
        "workers": context.config.workers,
        "concurrency": context.config.concurrency,
        "pid": std::process::id(),
    })
}

fn greeting(context: &Context) -> String {
    let config = &context.config;
    let workers = time::count(config.workers.get() as u64, "worker", "workers");
    let attempts = time::count(config.concurrency.get() as u64, "attempt", "attempts");
    let crew = format!("with {workers}, {attempts} each");
    match context.store() {
        StoreKind::Dir => format!("serving on {} {crew}; Ctrl-C stops", safe(&config.data.to_string_lossy())),
        StoreKind::None => format!(
            "serving from memory {crew}; nothing is kept: what is enqueued or dead is lost when this server ends; Ctrl-C stops"
        ),
    }
}
