//! The command line as a whole: its commands and the options that all of them take.
//!
//! Invariant: help texts are the reference; a test keeps all of them in one golden file.
//!
//! Deliberately absent: the options of single commands, which stand in the command's own file.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{ArgAction, Args, Parser, Subcommand};

use super::commands::{
    cancel, check, completions, config, demo, deploy, dev, dlq, enqueue, list, man, new, run, serve, show, status,
    store, symbols, task, wit, worker,
};
use super::exit;

const GLOBAL: &str = "Global options";
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Green.on_default());

const START: &str = "\
Start here:
  wasmq demo                                  the whole story in a temporary directory
  wasmq new resize --lang rust                a folder with a new task; --list shows the languages
  wasmq deploy resize resize.wasm             a component becomes version v1 of the task resize
  wasmq enqueue resize @photo.png             one durable invocation with a file as payload
  wasmq serve                                 run what is enqueued
  wasmq dlq list                              what was given up, and why
  wasmq dlq retry --task resize               put it back, for the current version

Data goes to stdout, everything else to stderr. With --json every command writes JSON, one value a
line, with times as RFC 3339; errors are {\"error\":{\"code\",\"message\",\"hint\"}} on stderr.";

/// Runs WebAssembly tasks on durable invocations, and keeps what failed for good with its whole
/// story until somebody retries or deletes it.
#[derive(Debug, Parser)]
#[command(name = "wasmq", version, styles = STYLES, max_term_width = 100)]
#[command(after_help = START, after_long_help = format!("{START}\n\n{}", exit::TABLE))]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    /// The options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The options that every command takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The data directory. It is created when it is missing. [env: WASMQ_DATA] [default:
    /// wasmq-data]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub data: Option<OsString>,

    /// Where durable things live: in the data directory (dir), or nowhere (none), so that everything
    /// is lost when the server ends. [env: WASMQ_STORE] [default: dir]
    #[arg(long, global = true, value_name = "WHERE", value_parser = ["dir", "none"], help_heading = GLOBAL)]
    pub store: Option<String>,

    /// The file with the settings. [env: WASMQ_CONFIG] [default: wasmq.toml in the current
    /// directory, if there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub config: Option<PathBuf>,

    /// Write JSON for programs, one value a line.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,

    /// When to use colours. auto colours only a terminal and respects NO_COLOR. [env: WASMQ_COLOR]
    /// [default: auto]
    #[arg(long, global = true, value_name = "WHEN", value_parser = ["auto", "always", "never"], help_heading = GLOBAL)]
    pub color: Option<String>,

    /// Write more log records to stderr; twice for everything. [env: WASMQ_LOG] [default: info for a
    /// server, warnings for other commands]
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GLOBAL)]
    pub verbose: u8,
}

/// The commands, in the order of the work. What each does stands with its options.
#[derive(Debug, Subcommand)]
pub enum Command {
    Deploy(deploy::Args),
    /// Show tasks and their versions, switch the current one, remove a task.
    #[command(subcommand)]
    Task(task::Command),
    Check(check::Args),
    Run(run::Args),
    Dev(dev::Args),
    Enqueue(Box<enqueue::Args>),
    Serve(serve::Args),
    Status(status::Args),
    List(list::Args),
    Show(show::Args),
    Cancel(cancel::Args),
    /// Look at, retry and delete what was given up.
    #[command(subcommand)]
    Dlq(dlq::Command),
    /// Add names and lines for the backtraces of components that were deployed without them.
    #[command(subcommand)]
    Symbols(symbols::Command),
    /// Find damage in the files of the data directory, and set it aside.
    #[command(subcommand)]
    Store(store::Command),
    Config(config::Args),
    Demo(demo::Args),
    New(new::Args),
    Wit(wit::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(hide = true)]
    Worker(worker::Args),
}
