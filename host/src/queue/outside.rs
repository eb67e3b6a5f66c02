//! The log that this process writes when no server runs: group commit for all its threads, and
//! handed over to the workers a moment later.
//!
//! Threads stage their records and wait. A committer, started by the first of them, appends what is
//! staged, syncs once, wakes those whose records that covered, and takes what has gathered meanwhile;
//! so any number of threads share each sync. It ends with the log.
//!
//! Invariants: a caller returns only after the sync that covers its records, or with its failure; a
//! log whose write failed is let go and the next batch starts another; no log is kept for longer than
//! [`COLLECT`].

use std::path::PathBuf;
use std::time::Duration;

use wasmq_core::Invocation;
use wasmq_wal::disk::Disk;

use crate::causes::error_chain;
use crate::clock::Stopwatch;
use crate::journal::{JournalError, OutsideLog};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, thread};

/// How long a log collects enqueues before workers may adopt it.
const COLLECT: Duration = Duration::from_millis(300);
/// How many invocations, and bytes of them, a log collects: enough to be worth a log, few enough that
/// several workers share what was enqueued at once. A larger batch stays together.
const COLLECT_MOST: (usize, usize) = (16_384, 32 << 20);

type Outcome = Result<(), Arc<JournalError>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Outside {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    staging: Mutex<Staging>,
    /// Something was staged, or the log is to be let go.
    work: Condvar,
    log: Mutex<Option<OutsideLog>>,
}

#[derive(Debug, Default)]
struct Staging {
    batch: Batch,
    committer: Committer,
    /// Set by [`Outside::let_go`]: the committer ends as soon as nothing is staged.
    closing: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Committer {
    /// There is none; who stages starts one.
    #[default]
    Absent,
    /// It waits for work.
    Idle,
    /// It writes, and looks for more before it waits.
    Busy,
}

/// Records that one sync will cover.
#[derive(Debug, Default)]
struct Batch {
    /// Bodies of records, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    ticket: Arc<Ticket>,
}

/// What the callers of one batch wait for. Of its own, so that no other caller is woken or held up.
#[derive(Debug, Default)]
struct Ticket {
    outcome: Mutex<Option<Outcome>>,
    settled: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Batch {
    fn push(&mut self, invocation: &Invocation, payload: &[u8]) {
        invocation.encode(&mut self.bytes);
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
    }

    fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| self.bytes.get(std::mem::replace(&mut start, end)..end).unwrap_or_default())
    }
}

impl Ticket {
    fn settle(&self, outcome: Outcome) {
        *lock(&self.outcome) = Some(outcome);
        self.settled.notify_all();
    }

    fn wait(&self) -> Outcome {
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = outcome.as_ref() {
                return outcome.clone();
            }
            outcome = self.settled.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Outside {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        let (staging, work, log) = (Mutex::default(), Condvar::new(), Mutex::default());
        Self { shared: Arc::new(Shared { disk, dir, staging, work, log }) }
    }

    /// Makes the invocations durable, together with those of other threads.
    pub(super) fn write(&self, invocations: &[(Invocation, Vec<u8>)]) -> Outcome {
        if invocations.is_empty() {
            return Ok(());
        }
        let mut staging = lock(&self.shared.staging);
        invocations.iter().for_each(|(invocation, payload)| staging.batch.push(invocation, payload));
        let ticket = Arc::clone(&staging.batch.ticket);
        let found = std::mem::replace(&mut staging.committer, Committer::Busy);
        drop(staging);
        match found {
            Committer::Busy => {}
            Committer::Idle => self.shared.work.notify_one(),
            Committer::Absent => self.start_committer(),
        }
        ticket.wait()
    }

    fn start_committer(&self) {
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new().name("committer".to_owned()).spawn(move || shared.commit_all());
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to commit enqueues; this one does it");
            lock(&self.shared.staging).closing = true;
            self.shared.commit_all();
        }
    }

    /// Lets workers have what was written.
    pub(super) fn let_go(&self) -> Result<(), JournalError> {
        let mut staging = lock(&self.shared.staging);
        staging.closing = staging.committer != Committer::Absent;
        drop(staging);
        self.shared.work.notify_one();
        self.shared.let_go()
    }
}

impl Shared {
    /// The life of a committer.
    fn commit_all(&self) {
        let mut opened = Stopwatch::start();
        let mut collected = (0, 0);
        while let Some(batch) = self.next_batch(opened) {
            let outcome = self.append_and_sync(&batch).map_err(Arc::new);
            batch.ticket.settle(outcome);
            collected = (collected.0 + batch.ends.len(), collected.1 + batch.bytes.len());
            if opened.elapsed() >= COLLECT || collected.0 >= COLLECT_MOST.0 || collected.1 >= COLLECT_MOST.1 {
                self.let_go_aloud();
                opened = Stopwatch::start();
                collected = (0, 0);
            }
        }
    }

    /// Waits for a batch. `None` when the time of the log is over: it is let go then, and the next
    /// caller starts another committer.
    fn next_batch(&self, opened: Stopwatch) -> Option<Batch> {
        let mut staging = lock(&self.staging);
        while staging.batch.ends.is_empty() {
            let left = COLLECT.saturating_sub(opened.elapsed());
            if left.is_zero() || std::mem::take(&mut staging.closing) {
                staging.committer = Committer::Absent;
                drop(staging);
                self.let_go_aloud();
                return None;
            }
            staging.committer = Committer::Idle;
            staging =
                self.work.wait_timeout(staging, left).map_or_else(|poisoned| poisoned.into_inner().0, |woken| woken.0);
        }
        staging.committer = Committer::Busy;
        Some(std::mem::take(&mut staging.batch))
    }

    fn append_and_sync(&self, batch: &Batch) -> Result<(), JournalError> {
        let mut slot = lock(&self.log);
        let log = match &mut *slot {
            Some(log) => log,
            none => none.insert(self.create_log()?),
        };
        let result = batch.bodies().try_for_each(|body| log.append(body)).and_then(|()| log.sync());
        if result.is_err()
            && let Some(broken) = slot.take()
        {
            broken.abandon();
        }
        result
    }

    fn create_log(&self) -> Result<OutsideLog, JournalError> {
        let owner = format!("enqueue, pid {}", std::process::id());
        OutsideLog::create(Arc::clone(&self.disk), &self.dir, &owner)
    }

    fn let_go(&self) -> Result<(), JournalError> {
        let log = lock(&self.log).take();
        log.map_or(Ok(()), OutsideLog::let_go)
    }

    fn let_go_aloud(&self) {
        if let Err(error) = self.let_go() {
            tracing::error!(
                error = error_chain(&error),
                "enqueues could not be handed over in an orderly way; a worker adopts them all the same"
            );
        }
    }
}
