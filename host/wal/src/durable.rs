//! Places in a log, and the proof that something is on the disk.
//!
//! [`Durable`] has no public constructor: whoever holds one got it from a sync that succeeded.

use crate::format::RECORD_HEADER_BYTES;

/// A place between two records of one log. Ordered: what was appended later is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Sequence of the segment, from 1.
    pub segment: u32,
    /// Byte in the segment.
    pub offset: u64,
}

/// Where the body of a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordRef {
    /// Sequence of the segment, from 1.
    pub segment: u32,
    /// First byte of the body in the segment.
    pub offset: u64,
    /// Length of the body in bytes.
    pub len: u32,
}

impl RecordRef {
    /// The place right after the record. It is durable as soon as a synced position reaches it.
    #[must_use]
    pub const fn end(&self) -> Position {
        Position { segment: self.segment, offset: self.offset.saturating_add(self.len as u64) }
    }

    /// Bytes that the record takes in its segment, with its header.
    #[must_use]
    pub const fn stored_bytes(&self) -> u64 {
        RECORD_HEADER_BYTES + self.len as u64
    }
}

/// Proof that what the value speaks of is synced. Only this crate can make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a proof of durability is what an acknowledgement is made of"]
pub struct Durable<T>(T);

impl<T> Durable<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(&self) -> &T {
        &self.0
    }

    /// The value, without the proof.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl Durable<Position> {
    /// Whether the record is durable.
    #[must_use]
    pub fn covers(&self, record: RecordRef) -> bool {
        record.end() <= self.0
    }

    /// Carries the proof over to `value`, which speaks of what was appended up to `appended`. `None`
    /// when the sync did not reach that far. Positions of another log must not be mixed in.
    pub fn vouch<T>(&self, appended: Position, value: T) -> Option<Durable<T>> {
        (appended <= self.0).then_some(Durable(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_covers_what_ends_at_or_before_it() {
        let synced = Durable::new(Position { segment: 2, offset: 100 });
        let record = |segment, offset| RecordRef { segment, offset, len: 10 };
        assert!(synced.covers(record(1, 5000)));
        assert!(synced.covers(record(2, 90)));
        assert!(!synced.covers(record(2, 91)));
        assert!(!synced.covers(record(3, 77)));
        assert_eq!(synced.vouch(record(2, 91).end(), "id"), None);
    }
}
