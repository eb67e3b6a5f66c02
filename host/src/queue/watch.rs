//! Watching what becomes of replays.
//!
//! Invariants: what has ended is never looked at again; an invocation that moves from its log to the
//! dead letter queue while both are read counts as dead, because it is in the second before it
//! leaves the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use wasmq_core::{DeadTask, InvocationId};

use super::dead::DeadTasks;
use super::retry::Retried;
use super::{Inner, QueueError};
use crate::dlq::Filter;

/// How many dead tasks are read at once.
const BATCH: usize = 256;

/// Replays whose end somebody waits for.
#[derive(Debug)]
pub struct Watch {
    inner: Arc<Inner>,
    /// Not ended, as far as is known, with the number of the replay.
    pending: BTreeMap<InvocationId, u32>,
    done: u64,
    dead: Vec<InvocationId>,
    /// The latest that died again.
    last_dead: Option<Box<DeadTask>>,
}

impl DeadTasks {
    /// Watches replays from now on.
    #[must_use]
    pub fn watch(&self, retried: &[Retried]) -> Watch {
        Watch {
            inner: Arc::clone(self.inner()),
            pending: retried.iter().map(|one| (one.id, one.replays)).collect(),
            done: 0,
            dead: Vec::new(),
            last_dead: None,
        }
    }
}

impl Watch {
    /// Looks at those that had not ended at the last look. Returns how many have not ended yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn look(&mut self) -> Result<u64, QueueError> {
        let live = self.inner.snapshot()?.entries;
        let gone: Vec<_> = self.pending.keys().filter(|id| !live.contains_key(*id)).copied().collect();
        for ids in gone.chunks(BATCH) {
            self.settle(ids)?;
        }
        Ok(self.pending.len() as u64)
    }

    fn settle(&mut self, ids: &[InvocationId]) -> Result<(), QueueError> {
        let filter = Filter { ids: Some(ids.iter().copied().collect()), ..Filter::default() };
        let mut cursor = None;
        loop {
            let page = self.inner.dlq.batch(cursor, BATCH, &filter)?;
            page.entries.into_iter().for_each(|dead| self.died(dead));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        self.done += ids.iter().filter(|id| self.pending.remove(id).is_some()).count() as u64;
        Ok(())
    }

    fn died(&mut self, dead: DeadTask) {
        if self.pending.get(&dead.id).is_some_and(|replays| dead.replays >= *replays) {
            self.pending.remove(&dead.id);
            self.dead.push(dead.id);
            self.last_dead = Some(Box::new(dead));
        }
    }

    /// How many were completed or cancelled.
    #[must_use]
    pub const fn done(&self) -> u64 {
        self.done
    }

    /// Those that are dead again.
    #[must_use]
    pub fn dead(&self) -> &[InvocationId] {
        &self.dead
    }

    /// The latest that died again.
    #[must_use]
    pub fn last_dead(&self) -> Option<&DeadTask> {
        self.last_dead.as_deref()
    }
}
