//! `wasmq dev`: builds, deploys and runs a task on every change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::deploy::LimitArgs;
use crate::cli::context::{Context, Flags};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::Source;
use crate::dev::{self, DATA, DevError, KEPT_VERSIONS, Plan};
use crate::queue::StoreKind;

/// Build, deploy and run a task on every change of its folder.
///
/// Reads task.toml in the folder: the name of the task, the command that builds it, the component that the
/// command makes, and a sample payload. Each round builds, deploys into a store of its own (.wasmq in the
/// folder, or --data), runs the task once on the payload, and shows its output, what it logged, and why it
/// failed. A change during a build or an attempt starts it anew. Ctrl-C ends it.
///
/// The store of its own keeps the latest 3 versions of the task, and those that a dead task, a live invocation
/// or a label needs. Whatever is removed meanwhile is waited for, or made anew: the folder, the store.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq dev
  wasmq dev resize --payload @photo.png --memory 64MiB
  wasmq dev --payload @large.json --payload-limit 8MiB
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
    /// The largest payload that is accepted, up to 64MiB. [env: WASMQ_PAYLOAD_LIMIT] [default: 1MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub payload_limit: Option<OsString>,
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
        let mut flags = vec![("data", self.own_data().into_os_string())];
        flags.extend(self.payload_limit.clone().map(|limit| ("payload_limit", limit)));
        flags
    }

    /// The store that nobody else uses.
    fn own_data(&self) -> PathBuf {
        let folder = if self.folder == Path::new(".") { Path::new("") } else { &self.folder };
        folder.join(DATA)
    }

    /// The folder as the system sees it.
    fn real_folder(&self) -> Result<PathBuf, CliError> {
        let real = self.folder.canonicalize().map_err(CliError::from_file("read the folder", &self.folder))?;
        if real.is_dir() { Ok(real) } else { Err(DevError::NotAFolder { path: self.folder.clone() }.into()) }
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
    let folder = args.real_folder()?;
    let queue = context.lasting_queue()?;
    let keeps = context.store() == StoreKind::Dir;
    let plan = Plan {
        folder,
        data: queue.data_dir().to_owned(),
        data_name: context.config.data.clone(),
        keep: (keeps && context.config.data == args.own_data()).then_some(KEPT_VERSIONS),
        payload,
        payload_limit: context.config.payload_limit,
        settings,
        once: args.once,
        dlq: keeps.then(|| format!("{} dlq list", context.program())),
    };
    context.warn_of_place()?;
    dev::run(plan, queue, &mut context.out)
}
