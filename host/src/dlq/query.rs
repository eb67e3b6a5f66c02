//! The questions: pages, single entries, counts, groups.
//!
//! Invariants: a page reads only the lines it returns, and stops at a number of bytes as well as
//! at a number of entries; a damaged entry never hides the others.
//!
//! Deliberately absent: writing.

use std::collections::BTreeMap;

use wasmq_core::{DeadTask, InvocationId, Timestamp};

use super::error::DlqError;
use super::log::Log;
use super::slots::Slot;
use super::types::{Counts, Cursor, Damage, Filter, Found, Group, Page, RemovalReason, Standing};
use crate::causes::error_chain;

/// A page ends when its lines have so many bytes together, but has one entry at least.
const PAGE_BYTES: u64 = 32 * 1024 * 1024;
const MAX_CANDIDATES: usize = 20;
const MAX_SAMPLES: usize = 5;
const PREFIX_DIGITS: std::ops::RangeInclusive<usize> = 8..=32;

impl Log {
    /// Entries behind a cursor, in the order of the queue.
    pub(super) fn batch(&self, after: Option<Cursor>, limit: usize, filter: &Filter) -> Result<Page, DlqError> {
        let until = filter.until.map_or(u64::MAX, |cursor| cursor.0);
        let slots = self.index.slots.between(after.map_or(0, |cursor| cursor.0), until);
        self.page(slots, limit, filter)
    }

    /// Entries before a cursor, the latest first.
    pub(super) fn latest(&self, before: Option<Cursor>, limit: usize, filter: &Filter) -> Result<Page, DlqError> {
        let until = filter.until.map_or(u64::MAX, |cursor| cursor.0);
        let before = before.map_or(u64::MAX, |cursor| cursor.0.saturating_sub(1));
        self.page(self.index.slots.between(0, until.min(before)).rev(), limit, filter)
    }

    fn page<'a>(&self, slots: impl Iterator<Item = &'a Slot>, limit: usize, filter: &Filter) -> Result<Page, DlqError> {
        let mut slots = slots.filter(self.wanted(filter)).peekable();
        let mut page = Page { damaged: self.index.damage().len() as u64, ..Page::default() };
        let (mut bytes, mut last) = (0, None);
        while page.entries.len() < limit && bytes < PAGE_BYTES {
            let Some(slot) = slots.next() else { break };
            bytes += u64::from(slot.len);
            last = Some(Cursor(slot.seq));
            match self.read(slot) {
                Ok(Some(dead)) => page.entries.push(dead),
                Ok(None) => {}
                Err(error @ DlqError::Damaged { .. }) => {
                    tracing::warn!(error = error_chain(&error), "passed over a dead task");
                    page.damaged += 1;
                }
                Err(error) => return Err(error),
            }
        }
        page.next = slots.peek().and(last);
        Ok(page)
    }

    /// How many entries a filter lets through.
    pub(super) fn count(&self, filter: &Filter) -> u64 {
        let until = filter.until.map_or(u64::MAX, |cursor| cursor.0);
        self.index.slots.between(0, until).filter(self.wanted(filter)).count() as u64
    }

    /// The filter by what the index knows; the bounds are the caller's.
    fn wanted(&self, filter: &Filter) -> impl Fn(&&Slot) -> bool {
        let kinds = self.index.kinds.matching(filter);
        move |slot| {
            kinds.get(slot.kind as usize).copied().unwrap_or_default()
                && filter.ids.as_ref().is_none_or(|ids| ids.contains(&InvocationId::from_u128(slot.id)))
        }
    }

    /// The number of the last entry there ever was.
    pub(super) fn end(&self) -> Cursor {
        Cursor(self.index.next_seq() - 1)
    }

    pub(super) fn get(&self, id: InvocationId) -> Result<Option<DeadTask>, DlqError> {
        self.index.slots.get(id.as_u128()).map_or(Ok(None), |slot| self.read(slot))
    }

    pub(super) fn find(&self, prefix: &str) -> Result<Found, DlqError> {
        let (low, high) = range_of(prefix)?;
        let mut ids: Vec<u128> = self.index.slots.ids().filter(|id| (low..=high).contains(id)).collect();
        ids.sort_unstable();
        match ids.as_slice() {
            [] => Ok(Found::None),
            [id] => Ok(self.get(InvocationId::from_u128(*id))?.map_or(Found::None, |dead| Found::One(Box::new(dead)))),
            all => {
                let ids = all.iter().take(MAX_CANDIDATES).map(|id| InvocationId::from_u128(*id)).collect();
                Ok(Found::Many { ids, total: all.len() })
            }
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let mut by_kind = vec![0_u64; self.index.kinds.len()];
        let mut counts = Counts { damaged: self.index.damage().len() as u64, ..Counts::default() };
        for slot in self.index.slots.live() {
            counts.total += 1;
            let dead_at = Timestamp(slot.dead_at);
            counts.oldest = Some(counts.oldest.map_or(dead_at, |oldest| oldest.min(dead_at)));
            if let Some(count) = by_kind.get_mut(slot.kind as usize) {
                *count += 1;
            }
        }
        for (number, count) in (0..).zip(by_kind).filter(|(_, count)| *count > 0) {
            if let Some(kind) = self.index.kinds.get(number) {
                *counts.by_task.entry(kind.task.clone()).or_default() += count;
                *counts.by_verdict.entry(kind.verdict.clone()).or_default() += count;
            }
        }
        counts
    }

    /// The groups, the largest first, and of equal ones that which failed last.
    pub(super) fn groups(&self) -> Result<Vec<Group>, DlqError> {
        let mut groups = BTreeMap::new();
        for slot in self.index.slots.live() {
            let Some(kind) = self.index.kinds.get(slot.kind) else { continue };
            let key = (&*kind.fingerprint, &kind.task, &kind.verdict);
            let group = groups.entry(key).or_insert_with(|| Group {
                fingerprint: kind.fingerprint.to_string(),
                task: kind.task.clone(),
                verdict: kind.verdict.clone(),
                summary: String::new(),
                count: 0,
                first: Timestamp(slot.dead_at),
                last: Timestamp(slot.dead_at),
                samples: Vec::new(),
                digests: Vec::new(),
            });
            group.count += 1;
            group.first = group.first.min(Timestamp(slot.dead_at));
            group.last = group.last.max(Timestamp(slot.dead_at));
            if group.samples.len() == MAX_SAMPLES {
                group.samples.pop();
            }
            group.samples.insert(0, InvocationId::from_u128(slot.id));
            if !group.digests.contains(&kind.component) {
                group.digests.push(kind.component);
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        for group in &mut groups {
            group.summary = self.summary(&group.samples)?;
        }
        groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.last)));
        Ok(groups)
    }

    /// One line of why, of the first entry that can be read.
    fn summary(&self, ids: &[InvocationId]) -> Result<String, DlqError> {
        for id in ids {
            match self.get(*id) {
                Ok(Some(dead)) => return Ok(dead.summary().to_owned()),
                Ok(None) | Err(DlqError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(String::new())
    }

    pub(super) fn damage(&self) -> Vec<Damage> {
        let tell = |bytes: &super::index::DamagedBytes| Damage {
            path: self.path.clone(),
            line: bytes.line,
            offset: bytes.offset,
            len: bytes.len,
            reason: bytes.reason,
        };
        self.index.damage().iter().map(tell).collect()
    }

    pub(super) fn standing(&self, id: InvocationId) -> Result<Standing, DlqError> {
        if let Some(dead) = self.get(id)? {
            return Ok(Standing::Dead(Box::new(dead)));
        }
        Ok(match self.index.tombstone(id) {
            None => Standing::Unknown,
            Some(tombstone) => match tombstone.reason {
                RemovalReason::Retried => {
                    Standing::AlreadyRetried { at: Timestamp(tombstone.at), replays: tombstone.replays }
                }
                RemovalReason::Deleted => Standing::Deleted { at: Timestamp(tombstone.at) },
            },
        })
    }
}

/// The smallest and the largest id with a prefix.
fn range_of(prefix: &str) -> Result<(u128, u128), DlqError> {
    let digits: String = prefix.chars().filter(|character| *character != '-').collect();
    let wrong = || DlqError::Prefix { found: prefix.chars().take(80).flat_map(char::escape_debug).collect() };
    if !PREFIX_DIGITS.contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let low = u128::from_str_radix(&format!("{digits:0<32}"), 16).map_err(|_| wrong())?;
    let high = u128::from_str_radix(&format!("{digits:f<32}"), 16).map_err(|_| wrong())?;
    Ok((low, high))
}
