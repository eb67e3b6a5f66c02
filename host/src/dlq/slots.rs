//! The live entries in the order of the queue, about 100 bytes each.
//!
//! Invariants: slots are sorted by `seq`; every id has at most one live slot; a removed slot stays
//! as a hole until holes outnumber the rest, so removing is cheap.
//!
//! Deliberately absent: why entries come and go.

use std::collections::HashMap;

use super::kinds::KindId;

/// Below this many, holes are not worth closing.
const MIN_HOLES: usize = 1024;

/// What is kept of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) id: u128,
    pub(super) seq: u64,
    /// Where its line begins, in bytes.
    pub(super) offset: u64,
    pub(super) dead_at: u64,
    /// The length of its line without the newline, in bytes; 0 marks a hole.
    pub(super) len: u32,
    pub(super) replays: u32,
    pub(super) kind: KindId,
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    sorted: Vec<Slot>,
    /// The sequence number of every live id.
    by_id: HashMap<u128, u64>,
    bytes: u64,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The lines of all live entries, newlines included, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&self, id: u128) -> Option<&Slot> {
        let at = self.position(*self.by_id.get(&id)?).ok()?;
        self.sorted.get(at)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = u128> {
        self.by_id.keys().copied()
    }

    /// Live slots from the front.
    pub(super) fn live(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.between(0, u64::MAX)
    }

    /// Live slots with `after < seq <= until`.
    pub(super) fn between(&self, after: u64, until: u64) -> impl DoubleEndedIterator<Item = &Slot> {
        let from = self.sorted.partition_point(|slot| slot.seq <= after);
        let to = self.sorted.partition_point(|slot| slot.seq <= until);
        self.sorted.get(from..to).unwrap_or_default().iter().filter(|slot| slot.len > 0)
    }

    /// Puts an entry in; one with the same id is replaced.
    pub(super) fn insert(&mut self, slot: Slot) {
        self.remove(slot.id);
        match self.position(slot.seq) {
            Ok(at) => {
                // A hole, or an entry of another id under the same number, which nothing writes.
                if let Some(taken) = self.sorted.get(at).copied().filter(|taken| taken.len > 0) {
                    self.remove(taken.id);
                }
                if let Some(place) = self.sorted.get_mut(at) {
                    *place = slot;
                }
            }
            Err(at) => self.sorted.insert(at, slot),
        }
        self.by_id.insert(slot.id, slot.seq);
        self.bytes += u64::from(slot.len) + 1;
    }

    pub(super) fn remove(&mut self, id: u128) -> Option<Slot> {
        let seq = self.by_id.remove(&id)?;
        let at = self.position(seq).ok()?;
        let slot = self.sorted.get_mut(at)?;
        let removed = *slot;
        slot.len = 0;
        self.bytes -= u64::from(removed.len) + 1;
        Some(removed)
    }

    /// Closes the holes when they outnumber the rest.
    pub(super) fn tidy(&mut self) {
        let holes = self.sorted.len() - self.by_id.len();
        if holes > MIN_HOLES && holes > self.by_id.len() {
            self.sorted.retain(|slot| slot.len > 0);
        }
    }

    fn position(&self, seq: u64) -> Result<usize, usize> {
        // Most insertions are at the end.
        match self.sorted.last() {
            Some(last) if last.seq < seq => Err(self.sorted.len()),
            _ => self.sorted.binary_search_by_key(&seq, |slot| slot.seq),
        }
    }
}
