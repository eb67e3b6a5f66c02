//! Runs guests on a thread of its own: many attempts at once, none of which can hold up another
//! for longer than an epoch tick.
//!
//! Invariant: every dispatched attempt is reported to the keeper exactly once. Reports are made in
//! batches: when all places are free again or the executor has nothing else to do. It acts for the
//! keeper itself then, unless the keeper is being used.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, LocalSet, spawn_local};
use wasmq_core::{AttemptReport, IdMap, InvocationId, Settings, TaskName, Timestamp};

use super::keeper::{Command, SharedKeeper};
use crate::runtime::{Facts, Input, Limits, Prepared, Runtime, Signals};

/// The most ended attempts of one report.
const LARGEST_BATCH: usize = 64;

/// Everything an attempt needs.
pub(super) struct Dispatch {
    pub(super) id: InvocationId,
    pub(super) attempt: u32,
    pub(super) prepared: Arc<Prepared>,
    pub(super) task: TaskName,
    pub(super) enqueued_at: Timestamp,
    pub(super) replays: u32,
    pub(super) max_attempts: u32,
    pub(super) metadata: Vec<(String, String)>,
    pub(super) payload: Arc<[u8]>,
    pub(super) settings: Arc<Settings>,
    pub(super) signals: Signals,
}

/// What the executor is told.
pub(super) enum ToExecutor {
    /// Run these.
    Run(Vec<Dispatch>),
    /// Stop an attempt, unless it has ended by then.
    Abort {
        /// Which invocation.
        id: InvocationId,
        /// Which attempt.
        attempt: u32,
        /// In how long.
        after: Duration,
    },
    /// Stop all.
    AbortAll,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself, or by a limit.
    Report(AttemptReport),
    /// It was stopped from outside and does not count.
    Aborted,
}

/// An ended attempt.
#[derive(Debug)]
pub struct Finished {
    pub(super) id: InvocationId,
    pub(super) attempt: u32,
    pub(super) end: End,
}

/// What the tasks of the executor share; all of them are on one thread.
struct Shared {
    runtime: Arc<Runtime>,
    finished: RefCell<Vec<Finished>>,
    handles: RefCell<IdMap<(u32, AbortHandle)>>,
    some_finished: Notify,
    keeper: Arc<SharedKeeper>,
    commands: Sender<Command>,
    /// How many ended attempts are reported at the latest.
    batch: usize,
}

fn finish(shared: &Rc<Shared>, id: InvocationId, attempt: u32, end: End) {
    let mut finished = shared.finished.borrow_mut();
    if finished.is_empty() {
        shared.some_finished.notify_one();
    }
    finished.push(Finished { id, attempt, end });
    let is_enough = finished.len() >= shared.batch;
    drop(finished);
    if is_enough {
        settle(shared);
    }
}

fn abort(shared: &Rc<Shared>, id: InvocationId, attempt: u32) {
    let mut handles = shared.handles.borrow_mut();
    if handles.get(&id).is_some_and(|(running, _)| *running == attempt)
        && let Some((_, handle)) = handles.remove(&id)
    {
        drop(handles);
        handle.abort();
        finish(shared, id, attempt, End::Aborted);
    }
}

/// Acts for the keeper when it is free, else tells its thread.
fn settle(shared: &Rc<Shared>) {
    let finished = std::mem::take(&mut *shared.finished.borrow_mut());
    let Ok(mut keeper) = shared.keeper.try_lock() else {
        let _ = shared.commands.send(Command::Finished(finished));
        return;
    };
    let Some((dispatches, wakes)) = keeper.as_mut().map(|keeper| keeper.settle(finished)) else { return };
    drop(keeper);
    if wakes {
        let _ = shared.commands.send(Command::Look);
    }
    dispatches.into_iter().for_each(|dispatch| start(shared, dispatch));
}

/// Runs until the keeper is gone.
///
/// # Errors
/// When the thread's runtime cannot be made.
pub(super) fn run(
    runtime: Arc<Runtime>,
    orders: UnboundedReceiver<ToExecutor>,
    keeper: Arc<SharedKeeper>,
    commands: Sender<Command>,
    concurrency: u32,
) -> std::io::Result<()> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Rc::new(Shared {
        runtime,
        finished: RefCell::default(),
        handles: RefCell::default(),
        some_finished: Notify::new(),
        keeper,
        commands,
        batch: (concurrency as usize).clamp(1, LARGEST_BATCH),
    });
    LocalSet::new().block_on(&tokio, async {
        tokio::select! {
            () = take_orders(&shared, orders) => {}
            () = report(&shared) => {}
        }
    });
    Ok(())
}

async fn take_orders(shared: &Rc<Shared>, mut orders: UnboundedReceiver<ToExecutor>) {
    while let Some(order) = orders.recv().await {
        match order {
            ToExecutor::Run(dispatches) => dispatches.into_iter().for_each(|dispatch| start(shared, dispatch)),
            ToExecutor::Abort { id, attempt, after } if after.is_zero() => abort(shared, id, attempt),
            ToExecutor::Abort { id, attempt, after } => {
                let shared = Rc::clone(shared);
                spawn_local(async move {
                    tokio::time::sleep(after).await;
                    abort(&shared, id, attempt);
                });
            }
            ToExecutor::AbortAll => {
                let all: Vec<_> = shared.handles.borrow().iter().map(|(id, (attempt, _))| (*id, *attempt)).collect();
                all.into_iter().for_each(|(id, attempt)| abort(shared, id, attempt));
            }
        }
    }
}

fn start(shared: &Rc<Shared>, dispatch: Dispatch) {
    let (id, attempt) = (dispatch.id, dispatch.attempt);
    let task = Rc::clone(shared);
    let handle = spawn_local(async move {
        let report = attempt_once(&task.runtime, &dispatch).await;
        if task.handles.borrow_mut().remove(&dispatch.id).is_some() {
            finish(&task, dispatch.id, dispatch.attempt, End::Report(report));
        }
    });
    shared.handles.borrow_mut().insert(id, (attempt, handle.abort_handle()));
}

async fn attempt_once(runtime: &Runtime, dispatch: &Dispatch) -> AttemptReport {
    let facts = Facts {
        id: dispatch.id,
        task: dispatch.task.as_str(),
        enqueued_at_ms: dispatch.enqueued_at.0,
        replays: dispatch.replays,
        max_attempts: dispatch.max_attempts,
        metadata: &dispatch.metadata,
    };
    let input = Input {
        facts,
        payload: &dispatch.payload,
        attempt: dispatch.attempt,
        args: &dispatch.settings.args,
        limits: Limits::from(dispatch.settings.as_ref()),
        signals: Some(&dispatch.signals),
    };
    runtime.run(&dispatch.prepared, input).await
}

/// Wakes after at least one attempt has ended. It is queued behind the attempts that are ready to
/// run, so under load it finds many.
async fn report(shared: &Rc<Shared>) {
    loop {
        shared.some_finished.notified().await;
        if !shared.finished.borrow().is_empty() {
            settle(shared);
        }
    }
}
