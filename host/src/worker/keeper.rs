//! The keeper: it owns the live store and decides what happens next.
//!
//! Each turn of its thread: take the messages that wait, apply them, start what may start, hand the
//! changes to the operating system, give the started attempts to the executor, commit when somebody
//! waits for it, acknowledge. The lock of the keeper is free while a commit waits for the disk and
//! while guests run. So the executor can judge its ended attempts and fetch the next ones itself
//! (`settle`), which spares both threads the waking of each other.
//!
//! Invariants: no message is answered before the commit that covers it; only the keeper's thread
//! commits; an attempt is run only after its `started` record was handed to the operating system.

#[cfg(test)]
pub(super) mod stepped;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use wasmq_core::{DeadTask, Digest, IdMap, IdSet, InvocationId, Millis, Settings, Timestamp, VersionNumber};
use wasmq_wal::{PendingSync, SyncOutcome};

use super::attention::Attention;
use super::executor::{Dispatch, Finished, ToExecutor};
use super::figures::{AttemptProgress, WorkerFigures};
use super::intake::Batch;
use super::loader::{Components, Loaded};
use super::obituaries::Obituaries;
use super::undertaker::Buried;
use crate::causes::error_chain;
use crate::clock::{self, Stopwatch};
use crate::dlq::DeadTaskStore;
use crate::journal::{JournalError, LiveStore};
use crate::registry::{Registry, RegistryError, Tasks};
use crate::runtime::Signals;
use crate::wire::{Frame, Kind};

/// How often the directory and the registry are looked at.
const LOOK_AROUND: Duration = Duration::from_millis(200);
/// How long after a look something that comes in is worth another look at the registry.
const DEPLOY_LOOK: Duration = Duration::from_millis(1);
/// How often a component that could not be loaded is tried again; its file may have been put back.
const REPAIR_LOOK: Duration = Duration::from_secs(5);
/// How long a change may wait for a sync when nobody waits for it.
const LAZY_COMMIT: Duration = Duration::from_millis(20);
/// How long a worker without a free place waits for an attempt to end before it takes in more.
const INTAKE_PAUSE: Duration = Duration::from_micros(500);
/// Of how many attempts the figures tell how far they are.
const MAX_PROGRESS: usize = 256;
/// The shortest time between two tellings of the figures that nobody asked for.
const TELL_PAUSE: Duration = Duration::from_millis(5);
/// The most messages that one turn takes.
const MESSAGES_PER_TURN: usize = 512;

/// What the keeper is told.
#[derive(Debug)]
pub enum Command {
    /// A frame from the supervisor or the embedding process.
    Frame(Frame),
    /// Attempts that ended.
    Finished(Vec<Finished>),
    /// A component is ready or is not.
    Loaded(Loaded),
    /// Dead tasks were written or were not.
    Buried(Buried),
    /// Stop: finish what runs within the grace time, put the rest back.
    Drain,
    /// The supervisor ended without waiting for this worker.
    SupervisorGone,
    /// The executor left something that needs a commit.
    Look,
}

/// How a keeper works.
#[derive(Debug, Clone)]
pub struct KeeperOptions {
    /// Attempts at the same time.
    pub concurrency: usize,
    /// How long running attempts may go on after [`Command::Drain`].
    pub grace: Duration,
    /// Whether free logs are adopted.
    pub adopts: bool,
    /// What dead tasks say of the worker.
    pub worker: String,
}

/// A running attempt.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) replays: u32,
    pub(super) attempt: u32,
    pub(super) version: VersionNumber,
    pub(super) digest: Digest,
    pub(super) settings: Arc<Settings>,
    pub(super) started_at: Timestamp,
    pub(super) signals: Signals,
    /// The requests to cancel it, which are answered at its end.
    pub(super) cancels: Vec<u64>,
}

/// See the module.
pub(super) struct Keeper {
    pub(super) live: Box<dyn LiveStore>,
    pub(super) registry: Arc<Registry>,
    pub(super) tasks: Tasks,
    /// Why the registry cannot be read, as far as it was told.
    pub(super) registry_error: Option<String>,
    pub(super) dlq: Arc<dyn DeadTaskStore>,
    pub(super) components: Components,
    pub(super) executor: tokio::sync::mpsc::UnboundedSender<ToExecutor>,
    pub(super) undertaker: Sender<Vec<DeadTask>>,
    pub(super) replies: Sender<Frame>,
    pub(super) options: KeeperOptions,
    pub(super) running: IdMap<Running>,
    /// Started, and handed to the executor after the next flush.
    pub(super) starting: Vec<Dispatch>,
    pub(super) waiters: IdMap<u64>,
    /// Attempts that ended since the last slice was taken in.
    pub(super) finished_in_turn: usize,
    /// Enqueues that are not taken in completely yet.
    pub(super) intake: VecDeque<Batch>,
    /// Answers that wait for the next commit.
    pub(super) answers: Vec<Frame>,
    /// Given to the undertaker and not confirmed.
    pub(super) burying: IdSet,
    /// Newly exhausted: the undertaker gets them after the commit.
    pub(super) unburied: bool,
    /// Not before this has passed is a failed burial tried again.
    pub(super) burial_pause: Option<(Stopwatch, Duration)>,
    pub(super) figures: WorkerFigures,
    pub(super) obituaries: Obituaries,
    pub(super) draining: Option<Stopwatch>,
    pub(super) aborted: bool,
    /// When broken components were last tried again.
    pub(super) last_repair: Option<Stopwatch>,
    /// When the figures were told last.
    pub(super) last_told: Option<Stopwatch>,
    /// More free logs wait than one look took over.
    pub(super) more_to_adopt: bool,
    /// When the directory and the registry were looked at last.
    pub(super) last_look: Option<Stopwatch>,
    /// When it was looked for deploys.
    last_deploys: Option<Stopwatch>,
    /// Since when a change waits for a commit, as far as the keeper's thread has seen.
    pub(super) dirty_since: Option<Stopwatch>,
    /// Whether the executor has to wake the keeper's thread.
    pub(super) attention: Attention,
    /// Why the store failed while the executor acted for the keeper.
    pub(super) failure: Option<JournalError>,
}

/// The other ends of a keeper's channels, and what it works with.
pub(super) struct Surroundings {
    pub(super) live: Box<dyn LiveStore>,
    pub(super) registry: Arc<Registry>,
    pub(super) dlq: Arc<dyn DeadTaskStore>,
    pub(super) loader: Sender<Digest>,
    pub(super) executor: tokio::sync::mpsc::UnboundedSender<ToExecutor>,
    pub(super) undertaker: Sender<Vec<DeadTask>>,
    pub(super) replies: Sender<Frame>,
}

/// The keeper, for its own thread and the executor's: whoever has the lock may act for it. It is free during the
/// sync of a turn; it is held while logs are adopted, handed over or compacted, and for the sync before a burial.
/// Empty before the start and after the end.
pub(super) type SharedKeeper = Mutex<Option<Keeper>>;

/// What the first half of a turn leaves to do without the lock.
struct Commit {
    slow: Option<PendingSync>,
    answers: Vec<Frame>,
}

/// Shares the keeper and takes its turns until it is drained.
///
/// # Errors
/// When the store fails; what it holds is adopted by another worker.
pub(super) fn run(shared: &SharedKeeper, keeper: Keeper, commands: &Receiver<Command>) -> Result<(), JournalError> {
    *lock(shared) = Some(keeper);
    let result = work(shared, commands);
    // The executor ends when the keeper's end of its channel is gone.
    drop(lock(shared).take());
    result
}

fn work(shared: &SharedKeeper, commands: &Receiver<Command>) -> Result<(), JournalError> {
    loop {
        let Some(patience) = lock(shared).as_mut().map(Keeper::patience) else { return Ok(()) };
        let first = match commands.recv_timeout(patience) {
            Ok(command) => Some(command),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Command::Drain),
        };
        let Some(Commit { slow, answers }) =
            lock(shared).as_mut().map(|keeper| keeper.first_half(first, commands)).transpose()?
        else {
            return Ok(());
        };
        let synced = slow.map(PendingSync::run);
        let mut keeper = lock(shared);
        let drained = keeper.as_mut().map(|keeper| keeper.second_half(synced, answers)).transpose()?;
        if drained == Some(true)
            && let Some(mut keeper) = keeper.take()
        {
            keeper.obituaries.tell(true);
            tracing::info!(pid = keeper.figures.pid, "drained");
            return keeper.live.close();
        }
    }
}

/// Waits for the keeper. Somebody who died with it left it in an unknown state: the worker must end.
#[allow(clippy::panic)]
fn lock(shared: &SharedKeeper) -> MutexGuard<'_, Option<Keeper>> {
    shared.lock().unwrap_or_else(|_| panic!("a thread died while it acted for the keeper"))
}

impl Keeper {
    /// A keeper that has not looked around yet.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub(super) fn new(around: Surroundings, options: KeeperOptions) -> Result<Self, RegistryError> {
        Ok(Self {
            live: around.live,
            tasks: around.registry.tasks()?,
            registry: around.registry,
            dlq: around.dlq,
            components: Components::new(around.loader),
            executor: around.executor,
            undertaker: around.undertaker,
            replies: around.replies,
            options,
            running: Default::default(),
            starting: Vec::new(),
            waiters: Default::default(),
            finished_in_turn: 0,
            intake: Default::default(),
            answers: Vec::new(),
            burying: Default::default(),
            unburied: false,
            burial_pause: None,
            figures: Default::default(),
            obituaries: Default::default(),
            draining: None,
            aborted: false,
            last_repair: None,
            last_told: None,
            more_to_adopt: false,
            registry_error: None,
            last_look: None,
            last_deploys: None,
            dirty_since: None,
            attention: Attention::default(),
            failure: None,
        })
    }

    /// How long the thread may sleep when no message comes.
    fn patience(&mut self) -> Duration {
        let until_due = self.live.until_due(clock::now()).map(Millis::to_std);
        let is_full = self.running.len() >= self.options.concurrency;
        let is_dirty = self.live.is_dirty();
        self.attention.sleeps(is_dirty);
        let longest = if self.more_to_adopt || (!self.intake.is_empty() && !is_full) {
            Duration::ZERO
        } else if !self.intake.is_empty() {
            INTAKE_PAUSE
        } else if is_dirty {
            LAZY_COMMIT
        } else {
            LOOK_AROUND
        };
        let wakes_for_due = self.draining.is_none() && !is_full;
        until_due.filter(|_| wakes_for_due).map_or(longest, |until| until.max(Duration::from_millis(1)).min(longest))
    }

    /// The part of a turn before its sync: takes the messages that wait, applies them, starts what may
    /// start, and hands all of it to the operating system.
    fn first_half(&mut self, first: Option<Command>, commands: &Receiver<Command>) -> Result<Commit, JournalError> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if self.more_to_adopt || is_over(self.last_look, LOOK_AROUND) {
            self.look_around()?;
            self.last_look = Some(Stopwatch::start());
        }
        for command in first.into_iter().chain(commands.try_iter().take(MESSAGES_PER_TURN)) {
            self.obey(command)?;
        }
        self.take_slice()?;
        if self.draining.is_none() {
            self.start_what_may_start()?;
        }
        self.live.flush()?;
        self.send_started();
        let lazy_over = self.dirty_since.is_some_and(|since| since.elapsed() >= LAZY_COMMIT);
        let answers = std::mem::take(&mut self.answers);
        let wanted = !answers.is_empty() || self.unburied || lazy_over;
        let slow = if wanted { self.live.begin_commit()? } else { None };
        Ok(Commit { slow, answers })
    }

    /// The part of a turn after its sync: answers, and what follows from what is durable now. Returns
    /// whether the worker is drained.
    fn second_half(&mut self, synced: Option<SyncOutcome>, answers: Vec<Frame>) -> Result<bool, JournalError> {
        if let Some(outcome) = synced {
            self.live.finish_commit(outcome)?;
        }
        for answer in answers {
            let _ = self.replies.send(answer);
        }
        self.tell_when_idle();
        let was_dirty = self.dirty_since.filter(|_| self.live.is_dirty());
        self.dirty_since = was_dirty.or_else(|| self.live.is_dirty().then(Stopwatch::start));
        self.bury()?;
        Ok(self.drained())
    }

    /// Takes what the executor has to say on the executor's own thread: judges the ended attempts and starts
    /// as many others. What needs a sync is left to the thread that syncs. Returns the attempts to run, and
    /// whether that thread should be woken.
    pub(super) fn settle(&mut self, finished: Vec<Finished>) -> (Vec<Dispatch>, bool) {
        if let Err(error) = self.settle_and_start(finished) {
            // The attempts that were to start are not durable; the worker ends and its log says so.
            self.failure.get_or_insert(error);
            self.starting.clear();
            return (Vec::new(), true);
        }
        let has_room = self.running.len() < self.options.concurrency;
        let is_urgent = !self.answers.is_empty()
            || self.unburied
            || self.draining.is_some()
            || self.running.is_empty()
            || (has_room && !self.intake.is_empty());
        let wakes = self.attention.must_call(is_urgent, self.live.is_dirty());
        (std::mem::take(&mut self.starting), wakes)
    }

    fn settle_and_start(&mut self, finished: Vec<Finished>) -> Result<(), JournalError> {
        finished.into_iter().try_for_each(|one| self.finished(one))?;
        if self.draining.is_none() {
            self.start_what_may_start()?;
        }
        self.live.flush()
    }

    fn obey(&mut self, command: Command) -> Result<(), JournalError> {
        match command {
            Command::Frame(frame) => self.take_in(frame),
            Command::Finished(finished) => finished.into_iter().try_for_each(|one| self.finished(one)),
            Command::Loaded(loaded) => {
                self.loaded(loaded);
                Ok(())
            }
            Command::Buried(buried) => self.buried(buried),
            Command::Drain => {
                self.drain();
                Ok(())
            }
            Command::SupervisorGone => {
                self.supervisor_gone();
                Ok(())
            }
            Command::Look => {
                self.attention.heard();
                Ok(())
            }
        }
    }

    /// Adopts free logs, notices deploys, tells the figures, compacts.
    fn look_around(&mut self) -> Result<(), JournalError> {
        self.obituaries.tell(false);
        if self.draining.is_some() {
            // Who says nothing would be taken for stopped.
            self.tell_figures();
            return Ok(());
        }
        self.notice_deploys();
        if is_over(self.last_repair, REPAIR_LOOK) {
            self.last_repair = Some(Stopwatch::start());
            if self.components.forget_broken() {
                self.live.deployed(None);
            }
        }
        if self.options.adopts {
            self.adopt()?;
        }
        self.live.compact()?;
        self.tell_figures();
        Ok(())
    }

    /// What comes in after a deploy runs what was deployed, also when it comes at once. A look takes a
    /// microsecond, so not everything that comes in is worth one.
    pub(super) fn notice_deploys_for_news(&mut self) {
        if is_over(self.last_deploys, DEPLOY_LOOK) {
            self.notice_deploys();
        }
    }

    fn notice_deploys(&mut self) {
        self.last_deploys = Some(Stopwatch::start());
        match self.registry.refresh_if_changed(&mut self.tasks) {
            Ok(true) => {
                self.components.forget_broken();
                self.live.deployed(None);
            }
            Ok(false) => self.registry_error = None,
            Err(error) => self.registry_trouble(error_chain(&error)),
        }
    }

    /// Tells about a registry that cannot be read, once.
    fn registry_trouble(&mut self, error: String) {
        if self.registry_error.as_ref() != Some(&error) {
            tracing::error!(error, "the registry cannot be read; the last state of it is used");
            self.registry_error = Some(error);
        }
    }

    fn adopt(&mut self) -> Result<(), JournalError> {
        let dlq = Arc::clone(&self.dlq);
        let adopted = self.live.adopt(clock::now(), &mut |replays| drop_superseded(dlq.as_ref(), replays))?;
        self.more_to_adopt = adopted.more;
        for id in &adopted.suspects {
            self.postpone_suspect(*id)?;
        }
        if adopted.logs > 0 {
            tracing::info!(
                logs = adopted.logs,
                invocations = adopted.invocations,
                suspects = adopted.suspects.len(),
                "took over logs that nobody owned"
            );
        }
        Ok(())
    }

    /// A worker that runs out of work says so at once: the supervisor may have some for it.
    fn tell_when_idle(&mut self) {
        let was_busy = self.figures.counts.ready + self.figures.counts.running > 0;
        if was_busy && self.running.is_empty() && is_over(self.last_told, TELL_PAUSE) {
            self.tell_figures();
        }
    }

    pub(super) fn tell_figures(&mut self) {
        self.last_told = Some(Stopwatch::start());
        self.figures.counts = self.live.counts();
        self.figures.broken = self.components.broken();
        self.figures.left_alone = self.live.left_alone();
        self.figures.progress = self.progress();
        self.figures.draining = self.draining.is_some();
        let _ = self.replies.send(Frame::json(Kind::Figures, 0, &self.figures));
    }

    /// How far running attempts have come, as far as they said.
    fn progress(&self) -> Vec<AttemptProgress> {
        let said = self.running.iter().filter_map(|(id, running)| {
            let progress = running.signals.progress()?;
            Some(AttemptProgress { id: *id, attempt: running.attempt, progress })
        });
        said.take(MAX_PROGRESS).collect()
    }
}

fn is_over(since: Option<Stopwatch>, span: Duration) -> bool {
    since.is_none_or(|since| since.elapsed() >= span)
}

/// Completes a retry that crashed between the log and the dead letter queue.
fn drop_superseded(dlq: &dyn DeadTaskStore, replays: &[(InvocationId, u32)]) -> Result<(), String> {
    let dropped = dlq.lock().and_then(|mut locked| locked.drop_superseded(replays, clock::now()));
    match dropped {
        Ok(0) => Ok(()),
        Ok(count) => {
            tracing::warn!(count, "completed a retry that had crashed half-way");
            Ok(())
        }
        Err(error) => Err(error_chain(&error)),
    }
}
