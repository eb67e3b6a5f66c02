//! The client's end of a server's local socket.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wasmq_core::InvocationId;

use super::{QueueError, Waiting};
use crate::clock::{self, Stopwatch};
use crate::store::StoreKind;
use crate::supervisor::{self, ServerFigures};
use crate::wire::{Frame, Kind, Reason, Refusal, WireError};
use crate::worker::{Completion, FailedAttempt};

/// How long it is believed that no server runs. What is enqueued meanwhile is adopted all the same.
const NO_SERVER_FOR: Duration = Duration::from_millis(20);
/// How long it is believed that those that run do not answer, since finding out takes [`GREETING`].
const NO_ANSWER_FOR: Duration = Duration::from_secs(5);

/// How long an answer may take that only needs a sync. A server whose worker was stopped, or whose disk
/// hangs, must not hold its clients for ever.
const SOON: Duration = Duration::from_secs(30);
/// How long an answer may take that a server gives from memory.
const AT_ONCE: Duration = Duration::from_secs(3);
/// How long a server may take to show that it is there, before anything is entrusted to it. What was sent to
/// one that was stopped can neither be taken back nor be sent elsewhere.
const GREETING: Duration = Duration::from_secs(1);
/// For how long a server that answered need not be greeted again.
const HEARD: Duration = Duration::from_secs(1);

/// Connections to a server that nobody uses at the moment.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Client>>,
    /// Since when, and for how long, it is believed that no server takes anything.
    none: Mutex<Option<(Stopwatch, Duration)>>,
}

impl Pool {
    /// A connection to a server that answers, used before or new; `None` when no server runs, or, for callers
    /// that can do without, when none answers.
    pub(super) fn take(&self, run_dir: &Path, store: StoreKind) -> Result<Option<Client>, QueueError> {
        while let Some(mut client) = lock(&self.idle).pop() {
            if client.is_connected() && matches!(client.greet(), Greeting::Takes) {
                return Ok(Some(client));
            }
        }
        if lock(&self.none).is_some_and(|(since, long)| since.elapsed() < long) {
            return Ok(None);
        }
        let believed_for = match Client::connect_any(run_dir, store) {
            Ok(None) => NO_SERVER_FOR,
            Err(QueueError::Unavailable(_)) if store == StoreKind::Dir => NO_ANSWER_FOR,
            found => return found,
        };
        *lock(&self.none) = Some((Stopwatch::start(), believed_for));
        Ok(None)
    }

    /// Gives a connection back whose last request was answered.
    pub(super) fn give_back(&self, client: Client) {
        lock(&self.idle).push(client);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a server says when it is greeted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// It takes what comes.
    Takes,
    /// It stops, and takes nothing.
    Drains,
    /// Nothing.
    Silent,
}

/// A connection to one server.
#[derive(Debug)]
pub(super) struct Client {
    stream: UnixStream,
    next_request: u64,
    /// How long an answer may take.
    patience: Option<Duration>,
    /// When it answered last.
    heard: Option<Stopwatch>,
}

impl Client {
    /// Connects to one of the servers on a data directory that answer and do not drain, by lot, so that several
    /// share the work; `None` when there is none, [`QueueError::Unavailable`] when none answers. One with another
    /// store is an error: it would keep less, or more, than the caller believes.
    pub(super) fn connect_any(run_dir: &Path, store: StoreKind) -> Result<Option<Self>, QueueError> {
        let mut clients = Self::connect_all(run_dir, store)?;
        let (mut is_silent, mut drains) = (false, false);
        while !clients.is_empty() {
            let mut client = clients.swap_remove(clock::draw(clients.len()));
            match client.greet() {
                Greeting::Takes => return Ok(Some(client)),
                Greeting::Drains => drains = true,
                Greeting::Silent => is_silent = true,
            }
        }
        if drains && store == StoreKind::None {
            return Err(QueueError::Unavailable("it stops; nothing was asked of it".to_owned()));
        }
        if !is_silent {
            return Ok(None);
        }
        Err(QueueError::Unavailable(format!(
            "it has not answered for {} s; nothing was asked of it",
            GREETING.as_secs()
        )))
    }

    /// Whether the server is alive enough to be entrusted with something: it answered a moment ago, or does so
    /// now.
    fn greet(&mut self) -> Greeting {
        if self.heard.is_some_and(|since| since.elapsed() < HEARD) {
            return Greeting::Takes;
        }
        match self.figures_within(GREETING, &[]) {
            Ok(figures) if figures.draining => Greeting::Drains,
            Ok(_) if self.be_patient_for(Some(SOON)).is_ok() => Greeting::Takes,
            _ => Greeting::Silent,
        }
    }

    /// Connects to every server on a data directory.
    pub(super) fn connect_all(run_dir: &Path, store: StoreKind) -> Result<Vec<Self>, QueueError> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => QueueError::OtherUser { run_dir: run_dir.to_owned() },
            _ => QueueError::Connection(error),
        };
        let mut clients = Vec::new();
        for server in supervisor::servers(run_dir).map_err(failed)? {
            let connected = supervisor::connect(run_dir, &server).map_err(failed)?;
            match connected {
                Some(_) if server.store != store => {
                    return Err(QueueError::OtherStore { wanted: store, running: server.store });
                }
                Some(stream) => {
                    let mut client = Self { stream, next_request: 0, patience: None, heard: None };
                    client.be_patient_for(Some(SOON))?;
                    clients.push(client);
                }
                None => {}
            }
        }
        Ok(clients)
    }

    /// Whether the server is still at the other end. Nothing is in flight on an idle connection, so
    /// anything that can be read means its end.
    fn is_connected(&self) -> bool {
        let mut byte = [0_u8; 1];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(&self.stream, &mut byte, flags), Err(rustix::io::Errno::WOULDBLOCK))
    }

    fn send(&mut self, kind: Kind, body: Vec<u8>) -> Result<(), QueueError> {
        self.next_request += 1;
        Frame::new(kind, self.next_request, body).write(&mut self.stream).map_err(QueueError::Connection)
    }

    fn receive(&mut self) -> Result<Frame, QueueError> {
        match Frame::read(&mut self.stream) {
            Ok(Some(frame)) => {
                self.heard = Some(Stopwatch::start());
                Ok(frame)
            }
            Ok(None) => Err(QueueError::Connection(std::io::ErrorKind::UnexpectedEof.into())),
            Err(WireError::Io(error)) => Err(self.no_answer(error)),
            Err(error) => Err(QueueError::Server(error.to_string())),
        }
    }

    fn be_patient_for(&mut self, patience: Option<Duration>) -> Result<(), QueueError> {
        self.patience = patience;
        self.stream.set_read_timeout(patience).map_err(QueueError::Connection)
    }

    fn no_answer(&self, error: std::io::Error) -> QueueError {
        match self.patience.filter(|_| error.kind() == std::io::ErrorKind::WouldBlock) {
            Some(patience) => QueueError::NoAnswer { seconds: patience.as_secs() },
            None => QueueError::Connection(error),
        }
    }

    /// Sends a batch and waits until it is durable.
    pub(super) fn enqueue(&mut self, body: Vec<u8>) -> Result<(), QueueError> {
        self.send(Kind::Enqueue, body)?;
        let frame = self.receive()?;
        acknowledged(&frame)
    }

    /// Waits for the end of the invocation that was enqueued last with the wait flag.
    pub(super) fn wait(&mut self, observe: &mut dyn FnMut(Waiting)) -> Result<Completion, QueueError> {
        self.be_patient_for(None)?;
        loop {
            let frame = self.receive()?;
            if frame.kind != Kind::Attempt {
                return completion(&frame);
            }
            observe(Waiting::Failed(failed_attempt(&frame)?));
        }
    }

    pub(super) fn cancel(&mut self, id: InvocationId) -> Result<bool, QueueError> {
        self.send(Kind::Cancel, id.as_u128().to_be_bytes().to_vec())?;
        let frame = self.receive()?;
        match acknowledged(&frame) {
            Ok(()) => Ok(true),
            Err(QueueError::UnknownId(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The figures, which a server gives from memory.
    pub(super) fn figures(&mut self) -> Result<ServerFigures, QueueError> {
        self.figures_within(AT_ONCE, supervisor::WITH_PROGRESS)
    }

    fn figures_within(&mut self, patience: Duration, wanted: &[u8]) -> Result<ServerFigures, QueueError> {
        self.be_patient_for(Some(patience))?;
        self.send(Kind::Status, wanted.to_vec())?;
        let frame = self.receive()?;
        serde_json::from_slice(&frame.body).map_err(|error| QueueError::Server(error.to_string()))
    }
}

/// Whether a frame acknowledges; the error it stands for otherwise.
pub(super) fn acknowledged(frame: &Frame) -> Result<(), QueueError> {
    if frame.kind == Kind::Ack {
        return Ok(());
    }
    let refusal: Refusal = serde_json::from_slice(&frame.body)
        .map_err(|_| QueueError::Server(format!("an unexpected answer of kind {:?}", frame.kind)))?;
    Err(match refusal.reason {
        Reason::NoSpace => QueueError::NoSpace(refusal.message),
        Reason::Unknown => QueueError::UnknownId(refusal.message),
        Reason::Unavailable => QueueError::Unavailable(refusal.message),
        Reason::Failed | Reason::Malformed => QueueError::Server(refusal.message),
    })
}

/// What an `Attempt` frame says.
pub(super) fn failed_attempt(frame: &Frame) -> Result<FailedAttempt, QueueError> {
    serde_json::from_slice(&frame.body).map_err(|error| QueueError::Server(error.to_string()))
}

/// The completion in a `Finished` frame; the error another frame stands for.
pub(super) fn completion(frame: &Frame) -> Result<Completion, QueueError> {
    if frame.kind != Kind::Finished {
        acknowledged(frame)?;
        return Err(QueueError::Server("an acknowledgement where the end was awaited".to_owned()));
    }
    Completion::from_body(&frame.body).ok_or_else(|| QueueError::Server("a completion that cannot be read".to_owned()))
}
