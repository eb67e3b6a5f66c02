//! Enqueueing: through a running server, or into a log of its own that a worker will adopt.
//!
//! Invariants: nothing is written before name, size and settings are checked; a batch is enqueued as
//! a whole or, as far as this call knows, not at all.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wasmq_core::invocation::{MAX_PRIORITY, Pin, check_metadata};
use wasmq_core::{Invocation, InvocationId, Millis, TaskName, Timestamp};

use super::client::{Client, completion, failed_attempt};
use super::{Inner, Queue, QueueError};
use crate::causes::error_chain;
use crate::clock;
use crate::registry::Tasks;
use crate::store::StoreKind;
use crate::wire::{EnqueueBody, Frame, Kind};
use crate::worker::{Completion, EmbeddedWorker, FailedAttempt, FrameSender, WorkerConfig};

/// A frame to a server is sent when it has grown to this, in bytes.
const FRAME_BYTES: usize = 4 << 20;
/// How long a worker inside this process lets a running attempt go on when it is stopped.
const EMBEDDED_GRACE_MS: u64 = 1000;
/// The requests to a worker inside this process.
const ENQUEUE: u64 = 1;
const CANCEL: u64 = 2;

/// The invocations that run inside this process, with what their workers are told through.
#[derive(Debug, Default)]
pub(super) struct Here(Mutex<BTreeMap<InvocationId, FrameSender>>);

impl Here {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<InvocationId, FrameSender>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: InvocationId, worker: FrameSender) {
        self.lock().insert(id, worker);
    }

    fn remove(&self, id: InvocationId) {
        self.lock().remove(&id);
    }

    /// Cancels one; false when it does not run here.
    pub(super) fn cancel(&self, id: InvocationId) -> bool {
        let here = self.lock();
        let worker = here.get(&id);
        if let Some(worker) = worker {
            worker.send(Frame::new(Kind::Cancel, CANCEL, id.as_u128().to_be_bytes().to_vec()));
        }
        worker.is_some()
    }
}

/// A request to run a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvocation {
    /// The task.
    pub task: TaskName,
    /// Any bytes.
    pub payload: Vec<u8>,
    /// The earliest first attempt by the clock of day; at once when absent.
    pub due_at: Option<Timestamp>,
    /// How long from now the first attempt waits, whatever happens to the clock of day; it goes before `due_at`.
    pub delay: Option<Millis>,
    /// 0 to 9; higher starts first.
    pub priority: u8,
    /// `current`, `v2`, a label or a digest; current when absent.
    pub component: Option<String>,
    /// Its own budget of attempts, over the task's.
    pub max_attempts: Option<NonZeroU32>,
    /// Key-value pairs handed to the task.
    pub metadata: Vec<(String, String)>,
}

/// What happens to an invocation that is waited for, before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// It is safe, under this id.
    Accepted(InvocationId),
    /// An attempt failed, and another will follow.
    Failed(FailedAttempt),
}

impl NewInvocation {
    /// A plain request, due at once, for the current version.
    #[must_use]
    pub const fn new(task: TaskName, payload: Vec<u8>) -> Self {
        Self {
            task,
            payload,
            due_at: None,
            delay: None,
            priority: 0,
            component: None,
            max_attempts: None,
            metadata: Vec::new(),
        }
    }
}

impl Queue {
    /// Enqueues one invocation. When this returns, it is as durable as the `fsync` setting says.
    ///
    /// # Errors
    /// [`QueueError::Unresolved`], [`QueueError::PayloadTooLarge`],
    /// [`QueueError::Metadata`], or a failure of the store. Then nothing was enqueued.
    pub fn enqueue(&self, new: NewInvocation) -> Result<InvocationId, QueueError> {
        let mut ids = self.enqueue_all(vec![new])?;
        ids.pop().ok_or_else(|| QueueError::Server("no id for an invocation".to_owned()))
    }

    /// Enqueues many at once, with one sync or few.
    ///
    /// # Errors
    /// As [`Queue::enqueue`]. All are checked before any is enqueued; when a server fails in the
    /// middle of a very large batch, the part it acknowledged stays enqueued.
    pub fn enqueue_all(&self, new: Vec<NewInvocation>) -> Result<Vec<InvocationId>, QueueError> {
        let tasks = self.inner.registry.tasks()?;
        let checked = new.into_iter().map(|one| self.inner.check(one, &tasks)).collect::<Result<Vec<_>, _>>()?;
        let ids = checked.iter().map(|(invocation, _)| invocation.id).collect();
        match self.inner.clients.take(&self.inner.layout.run(), self.inner.options.store)? {
            Some(client) => self.inner.enqueue_through(client, &checked)?,
            None if self.inner.options.store == StoreKind::None => return Err(self.inner.no_server()),
            None => self.inner.enqueue_outside(&checked)?,
        }
        Ok(ids)
    }

    /// Enqueues one invocation and waits for its end, over all its attempts. `observe` is told when it is
    /// safe, and of every attempt that fails and is followed by another. Without a server it is run inside
    /// this process; see [`Options::on_signals`](super::Options::on_signals).
    ///
    /// # Errors
    /// As [`Queue::enqueue`]; and [`QueueError::Left`] when the server goes away while it is waited for. The
    /// invocation then goes on without the waiter.
    pub fn enqueue_and_wait(
        &self,
        new: NewInvocation,
        observe: &mut dyn FnMut(Waiting),
    ) -> Result<Completion, QueueError> {
        let (invocation, payload) = self.inner.check(new, &self.inner.registry.tasks()?)?;
        let id = invocation.id;
        let mut body = EnqueueBody::new(true);
        body.push(&invocation, &payload);
        let body = body.finish();
        let client = Client::connect_any(&self.inner.layout.run(), self.inner.options.store);
        let ended = match client.and_then(|client| client.map(|client| entrust(client, body.clone())).transpose()) {
            Ok(Some(mut client)) => {
                observe(Waiting::Accepted(id));
                client.wait(observe).map_err(|error| left(id, error))
            }
            Ok(None) | Err(QueueError::Unavailable(_)) => self.inner.run_here(id, body, observe),
            Err(error) => Err(error),
        };
        ended.map(|completion| self.inner.explain_end(completion))
    }
}

/// The client, once the server has made safe what the body holds.
fn entrust(mut client: Client, body: Vec<u8>) -> Result<Client, QueueError> {
    client.enqueue(body).map(|()| client)
}

/// An invocation that was accepted goes on when the connection to its server breaks.
fn left(id: InvocationId, error: QueueError) -> QueueError {
    match error {
        QueueError::Connection(source) => QueueError::Left { id, source },
        other => other,
    }
}

/// Sends everything in frames of a bounded size; `acknowledged` says how many are safe, also when
/// this fails.
fn send_all(
    client: &mut Client,
    checked: &[(Invocation, Vec<u8>)],
    acknowledged: &mut usize,
) -> Result<(), QueueError> {
    let mut body = EnqueueBody::new(false);
    for (index, (invocation, payload)) in checked.iter().enumerate() {
        if !body.is_empty() && body.len() + payload.len() > FRAME_BYTES {
            client.enqueue(std::mem::replace(&mut body, EnqueueBody::new(false)).finish())?;
            *acknowledged = index;
        }
        body.push(invocation, payload);
    }
    if !body.is_empty() {
        client.enqueue(body.finish())?;
    }
    *acknowledged = checked.len();
    Ok(())
}

impl Inner {
    /// Through a server; what it does not take because it stops goes into a log of this process.
    fn enqueue_through(&self, mut client: Client, checked: &[(Invocation, Vec<u8>)]) -> Result<(), QueueError> {
        let mut acknowledged = 0;
        match send_all(&mut client, checked, &mut acknowledged) {
            Ok(()) => {
                self.clients.give_back(client);
                Ok(())
            }
            Err(QueueError::Unavailable(_)) if self.options.store == StoreKind::Dir => {
                self.enqueue_outside(checked.get(acknowledged..).unwrap_or_default())
            }
            Err(error) => Err(error),
        }
    }

    fn enqueue_outside(&self, checked: &[(Invocation, Vec<u8>)]) -> Result<(), QueueError> {
        self.make_directories()?;
        self.outside.write(checked).or_else(|error| {
            // A directory that may not be written is told of as such; nobody asks for that while all goes well.
            self.may_write(&[self.layout.journal()])?;
            Err(error.into())
        })
    }

    pub(super) fn no_server(&self) -> QueueError {
        QueueError::NoServer { data_dir: self.options.data_dir.clone(), store: self.options.store }
    }

    /// Everything that can be wrong with a request is found here, before anything is written.
    fn check(&self, new: NewInvocation, tasks: &Tasks) -> Result<(Invocation, Vec<u8>), QueueError> {
        let found = new.payload.len() as u64;
        if found > self.options.payload_limit {
            return Err(QueueError::PayloadTooLarge { found, limit: self.options.payload_limit });
        }
        check_metadata(&new.metadata)?;
        let pin = match new.component.as_deref() {
            None | Some("current") => {
                tasks.get(&new.task).ok_or_else(|| self.unknown_task(&new.task))?;
                Pin::Current
            }
            Some(wanted) => Pin::Version(self.choose(&new.task, wanted)?.number),
        };
        let mut invocation = Invocation::new(clock::new_invocation_id(), new.task, clock::now());
        invocation.pin = pin;
        let after = new.delay.map(|delay| invocation.enqueued_at.after(delay));
        invocation.due_at = after.or(new.due_at).unwrap_or(invocation.due_at);
        invocation.is_delay = after.is_some();
        invocation.priority = new.priority.min(MAX_PRIORITY);
        invocation.max_attempts = new.max_attempts;
        invocation.metadata = new.metadata;
        Ok((invocation, new.payload))
    }

    /// Runs one invocation in this process, to its end.
    fn run_here(
        &self,
        id: InvocationId,
        body: Vec<u8>,
        observe: &mut dyn FnMut(Waiting),
    ) -> Result<Completion, QueueError> {
        self.make_directories()?;
        self.may_write(&[self.layout.journal(), self.layout.dlq()])?;
        let config = WorkerConfig {
            data_dir: self.options.data_dir.clone(),
            store: self.options.store,
            fsync: self.options.fsync,
            concurrency: 1,
            grace_ms: EMBEDDED_GRACE_MS,
        };
        let worker = EmbeddedWorker::start(config, self.options.on_signals).map_err(QueueError::from_worker)?;
        self.here.add(id, worker.sender());
        worker.send(Frame::new(Kind::Enqueue, ENQUEUE, body));
        let mut is_accepted = false;
        let ended = wait_for_end(&worker, id, &mut |waiting| {
            is_accepted = true;
            observe(waiting);
        });
        self.here.remove(id);
        let stopped = worker.stop();
        match (ended, stopped) {
            (Ok(completion), _) => Ok(completion),
            (Err(_), Err(error)) => Err(QueueError::from_worker(error)),
            // It only ends of itself when a signal wants it to.
            (Err(QueueError::Worker(_)), Ok(())) if is_accepted && self.options.store == StoreKind::Dir => {
                Err(QueueError::Interrupted { id })
            }
            (Err(error), Ok(())) => Err(error),
        }
    }
}

fn wait_for_end(
    worker: &EmbeddedWorker,
    id: InvocationId,
    observe: &mut dyn FnMut(Waiting),
) -> Result<Completion, QueueError> {
    while let Some(frame) = worker.next_answer() {
        match frame.kind {
            Kind::Figures => {}
            // Whoever cancelled sees it in how the invocation ends.
            _ if frame.request == CANCEL => {}
            Kind::Ack => observe(Waiting::Accepted(id)),
            Kind::Attempt => observe(Waiting::Failed(failed_attempt(&frame)?)),
            _ => return completion(&frame),
        }
    }
    Err(QueueError::Worker("it ended before the invocation did; the invocation is kept if it was enqueued".into()))
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.outside.let_go() {
            tracing::error!(
                error = error_chain(&error),
                "the last enqueues could not be handed over; a worker adopts them all the same"
            );
        }
    }
}
