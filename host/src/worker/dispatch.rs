//! Starting attempts: which version, is its component ready, the `started` record, the executor.
//!
//! Invariants: an attempt is handed to the executor only after its `started` record has been
//! flushed; what has no version or component waits visibly and uses up nothing.

use std::sync::Arc;

use wasmq_core::event::Started;
use wasmq_core::retry::{Decision, Outcome, decide};
use wasmq_core::state::Suspicion;
use wasmq_core::{Attempt, InvocationId, Problem, Settings, Usage, Verdict};

use super::executor::{Dispatch, ToExecutor};
use super::keeper::{Keeper, Running};
use super::loader::{Ask, Loaded};
use crate::causes::error_chain;
use crate::clock;
use crate::journal::{Claim, JournalError};
use crate::registry::Resolved;
use crate::runtime::{Prepared, Signals};

/// What follows when an attempt crashed its worker alone.
fn after_crash(attempt: u32, max_attempts: u32, settings: &Settings) -> Decision {
    let verdict = &Verdict::HostCrash;
    let outcome = Outcome { verdict, deterministic: false, retry_after: None, attempt, max_attempts };
    decide(outcome, settings, clock::chance())
}

impl Keeper {
    /// Claims as long as there are free places and due invocations.
    pub(super) fn start_what_may_start(&mut self) -> Result<(), JournalError> {
        let now = clock::now();
        while self.running.len() < self.options.concurrency
            && let Some(claim) = self.live.claim(now)
        {
            if !self.start(claim)? {
                break;
            }
        }
        Ok(())
    }

    /// Starts one claim. Returns whether it makes sense to go on claiming.
    fn start(&mut self, claim: Claim) -> Result<bool, JournalError> {
        let Some(entry) = self.live.get(&claim.id) else { return Ok(true) };
        let Ok(resolved) = self.tasks.resolve(&entry.invocation.task, &entry.invocation.pin) else {
            self.live.await_deploy(claim.id);
            return Ok(true);
        };
        let budget = entry.invocation.max_attempts.map_or(resolved.settings.max_attempts, |own| own.get());
        if entry.suspicion == Suspicion::Alone
            && after_crash(entry.attempts, budget, &resolved.settings) == Decision::Dead
        {
            self.give_up_crasher(claim.id, &resolved, budget)?;
            return Ok(true);
        }
        match self.components.ask(resolved.digest, claim) {
            Ask::Ready(prepared) => self.start_prepared(claim, resolved, budget, prepared),
            Ask::Loading => Ok(!claim.alone),
            Ask::Broken => {
                self.live.await_deploy(claim.id);
                Ok(true)
            }
        }
    }

    fn start_prepared(
        &mut self,
        claim: Claim,
        resolved: Resolved,
        budget: u32,
        prepared: Arc<Prepared>,
    ) -> Result<bool, JournalError> {
        let Some(payload) = self.payload(&claim.id) else {
            self.live.await_deploy(claim.id);
            return Ok(true);
        };
        let Some(entry) = self.live.get(&claim.id) else { return Ok(true) };
        let attempt = entry.attempts.saturating_add(1);
        let started_at = clock::now();
        let settings = Arc::new(resolved.settings);
        let signals = Signals::default();
        let dispatch = Dispatch {
            id: claim.id,
            attempt,
            prepared,
            task: entry.invocation.task.clone(),
            enqueued_at: entry.invocation.enqueued_at,
            replays: entry.invocation.replays,
            max_attempts: budget,
            metadata: entry.invocation.metadata.clone(),
            payload,
            settings: Arc::clone(&settings),
            signals: signals.clone(),
        };
        let started =
            Started { attempt, version: resolved.version, digest: resolved.digest, at: started_at, alone: claim.alone };
        if let Err(error) = self.live.started(claim.id, started) {
            return self.not_started(claim, error);
        }
        let running = Running {
            replays: dispatch.replays,
            attempt,
            version: resolved.version,
            digest: resolved.digest,
            settings,
            started_at,
            signals,
            cancels: Vec::new(),
        };
        self.running.insert(claim.id, running);
        self.starting.push(dispatch);
        Ok(true)
    }

    fn not_started(&mut self, claim: Claim, error: JournalError) -> Result<bool, JournalError> {
        if !error.is_no_space() {
            return Err(error);
        }
        tracing::warn!(error = error_chain(&error), "attempts wait until there is room on the disk");
        self.live.put_back(claim);
        Ok(false)
    }

    /// Gives the started attempts to the executor, once their records are flushed.
    pub(super) fn send_started(&mut self) {
        if !self.starting.is_empty() {
            let _ = self.executor.send(ToExecutor::Run(std::mem::take(&mut self.starting)));
        }
    }

    /// A component was loaded: what waited for it goes back to the front.
    pub(super) fn loaded(&mut self, loaded: Loaded) {
        for claim in self.components.settle(loaded).into_iter().rev() {
            self.live.put_back(claim);
        }
    }

    /// A suspect that crashed its worker alone backs off like any failed attempt.
    pub(super) fn postpone_suspect(&mut self, id: InvocationId) -> Result<(), JournalError> {
        let Some(entry) = self.live.get(&id) else { return Ok(()) };
        if entry.suspicion != Suspicion::Alone || entry.backs_off() {
            return Ok(());
        }
        let Ok(resolved) = self.tasks.resolve(&entry.invocation.task, &entry.invocation.pin) else { return Ok(()) };
        let budget = entry.invocation.max_attempts.map_or(resolved.settings.max_attempts, |own| own.get());
        match after_crash(entry.attempts, budget, &resolved.settings) {
            Decision::Again(delay) => self.live.postpone(id, delay),
            _ => Ok(()),
        }
    }

    /// An invocation that killed its worker alone, as often as it may run, is a dead task.
    fn give_up_crasher(
        &mut self,
        id: InvocationId,
        resolved: &Resolved,
        max_attempts: u32,
    ) -> Result<(), JournalError> {
        let Some(entry) = self.live.get(&id) else { return Ok(()) };
        let now = clock::now();
        let attempt = entry.history.last().cloned().unwrap_or_else(|| Attempt {
            number: entry.attempts,
            version: resolved.version,
            digest: resolved.digest,
            started_at: now,
            ended_at: now,
            verdict: Verdict::HostCrash,
            deterministic: false,
            summary: String::new(),
        });
        let message = "the worker process died during this attempt while nothing else ran in it";
        let failure = wasmq_core::report::FailureReport {
            problem: Problem::new("host-crash", message, None),
            ..Default::default()
        };
        self.give_up(id, attempt, failure, Usage::default(), &resolved.settings, max_attempts)
    }
}
