//! What follows from an attempt that ended: done, another attempt, or a dead task.
//!
//! Invariants: an attempt is judged once, even if its end is reported twice; if the details of a
//! failure cannot be kept, the decision is made without them.

use wasmq_core::bytes::cap_text;
use wasmq_core::event::{Exhausted, Outcome as End};
use wasmq_core::report::{FailureReport, MAX_SUMMARY_BYTES};
use wasmq_core::retry::{Decision, Outcome, decide};
use wasmq_core::{
    Attempt, AttemptReport, DeadTask, FollowUp, Invocation, InvocationId, Settings, Timestamp, Usage, Verdict,
};

use super::executor::{End as AttemptEnd, Finished};
use super::figures::{Completion, FailedAttempt};
use super::keeper::{Keeper, Running};
use super::undertaker::{BATCH, Buried, PAUSE};
use crate::clock::{self, Stopwatch};
use crate::journal::JournalError;
use crate::runtime::{ENGINE_VERSION, WIT_VERSION};
use crate::wire::{Frame, Kind};

impl Keeper {
    /// Judges an ended attempt.
    pub(super) fn finished(&mut self, finished: Finished) -> Result<(), JournalError> {
        let id = finished.id;
        if self.running.get(&id).is_none_or(|running| running.attempt != finished.attempt) {
            return Ok(());
        }
        let Some(running) = self.running.remove(&id) else { return Ok(()) };
        self.finished_in_turn += 1;
        if !self.is_current(&id, running.replays) {
            self.refuse_cancels(id, &running);
            return Ok(());
        }
        if !running.cancels.is_empty() {
            return self.cancelled_while_running(id, &running, finished.end);
        }
        match finished.end {
            AttemptEnd::Aborted => self.live.released(id),
            AttemptEnd::Report(report) if report.verdict == Verdict::Completed => self.completed(id, &running, report),
            AttemptEnd::Report(report) => self.failed(id, &running, report),
        }
    }

    fn completed(&mut self, id: InvocationId, running: &Running, report: AttemptReport) -> Result<(), JournalError> {
        self.figures.completed += 1;
        let follow_ups = report.follow_ups.len() as u64;
        for follow_up in report.follow_ups {
            self.enqueue_follow_up(follow_up)?;
        }
        self.live.done(id, End::Completed)?;
        if let Some(request) = self.waiters.remove(&id) {
            let completion = Completion {
                id,
                verdict: Verdict::Completed,
                version: Some(running.version),
                component: Some(running.digest),
                attempts: running.attempt,
                dead: false,
                failure: None,
                usage: Some(report.usage),
                said: report.said,
                follow_ups,
                output: report.output,
            };
            self.answers.push(Frame::new(Kind::Finished, request, completion.to_body()));
        }
        Ok(())
    }

    fn enqueue_follow_up(&mut self, follow_up: FollowUp) -> Result<(), JournalError> {
        let now = clock::now();
        let mut invocation = Invocation::new(follow_up.id, follow_up.task, now);
        invocation.due_at = now.after(follow_up.delay);
        invocation.is_delay = true;
        invocation.metadata = follow_up.metadata;
        self.live.follow_up(invocation, &follow_up.payload).map(|_| ())
    }

    fn failed(&mut self, id: InvocationId, running: &Running, report: AttemptReport) -> Result<(), JournalError> {
        let failure = report.failure.map_or_else(FailureReport::default, |failure| *failure);
        if self.draining.is_some() && failure.observed.iter().any(|what| what == "cancelled") {
            return self.live.released(id);
        }
        self.figures.failed_attempts += 1;
        let own = self.live.get(&id).and_then(|entry| entry.invocation.max_attempts);
        let max_attempts = own.map_or(running.settings.max_attempts, |own| own.get());
        let outcome = Outcome {
            verdict: &report.verdict,
            deterministic: failure.deterministic,
            retry_after: failure.retry_after,
            attempt: running.attempt,
            max_attempts,
        };
        let decision = decide(outcome, &running.settings, clock::chance());
        let attempt = ended(running, report.verdict, &failure);
        tracing::debug!(%id, attempt = attempt.number, verdict = %attempt.verdict, ?decision, "an attempt failed");
        match decision {
            Decision::Again(delay) => {
                let next_at = attempt.ended_at.after(delay);
                self.tell_waiter(id, &attempt, max_attempts, next_at);
                self.live.retry(id, next_at, attempt)
            }
            Decision::AwaitDeploy => {
                self.live.released(id)?;
                self.components.broke(running.digest, &failure.problem.message);
                Ok(())
            }
            Decision::Done | Decision::Dead => {
                self.give_up(id, attempt, failure, report.usage, &running.settings, max_attempts)
            }
        }
    }

    fn tell_waiter(&mut self, id: InvocationId, attempt: &Attempt, max_attempts: u32, next_at: Timestamp) {
        let Some(request) = self.waiters.get(&id) else { return };
        let failed = FailedAttempt {
            attempt: attempt.number,
            max_attempts,
            verdict: attempt.verdict.clone(),
            summary: attempt.summary.clone(),
            next_at,
        };
        self.answers.push(Frame::json(Kind::Attempt, *request, &failed));
    }

    /// Records that an invocation is given up; the undertaker gets it after the commit.
    pub(super) fn give_up(
        &mut self,
        id: InvocationId,
        attempt: Attempt,
        failure: FailureReport,
        usage: Usage,
        settings: &Settings,
        max_attempts: u32,
    ) -> Result<(), JournalError> {
        let exhausted = Exhausted {
            dead_at: clock::now().max(attempt.ended_at),
            attempt,
            failure,
            usage,
            limits: settings.into(),
            max_attempts,
            worker: self.options.worker.clone(),
            engine: format!("wasmtime {ENGINE_VERSION}"),
            wit: WIT_VERSION.to_owned(),
        };
        self.live.exhausted(id, exhausted)?;
        self.unburied = true;
        Ok(())
    }

    /// Gives what is exhausted to the undertaker. The records of it are committed by now.
    pub(super) fn bury(&mut self) -> Result<(), JournalError> {
        if self.burial_pause.is_some_and(|(since, pause)| since.elapsed() < pause) || !self.burying.is_empty() {
            return Ok(());
        }
        let ids = self.live.pending_dead(BATCH);
        self.unburied = false;
        if ids.is_empty() {
            return Ok(());
        }
        self.live.commit()?;
        let dead: Vec<DeadTask> = ids.into_iter().filter_map(|id| self.dead_task(id)).collect();
        self.burying.extend(dead.iter().map(|task| task.id));
        let _ = self.undertaker.send(dead);
        Ok(())
    }

    fn dead_task(&mut self, id: InvocationId) -> Option<DeadTask> {
        let payload = self.payload(&id)?;
        let entry = self.live.get(&id)?;
        match &entry.phase {
            wasmq_core::state::Phase::Exhausted(exhausted) => Some(entry.dead_task(exhausted, &payload)),
            _ => None,
        }
    }

    /// Whether an invocation is still what it was when its attempt began. A log that was adopted since may have
    /// brought a later replay of it, which must not end with the earlier one.
    fn is_current(&self, id: &InvocationId, replays: u32) -> bool {
        self.live.get(id).is_some_and(|entry| entry.invocation.replays == replays)
    }

    /// The undertaker has written dead tasks, or could not.
    pub(super) fn buried(&mut self, buried: Buried) -> Result<(), JournalError> {
        self.burying.clear();
        if let Err(error) = buried.result {
            tracing::error!(
                error,
                waiting = buried.tasks.len(),
                "the dead letter queue cannot be written; it is tried again"
            );
            self.figures.dlq_error = Some(error);
            self.burial_pause = Some((Stopwatch::start(), PAUSE));
            return Ok(());
        }
        self.figures.dlq_error = None;
        self.burial_pause = None;
        // Elsewhere whoever waits is told, and nothing is kept.
        if self.options.adopts {
            self.obituaries.note(&buried.tasks);
            self.obituaries.tell(false);
        }
        for task in buried.tasks {
            self.figures.dead += 1;
            if self.still_holds(&task) {
                self.live.done(task.id, End::Dead)?;
            }
            if let Some(request) = self.waiters.remove(&task.id) {
                let completion = Completion {
                    id: task.id,
                    verdict: task.verdict,
                    version: Some(task.version),
                    component: Some(task.component),
                    attempts: task.attempts,
                    dead: true,
                    failure: Some(Box::new(task.failure)),
                    usage: Some(task.usage),
                    said: None,
                    follow_ups: 0,
                    output: Vec::new(),
                };
                self.answers.push(Frame::new(Kind::Finished, request, completion.to_body()));
            }
        }
        Ok(())
    }

    /// Whether this very death is what the store holds. Somebody may have retried it before the news of its
    /// burial came, and its replay, adopted meanwhile, must live on.
    fn still_holds(&self, task: &DeadTask) -> bool {
        let is_given_up =
            self.live.get(&task.id).is_some_and(|held| matches!(held.phase, wasmq_core::state::Phase::Exhausted(_)));
        is_given_up && self.is_current(&task.id, task.replays)
    }
}

fn ended(running: &Running, verdict: Verdict, failure: &FailureReport) -> Attempt {
    let first_line = failure.problem.message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let summary = match failure.problem.code.as_str() {
        "" => first_line.to_owned(),
        code if verdict.family() == "error" => format!("{code}: {first_line}"),
        _ => first_line.to_owned(),
    };
    Attempt {
        number: running.attempt,
        version: running.version,
        digest: running.digest,
        started_at: running.started_at,
        ended_at: clock::now().max(running.started_at),
        verdict,
        deterministic: failure.deterministic,
        summary: cap_text(&summary, MAX_SUMMARY_BYTES).0,
    }
}
