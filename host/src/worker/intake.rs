//! What comes in from outside: enqueues, cancellations, the order to stop.

use std::sync::Arc;

use wasmq_core::codec::{DecodeError, Decoder};
use wasmq_core::event::Outcome;
use wasmq_core::invocation::check_metadata;
use wasmq_core::state::Phase;
use wasmq_core::{InvocationId, Verdict};

use super::executor::ToExecutor;
use super::figures::Completion;
use super::keeper::Keeper;
use crate::journal::JournalError;
use crate::wire::{Frame, Kind, Reason, read_enqueue};

/// Why a batch was not taken.
enum Trouble {
    Malformed(String),
    Journal(JournalError),
}

impl From<DecodeError> for Trouble {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl Keeper {
    /// Takes a frame. The answer goes out after the commit.
    pub(super) fn take_in(&mut self, frame: Frame) -> Result<(), JournalError> {
        match frame.kind {
            Kind::Enqueue if self.draining.is_some() => {
                self.refuse(frame.request, Reason::Unavailable, "the worker is stopping; nothing was enqueued");
            }
            Kind::Enqueue => return self.enqueue(&frame),
            Kind::Cancel => return self.cancel(&frame),
            Kind::Drain => self.drain(),
            Kind::HandOver => return self.hand_over(&frame.body),
            Kind::Status => self.tell_figures(),
            Kind::Ack | Kind::Refused | Kind::Finished | Kind::Figures => {}
        }
        Ok(())
    }

    fn hand_over(&mut self, body: &[u8]) -> Result<(), JournalError> {
        let limit = Decoder::new(body).uint("limit").ok().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
        if self.draining.is_none() && limit > 0 {
            let count = self.live.hand_over(limit)?;
            tracing::info!(count, "handed work over to idle workers");
            self.tell_figures();
        }
        Ok(())
    }

    fn refuse(&mut self, request: u64, reason: Reason, message: impl Into<String>) {
        self.answers.push(Frame::refused(request, reason, message));
    }

    fn enqueue(&mut self, frame: &Frame) -> Result<(), JournalError> {
        let mut last = None;
        let live = &mut self.live;
        let taken = read_enqueue(&frame.body, |invocation, payload| {
            check_metadata(&invocation.metadata).map_err(|error| Trouble::Malformed(error.to_string()))?;
            last = Some(invocation.id);
            live.enqueue(invocation, payload).map(|_| ()).map_err(Trouble::Journal)
        });
        match taken {
            Ok(wait) => {
                if let Some(id) = last.filter(|_| wait) {
                    self.waiters.insert(id, frame.request);
                }
                self.answers.push(Frame::new(Kind::Ack, frame.request, Vec::new()));
                Ok(())
            }
            Err(Trouble::Malformed(message)) => {
                self.refuse(frame.request, Reason::Malformed, message);
                Ok(())
            }
            Err(Trouble::Journal(error)) if error.is_no_space() => {
                let message = format!("the disk is full ({error}); enqueueing works again as soon as there is room");
                self.refuse(frame.request, Reason::NoSpace, message);
                Ok(())
            }
            Err(Trouble::Journal(error)) => {
                let _ = self.replies.send(Frame::refused(frame.request, Reason::Failed, error.to_string()));
                Err(error)
            }
        }
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
        if queued {
            self.end_cancelled(id)?;
        } else if let Some(running) = self.running.get_mut(&id) {
            running.cancelled = true;
            running.cancel.cancel();
            let _ = self.executor.send(ToExecutor::Abort(id));
        }
        self.answers.push(Frame::new(Kind::Ack, frame.request, Vec::new()));
        Ok(())
    }

    /// Ends an invocation that an operator cancelled.
    pub(super) fn end_cancelled(&mut self, id: InvocationId) -> Result<(), JournalError> {
        let attempts = self.live.get(&id).map_or(0, |entry| entry.attempts);
        self.live.done(id, Outcome::Cancelled)?;
        if let Some(request) = self.waiters.remove(&id) {
            let completion = Completion {
                id,
                verdict: Verdict::Cancelled,
                version: None,
                component: None,
                attempts,
                dead: false,
                failure: None,
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
                tracing::error!(%id, %error, "a payload cannot be read back");
                None
            }
        }
    }
}
