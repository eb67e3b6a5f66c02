//! `wasmq dev`: builds, deploys and runs a task on every change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::deploy::LimitArgs;
use crate::cli::context::{Context, Flags};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::Source;
use crate::dev::{self, DATA, DevError, Plan};
use crate::queue::StoreKind;

/// Build, deploy and run a task on every change of its folder.
///
/// Reads task.toml in the folder: the name of the task, the command that builds it, the component that the
/// command makes, and a sample payload. Each round builds, deploys into a store of its own (.wasmq in the
/// folder, or --data), runs the task once on the payload, and shows its output, what it logged, and why it
/// failed. A change during a build or an attempt starts it anew. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq dev
  wasmq dev resize --payload @photo.png --memory 64MiB
  wasmq dev --once                                  one round, for scripts

task.toml:
  task = \"resize\"
  build = \"./build\"                  run with sh -c in the folder
  component = \"target/resize.wasm\"   what the build makes
  payload = \"sample/photo.png\"       optional
  watch = [\"src\", \"wit\"]             optional; without it the whole folder, but no hidden files, no
                                     folders of builds such as target or node_modules, and not the component

With --once it leaves with 0 when the attempt completed, with 20 to 26 when it failed, and with 1 when the
build failed; see `wasmq --help`.")]
pub struct Args {
    /// The folder with task.toml.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// The payload, instead of that in task.toml: a text, or @FILE.
    #[arg(long, value_name = "TEXT|@FILE", allow_hyphen_values = true)]
    pub payload: Option<OsString>,
    /// Build, deploy and run once, then leave as the attempt ended.
    #[arg(long)]
    pub once: bool,
    /// The limits of an attempt.
    #[command(flatten)]
    pub limits: LimitArgs,
}

impl Args {
    /// The settings that its options give. The store of a server that the environment or a file names is not
    /// for trying things out.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let folder = if self.folder == Path::new(".") { Path::new("") } else { &self.folder };
        vec![("data", folder.join(DATA).into_os_string())]
    }

    fn payload(&self) -> Result<Option<Source>, DevError> {
        match self.payload.as_deref().map(|payload| Source::from_argument(Some(payload))) {
            Some(Source::Stdin) => Err(DevError::Stdin),
            Some(Source::File(path)) => {
                let source = |source| DevError::Watch { path: path.clone(), source };
                Ok(Some(Source::File(std::path::absolute(&path).map_err(source)?)))
            }
            payload => Ok(payload),
        }
    }
}

/// Goes through rounds until a signal comes.
///
/// # Errors
/// When the project is wrong or stdout cannot be written; with `--once` also why the round came to no attempt.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let settings = args.limits.to_raw();
    settings.check()?;
    let payload = args.payload()?;
    let folder = args.folder.canonicalize().map_err(CliError::from_file("read the folder", &args.folder))?;
    let queue = context.queue_without_signals()?;
    let keeps = context.store() == StoreKind::Dir;
    let plan = Plan {
        folder,
        data: context.config.data.clone(),
        payload,
        payload_limit: context.config.payload_limit,
        settings,
        once: args.once,
        dlq: keeps.then(|| format!("{} dlq list", context.program())),
    };
    context.warn_of_place()?;
    dev::run(plan, queue, &mut context.out)
}
