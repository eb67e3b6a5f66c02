//! Worker processes: starting one, reading what it says, noticing its end.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;

use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::ServeOptions;
use super::hub::{Event, Incarnation};
use super::listener::write;
use crate::wire::Frame;

/// Tells the allocator whether it may take huge pages. The kernel clears each of them whole, which took a
/// tenth of a worker's time while a backlog grew.
const HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP";

/// The supervisor's hold on a worker process.
pub(super) struct Worker {
    pub(super) pid: u32,
    pub(super) frames: UnboundedSender<Frame>,
    kill: Option<oneshot::Sender<()>>,
}

impl Worker {
    /// Ends the process at once.
    pub(super) fn kill(&mut self) {
        if let Some(kill) = self.kill.take() {
            let _ = kill.send(());
        }
    }
}

/// Starts a worker whose standard input is a socket to this process. It gets a process group of its
/// own, so that Ctrl-C on the terminal reaches the supervisor alone.
pub(super) fn start(
    options: &ServeOptions,
    incarnation: Incarnation,
    events: UnboundedSender<Event>,
) -> io::Result<Worker> {
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    let config = serde_json::to_string(&options.worker)?;
    let (program, arguments) = &options.program;
    let mut command = Command::new(program);
    if std::env::var_os(HUGE_PAGES).is_none() {
        command.env(HUGE_PAGES, "0");
    }
    let child =
        command.args(arguments).arg(config).stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0).spawn()?;
    let pid = child.id().unwrap_or_default();
    let (reader, writer) = UnixStream::from_std(ours)?.into_split();
    let (frames, outbox) = unbounded_channel();
    let (kill, killed) = oneshot::channel();
    tokio::spawn(write(writer, outbox));
    tokio::spawn(watch(incarnation, BufReader::with_capacity(256 * 1024, reader), child, killed, events));
    Ok(Worker { pid, frames, kill: Some(kill) })
}

/// Passes on what the worker says, and at last that it ended.
async fn watch(
    incarnation: Incarnation,
    mut reader: BufReader<tokio::net::unix::OwnedReadHalf>,
    mut child: Child,
    mut killed: oneshot::Receiver<()>,
    events: UnboundedSender<Event>,
) {
    let mut asked_to_die = false;
    loop {
        tokio::select! {
            frame = Frame::read_async(&mut reader) => match frame {
                Ok(Some(frame)) => {
                    let _ = events.send(Event::FromWorker(incarnation, frame));
                }
                Ok(None) | Err(_) => break,
            },
            _ = &mut killed, if !asked_to_die => {
                asked_to_die = true;
                let _ = child.start_kill();
            }
        }
    }
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = &mut killed, if !asked_to_die => {
                asked_to_die = true;
                let _ = child.start_kill();
            }
        }
    };
    let ended = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    let _ = events.send(Event::WorkerGone(incarnation, ended));
}
