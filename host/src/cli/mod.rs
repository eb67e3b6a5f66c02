//! The command line: parses, runs one command, tells how it ended.
//!
//! Invariants: whatever happens, the process ends with a documented code ([`exit`]); with `--json`
//! errors of every kind, also of the command line itself, are JSON on stderr.
//!
//! Deliberately absent: decisions about invocations; the queue makes them.

pub(crate) mod args;
pub(crate) mod candidates;
pub(crate) mod commands;
pub(crate) mod context;
pub(crate) mod error;
pub(crate) mod exit;
mod hint;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod render;
pub(crate) mod several;
pub(crate) mod values;
pub(crate) mod variables;

#[cfg(test)]
mod readme_tests;
#[cfg(test)]
mod reference_tests;

use std::io::{Write as _, stderr, stdout};
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use self::args::{Cli, Command, Global};
use self::commands::{
    cancel, check, completions, config, demo, deploy, dev, dlq, enqueue, list, man, new, run, serve, show, status,
    store, symbols, task, wit, worker,
};
use self::context::{Context, Flags};
use self::error::{CliError, Description};
use self::exit::Exit;
use self::output::paint::Paint;
use crate::config::ColorMode;
use crate::telemetry;

/// Runs the command that the arguments of the process name.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => run_command(&cli).into(),
        Err(error) => misunderstood(&error).into(),
    }
}

fn run_command(cli: &Cli) -> Exit {
    let result = Context::new(&cli.global, flags(&cli.command)).and_then(|mut context| {
        let server = matches!(cli.command, Command::Serve(_) | Command::Worker(_));
        telemetry::start(&context.config, server, cli.global.verbose > 0);
        warn_of_variables(&cli.command, &mut context);
        let exit = dispatch(&cli.command, &mut context)?;
        // A server has told about it when it started.
        if !server && context.has_queue() {
            context.warn_of_place()?;
        }
        context.out.flush()?;
        Ok(exit)
    });
    result.unwrap_or_else(|error| report(&error.describe(), cli.global.json, color_of(&cli.global)))
}

/// Tells about variables that nobody reads: about slips always, about the rest where settings matter most.
fn warn_of_variables(command: &Command, context: &mut Context) {
    let all = match command {
        // A worker has the variables of its server, which has told about them.
        Command::Worker(_) => return,
        Command::Config(_) | Command::Serve(_) => true,
        _ => false,
    };
    for warning in variables::unknown(variables::names(), all) {
        context.out.note(warning);
    }
}

/// The settings that the options of the command give.
fn flags(command: &Command) -> Flags {
    match command {
        Command::Serve(args) => args.flags(),
        Command::Enqueue(args) => args.flags(),
        Command::Run(args) => args.flags(),
        Command::Dev(args) => args.flags(),
        Command::Worker(args) => args.flags(),
        _ => Flags::new(),
    }
}

fn dispatch(command: &Command, context: &mut Context) -> Result<Exit, CliError> {
    match command {
        Command::Deploy(args) => deploy::run(args, context),
        Command::Task(command) => task::run(command, context),
        Command::Check(args) => check::run(args, context),
        Command::Run(args) => run::run(args, context),
        Command::Dev(args) => dev::run(args, context),
        Command::Enqueue(args) => enqueue::run(args, context),
        Command::Serve(_) => serve::run(context),
        Command::Status(_) => status::run(context),
        Command::List(args) => list::run(args, context),
        Command::Show(args) => show::run(args, context),
        Command::Cancel(args) => cancel::run(args, context),
        Command::Dlq(command) => dlq::run(command, context),
        Command::Symbols(command) => symbols::run(command, context),
        Command::Store(command) => store::run(command, context),
        Command::Config(_) => config::run(context),
        Command::Demo(_) => demo::run(context),
        Command::New(args) => new::run(args, context),
        Command::Wit(args) => wit::run(args, context),
        Command::Completions(args) => completions::run(args, context),
        Command::Man(args) => man::run(args, context),
        Command::Worker(args) => worker::run(args),
    }
}

/// The colours that the command line asks for. Errors may come before the settings are known.
fn color_of(global: &Global) -> ColorMode {
    global.color.as_deref().and_then(ColorMode::parse).unwrap_or(ColorMode::Auto)
}

/// Tells about an error on stderr.
fn report(error: &Description, json: bool, color: ColorMode) -> Exit {
    if error.code != "reader-gone" {
        let paint = Paint::for_stderr(color, &stderr());
        let text = if json { error.to_json(None) } else { error.to_text(paint) };
        let _ = writeln!(stderr().lock(), "{text}");
    }
    error.exit
}

/// Shows help or version on stdout, or says what is wrong with the arguments.
fn misunderstood(error: &clap::Error) -> Exit {
    let json = std::env::args_os().any(|argument| argument == "--json");
    let shows_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if shows_help {
        let paint = Paint::for_stdout(ColorMode::Auto, &stdout());
        let text = if paint.is_on() { error.render().ansi().to_string() } else { error.render().to_string() };
        let mut stdout = stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        return written.map_or_else(
            |error| report(&CliError::from_stdout(error).describe(), json, ColorMode::Auto),
            |()| Exit::Ok,
        );
    }
    if json {
        let message = error.render().to_string().trim_start_matches("error: ").trim_end().to_owned();
        return report(&Description { code: "usage", message, hint: None, exit: Exit::Usage }, true, ColorMode::Auto);
    }
    let _ = error.print();
    Exit::Usage
}
