//! The worker of the crash tests: the real keeper on any disk, one step at a time and without threads.
//!
//! Guests are played by the test, which says how an attempt ended. The executor, the loader and the
//! undertaker do what their threads do, at the moment that the test chooses; so a step can come between the
//! two halves of a commit, or between the burial of a dead task and the message about it.
//!
//! Invariant: nothing in here depends on the time that passes, so the same steps are the same operations
//! on the disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};

use wasmq_core::report::FailureReport;
use wasmq_core::{AttemptReport, FollowUp, Invocation, Millis, Problem, Usage, Verdict};
use wasmq_wal::disk::Disk;

use super::*;
use crate::dlq::DiskDlq;
use crate::journal::{DiskJournal, JournalOptions};
use crate::runtime::{Options as RuntimeOptions, Purpose, Runtime};
use crate::store::Layout;
use crate::wire::EnqueueBody;
use crate::worker::executor::End as Ended;
use crate::worker::{WorkerError, loader};

/// How a guest ended.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// Well, and it asked for these.
    Completed(Vec<FollowUp>),
    /// It wants to run again after so many milliseconds.
    Again(u64),
    /// For good.
    Permanent,
    /// It was stopped from outside.
    Aborted,
}

/// When something happens beside a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// After it began and before the disk is asked to sync.
    BeforeTheSync,
    /// After the sync and before the log is told of it.
    AfterTheSync,
}

/// What a turn did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    /// All that came before the turn is durable.
    pub(crate) committed: bool,
    /// The worker has nothing left to do.
    pub(crate) drained: bool,
}

/// An attempt that was handed to the executor: which, its number, its payload.
pub(crate) type Handed = (InvocationId, u32, Arc<[u8]>);

/// See the module.
pub(crate) struct SteppedWorker {
    keeper: Keeper,
    commands: Sender<Command>,
    inbox: Receiver<Command>,
    executor: tokio::sync::mpsc::UnboundedReceiver<ToExecutor>,
    undertaker: Receiver<Vec<DeadTask>>,
    loader: Receiver<Digest>,
    replies: Receiver<Frame>,
    running: BTreeMap<InvocationId, u32>,
    handed: Vec<Handed>,
    /// The message of a burial that has not been sent yet.
    unsent: Vec<Buried>,
    requests: u64,
}

/// One engine for all tests: it remembers what it compiled.
fn runtime() -> Arc<Runtime> {
    static RUNTIME: OnceLock<Arc<Runtime>> = OnceLock::new();
    let options = RuntimeOptions { cache_dir: None, cache_for: None, max_concurrent: 1, purpose: Purpose::Once };
    Arc::clone(RUNTIME.get_or_init(|| Arc::new(Runtime::new(&options).unwrap())))
}

impl SteppedWorker {
    /// Starts a worker with a log of its own.
    pub(crate) fn start(
        disk: &Arc<dyn Disk>,
        data_dir: &Path,
        options: JournalOptions,
        concurrency: usize,
    ) -> Result<Self, WorkerError> {
        let registry = Arc::new(Registry::open(Arc::clone(disk), data_dir)?);
        let dlq: Arc<dyn DeadTaskStore> = Arc::new(DiskDlq::open(Arc::clone(disk), data_dir)?);
        let live = DiskJournal::create(Arc::clone(disk), &Layout::new(data_dir).journal(), "worker, test", options)?;
        let (commands, inbox) = channel();
        let (to_executor, executor) = tokio::sync::mpsc::unbounded_channel();
        let (to_undertaker, undertaker) = channel();
        let (to_loader, loader) = channel();
        let (replies_in, replies) = channel();
        let around = Surroundings {
            live: Box::new(live),
            registry,
            dlq,
            loader: to_loader,
            executor: to_executor,
            undertaker: to_undertaker,
            replies: replies_in,
        };
        let worker = "a worker".to_owned();
        let keeper = Keeper::new(around, KeeperOptions { concurrency, grace: Duration::ZERO, adopts: true, worker })?;
        let (running, handed, unsent) = Default::default();
        Ok(Self {
            keeper,
            commands,
            inbox,
            executor,
            undertaker,
            loader,
            replies,
            running,
            handed,
            unsent,
            requests: 0,
        })
    }

    /// What lives in this worker.
    pub(crate) fn live(&mut self) -> &mut dyn LiveStore {
        self.keeper.live.as_mut()
    }

    /// The attempts that run.
    pub(crate) fn running(&self) -> Vec<InvocationId> {
        self.running.keys().copied().collect()
    }

    /// The attempts that were handed to the executor since the last call.
    pub(crate) fn take_handed(&mut self) -> Vec<Handed> {
        std::mem::take(&mut self.handed)
    }

    /// The answers since the last call.
    pub(crate) fn take_answers(&mut self) -> Vec<Frame> {
        self.replies.try_iter().filter(|frame| frame.kind != Kind::Figures).collect()
    }

    fn request(&mut self, kind: Kind, body: Vec<u8>) -> u64 {
        self.requests += 1;
        let _ = self.commands.send(Command::Frame(Frame::new(kind, self.requests, body)));
        self.requests
    }

    /// Sends a request to enqueue; it is answered by a turn.
    pub(crate) fn send_enqueue(&mut self, batch: &[(Invocation, &[u8])]) -> u64 {
        let mut body = EnqueueBody::new(false);
        batch.iter().for_each(|(invocation, payload)| body.push(invocation, payload));
        self.request(Kind::Enqueue, body.finish())
    }

    /// Sends a request to cancel.
    pub(crate) fn send_cancel(&mut self, id: InvocationId) -> u64 {
        self.request(Kind::Cancel, id.as_u128().to_be_bytes().to_vec())
    }

    /// Sends a request to hand over; the limit has to be below 128.
    pub(crate) fn send_hand_over(&mut self, limit: u8) -> u64 {
        self.request(Kind::HandOver, vec![limit])
    }

    /// Sends a question whose answer needs a commit.
    pub(crate) fn send_question(&mut self) -> u64 {
        self.send_cancel(InvocationId::from_u128(0))
    }

    /// Sends the word to stop.
    pub(crate) fn send_drain(&mut self) {
        let _ = self.commands.send(Command::Drain);
    }

    /// Sends the ends of attempts as a message; a turn judges them.
    pub(crate) fn send_finished(&mut self, ends: Vec<(InvocationId, Ending)>) {
        let finished = self.finished(ends);
        let _ = self.commands.send(Command::Finished(finished));
    }

    /// Lets the executor act for the keeper, as it does between guests.
    pub(crate) fn settle(&mut self, ends: Vec<(InvocationId, Ending)>) {
        let finished = self.finished(ends);
        let (dispatches, _) = self.keeper.settle(finished);
        self.hand(dispatches);
    }

    fn finished(&mut self, ends: Vec<(InvocationId, Ending)>) -> Vec<Finished> {
        let running = &mut self.running;
        let finished = |(id, ending)| Some(Finished { id, attempt: running.remove(&id)?, end: end_of(ending) });
        ends.into_iter().filter_map(finished).collect()
    }

    fn hand(&mut self, dispatches: Vec<Dispatch>) {
        for dispatch in dispatches {
            self.running.insert(dispatch.id, dispatch.attempt);
            self.handed.push((dispatch.id, dispatch.attempt, dispatch.payload));
        }
    }

    /// One turn of the keeper. With `looks` it begins with a look around: adoption, deploys, compaction.
    pub(crate) fn turn(&mut self, looks: bool) -> Result<Turn, JournalError> {
        self.turn_beside(looks, None)
    }

    /// A turn during whose commit the executor acts for the keeper.
    pub(crate) fn turn_beside(
        &mut self,
        looks: bool,
        beside: Option<(Beside, Vec<(InvocationId, Ending)>)>,
    ) -> Result<Turn, JournalError> {
        self.keeper.last_look = (!looks).then(Stopwatch::start);
        self.keeper.dirty_since = None;
        self.keeper.burial_pause = None;
        let Commit { slow, answers } = self.keeper.first_half(None, &self.inbox)?;
        let syncs = slow.is_some();
        let (before, after) = match beside {
            Some((Beside::BeforeTheSync, ends)) => (ends, Vec::new()),
            Some((Beside::AfterTheSync, ends)) => (Vec::new(), ends),
            None => Default::default(),
        };
        if !before.is_empty() {
            self.settle(before);
        }
        let synced = slow.map(PendingSync::run);
        if !after.is_empty() {
            self.settle(after);
        }
        let drained = self.keeper.second_half(synced, answers)?;
        self.serve();
        // A store that is not dirty says that everything is durable.
        let committed = syncs || !self.keeper.live.is_dirty();
        Ok(Turn { committed, drained })
    }

    /// What the executor and the loader do with their messages.
    fn serve(&mut self) {
        while let Ok(order) = self.executor.try_recv() {
            match order {
                ToExecutor::Run(dispatches) => self.hand(dispatches),
                ToExecutor::Abort { id, .. } => self.send_finished(vec![(id, Ending::Aborted)]),
                ToExecutor::AbortAll => {
                    let all = self.running().into_iter().map(|id| (id, Ending::Aborted)).collect();
                    self.send_finished(all);
                }
            }
        }
        let (wanted, digests) = channel();
        self.loader.try_iter().for_each(|digest| wanted.send(digest).unwrap());
        drop(wanted);
        loader::run(&runtime(), &self.keeper.registry, &digests, &self.commands);
    }

    /// Whether free logs wait for another look.
    pub(crate) fn has_more_to_adopt(&self) -> bool {
        self.keeper.more_to_adopt
    }

    /// The undertaker writes what it was given. The keeper is not told yet. Returns the dead tasks, and
    /// whether they are durable.
    pub(crate) fn write_dead(&mut self) -> Vec<(Vec<DeadTask>, bool)> {
        let mut written = Vec::new();
        while let Ok(tasks) = self.undertaker.try_recv() {
            let result = self.keeper.dlq.add(&tasks).map(|_| ()).map_err(|error| error_chain(&error));
            written.push((tasks.clone(), result.is_ok()));
            self.unsent.push(Buried { tasks, result });
        }
        written
    }

    /// The keeper gets the message of the last burial with its next turn.
    pub(crate) fn send_buried(&mut self) {
        for buried in std::mem::take(&mut self.unsent) {
            let _ = self.commands.send(Command::Buried(buried));
        }
    }

    /// Ends as a drained worker does.
    pub(crate) fn close(self) -> Result<(), JournalError> {
        self.keeper.live.close()
    }
}

fn end_of(ending: Ending) -> Ended {
    let failed = |verdict, retry_after| {
        let failure = FailureReport { problem: Problem::new("bad", "row 17", None), retry_after, ..Default::default() };
        report(verdict, Some(Box::new(failure)), Vec::new())
    };
    match ending {
        Ending::Completed(follow_ups) => report(Verdict::Completed, None, follow_ups),
        Ending::Again(delay_ms) => failed(Verdict::ErrorRetryable, Some(Millis(delay_ms))),
        Ending::Permanent => failed(Verdict::ErrorPermanent, None),
        Ending::Aborted => Ended::Aborted,
    }
}

fn report(verdict: Verdict, failure: Option<Box<FailureReport>>, follow_ups: Vec<FollowUp>) -> Ended {
    Ended::Report(AttemptReport {
        verdict,
        output: Vec::new(),
        failure,
        usage: Usage::default(),
        follow_ups,
        said: None,
    })
}
