//! The memory limit of an attempt, over all linear memories and tables of its instance together.
//!
//! Invariants: what is granted never exceeds the limit; the first refusal is remembered, so a
//! failure that follows it can be told from any other trap. A growth that the limit allowed but
//! the machine could not give is an observation: another attempt may well get it.

use wasmtime::ResourceLimiter;

/// A table element costs this much of the host's memory.
const TABLE_ELEMENT_BYTES: usize = size_of::<usize>();
/// The largest memory of a 32-bit guest; a wish beyond it is refused by the engine whatever the host has.
const ADDRESSABLE_BYTES: usize = 4 << 30;

/// A wish that went over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What all memories and tables would have come to, in bytes.
    pub(super) wanted_bytes: usize,
    /// Whether the memory did not exist yet: the component needs this much to start.
    pub(super) initial: bool,
}

/// Counts and limits the memory of one attempt.
#[derive(Debug)]
pub(super) struct MemoryLimiter {
    limit_bytes: usize,
    memory_bytes: usize,
    table_bytes: usize,
    refusal: Option<Refusal>,
    last_wish_was_possible: bool,
    host_was_short: bool,
}

impl MemoryLimiter {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes: usize::try_from(limit_bytes).unwrap_or(usize::MAX),
            memory_bytes: 0,
            table_bytes: 0,
            refusal: None,
            last_wish_was_possible: false,
            host_was_short: false,
        }
    }

    /// The memory in use. Linear memories never shrink, so this is the peak too.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.memory_bytes as u64
    }

    /// The limit, in bytes.
    pub(super) fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// The first wish that was refused.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Whether the machine could not give what the limit allowed.
    pub(super) fn host_was_short(&self) -> bool {
        self.host_was_short
    }

    fn admit(&mut self, current: usize, more: usize) -> bool {
        let wanted_bytes = self.memory_bytes.saturating_add(self.table_bytes).saturating_add(more);
        let fits = wanted_bytes <= self.limit_bytes;
        if !fits && self.refusal.is_none() {
            self.refusal = Some(Refusal { wanted_bytes, initial: current == 0 });
        }
        fits
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        self.last_wish_was_possible = desired <= maximum.unwrap_or(ADDRESSABLE_BYTES).min(ADDRESSABLE_BYTES);
        let fits = self.admit(current, more);
        if fits && self.last_wish_was_possible {
            self.memory_bytes += more;
        }
        Ok(fits)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.host_was_short |= self.last_wish_was_possible;
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT_BYTES);
        let fits = self.admit(current, more);
        if fits {
            self.table_bytes += more;
        }
        Ok(fits)
    }
}
