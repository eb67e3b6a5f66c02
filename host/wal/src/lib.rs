//! The write-ahead log of wasmq: bytes on disk, and nothing else.
//!
//! A log is a lock file and numbered segments of checksummed records in one directory (`FORMAT.md`
//! has every byte). One [`Wal`] appends; [`scan`] reads, also while somebody else writes; [`claim`]
//! takes over what a dead process left behind. [`disk`] is the seam to the file system, with a
//! simulator behind it that cuts the power at any operation.
//!
//! Invariants:
//! - a [`Durable`] exists only for what a successful sync covered;
//! - after a failed write or sync a log is poisoned: nothing is retried, every later call says so;
//! - nothing is appended behind a torn tail; damage is reported with file and offset, and the rest is read;
//! - no content of a record can make a step fail, and no length read from disk is believed unchecked.
//!
//! Deliberately absent: what records mean, threads, async, clocks, randomness, configuration files.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod active;
mod claim;
pub mod disk;
mod durable;
mod error;
mod format;
mod listing;
mod name;
mod options;
mod quarantine;
mod report;
mod scan;
mod segment_scan;
mod sync;
mod wal;
mod window;

pub use claim::{Claim, Orphan, claim, claim_listed};
pub use durable::{Durable, Position, RecordRef};
pub use error::{IoFailure, WalError};
pub use format::{FORMAT_VERSION, MAX_BODY_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};
pub use listing::{Listing, SegmentInfo, Stranger, StrangerKind, WalListing, list};
pub use name::{InvalidWalId, WalId, lock_file_name, segment_file_name};
pub use options::Options;
pub use quarantine::{quarantine, quarantine_path};
pub use report::{Damage, DamageReason, Record, ScanReport, Torn};
pub use scan::{read, scan, scan_listed, scan_one_segment};
pub use sync::{PendingSync, SyncOutcome};
pub use wal::Wal;

#[cfg(test)]
mod tests {
    use super::{Durable, Orphan, Position, Wal, WalError};

    #[test]
    fn a_log_can_move_to_a_thread_of_its_own() {
        fn is_send<T: Send + 'static>() {}
        is_send::<Wal>();
        is_send::<Orphan>();
        is_send::<Durable<Position>>();
        is_send::<WalError>();
    }
}
