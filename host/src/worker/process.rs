//! Setting a worker up: as a process of its own under a supervisor, or inside another process for
//! one invocation somebody waits for.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use wasmq_wal::disk::{Disk, RealDisk};

use super::keeper::{self, Command, Keeper, KeeperOptions, SharedKeeper, Surroundings};
use super::{executor, link, loader, undertaker};
use crate::dlq::{self, DeadTaskStore};
use crate::journal::adopt::WORKER;
use crate::journal::{DiskJournal, Durability, JournalOptions, LiveStore, MemoryJournal};
use crate::registry::Registry;
use crate::runtime::{Options as RuntimeOptions, Purpose, Runtime};
use crate::store::{FSYNC_INTERVAL_MS, Fsync, Layout, StoreKind};
use crate::wire::Frame;

/// What a worker is told at its start; travels as JSON on its command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerConfig {
    /// The data directory.
    pub data_dir: PathBuf,
    /// Where live invocations and dead tasks are.
    pub store: StoreKind,
    /// When a change is on the disk.
    pub fsync: Fsync,
    /// Attempts at the same time.
    pub concurrency: u32,
    /// How long running attempts may go on after the order to stop, in milliseconds.
    pub grace_ms: u64,
}

/// Why a worker could not start or had to stop.
pub type WorkerError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a worker whose supervisor is at the other end of standard input.
///
/// # Errors
/// When it cannot start, or when its store fails; the supervisor then starts another.
pub fn run_process(config: &WorkerConfig) -> Result<(), WorkerError> {
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let (commands, inbox) = channel();
    let (replies, outbox) = channel();
    let (reader, writer) = (socket.try_clone()?, socket);
    let to_keeper = commands.clone();
    spawn("link-read", move || link::read(reader, &to_keeper))?;
    let on_signal = commands.clone();
    spawn("signals", move || drain_on_signal(&on_signal))?;
    let writer = spawn("link-write", move || link::write(writer, &outbox))?;
    let result = run_keeper(config, &commands, &inbox, replies, true);
    let _ = writer.join();
    result
}

/// A service manager that stops a whole group of processes signals the workers too; they drain then as
/// if the supervisor had said so.
fn drain_on_signal(keeper: &Sender<Command>) {
    let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    tokio.block_on(async {
        let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if keeper.send(Command::Drain).is_err() {
                // Nothing is left to put back; the signal ends the process as it would have without us.
                std::process::exit(128 + 15);
            }
        }
    });
}

/// A worker inside another process, for invocations that it is given directly. It adopts nothing.
#[derive(Debug)]
pub struct EmbeddedWorker {
    commands: Sender<Command>,
    answers: Receiver<Frame>,
    thread: thread::JoinHandle<Result<(), WorkerError>>,
}

impl EmbeddedWorker {
    /// Starts it. With `on_signals`, SIGTERM and SIGINT drain it from now on, and end the process when it
    /// has ended.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(config: WorkerConfig, on_signals: bool) -> Result<Self, WorkerError> {
        let (commands, inbox) = channel();
        let (replies, answers) = channel();
        let (to_keeper, on_signal) = (commands.clone(), commands.clone());
        if on_signals {
            spawn("signals", move || drain_on_signal(&on_signal))?;
        }
        let thread = spawn("worker", move || run_keeper(&config, &to_keeper, &inbox, replies, false))?;
        Ok(Self { commands, answers, thread })
    }

    /// Gives it a frame.
    pub fn send(&self, frame: Frame) {
        let _ = self.commands.send(Command::Frame(frame));
    }

    /// What gives it frames from another thread.
    #[must_use]
    pub fn sender(&self) -> FrameSender {
        FrameSender(self.commands.clone())
    }

    /// The next answer; `None` when the worker has stopped.
    #[must_use]
    pub fn next_answer(&self) -> Option<Frame> {
        self.answers.recv().ok()
    }

    /// Stops it; what it still holds waits on the disk for a server.
    ///
    /// # Errors
    /// When its store failed.
    pub fn stop(self) -> Result<(), WorkerError> {
        let _ = self.commands.send(Command::Drain);
        self.thread.join().unwrap_or_else(|_| Err("the worker thread died".into()))
    }
}

/// Gives a worker inside this process frames, for as long as it runs.
#[derive(Debug, Clone)]
pub struct FrameSender(Sender<Command>);

impl FrameSender {
    /// Gives it a frame.
    pub fn send(&self, frame: Frame) {
        let _ = self.0.send(Command::Frame(frame));
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn run_keeper(
    config: &WorkerConfig,
    commands: &Sender<Command>,
    inbox: &Receiver<Command>,
    replies: Sender<Frame>,
    adopts: bool,
) -> Result<(), WorkerError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let layout = Layout::new(&config.data_dir);
    let registry = Arc::new(Registry::open(Arc::clone(&disk), &config.data_dir)?);
    let runtime_options = RuntimeOptions {
        cache_dir: Some(layout.cache()),
        cache_for: None,
        max_concurrent: config.concurrency,
        purpose: Purpose::Serve,
    };
    let runtime = Arc::new(Runtime::new(&runtime_options)?);
    let dlq = open_dlq(config, &disk)?;
    let (live, log) = open_live(config, &disk, &layout, adopts)?;
    let shared = Arc::new(SharedKeeper::default());
    let helpers = start_helpers(config.concurrency, &runtime, &registry, &dlq, &shared, commands)?;
    let options = KeeperOptions {
        concurrency: config.concurrency.max(1) as usize,
        grace: Duration::from_millis(config.grace_ms),
        adopts: adopts && config.store == StoreKind::Dir,
        worker: format!("{}/{log}", std::process::id()),
    };
    let Helpers { executor, undertaker, loader } = helpers;
    let around = Surroundings { live, registry, dlq, loader, executor, undertaker, replies };
    let mut keeper = Keeper::new(around, options)?;
    keeper.figures.pid = std::process::id();
    keeper.figures.log = log;
    keeper::run(&shared, keeper, inbox)?;
    Ok(())
}

fn open_dlq(config: &WorkerConfig, disk: &Arc<dyn Disk>) -> Result<Arc<dyn DeadTaskStore>, WorkerError> {
    Ok(match config.store {
        StoreKind::Dir => Arc::new(dlq::DiskDlq::open(Arc::clone(disk), &config.data_dir)?),
        StoreKind::None => Arc::new(dlq::NoDlq),
    })
}

fn open_live(
    config: &WorkerConfig,
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    adopts: bool,
) -> Result<(Box<dyn LiveStore>, String), WorkerError> {
    if config.store == StoreKind::None {
        return Ok((Box::new(MemoryJournal::default()), String::new()));
    }
    let durability = match config.fsync {
        Fsync::Always => Durability::Always,
        Fsync::Interval => Durability::Interval(Duration::from_millis(FSYNC_INTERVAL_MS)),
        Fsync::Never => Durability::Never,
    };
    let owner = format!("{WORKER}, pid {}", std::process::id());
    // The reserve is for what is queued already, and who adopts nothing brings something new.
    let defaults = JournalOptions::default();
    let reserve_bytes = if adopts { defaults.reserve_bytes } else { 0 };
    let options = JournalOptions { durability, reserve_bytes, ..defaults };
    let journal = DiskJournal::create(Arc::clone(disk), &layout.journal(), &owner, options)?;
    let log = journal.id().to_string();
    Ok((Box::new(journal), log))
}

struct Helpers {
    executor: tokio::sync::mpsc::UnboundedSender<executor::ToExecutor>,
    undertaker: Sender<Vec<wasmq_core::DeadTask>>,
    loader: Sender<wasmq_core::Digest>,
}

/// Starts the threads that work for the keeper. They end when the keeper drops its ends.
fn start_helpers(
    concurrency: u32,
    runtime: &Arc<Runtime>,
    registry: &Arc<Registry>,
    dlq: &Arc<dyn DeadTaskStore>,
    shared: &Arc<SharedKeeper>,
    commands: &Sender<Command>,
) -> std::io::Result<Helpers> {
    let (executor, orders) = tokio::sync::mpsc::unbounded_channel();
    let (to_keeper, on_executor, shared) = (commands.clone(), Arc::clone(runtime), Arc::clone(shared));
    spawn("executor", move || executor::run(on_executor, orders, shared, to_keeper, concurrency))?;
    let (undertaker, batches) = channel();
    let (to_keeper, dlq) = (commands.clone(), Arc::clone(dlq));
    spawn("undertaker", move || undertaker::run(&dlq, &batches, &to_keeper))?;
    let (loader, digests) = channel();
    let (to_keeper, runtime, registry) = (commands.clone(), Arc::clone(runtime), Arc::clone(registry));
    spawn("loader", move || loader::run(&runtime, &registry, &digests, &to_keeper))?;
    Ok(Helpers { executor, undertaker, loader })
}
