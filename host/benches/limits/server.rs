//! A real `wasmq serve` in a process of its own, and a light look at its figures.
//!
//! [`wasmq::Queue::status`] reads every log, which would disturb what is measured. So the figures
//! are asked for over the server's socket: an empty frame of kind 3 (see `host/src/wire.rs`).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wasmq::queue::ServerFigures;

use crate::Fallible;
use crate::procfs::{ThreadTimes, thread_times};

const STATUS: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at the figures. Workers tell theirs five times a second.
const LOOK: Duration = Duration::from_millis(5);

pub(crate) struct Server {
    child: Child,
    socket: UnixStream,
    log: PathBuf,
}

impl Server {
    /// Starts a server on a data directory and waits until its workers have told their figures.
    pub(crate) fn start(data: &Path, workers: usize, concurrency: usize) -> Fallible<Self> {
        let log = data.with_extension("serve.log");
        let child = program()
            .arg("serve")
            .arg("--data")
            .arg(data)
            .args(["--workers", &workers.to_string(), "--concurrency", &concurrency.to_string()])
            .current_dir(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let clock = Instant::now();
        let socket = loop {
            if let Some(socket) = connect(&data.join("run"))? {
                break socket;
            }
            give_up_after(clock, &log)?;
            std::thread::sleep(Duration::from_millis(1));
        };
        Ok(Self { child, socket, log })
    }

    /// Waits until every worker has told its figures once.
    pub(crate) fn wait_until_ready(&mut self) -> Fallible<()> {
        let clock = Instant::now();
        while !self.figures()?.workers.iter().all(|worker| worker.alive && worker.figures.pid != 0) {
            give_up_after(clock, &self.log)?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    pub(crate) fn figures(&mut self) -> Fallible<ServerFigures> {
        let mut frame = 9_u32.to_le_bytes().to_vec();
        frame.push(STATUS);
        frame.extend_from_slice(&1_u64.to_le_bytes());
        self.socket.write_all(&frame)?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut rest = vec![0; u32::from_le_bytes(length) as usize];
        self.socket.read_exact(&mut rest)?;
        Ok(serde_json::from_slice(rest.get(9..).unwrap_or_default())?)
    }

    /// Waits until the workers have completed so many in all, and says when that was.
    pub(crate) fn wait_for(&mut self, completed: u64) -> Fallible<Instant> {
        let clock = Instant::now();
        let mut paces: Vec<Pace> = Vec::new();
        loop {
            let figures = self.figures()?;
            let now = Instant::now();
            paces.resize(figures.workers.len(), Pace::default());
            for (pace, worker) in paces.iter_mut().zip(&figures.workers) {
                pace.look(now, worker.figures.completed);
            }
            if figures.workers.iter().map(|worker| worker.figures.completed).sum::<u64>() >= completed {
                return Ok(paces.iter().filter_map(Pace::end).max().unwrap_or(now));
            }
            give_up_after(clock, &self.log)?;
            std::thread::sleep(LOOK);
        }
    }

    /// Process ids of the workers.
    pub(crate) fn workers(&mut self) -> Fallible<Vec<u32>> {
        Ok(self.figures()?.workers.iter().map(|worker| worker.figures.pid).collect())
    }

    /// Processor time of all threads of all workers, by thread name, and of the supervisor.
    pub(crate) fn cpu(&mut self) -> Fallible<(ThreadTimes, f64)> {
        let mut workers = ThreadTimes::new();
        for pid in self.workers()? {
            for (name, time) in thread_times(pid)? {
                *workers.entry(name).or_default() += time;
            }
        }
        Ok((workers, thread_times(self.child.id())?.values().sum()))
    }

    /// Stops it as an operator would.
    pub(crate) fn stop(mut self) -> Fallible<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program that is measured, without any settings from outside.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wasmq"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("WASMQ_")) {
        command.env_remove(name);
    }
    command
}

fn give_up_after(clock: Instant, log: &Path) -> Fallible<()> {
    if clock.elapsed() < PATIENCE {
        return Ok(());
    }
    Err(format!("the server did not get there in {PATIENCE:?}; it said: {}", std::fs::read_to_string(log)?).into())
}

/// A socket address is short and a directory may be long, hence the way through its descriptor.
fn connect(run: &Path) -> Fallible<Option<UnixStream>> {
    let Ok(entries) = std::fs::read_dir(run) else { return Ok(None) };
    let dir = File::open(run)?;
    for entry in entries {
        let name = entry?.file_name();
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        if let Ok(socket) = UnixStream::connect(path) {
            return Ok(Some(socket));
        }
    }
    Ok(None)
}

/// How a worker came along. Its figures come every 200 ms, so its end lies somewhere before the
/// last of them; it is where its own pace until the last but one leads to.
#[derive(Clone, Default)]
struct Pace {
    first: Option<(Instant, u64)>,
    previous: Option<(Instant, u64)>,
    last: Option<(Instant, u64)>,
}

impl Pace {
    fn look(&mut self, now: Instant, completed: u64) {
        if self.last.is_none_or(|(_, last)| last != completed) {
            self.first = self.first.or(Some((now, completed)));
            self.previous = self.last;
            self.last = Some((now, completed));
        }
    }

    fn end(&self) -> Option<Instant> {
        let ((first_at, first), (previous_at, previous), (last_at, last)) = (self.first?, self.previous?, self.last?);
        if previous <= first {
            return Some(last_at);
        }
        let seconds_per_task = (previous_at - first_at).as_secs_f64() / (previous - first) as f64;
        Some(last_at.min(previous_at + Duration::from_secs_f64(seconds_per_task * (last - previous) as f64)))
    }
}
