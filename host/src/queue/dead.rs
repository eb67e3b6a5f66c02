//! The dead letter queue as callers see it: iterate, look, retry, delete.
//!
//! Invariants: iteration goes in small batches, and retrying or deleting inside the loop is safe;
//! bulk operations work on what was there when they began, so they end even while new failures
//! stream in.

use std::num::NonZeroU32;
use std::sync::Arc;

use wasmq_core::{DeadTask, InvocationId, TaskName};

use super::retry::{Component, How, Refused, Retried, RetryReport, unknown};
use super::{Inner, QueueError};
use crate::clock;
use crate::dlq::{Counts, Cursor, Damage, Filter, Group, RemovalReason, Standing};
use crate::store::StoreKind;

/// How many dead tasks are read, retried or deleted at once.
const BATCH: usize = 256;

/// Which dead tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// These ids.
    Ids(Vec<InvocationId>),
    /// All of a task.
    Task(TaskName),
    /// All with a fingerprint.
    Group(String),
    /// All.
    All,
}

impl Selection {
    fn filter(&self) -> Filter {
        let mut filter = Filter::default();
        match self {
            Self::Ids(ids) => filter.ids = Some(ids.iter().copied().collect()),
            Self::Task(task) => filter.task = Some(task.clone()),
            Self::Group(fingerprint) => filter.fingerprint = Some(fingerprint.clone()),
            Self::All => {}
        }
        filter
    }
}

/// What a deletion did.
#[derive(Debug, Default)]
pub struct DeleteReport {
    /// Those that were deleted.
    pub deleted: Vec<InvocationId>,
    /// Those that were not, and why.
    pub refused: Vec<Refused>,
}

/// The dead letter queue.
#[derive(Debug, Clone)]
pub struct DeadTasks {
    inner: Arc<Inner>,
}

/// A dead task in a loop. It derefs to [`DeadTask`].
#[derive(Debug, Clone)]
pub struct DeadEntry {
    task: DeadTask,
    inner: Arc<Inner>,
}

impl std::ops::Deref for DeadEntry {
    type Target = DeadTask;

    fn deref(&self) -> &DeadTask {
        &self.task
    }
}

impl DeadEntry {
    /// Puts it back: same id, first enqueue time, payload and history, a fresh budget of attempts,
    /// one replay more.
    ///
    /// # Errors
    /// [`QueueError::AlreadyRetried`], [`QueueError::AlreadyDeleted`], [`QueueError::Unresolved`], or a failure of the store. Then it stays where it is.
    pub fn retry(&self, component: &Component) -> Result<Retried, QueueError> {
        let how = How { component: component.clone(), ..How::default() };
        let mut report = self.inner.retry(&[self.task.id], &how)?;
        match (report.retried.pop(), report.refused.pop()) {
            (Some(retried), _) => Ok(retried),
            (None, Some(refused)) => Err(refused.error),
            (None, None) => Err(QueueError::UnknownId(self.task.id.to_string())),
        }
    }

    /// Deletes it for good.
    ///
    /// # Errors
    /// [`QueueError::AlreadyRetried`], [`QueueError::AlreadyDeleted`], or a failure of the store.
    pub fn delete(&self) -> Result<(), QueueError> {
        let mut report = self.inner.delete(&[self.task.id])?;
        report.refused.pop().map_or(Ok(()), |refused| Err(refused.error))
    }

    /// The dead task itself.
    #[must_use]
    pub fn into_inner(self) -> DeadTask {
        self.task
    }
}

/// Iterates over dead tasks, oldest first, in batches.
#[derive(Debug)]
pub struct DeadIter {
    inner: Arc<Inner>,
    filter: Filter,
    cursor: Option<Cursor>,
    page: std::vec::IntoIter<DeadTask>,
    ended: bool,
}

impl Iterator for DeadIter {
    type Item = Result<DeadEntry, QueueError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(task) = self.page.next() {
                return Some(Ok(DeadEntry { task, inner: Arc::clone(&self.inner) }));
            }
            if self.ended {
                return None;
            }
            match self.inner.dlq.batch(self.cursor, BATCH, &self.filter) {
                Ok(page) => {
                    self.ended = page.next.is_none();
                    self.cursor = page.next;
                    self.page = page.entries.into_iter();
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

impl DeadTasks {
    pub(super) const fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    pub(super) const fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Iterates over those that are there now.
    #[must_use]
    pub fn iter(&self, selection: &Selection) -> DeadIter {
        let mut filter = selection.filter();
        filter.until = self.inner.dlq.end().ok();
        DeadIter { inner: Arc::clone(&self.inner), filter, cursor: None, page: Vec::new().into_iter(), ended: false }
    }

    /// The newest ones, newest first.
    ///
    /// # Errors
    /// [`QueueError::NothingKept`], or when the store cannot be read.
    pub fn latest(&self, selection: &Selection, limit: usize) -> Result<Vec<DeadTask>, QueueError> {
        let mut found = Vec::new();
        self.each_latest(selection, limit, |dead| {
            found.push(dead);
            Ok::<(), QueueError>(())
        })?;
        Ok(found)
    }

    /// Visits the newest ones, newest first, a page of them in memory at a time.
    ///
    /// # Errors
    /// As [`DeadTasks::latest`], and what `visit` returns.
    pub fn each_latest<E: From<QueueError>>(
        &self,
        selection: &Selection,
        limit: usize,
        mut visit: impl FnMut(DeadTask) -> Result<(), E>,
    ) -> Result<(), E> {
        let (filter, mut before, mut left) = (selection.filter(), None, limit);
        while left > 0 {
            let page = self.inner.dlq.latest(before, left, &filter).map_err(QueueError::from)?;
            left = left.saturating_sub(page.entries.len());
            page.entries.into_iter().try_for_each(&mut visit)?;
            match page.next {
                Some(next) => before = Some(next),
                None => break,
            }
        }
        Ok(())
    }

    /// How many a selection has.
    ///
    /// # Errors
    /// As [`DeadTasks::latest`].
    pub fn count(&self, selection: &Selection) -> Result<u64, QueueError> {
        Ok(self.inner.dlq.count(&selection.filter())?)
    }

    /// One, by its id or an unambiguous beginning of it; its backtrace with what symbols have for it.
    ///
    /// # Errors
    /// [`QueueError::UnknownId`], [`QueueError::StillLive`], [`QueueError::AlreadyRetried`],
    /// [`QueueError::AlreadyDeleted`], [`QueueError::AmbiguousId`], [`QueueError::NotAnId`].
    pub fn get(&self, id: &str) -> Result<DeadTask, QueueError> {
        let id = self.find(id)?;
        match self.inner.dlq.get(id)? {
            Some(dead) => Ok(self.inner.explain_dead(dead)),
            None => Err(self.inner.not_dead(id)),
        }
    }

    /// The id that a text is or begins.
    ///
    /// # Errors
    /// [`QueueError::UnknownId`], [`QueueError::AmbiguousId`], [`QueueError::NotAnId`].
    pub fn find(&self, id: &str) -> Result<InvocationId, QueueError> {
        self.inner.dlq.end()?;
        self.inner.find_id(id)
    }

    /// Damaged places in the files of the dead letter queue, a sentence each. What lies around them is read.
    ///
    /// # Errors
    /// As [`DeadTasks::latest`].
    pub fn damage(&self) -> Result<Vec<String>, QueueError> {
        let sentence = |place: Damage| {
            let path = place.path.display();
            let (line, offset, reason) = (place.line, place.offset, place.reason);
            format!("{path}, line {line}, offset {offset}: a damaged line, {reason}; the others are read")
        };
        Ok(self.inner.dlq.damage()?.into_iter().map(sentence).collect())
    }

    /// Counts by task and verdict.
    ///
    /// # Errors
    /// As [`DeadTasks::latest`].
    pub fn counts(&self) -> Result<Counts, QueueError> {
        Ok(self.inner.dlq.counts()?)
    }

    /// Failures that are alike, grouped; the largest group first.
    ///
    /// # Errors
    /// As [`DeadTasks::latest`].
    pub fn groups(&self) -> Result<Vec<Group>, QueueError> {
        Ok(self.inner.dlq.groups()?)
    }

    /// Puts dead tasks back. `progress` is told how many have been looked at so far.
    ///
    /// # Errors
    /// A failure of the store; what was put back by then stays so. A dead task that cannot be put
    /// back is no error but part of the report.
    pub fn retry(
        &self,
        selection: &Selection,
        component: &Component,
        max_attempts: Option<NonZeroU32>,
        dry_run: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<RetryReport, QueueError> {
        let how = How { component: component.clone(), max_attempts, dry_run };
        let mut report = RetryReport::default();
        self.for_batches(selection, |ids, seen| {
            report.append(self.inner.retry(ids, &how)?);
            progress(seen);
            Ok(())
        })?;
        Ok(report)
    }

    /// Deletes dead tasks for good.
    ///
    /// # Errors
    /// As [`DeadTasks::retry`].
    pub fn delete(&self, selection: &Selection, progress: &mut dyn FnMut(u64)) -> Result<DeleteReport, QueueError> {
        let mut report = DeleteReport::default();
        self.for_batches(selection, |ids, seen| {
            let mut batch = self.inner.delete(ids)?;
            report.deleted.append(&mut batch.deleted);
            report.refused.append(&mut batch.refused);
            progress(seen);
            Ok(())
        })?;
        Ok(report)
    }

    /// Visits a selection as it is now, in batches of ids. Ids given by hand are visited even when
    /// they are not there, so that each gets its answer.
    fn for_batches(
        &self,
        selection: &Selection,
        mut visit: impl FnMut(&[InvocationId], u64) -> Result<(), QueueError>,
    ) -> Result<(), QueueError> {
        if let Selection::Ids(ids) = selection {
            let mut seen = 0;
            return ids.chunks(BATCH).try_for_each(|chunk| {
                seen += chunk.len() as u64;
                visit(chunk, seen)
            });
        }
        let filter = Filter { until: Some(self.inner.dlq.end()?), ..selection.filter() };
        let (mut cursor, mut seen) = (None, 0);
        loop {
            let page = self.inner.dlq.batch(cursor, BATCH, &filter)?;
            let ids: Vec<_> = page.entries.iter().map(|entry| entry.id).collect();
            seen += ids.len() as u64;
            if !ids.is_empty() {
                visit(&ids, seen)?;
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}

impl Inner {
    fn delete(&self, ids: &[InvocationId]) -> Result<DeleteReport, QueueError> {
        let mut report = DeleteReport::default();
        if self.options.store == StoreKind::Dir && !self.exists()? {
            report.refused.extend(unknown(ids));
            return Ok(report);
        }
        self.refuse_place()?;
        let mut locked = self.dlq.lock()?;
        self.settle_intents(locked.as_mut())?;
        let mut gone = Vec::new();
        for (id, standing) in locked.current(ids)? {
            let error = match standing {
                Standing::Dead(dead) => {
                    gone.push((id, dead.replays));
                    report.deleted.push(id);
                    continue;
                }
                Standing::AlreadyRetried { at, replays } => {
                    QueueError::AlreadyRetried { id, at, replays: replays.saturating_add(1) }
                }
                Standing::Deleted { at } => QueueError::AlreadyDeleted { id, at },
                Standing::Unknown => self.not_dead(id),
            };
            report.refused.push(Refused { id, error });
        }
        if !gone.is_empty() {
            locked.removed(&gone, RemovalReason::Deleted, clock::now())?;
        }
        Ok(report)
    }
}
