//! The second half of a round: the component is deployed, and runs once on the payload.
//!
//! Invariants: it runs on a thread of its own, so that whoever decides is never held up; trials follow each
//! other, so that the version that was built last is the one that stays current, and each runs the very version
//! that it deployed. A trial that is stopped before its invocation was enqueued enqueues nothing, and one that
//! is stopped later cancels it. What is removed of old versions is gone before the trial's end is told.

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use wasmq_core::settings::RawSettings;
use wasmq_core::{InvocationId, TaskName};

use super::error::DevError;
use super::event::Event;
use crate::cli::error::CliError;
use crate::cli::input::{Source, read_component, read_payload};
use crate::queue::{Completion, DeployRequest, MAX_COMPONENT_BYTES, NewInvocation, Queue, Waiting};

/// What to try.
#[derive(Debug)]
pub struct Request {
    /// The round it belongs to.
    pub round: u64,
    /// The task to deploy.
    pub task: TaskName,
    /// The file to deploy.
    pub component: PathBuf,
    /// The limits of the attempt.
    pub settings: RawSettings,
    /// The payload to run it on.
    pub payload: Source,
    /// Whether the project file names it.
    pub payload_of_project: bool,
    /// The largest payload, in bytes.
    pub payload_limit: u64,
    /// How many of the latest versions stay; all of them when absent.
    pub keep: Option<usize>,
}

/// How a trial ended.
#[derive(Debug)]
pub enum Ended {
    /// The invocation came to its end.
    Ran(Completion),
    /// It did not get that far.
    Failed(CliError),
    /// Nobody wants to know any more.
    Stopped,
}

/// A trial that runs.
#[derive(Debug)]
pub struct Trial {
    stop: Arc<Mutex<Stop>>,
    queue: Queue,
    thread: JoinHandle<()>,
}

/// What both sides know of stopping.
#[derive(Debug, Default)]
struct Stop {
    wanted: bool,
    /// What runs now.
    id: Option<InvocationId>,
}

fn lock(stop: &Mutex<Stop>) -> MutexGuard<'_, Stop> {
    stop.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trial {
    /// Starts one, after an earlier one has ended. What becomes of it is told as [`Event::Deployed`] and
    /// [`Event::Tried`].
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(
        request: Request,
        queue: &Queue,
        earlier: Option<Self>,
        events: &Sender<Event>,
    ) -> Result<Self, DevError> {
        let stop = Arc::new(Mutex::new(Stop::default()));
        let attempt = Attempt { request, queue: queue.clone(), stop: Arc::clone(&stop), events: events.clone() };
        let spawned = thread::Builder::new().name("trial".to_owned()).spawn(move || {
            if let Some(earlier) = earlier {
                let _ = earlier.thread.join();
            }
            attempt.run();
        });
        let thread =
            spawned.map_err(|source| DevError::System { doing: "start a thread that runs the task", source })?;
        Ok(Self { stop, queue: queue.clone(), thread })
    }

    /// Stops it. It ends soon after, unless it is compiling.
    pub fn stop(&self) {
        let id = {
            let mut stop = lock(&self.stop);
            stop.wanted = true;
            stop.id
        };
        if let Some(id) = id {
            // What has ended meanwhile needs no stopping.
            let _ = self.queue.cancel(&id.to_string());
        }
    }
}

/// The trial as its own thread sees it.
struct Attempt {
    request: Request,
    queue: Queue,
    stop: Arc<Mutex<Stop>>,
    events: Sender<Event>,
}

impl Attempt {
    fn run(self) {
        let ended = self.to_the_end().unwrap_or_else(Ended::Failed);
        let ended = if lock(&self.stop).wanted { Ended::Stopped } else { ended };
        if !matches!(ended, Ended::Stopped) {
            self.tidy();
        }
        let _ = self.events.send(Event::Tried(self.request.round, Box::new(ended)));
    }

    /// Removes old versions, so that the store does not grow with every round.
    fn tidy(&self) {
        let Some(keep) = self.request.keep else { return };
        if let Err(error) = self.queue.remove_old_versions(&self.request.task, keep) {
            let _ = self.events.send(Event::Untidy(Box::new(error.into())));
        }
    }

    fn to_the_end(&self) -> Result<Ended, CliError> {
        let Request { round, task, component, settings, .. } = &self.request;
        if lock(&self.stop).wanted {
            return Ok(Ended::Stopped);
        }
        let bytes = built_component(component)?;
        let deploy = DeployRequest { settings: settings.clone(), label: None, activate: true };
        let deployed = self.queue.deploy(task, &bytes, &deploy)?;
        // By its number, since a server may not know of it for a moment.
        let component = Some(deployed.version.to_string());
        let _ = self.events.send(Event::Deployed(*round, Box::new(deployed)));
        let payload = self.payload()?;
        if lock(&self.stop).wanted {
            return Ok(Ended::Stopped);
        }
        let max_attempts = Some(NonZeroU32::MIN);
        let new = NewInvocation { max_attempts, component, ..NewInvocation::new(task.clone(), payload) };
        let completion = self.queue.enqueue_and_wait(new, &mut |waiting| self.observe(&waiting))?;
        Ok(Ended::Ran(completion))
    }

    fn payload(&self) -> Result<Vec<u8>, CliError> {
        let Request { payload, payload_limit, payload_of_project, .. } = &self.request;
        match read_payload(payload, *payload_limit) {
            Err(CliError::File { path, source, .. }) if *payload_of_project => {
                Err(DevError::Payload { path, source }.into())
            }
            read => read,
        }
    }

    /// Whoever wanted it stopped before it had an id could not cancel it.
    fn observe(&self, waiting: &Waiting) {
        let Waiting::Accepted(id) = waiting else { return };
        let is_unwanted = {
            let mut stop = lock(&self.stop);
            stop.id = Some(*id);
            stop.wanted
        };
        if is_unwanted {
            let _ = self.queue.cancel(&id.to_string());
        }
    }
}

/// What the build made, if that is a file.
fn built_component(path: &Path) -> Result<Vec<u8>, CliError> {
    let path = path.to_owned();
    match path.metadata() {
        Ok(meta) if meta.is_file() => read_component(&path, MAX_COMPONENT_BYTES),
        Ok(meta) => Err(DevError::ComponentNoFile { path, is_folder: meta.is_dir() }.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DevError::NoComponent { path }.into()),
        Err(error) => Err(CliError::from_file("read the component", &path)(error)),
    }
}
