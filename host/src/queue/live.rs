//! Live invocations as anybody may look at them, and cancelling one.
//!
//! Invariant: looking takes no lock and disturbs no worker.

use wasmq_core::invocation::Pin;
use wasmq_core::state::{Entry, Phase, Suspicion};
use wasmq_core::{Attempt, DeadTask, InvocationId, TaskName, Timestamp};

use super::client::Client;
use super::phase::{Judge, LivePhase};
use super::{Inner, Queue, QueueError};
use crate::journal::{self, LiveEntry, Snapshot};
use crate::runtime::Progress;
use crate::store::StoreKind;
use crate::supervisor::ServerFigures;

/// Which live invocations to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveFilter {
    /// Only those of this task.
    pub task: Option<TaskName>,
    /// At most so many; the oldest first.
    pub limit: Option<usize>,
}

/// A live invocation.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// Its id.
    pub id: InvocationId,
    /// Its task.
    pub task: TaskName,
    /// Where it stands.
    pub phase: LivePhase,
    /// The earliest next attempt, when it is queued.
    pub due_at: Option<Timestamp>,
    /// When it was first enqueued.
    pub enqueued_at: Timestamp,
    /// Attempts started since the last replay.
    pub attempts: u32,
    /// Its own budget of attempts, or its task's; absent when the task is not deployed.
    pub max_attempts: Option<u32>,
    /// How often it was replayed.
    pub replays: u32,
    /// 0 to 9.
    pub priority: u8,
    /// The ended attempts.
    pub history: Vec<Attempt>,
    /// Key-value pairs of the enqueuer.
    pub metadata: Vec<(String, String)>,
    /// The size of its payload, in bytes; absent where it is not known without reading it.
    pub payload_bytes: Option<u64>,
    /// The version that it was enqueued or retried for; absent when that is whatever is current.
    pub pinned: Option<String>,
    /// What it lacks, when it awaits a deploy.
    pub lacks: Option<String>,
    /// How far a running attempt says it has come.
    pub progress: Option<Progress>,
    /// The attempt during which its worker died, if that was its last: it runs alone next.
    pub suspect_since: Option<u32>,
}

/// What an id stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// A live invocation.
    Live(Box<Live>),
    /// A dead task.
    Dead(Box<DeadTask>),
}

impl Queue {
    /// Live invocations, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read, or is `none`.
    pub fn list(&self, filter: &LiveFilter) -> Result<Vec<Live>, QueueError> {
        let inner = &self.inner;
        if inner.options.store == StoreKind::None {
            return Err(QueueError::InMemory);
        }
        let snapshot = inner.snapshot()?;
        let wanted = |live: &&LiveEntry| filter.task.as_ref().is_none_or(|task| live.entry.invocation.task == *task);
        let mut found: Vec<&LiveEntry> = snapshot.entries.values().filter(wanted).collect();
        found.sort_unstable_by_key(|live| live.entry.invocation.id);
        found.truncate(filter.limit.unwrap_or(usize::MAX));
        let mut judge = inner.judge();
        Ok(found.into_iter().map(|live| inner.live(live, &mut judge)).collect())
    }

    /// What an id, or an unambiguous beginning of one, stands for.
    ///
    /// # Errors
    /// [`QueueError::UnknownId`], [`QueueError::AmbiguousId`], [`QueueError::NotAnId`], or when the
    /// store cannot be read or is `none`.
    pub fn show(&self, id: &str) -> Result<Shown, QueueError> {
        let inner = &self.inner;
        if inner.options.store == StoreKind::None {
            return Err(QueueError::InMemory);
        }
        let id = inner.find_id(id)?;
        if let Some(live) = inner.snapshot()?.entries.get(&id) {
            return Ok(Shown::Live(Box::new(inner.live(live, &mut inner.judge()))));
        }
        match inner.dlq.get(id)? {
            Some(dead) => Ok(Shown::Dead(Box::new(inner.explain_dead(dead)))),
            None => Err(QueueError::UnknownId(id.to_string())),
        }
    }

    /// Cancels a live invocation: a queued one ends at once, a running one is stopped.
    ///
    /// # Errors
    /// [`QueueError::UnknownId`]; [`QueueError::NoServer`] when it is live but no server runs that
    /// could take its log over.
    pub fn cancel(&self, id: &str) -> Result<InvocationId, QueueError> {
        let inner = &self.inner;
        let id = match id.parse() {
            Ok(id) => id,
            Err(_) if inner.options.store == StoreKind::None => return Err(QueueError::NotAnId(id.to_owned())),
            Err(_) => inner.find_id(id)?,
        };
        if inner.here.cancel(id) {
            return Ok(id);
        }
        let mut clients = Client::connect_all(&inner.layout.run(), inner.options.store)?;
        for client in &mut clients {
            if client.cancel(id)? {
                return Ok(id);
            }
        }
        if inner.options.store == StoreKind::Dir && inner.snapshot()?.entries.contains_key(&id) {
            return if clients.is_empty() {
                inner.cancel_offline(id)
            } else {
                Err(QueueError::Unavailable(format!("{id} is between two workers; try again in a second")))
            };
        }
        if inner.options.store == StoreKind::Dir && inner.dlq.get(id)?.is_some() {
            return Err(QueueError::IsDead(id));
        }
        Err(QueueError::UnknownId(id.to_string()))
    }
}

impl Inner {
    pub(super) fn snapshot(&self) -> Result<Snapshot, QueueError> {
        Ok(journal::read_all(&self.disk, &self.layout.journal())?)
    }

    /// The figures of all servers. One that cannot be asked is a problem and hides nothing of the rest.
    pub(super) fn ask_servers(&self) -> Result<(Vec<ServerFigures>, Vec<String>), QueueError> {
        let (mut servers, mut problems) = (Vec::new(), Vec::new());
        let clients = match Client::connect_all(&self.layout.run(), self.options.store) {
            Err(QueueError::OtherUser { .. }) => {
                problems.push("a server cannot be asked: only its own user may use its socket".to_owned());
                return Ok((servers, problems));
            }
            clients => clients?,
        };
        for mut client in clients {
            match client.figures() {
                Ok(figures) => servers.push(figures),
                Err(QueueError::NoAnswer { seconds }) => problems.push(format!(
                    "a server has not answered for {seconds} s: it was stopped; when it is killed, others take over its work"
                )),
                Err(QueueError::Connection(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((servers, problems))
    }

    /// Takes the log over that holds the invocation, ends it there, and lets go again.
    fn cancel_offline(&self, id: InvocationId) -> Result<InvocationId, QueueError> {
        self.refuse_place()?;
        if journal::end_in_free_log(&self.disk, &self.layout.journal(), id)? { Ok(id) } else { Err(self.no_server()) }
    }

    /// The one invocation, live or dead, whose id is or begins with a text.
    pub(super) fn find_id(&self, text: &str) -> Result<InvocationId, QueueError> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        if text.len() < 8 || !text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
            return Err(QueueError::NotAnId(text.chars().take(80).collect()));
        }
        let text = text.to_ascii_lowercase();
        let mut ids: Vec<InvocationId> =
            self.snapshot()?.entries.into_keys().filter(|id| id.to_string().starts_with(&text)).collect();
        let mut more = 0;
        match self.dlq.find(&text)? {
            crate::dlq::Found::None => {}
            crate::dlq::Found::One(dead) => ids.push(dead.id),
            crate::dlq::Found::Many { ids: found, total } => {
                more = total - found.len();
                ids.extend(found);
            }
        }
        ids.sort_unstable();
        ids.dedup();
        match ids.as_slice() {
            [] => Err(QueueError::UnknownId(text)),
            [one] if more == 0 => Ok(*one),
            _ => {
                let total = ids.len() + more;
                ids.truncate(10);
                Err(QueueError::AmbiguousId { prefix: text, ids, total })
            }
        }
    }

    fn judge(&self) -> Judge<'_> {
        Judge::new(self, &self.ask_servers().map(|(servers, _)| servers).unwrap_or_default())
    }

    fn live(&self, live: &LiveEntry, judge: &mut Judge<'_>) -> Live {
        let entry = &live.entry;
        let invocation = &entry.invocation;
        let of_task = judge.version(invocation).map(|version| version.settings.max_attempts);
        let phase = judge.phase(live);
        Live {
            id: invocation.id,
            task: invocation.task.clone(),
            lacks: judge.lacks(&phase, live),
            phase,
            pinned: match &invocation.pin {
                Pin::Current => None,
                Pin::Version(number) => Some(number.to_string()),
                Pin::Digest(digest) => Some(digest.to_string()),
            },
            due_at: entry.due_at(judge.now),
            enqueued_at: invocation.enqueued_at,
            attempts: entry.attempts,
            max_attempts: invocation.max_attempts.map(|own| own.get()).or(of_task),
            replays: invocation.replays,
            priority: invocation.priority,
            history: entry.history.clone(),
            metadata: invocation.metadata.clone(),
            payload_bytes: self.payload_bytes(live),
            progress: judge.progress(live),
            suspect_since: suspect_since(entry),
        }
    }

    /// The size of a payload, where it can be read.
    fn payload_bytes(&self, live: &LiveEntry) -> Option<u64> {
        match &live.entry.payload {
            journal::Payload::Inline(bytes) => Some(bytes.len() as u64),
            journal::Payload::InLog(..) => {
                let payload = journal::read_payload(self.disk.as_ref(), &self.layout.journal(), live);
                payload.ok().map(|bytes| bytes.len() as u64)
            }
        }
    }
}

/// The attempt that made an invocation a suspect.
pub(super) fn suspect_since<P>(entry: &Entry<P>) -> Option<u32> {
    let is_suspect = entry.suspicion != Suspicion::None && matches!(entry.phase, Phase::Queued { .. });
    is_suspect.then_some(entry.attempts)
}
