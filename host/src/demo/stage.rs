//! The stage of the story: a temporary directory, the program itself as child process, a server.
//!
//! Invariants: no child outlives [`Stage::clean_up`]; nothing outside the temporary directory is
//! written.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::files::{COMPONENTS, Embedded, PAYLOADS};
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::clock::Stopwatch;
use crate::config::SETTINGS;
use crate::config::file::FILE_VARIABLE;
use crate::queue::{Options, Queue};

/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(10);
/// How long the server may take to stop before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// The name of the data directory that commands use when nobody names one.
const DATA: &str = "wasmq-data";
const SERVER_LOG: &str = "server.log";

/// Where the story takes place.
#[derive(Debug)]
pub(super) struct Stage {
    dir: TempDir,
    program: PathBuf,
    color: &'static str,
    server: Mutex<Option<Child>>,
    interrupted: AtomicBool,
}

impl Stage {
    /// Makes the directory and puts the files into it.
    pub(super) fn set_up(out: &Output) -> Result<Self, CliError> {
        let program = std::env::current_exe().map_err(CliError::from_file("find", Path::new("the program itself")))?;
        let temp = std::env::temp_dir();
        let dir = tempfile::Builder::new()
            .prefix("wasmq-demo-")
            .tempdir()
            .map_err(CliError::from_file("create a directory in", &temp))?;
        for Embedded { name, bytes } in COMPONENTS.iter().chain(&PAYLOADS) {
            write(&dir.path().join(name), bytes)?;
        }
        let color = if out.paint().is_on() { "always" } else { "never" };
        Ok(Self { dir, program, color, server: Mutex::new(None), interrupted: AtomicBool::new(false) })
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The program with arguments, in the directory, without settings of the caller.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.dir()).stdin(Stdio::null());
        for variable in SETTINGS.iter().map(|setting| setting.variable).chain([FILE_VARIABLE]) {
            command.env_remove(variable);
        }
        command.env("WASMQ_COLOR", self.color);
        command
    }

    /// The queue of the story, to look at.
    pub(super) fn queue(&self) -> Result<Queue, CliError> {
        Ok(Queue::open(Options::new(self.dir().join(DATA)))?)
    }

    /// Starts the server in a process group of its own, so that Ctrl-C reaches only the story, which
    /// then stops it. Returns its greeting.
    pub(super) fn start_server(&self) -> Result<String, CliError> {
        let path = self.dir().join(SERVER_LOG);
        let log = create(&path)?;
        let started = self.command(&["serve"]).stdout(Stdio::null()).stderr(log).process_group(0).spawn();
        let child = started.map_err(CliError::from_file("start", &self.program))?;
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        self.wait_for("the server to greet", || {
            let log = self.server_log();
            Ok(log.lines().find(|line| line.starts_with("serving ")).map(str::to_owned))
        })
    }

    /// Stops the server as an operator does, and waits for its end.
    pub(super) fn stop_server(&self) -> Result<Option<ExitStatus>, CliError> {
        let Some(mut child) = self.server.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(None);
        };
        let failed = || CliError::from_file("stop", Path::new("the server of the demo"));
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let since = Stopwatch::start();
        while since.elapsed() < STOP_PATIENCE {
            if let Some(status) = child.try_wait().map_err(failed())? {
                return Ok(Some(status));
            }
            glance();
        }
        let _ = child.kill();
        child.wait().map(Some).map_err(failed())
    }

    /// Waits until a condition holds, and returns what it found.
    pub(super) fn wait_for<T>(
        &self,
        what: &str,
        look: impl Fn() -> Result<Option<T>, CliError>,
    ) -> Result<T, CliError> {
        let since = Stopwatch::start();
        loop {
            self.check_interrupted()?;
            if let Some(found) = look()? {
                return Ok(found);
            }
            if since.elapsed() > PATIENCE {
                let message =
                    format!("waited {} s for {what}; the server said:\n{}", PATIENCE.as_secs(), self.server_log());
                return Err(CliError::Demo(message));
            }
            glance();
        }
    }

    /// What the server wrote so far.
    #[allow(clippy::disallowed_methods)] // The directory of the story is not a store.
    pub(super) fn server_log(&self) -> String {
        std::fs::read_to_string(self.dir().join(SERVER_LOG)).unwrap_or_default()
    }

    /// Ends the story at its next step when a signal came.
    pub(super) fn interrupt_if(&self, interrupted: bool) {
        self.interrupted.fetch_or(interrupted, Ordering::Relaxed);
    }

    /// Whether a signal came.
    pub(super) fn check_interrupted(&self) -> Result<(), CliError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(CliError::Demo("interrupted; the server is stopped and the directory removed".to_owned()));
        }
        Ok(())
    }

    /// Stops what runs and removes the directory.
    pub(super) fn clean_up(self) -> Result<(), CliError> {
        let stopped = self.stop_server().map(|_| ());
        let path = self.dir.keep();
        let removed = remove(&path).map_err(CliError::from_file("remove", &path));
        stopped.and(removed)
    }
}

/// The pause between two looks at a condition; never a guess at how long something takes.
#[allow(clippy::disallowed_methods)]
fn glance() {
    thread::sleep(GLANCE);
}

/// Removes the directory, in which workers of a server that had to be killed still write for a moment.
fn remove(path: &Path) -> io::Result<()> {
    let since = Stopwatch::start();
    loop {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound && since.elapsed() < STOP_PATIENCE => glance(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
}

#[allow(clippy::disallowed_methods)] // The directory of the story is not a store.
fn create(path: &Path) -> Result<File, CliError> {
    File::create(path).map_err(CliError::from_file("create", path))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    create(path)?.write_all(bytes).map_err(CliError::from_file("write", path))
}
