//! A worker that drains while attempts end, work arrives and dead tasks are buried. This is a copy of the rules
//! of `worker/keeper.rs`, `intake.rs`, `outcome.rs` and `executor.rs`, without guests and disk: what is checked
//! is that the rules suffice, not that the product follows them, which `tests/e2e` does.

use std::collections::BTreeMap;

use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use crate::schedules::{draw, in_many_ways};

type Id = u32;

/// The attempt of this one fails for good.
const DOOMED: Id = 1;

enum Command {
    Enqueue(Id),
    Finished(Id, End),
    Buried(Id),
    Drain,
    Look,
}

enum Order {
    Run(Id),
    AbortAll,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Reported,
    Aborted,
}

/// Where an invocation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Running,
    Exhausted,
    Done,
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Ack(Id),
    Unavailable(Id),
}

struct Keeper {
    live: BTreeMap<Id, Phase>,
    judged: BTreeMap<Id, u32>,
    intake: Vec<Id>,
    answers: Vec<Answer>,
    burying: bool,
    draining: bool,
    aborted: bool,
    executor: Sender<Order>,
    undertaker: Sender<Id>,
    replies: Sender<Answer>,
}

impl Keeper {
    fn is_running(&self) -> bool {
        self.live.values().any(|phase| *phase == Phase::Running)
    }

    /// An end that was reported already, or of an attempt that is not running, is no end.
    fn finished(&mut self, id: Id, end: End) {
        if self.live.get(&id) != Some(&Phase::Running) {
            return;
        }
        *self.judged.entry(id).or_default() += 1;
        let next = match end {
            End::Aborted => Phase::Queued,
            End::Reported if id == DOOMED => Phase::Exhausted,
            End::Reported => Phase::Done,
        };
        self.live.insert(id, next);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Enqueue(id) if self.draining => self.answers.push(Answer::Unavailable(id)),
            Command::Enqueue(id) => self.intake.push(id),
            Command::Finished(id, end) => self.finished(id, end),
            Command::Buried(id) => {
                self.burying = false;
                self.live.insert(id, Phase::Done);
            }
            Command::Drain => self.draining = true,
            Command::Look => {}
        }
    }

    fn first_half(&mut self, commands: Vec<Command>) -> Vec<Answer> {
        commands.into_iter().for_each(|command| self.obey(command));
        if !self.intake.is_empty() {
            let id = self.intake.remove(0);
            self.live.insert(id, Phase::Queued);
            self.answers.push(Answer::Ack(id));
        }
        let queued: Vec<Id> =
            self.live.iter().filter(|(_, phase)| **phase == Phase::Queued).map(|(id, _)| *id).collect();
        for id in queued.into_iter().filter(|_| !self.draining) {
            self.live.insert(id, Phase::Running);
            let _ = self.executor.send(Order::Run(id));
        }
        std::mem::take(&mut self.answers)
    }

    /// Returns whether the worker is drained.
    fn second_half(&mut self, answers: Vec<Answer>) -> bool {
        answers.into_iter().for_each(|answer| self.replies.send(answer).unwrap());
        if !self.burying && self.live.get(&DOOMED) == Some(&Phase::Exhausted) {
            self.burying = true;
            let _ = self.undertaker.send(DOOMED);
        }
        // The grace time is over at any moment.
        if self.draining && !self.aborted && self.is_running() && draw(2) == 0 {
            self.aborted = true;
            let _ = self.executor.send(Order::AbortAll);
        }
        self.draining && !self.is_running() && !self.burying && self.intake.is_empty() && self.answers.is_empty()
    }
}

type SharedKeeper = Arc<Mutex<Option<Keeper>>>;

/// The keeper's thread; returns what is left.
fn keep(shared: &SharedKeeper, commands: &Receiver<Command>) -> Keeper {
    loop {
        // While it drains or takes in it looks around after a while; else it sleeps until somebody calls.
        let is_restless =
            shared.lock().unwrap().as_ref().is_some_and(|keeper| keeper.draining || !keeper.intake.is_empty());
        let first = if is_restless { commands.try_recv().ok() } else { commands.recv().ok() };
        let all: Vec<_> = first.into_iter().chain(commands.try_iter()).collect();
        let answers = shared.lock().unwrap().as_mut().unwrap().first_half(all);
        thread::yield_now();
        let mut keeper = shared.lock().unwrap();
        if keeper.as_mut().unwrap().second_half(answers) {
            return keeper.take().unwrap();
        }
    }
}

/// The executor: any attempt may end at any moment, unless it was stopped before.
fn execute(shared: &SharedKeeper, orders: &Receiver<Order>, commands: &Sender<Command>) {
    let mut running: Vec<Id> = Vec::new();
    loop {
        let order = if running.is_empty() { orders.recv().map_err(|_| ()) } else { orders.try_recv().map_err(|_| ()) };
        match order {
            Ok(Order::Run(id)) => running.push(id),
            Ok(Order::AbortAll) => running.drain(..).for_each(|id| report(shared, commands, id, End::Aborted)),
            Err(()) if running.is_empty() => return,
            Err(()) => {
                let id = running.swap_remove(draw(running.len() as u64) as usize);
                report(shared, commands, id, End::Reported);
            }
        }
    }
}

/// Acts for the keeper if it is free, else tells it.
fn report(shared: &SharedKeeper, commands: &Sender<Command>, id: Id, end: End) {
    let Ok(mut keeper) = shared.try_lock() else {
        let _ = commands.send(Command::Finished(id, end));
        return;
    };
    if let Some(keeper) = keeper.as_mut() {
        keeper.finished(id, end);
        let _ = commands.send(Command::Look);
    }
}

pub fn a_drain_ends_with_every_invocation_judged_once_and_every_enqueue_answered_once() {
    in_many_ways(6_000, || {
        let (commands, inbox) = channel();
        let (executor, orders) = channel();
        let (undertaker, coffins) = channel();
        let (replies, outbox) = channel();
        let (live, judged, intake, answers) = Default::default();
        let (burying, draining, aborted) = (false, false, false);
        let keeper =
            Keeper { live, judged, intake, answers, burying, draining, aborted, executor, undertaker, replies };
        let shared: SharedKeeper = Arc::new(Mutex::new(Some(keeper)));
        let executor = thread::spawn({
            let (shared, commands) = (Arc::clone(&shared), commands.clone());
            move || execute(&shared, &orders, &commands)
        });
        let undertaker = thread::spawn({
            let commands = commands.clone();
            move || coffins.iter().for_each(|id| _ = commands.send(Command::Buried(id)))
        });
        let supervisor = thread::spawn(move || {
            (0..3).for_each(|id| _ = commands.send(Command::Enqueue(id)));
            let _ = commands.send(Command::Drain);
            // An enqueue that was under way; whoever is not there any more answers nothing.
            let _ = commands.send(Command::Enqueue(3));
        });
        let keeper = keep(&shared, &inbox);
        check(&keeper);
        let (live, judged) = (keeper.live.clone(), keeper.judged.clone());
        drop(keeper);
        supervisor.join().unwrap();
        executor.join().unwrap();
        undertaker.join().unwrap();
        let answers: Vec<_> = outbox.iter().collect();
        for id in 0..4 {
            let acks = answers.iter().filter(|answer| **answer == Answer::Ack(id)).count();
            let refusals = answers.iter().filter(|answer| **answer == Answer::Unavailable(id)).count();
            assert!(acks + refusals <= 1, "one answer at most");
            assert_eq!(acks == 1, live.contains_key(&id), "it is there if and only if it was acknowledged");
            assert!(judged.get(&id).copied().unwrap_or(0) <= 1, "judged once");
        }
    });
}

/// Nothing is left half-way.
fn check(keeper: &Keeper) {
    let half_way = |phase: &Phase| matches!(phase, Phase::Running | Phase::Exhausted);
    assert!(!keeper.live.values().any(half_way), "{:?}", keeper.live);
}
