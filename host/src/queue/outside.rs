//! The log that this process writes when no server runs: group commit for all its threads, and
//! handed over to the workers a moment later.
//!
//! Threads stage their records; one of them, the leader, appends everything staged, syncs once and
//! wakes the others, as long as something is staged. So many threads that wait share each sync.
//!
//! Invariants: a caller returns only after the sync that covers its records, or with its failure; a
//! log whose write failed is let go and the next call starts another.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use wasmq_core::Invocation;
use wasmq_wal::disk::Disk;

use crate::journal::{JournalError, OutsideLog};

/// How long a log collects enqueues before workers may adopt it.
const COLLECT: Duration = Duration::from_millis(300);

type Outcome = Result<(), Arc<JournalError>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Outside {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    staging: Mutex<Staging>,
    log: Arc<Mutex<Option<Open>>>,
}

#[derive(Debug)]
struct Open {
    log: OutsideLog,
    /// Dropping it wakes the thread that lets go after [`COLLECT`].
    _alive: Sender<()>,
}

#[derive(Debug, Default)]
struct Staging {
    /// Bodies of records, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// The batch that is being staged.
    batch: Arc<Batch>,
    leading: bool,
}

/// What the callers of one batch share: its result, and what wakes them and nobody else.
#[derive(Debug, Default)]
struct Batch {
    outcome: OnceLock<Outcome>,
    woken: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Staging {
    fn push(&mut self, invocation: &Invocation, payload: &[u8]) {
        invocation.encode(&mut self.bytes);
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
    }
}

impl Outside {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir, staging: Mutex::default(), log: Arc::default() }
    }

    /// Makes the invocations durable, together with those of other threads.
    pub(super) fn write(&self, invocations: &[(Invocation, Vec<u8>)]) -> Outcome {
        let mut staging = lock(&self.staging);
        invocations.iter().for_each(|(invocation, payload)| staging.push(invocation, payload));
        let mine = Arc::clone(&staging.batch);
        loop {
            if let Some(outcome) = mine.outcome.get() {
                return outcome.clone();
            }
            staging = if staging.leading {
                mine.woken.wait(staging).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.lead(staging)
            };
        }
    }

    /// Writes one batch as the leader, then wakes those who waited for it and one of the next batch,
    /// which leads in its turn.
    fn lead<'a>(&'a self, mut staging: MutexGuard<'a, Staging>) -> MutexGuard<'a, Staging> {
        let staged = std::mem::take(&mut *staging);
        staging.leading = true;
        drop(staging);
        let outcome = self.append_and_sync(&staged.bytes, &staged.ends).map_err(Arc::new);
        let _ = staged.batch.outcome.set(outcome);
        let mut staging = lock(&self.staging);
        staging.leading = false;
        staging.batch.woken.notify_one();
        staged.batch.woken.notify_all();
        staging
    }

    fn append_and_sync(&self, bytes: &[u8], ends: &[usize]) -> Result<(), JournalError> {
        let mut slot = lock(&self.log);
        if slot.is_none() {
            *slot = Some(self.open()?);
        }
        let Some(open) = slot.as_mut() else { return Ok(()) };
        let mut start = 0;
        let written = ends.iter().try_for_each(|&end| {
            let body = bytes.get(start..end).unwrap_or_default();
            start = end;
            open.log.append(body)
        });
        let result = written.and_then(|()| open.log.sync());
        if result.is_err()
            && let Some(broken) = slot.take()
        {
            broken.log.abandon();
        }
        result
    }

    fn open(&self) -> Result<Open, JournalError> {
        let owner = format!("enqueue, pid {}", std::process::id());
        let log = OutsideLog::create(Arc::clone(&self.disk), &self.dir, &owner)?;
        let (alive, closed) = channel::<()>();
        let slot = Arc::clone(&self.log);
        let spawned = std::thread::Builder::new().name("let-go".to_owned()).spawn(move || {
            if closed.recv_timeout(COLLECT) == Err(RecvTimeoutError::Timeout) {
                let _ = let_go(&slot);
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to hand enqueues over in time; they wait for the end of this process");
        }
        Ok(Open { log, _alive: alive })
    }

    /// Lets workers have what was written.
    pub(super) fn let_go(&self) -> Result<(), JournalError> {
        let_go(&self.log)
    }
}

fn let_go(slot: &Mutex<Option<Open>>) -> Result<(), JournalError> {
    let open = lock(slot).take();
    match open {
        Some(open) => open.log.let_go(),
        None => Ok(()),
    }
}
