//! What comes in from outside: enqueues, cancellations, the order to stop.

use std::sync::Arc;
use std::time::Duration;

use wasmq_core::codec::Decoder;
use wasmq_core::event::Outcome;
use wasmq_core::invocation::check_metadata;
use wasmq_core::state::Phase;
use wasmq_core::{AttemptReport, Invocation, InvocationId, Verdict};

use super::executor::{End, ToExecutor};
use super::figures::Completion;
use super::keeper::{Keeper, Running};
use crate::causes::error_chain;
use crate::journal::{JournalError, LiveStore};
use crate::wire::{EnqueueReader, Frame, Kind, Reason};

/// How long an attempt that asks whether it is cancelled has to come to an end by itself.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many invocations are taken in before other things have their turn.
const SLICE: usize = 256;

/// An enqueue that is being taken in.
pub(super) struct Batch {
    request: u64,
    reader: EnqueueReader,
    /// The invocation taken in last.
    last: Option<InvocationId>,
}

/// Why a batch was not taken.
enum Trouble {
    Malformed(String),
    Journal(JournalError),
}

fn take_one(live: &mut dyn LiveStore, invocation: Invocation, payload: &[u8]) -> Result<(), Trouble> {
    check_metadata(&invocation.metadata).map_err(|error| Trouble::Malformed(error.to_string()))?;
    live.enqueue(invocation, payload).map(|_| ()).map_err(Trouble::Journal)
}

impl Keeper {
    /// Takes a frame. The answer goes out after the commit.
    pub(super) fn take_in(&mut self, frame: Frame) -> Result<(), JournalError> {
        match frame.kind {
            Kind::Enqueue if self.draining.is_some() => {
                self.refuse(frame.request, Reason::Unavailable, "the worker is stopping; nothing was enqueued");
            }
            Kind::Enqueue => match EnqueueReader::new(frame.body) {
                Ok(reader) => {
                    self.notice_deploys_for_news();
                    self.intake.push_back(Batch { request: frame.request, reader, last: None });
                }
                Err(error) => self.refuse(frame.request, Reason::Malformed, error.to_string()),
            },
            Kind::Cancel => return self.cancel(&frame),
            Kind::Drain => self.drain(),
            Kind::HandOver => return self.hand_over(&frame),
            Kind::Adopt => self.more_to_adopt = self.draining.is_none(),
            Kind::Status => self.tell_figures(),
            Kind::Ack | Kind::Refused | Kind::Finished | Kind::Figures | Kind::Attempt => {}
        }
        Ok(())
    }

    fn hand_over(&mut self, frame: &Frame) -> Result<(), JournalError> {
        let limit =
            Decoder::new(&frame.body).uint("limit").ok().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
        if self.draining.is_none() && limit > 0 {
            let count = self.live.hand_over(limit)?;
            if count > 0 {
                tracing::info!(count, "let go of work that others have places for");
            }
            self.tell_figures();
            self.answers.push(Frame::new(Kind::Ack, frame.request, Vec::new()));
        }
        Ok(())
    }

    fn refuse(&mut self, request: u64, reason: Reason, message: impl Into<String>) {
        self.answers.push(Frame::refused(request, reason, message));
    }

    /// Takes the next few invocations of the batches that wait. A long batch is taken in over several turns,
    /// so that places that become free meanwhile are filled.
    pub(super) fn take_slice(&mut self) -> Result<(), JournalError> {
        // A worker takes in a little more than it has just finished, so that a flood of short tasks neither
        // stops the work nor piles up in memory. While attempts are long, nothing is held back.
        let slice = match std::mem::take(&mut self.finished_in_turn) {
            0 => SLICE,
            finished => (finished + finished / 4 + 1).min(SLICE),
        };
        for _ in 0..slice {
            let Some(batch) = self.intake.front_mut() else { return Ok(()) };
            let taken = match batch.reader.next() {
                Ok(Some((invocation, payload))) => {
                    batch.last = Some(invocation.id);
                    take_one(self.live.as_mut(), invocation, payload)
                }
                Ok(None) => {
                    self.acknowledge_batch();
                    continue;
                }
                Err(error) => Err(Trouble::Malformed(error.to_string())),
            };
            if let Err(trouble) = taken {
                self.refuse_batch(trouble)?;
            }
        }
        Ok(())
    }

    fn acknowledge_batch(&mut self) {
        let Some(batch) = self.intake.pop_front() else { return };
        if let Some(id) = batch.last.filter(|_| batch.reader.waits()) {
            self.waiters.insert(id, batch.request);
            self.live.hold(id);
        }
        self.answers.push(Frame::new(Kind::Ack, batch.request, Vec::new()));
    }

    fn refuse_batch(&mut self, trouble: Trouble) -> Result<(), JournalError> {
        let Some(batch) = self.intake.pop_front() else { return Ok(()) };
        match trouble {
            Trouble::Malformed(message) => self.refuse(batch.request, Reason::Malformed, message),
            Trouble::Journal(error) if error.is_no_space() => {
                let message = format!("{error}; enqueueing works again as soon as there is room");
                self.refuse(batch.request, Reason::NoSpace, message);
            }
            Trouble::Journal(error) => {
                let _ = self.replies.send(Frame::refused(batch.request, Reason::Failed, error.to_string()));
                return Err(error);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, frame: &Frame) -> Result<(), JournalError> {
        let Ok(bits) = Decoder::new(&frame.body).array("id") else {
            self.refuse(frame.request, Reason::Malformed, "a cancellation names one id");
            return Ok(());
        };
        let id = InvocationId::from_u128(u128::from_be_bytes(bits));
        let queued = match self.live.get(&id).map(|entry| &entry.phase) {
            None => {
                self.refuse(frame.request, Reason::Unknown, format!("{id} is not live here"));
                return Ok(());
            }
            Some(Phase::Exhausted(_)) => {
                self.refuse(
                    frame.request,
                    Reason::Unknown,
                    format!("{id} has been given up and is on its way to the dead letter queue"),
                );
                return Ok(());
            }
            Some(Phase::Queued { .. }) => true,
            Some(Phase::Running(_)) => false,
        };
        match self.running.get_mut(&id) {
            Some(running) if !queued => {
                // Answered when it has ended: until then a crash brings it back.
                running.cancels.push(frame.request);
                running.signals.cancel();
                let after = if running.signals.was_asked() { FAREWELL } else { Duration::ZERO };
                let _ = self.executor.send(ToExecutor::Abort { id, attempt: running.attempt, after });
                Ok(())
            }
            _ => {
                self.end_cancelled(id, None)?;
                self.answers.push(Frame::new(Kind::Ack, frame.request, Vec::new()));
                Ok(())
            }
        }
    }

    /// Ends an invocation that was cancelled while an attempt ran, whatever came of that.
    pub(super) fn cancelled_while_running(
        &mut self,
        id: InvocationId,
        running: &Running,
        end: End,
    ) -> Result<(), JournalError> {
        let report = match end {
            End::Report(report) => Some(report),
            End::Aborted => None,
        };
        self.end_cancelled(id, report)?;
        self.answers.extend(running.cancels.iter().map(|request| Frame::new(Kind::Ack, *request, Vec::new())));
        Ok(())
    }

    /// Answers those who wanted an invocation cancelled that is not here any more.
    pub(super) fn refuse_cancels(&mut self, id: InvocationId, running: &Running) {
        for request in &running.cancels {
            self.refuse(*request, Reason::Unknown, format!("{id} is not live here"));
        }
    }

    /// Ends an invocation that an operator cancelled. Whoever waits for it hears what the attempt said last.
    fn end_cancelled(&mut self, id: InvocationId, report: Option<AttemptReport>) -> Result<(), JournalError> {
        let attempts = self.live.get(&id).map_or(0, |entry| entry.attempts);
        self.live.done(id, Outcome::Cancelled)?;
        let (failure, said) = report.map_or((None, None), |report| (report.failure, report.said));
        if let Some(request) = self.waiters.remove(&id) {
            let completion = Completion {
                id,
                verdict: Verdict::Cancelled,
                version: None,
                component: None,
                attempts,
                dead: false,
                failure,
                usage: None,
                said,
                follow_ups: 0,
                output: Vec::new(),
            };
            self.answers.push(Frame::new(Kind::Finished, request, completion.to_body()));
        }
        Ok(())
    }

    /// A payload for the executor or the undertaker.
    pub(super) fn payload(&mut self, id: &InvocationId) -> Option<Arc<[u8]>> {
        match self.live.payload(id) {
            Ok(payload) => Some(payload),
            Err(error) => {
                tracing::error!(%id, error = error_chain(&error), "a payload cannot be read back");
                None
            }
        }
    }
}
