//! The store that keeps nothing: dead tasks are logged and dropped.
//!
//! Invariant: whoever asks for dead tasks is told that none are kept, not that there are none.
//!
//! Deliberately absent: state.

use wasmq_core::{DeadTask, InvocationId};

use super::error::DlqError;
use super::types::{Added, Counts, Cursor, Damage, Filter, Found, Group, Page};
use super::{DeadTaskStore, LockedDlq};

/// Keeps nothing (store `none`).
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDlq;

impl DeadTaskStore for NoDlq {
    fn add(&self, dead: &[DeadTask]) -> Result<Added, DlqError> {
        for dead in dead {
            tracing::warn!(
                id = %dead.id,
                task = %dead.task,
                version = %dead.version,
                verdict = %dead.verdict,
                attempts = dead.attempts,
                summary = ?dead.summary(),
                "dropped a dead task: this store keeps none"
            );
        }
        Ok(Added::default())
    }

    fn batch(&self, _: Option<Cursor>, _: usize, _: &Filter) -> Result<Page, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn latest(&self, _: Option<Cursor>, _: usize, _: &Filter) -> Result<Page, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn end(&self) -> Result<Cursor, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn count(&self, _: &Filter) -> Result<u64, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn get(&self, _: InvocationId) -> Result<Option<DeadTask>, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn find(&self, _: &str) -> Result<Found, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn counts(&self) -> Result<Counts, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn groups(&self) -> Result<Vec<Group>, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn damage(&self) -> Result<Vec<Damage>, DlqError> {
        Err(DlqError::NothingKept)
    }

    fn lock(&self) -> Result<Box<dyn LockedDlq>, DlqError> {
        Err(DlqError::NothingKept)
    }
}
