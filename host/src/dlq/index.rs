//! What the file says, in memory: built by one pass and carried on line by line.
//!
//! Invariants: the state is a function of the bytes up to `seen`; applying is total, whatever a line
//! holds; a death that has left the queue never comes back (`FORMAT.md`, "Operations").
//!
//! Deliberately absent: reading and writing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wasmq_core::{InvocationId, Timestamp};

use super::head::Head;
use super::kinds::Kinds;
use super::line::{self, FileHead, HEAD_BYTES, IdPair, Op, Removed, Retry};
use super::slots::{Slot, Slots};
use super::types::{DamageReason, Intent, RemovalReason};

/// How long tombstones are kept, in milliseconds: 30 days.
const TOMBSTONE_MS: u64 = 30 * 24 * 3_600_000;
/// So many of the latest tombstones are kept whatever their age: a clock that jumps forward makes all look old.
pub(super) const LATEST_TOMBSTONES: u64 = 4096;
/// The time of a deletion in place, which has no room for one; a compaction puts its own there.
pub(super) const UNKNOWN_TIME: u64 = 0;
/// What a tombstone takes in a compacted file, in bytes.
const TOMBSTONE_BYTES: u64 = 46;
/// With less garbage than this a compaction is not worth it, in bytes.
const MIN_GARBAGE_BYTES: u64 = 1024 * 1024;
/// How often the start of another line is looked for inside a damaged one.
const MAX_RESYNCS: u32 = 64;

/// The latest death of an id that left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tombstone {
    pub(super) replays: u32,
    pub(super) reason: RemovalReason,
    pub(super) at: u64,
    /// The how many-eth burial it was.
    order: u64,
}

/// A retry that was begun for an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Begun {
    at: u64,
    wal: Arc<str>,
    replays: u32,
}

/// Damaged bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DamagedBytes {
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) reason: DamageReason,
}

/// The last line that was read; if it is still there, so is all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastLine {
    pub(super) offset: u64,
    pub(super) head: [u8; HEAD_BYTES],
}

/// The time and the reason of a removal, and whom it removed.
type TombstoneGroup = ((u64, RemovalReason), Vec<IdPair>);
/// An entry whose number is not the one after that of the last entry: lines between them are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) expected: u64,
    pub(super) found: u64,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) slots: Slots,
    pub(super) kinds: Kinds,
    tombstones: HashMap<u128, Tombstone>,
    /// How many tombstones there ever were.
    burials: u64,
    begun: HashMap<u128, Vec<Begun>>,
    damage: Vec<DamagedBytes>,
    gaps: Vec<Gap>,
    last: Option<LastLine>,
    seen: u64,
    lines: u64,
    next_seq: u64,
}

impl Index {
    /// Where the next line begins, in bytes.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The sequence number the next entry gets; they start at 1.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq.max(1)
    }

    pub(super) fn last(&self) -> Option<LastLine> {
        self.last
    }

    pub(super) fn damage(&self) -> &[DamagedBytes] {
        &self.damage
    }

    /// Where lines are missing, as far as the numbers of entries tell. Damage uses numbers up, so behind the
    /// first damaged place they tell nothing.
    pub(super) fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// How many lines were read.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn tombstone(&self, id: InvocationId) -> Option<Tombstone> {
        self.tombstones.get(&id.as_u128()).copied()
    }

    /// Whether this death was removed, or a later one is there.
    pub(super) fn is_stale(&self, (id, replays): IdPair) -> bool {
        let id = id.as_u128();
        self.tombstones.get(&id).is_some_and(|tombstone| tombstone.replays >= replays)
            || self.slots.get(id).is_some_and(|slot| slot.replays > replays)
    }

    /// Takes in the line at `seen`, without its newline.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let (mut at, mut rest, mut resyncs) = (self.seen, bytes, 0);
        while !rest.is_empty() {
            let Err(reason) = self.apply(at, rest) else { break };
            let next = line::next_start(rest).filter(|_| resyncs < MAX_RESYNCS);
            let (bad, good) = rest.split_at_checked(next.unwrap_or(rest.len())).unwrap_or_default();
            self.note_damage(at, bad.len() as u64, reason);
            at += bad.len() as u64;
            rest = good;
            resyncs += 1;
        }
        let mut head = [0; HEAD_BYTES];
        head.iter_mut().zip(bytes).for_each(|(target, byte)| *target = *byte);
        self.passed(bytes.len() as u64, head);
    }

    /// Notes a line at `seen` that is too long to be one.
    pub(super) fn take_too_long(&mut self, len: u64) {
        self.note_damage(self.seen, len, DamageReason::TooLong);
        self.passed(len, [0; HEAD_BYTES]);
    }

    fn passed(&mut self, len: u64, head: [u8; HEAD_BYTES]) {
        self.last = Some(LastLine { offset: self.seen, head });
        self.seen += len + 1;
        self.lines += 1;
    }

    fn note_damage(&mut self, offset: u64, len: u64, reason: DamageReason) {
        self.damage.push(DamagedBytes { line: self.lines + 1, offset, len, reason });
        // It may have been an entry whose number a cursor remembers.
        self.next_seq = self.next_seq() + 1;
    }

    fn apply(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DamageReason> {
        match line::parse(bytes)? {
            Op::Head(FileHead { next }) => self.next_seq = self.next_seq.max(next),
            Op::Add(seq, head) => {
                self.note_gap(seq, offset);
                self.add(seq, &head, offset, bytes.len())?;
            }
            Op::Deleted(seq, head) => {
                self.note_gap(seq, offset);
                self.deleted(seq, &head)?;
            }
            Op::Retry(retry) => self.begin(&retry),
            Op::Removed(removed) => self.remove(&removed),
        }
        Ok(())
    }

    fn note_gap(&mut self, found: u64, offset: u64) {
        let expected = self.next_seq();
        if found > expected && self.damage.is_empty() {
            self.gaps.push(Gap { line: self.lines + 1, offset, expected, found });
        }
    }

    fn add(&mut self, seq: u64, head: &Head<'_>, offset: u64, len: usize) -> Result<(), DamageReason> {
        let id: InvocationId = head.id.parse().map_err(|_| DamageReason::Content)?;
        let kind = self.kinds.number(head)?;
        let len = u32::try_from(len).map_err(|_| DamageReason::TooLong)?;
        self.next_seq = self.next_seq.max(seq.saturating_add(1));
        if self.is_stale((id, head.replays)) {
            return Ok(());
        }
        if self.slots.get(id.as_u128()).is_some_and(|slot| slot.replays < head.replays) {
            self.begun.remove(&id.as_u128());
        }
        let (id, replays, dead_at) = (id.as_u128(), head.replays, head.dead_at);
        self.slots.insert(Slot { id, seq, offset, dead_at, len, replays, kind });
        Ok(())
    }

    fn deleted(&mut self, seq: u64, head: &Head<'_>) -> Result<(), DamageReason> {
        let id = head.id.parse().map_err(|_| DamageReason::Content)?;
        self.next_seq = self.next_seq.max(seq.saturating_add(1));
        self.bury((id, head.replays), RemovalReason::Deleted, UNKNOWN_TIME);
        Ok(())
    }

    fn begin(&mut self, retry: &Retry<'_>) {
        let wal: Arc<str> = retry.wal.as_ref().into();
        for &(id, replays) in &retry.ids {
            if self.slots.get(id.as_u128()).is_some_and(|slot| slot.replays == replays) {
                let begun = Begun { at: retry.at, wal: Arc::clone(&wal), replays };
                self.begun.entry(id.as_u128()).or_default().push(begun);
            }
        }
    }

    fn remove(&mut self, removed: &Removed) {
        for &pair in &removed.ids {
            self.bury(pair, removed.reason, removed.at);
        }
        self.slots.tidy();
    }

    /// Removes an entry and leaves a tombstone.
    pub(super) fn bury(&mut self, (id, replays): IdPair, reason: RemovalReason, at: u64) {
        let id = id.as_u128();
        if self.slots.get(id).is_some_and(|slot| slot.replays <= replays) {
            self.slots.remove(id);
            self.begun.remove(&id);
        }
        self.burials += 1;
        let tombstone = Tombstone { replays, reason, at, order: self.burials };
        self.tombstones
            .entry(id)
            .and_modify(|known| {
                if known.replays <= replays {
                    *known = tombstone;
                }
            })
            .or_insert(tombstone);
    }

    /// Retries that were begun and whose entries are still there, the earliest first.
    pub(super) fn dangling(&self) -> Vec<Intent> {
        let mut intents: BTreeMap<(u64, &Arc<str>), Vec<IdPair>> = BTreeMap::new();
        for (&id, all) in &self.begun {
            for begun in all {
                let pair = (InvocationId::from_u128(id), begun.replays);
                intents.entry((begun.at, &begun.wal)).or_default().push(pair);
            }
        }
        let finish = |((at, wal), mut ids): ((u64, &Arc<str>), Vec<IdPair>)| {
            ids.sort_unstable();
            ids.dedup();
            Intent { wal: wal.to_string(), at: Timestamp(at), ids }
        };
        intents.into_iter().map(finish).collect()
    }

    /// Tombstones that are still to be kept, in the order in which they came, those of one operation together.
    pub(super) fn kept_tombstones(&self, now: Timestamp) -> Vec<TombstoneGroup> {
        let mut kept: Vec<_> = self.tombstones.iter().filter(|(_, tombstone)| self.is_kept(tombstone, now)).collect();
        kept.sort_unstable_by_key(|(_, tombstone)| tombstone.order);
        let mut groups: Vec<TombstoneGroup> = Vec::new();
        for (id, tombstone) in kept {
            let pair = (InvocationId::from_u128(*id), tombstone.replays);
            let at = if tombstone.at == UNKNOWN_TIME { now.0 } else { tombstone.at };
            match groups.last_mut() {
                Some((key, ids)) if *key == (at, tombstone.reason) => ids.push(pair),
                _ => groups.push(((at, tombstone.reason), vec![pair])),
            }
        }
        groups
    }

    fn is_kept(&self, tombstone: &Tombstone, now: Timestamp) -> bool {
        is_young(tombstone, now) || tombstone.order + LATEST_TOMBSTONES > self.burials
    }

    /// Whether garbage outweighs the rest.
    pub(super) fn wants_compaction(&self, now: Timestamp) -> bool {
        let beside_live = self.seen.saturating_sub(self.slots.bytes());
        if beside_live < MIN_GARBAGE_BYTES || beside_live < self.slots.bytes() {
            return false;
        }
        let kept = self.tombstones.values().filter(|tombstone| self.is_kept(tombstone, now)).count();
        let kept = self.slots.bytes() + kept as u64 * TOMBSTONE_BYTES;
        let garbage = self.seen.saturating_sub(kept);
        garbage > MIN_GARBAGE_BYTES && garbage > kept
    }
}

fn is_young(tombstone: &Tombstone, now: Timestamp) -> bool {
    tombstone.at == UNKNOWN_TIME || now.0 < tombstone.at.saturating_add(TOMBSTONE_MS)
}
