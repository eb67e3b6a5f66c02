//! The operations that change the queue, as lines.
//!
//! Invariants: a death that has left the queue is not added again; each operation is one append
//! and one sync, however many entries it has. The caller holds the lock.
//!
//! Deliberately absent: the order of a retry's steps, which the caller keeps (`FORMAT.md`, "Retry").

use wasmq_core::{DeadTask, Timestamp};

use super::error::DlqError;
use super::index::UNKNOWN_TIME;
use super::line::{self, IdPair, MAX_LINE_BYTES, Write};
use super::log::Log;
use super::types::{Added, RemovalReason};
use crate::causes::error_chain;

impl Log {
    /// Adds deaths. One that is there already is written again as it stands.
    pub(super) fn add(&mut self, dead: &[DeadTask]) -> Result<Added, DlqError> {
        self.prepare_write()?;
        let mut added = Added::default();
        let mut lines = Vec::new();
        let mut next_seq = self.index.next_seq();
        for dead in dead {
            if self.index.is_stale((dead.id, dead.replays)) {
                added.stale += 1;
                continue;
            }
            added.taken += 1;
            let known = self.index.slots.get(dead.id.as_u128()).copied().filter(|slot| slot.replays == dead.replays);
            match known {
                None => {
                    self.push_entry(&mut lines, next_seq, dead)?;
                    next_seq += 1;
                }
                // An operator may have edited it since; and the writer of that line may have died before its sync.
                Some(slot) => match self.read(&slot) {
                    Ok(None) => {
                        self.index.bury((dead.id, dead.replays), RemovalReason::Deleted, UNKNOWN_TIME);
                        added.taken -= 1;
                        added.stale += 1;
                    }
                    Ok(Some(there)) => self.push_entry(&mut lines, slot.seq, &there)?,
                    Err(_) => self.push_entry(&mut lines, slot.seq, dead)?,
                },
            }
        }
        self.append_some(&lines)?;
        Ok(added)
    }

    /// Notes that these are about to be enqueued in a WAL.
    pub(super) fn intend(&mut self, wal: &str, ids: &[IdPair], now: Timestamp) -> Result<(), DlqError> {
        self.prepare_write()?;
        let mut lines = Vec::new();
        line::push_in_parts(&mut lines, ids, |ids| Write::Retry { wal, at: now.0, ids })
            .map_err(DlqError::io("encoding a line of", &self.path))?;
        self.append_some(&lines)
    }

    /// Removes deaths; returns how many of them were in the queue.
    pub(super) fn remove(&mut self, ids: &[IdPair], reason: RemovalReason, now: Timestamp) -> Result<usize, DlqError> {
        self.prepare_write()?;
        let before = self.index.slots.len();
        let mut lines = Vec::new();
        line::push_in_parts(&mut lines, ids, |ids| Write::Removed { ids, reason, at: now.0 })
            .map_err(DlqError::io("encoding a line of", &self.path))?;
        match self.append_some(&lines) {
            Err(DlqError::NoSpace { .. }) if reason == RemovalReason::Deleted => self.delete_in_place(ids, now)?,
            other => other?,
        }
        let removed = before.saturating_sub(self.index.slots.len());
        if self.index.wants_compaction(now)
            && let Err(error) = self.compact(now)
        {
            // The removal itself is durable; the next one tries again.
            tracing::warn!(path = %self.path.display(), error = error_chain(&error), "could not compact the dead letter queue");
        }
        Ok(removed)
    }

    /// Removes entries whose replays are fewer than the given ones: they live on in a WAL.
    pub(super) fn drop_superseded(&mut self, ids: &[IdPair], now: Timestamp) -> Result<usize, DlqError> {
        self.refresh()?;
        let superseded = |&(id, replays): &IdPair| {
            let slot = self.index.slots.get(id.as_u128()).filter(|slot| slot.replays < replays)?;
            Some((id, slot.replays))
        };
        let gone: Vec<IdPair> = ids.iter().filter_map(superseded).collect();
        if gone.is_empty() { Ok(0) } else { self.remove(&gone, RemovalReason::Retried, now) }
    }

    fn push_entry(&self, lines: &mut Vec<u8>, seq: u64, dead: &DeadTask) -> Result<(), DlqError> {
        let before = lines.len();
        line::push_add(lines, seq, dead).map_err(DlqError::io("encoding a line of", &self.path))?;
        let found = lines.len() - before - 1;
        if found > MAX_LINE_BYTES {
            return Err(DlqError::TooLarge { id: dead.id, found, limit: MAX_LINE_BYTES });
        }
        Ok(())
    }

    fn append_some(&mut self, lines: &[u8]) -> Result<(), DlqError> {
        if lines.is_empty() { Ok(()) } else { self.append(lines) }
    }

    /// Deletes without needing space: `add` becomes `del` in the line itself.
    fn delete_in_place(&mut self, ids: &[IdPair], now: Timestamp) -> Result<(), DlqError> {
        for &(id, replays) in ids {
            let slot = self.index.slots.get(id.as_u128()).copied().filter(|slot| slot.replays <= replays);
            let Some(slot) = slot else { continue };
            let mut bytes = self.read_line(&slot)?;
            let Some(changed) = line::mark_deleted(&mut bytes) else {
                return Err(DlqError::Damaged { id, path: self.path.clone(), offset: slot.offset });
            };
            let head = bytes.get(..changed).unwrap_or_default();
            let path = self.path.clone();
            self.writer()?.write_all_at(head, slot.offset).map_err(DlqError::io("deleting in place in", &path))?;
            self.index.bury((id, slot.replays), RemovalReason::Deleted, now.0);
        }
        let path = self.path.clone();
        self.writer()?.sync_data().map_err(DlqError::io("syncing", &path))
    }
}
