//! Reading a whole log: all its segments in order, whether its owner is dead, alive or reading itself.
//!
//! A scan without the lock sees everything that was flushed when it began, or a copy of it: when a
//! segment vanishes before it was read, its owner had copied what lives in it into newer segments first,
//! so those that came up meanwhile are read too.

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::durable::RecordRef;
use crate::error::{IoFailure, WalError};
use crate::format::{FORMAT_VERSION, RECORD_HEADER, RECORD_HEADER_BYTES, RecordHeader, Seed};
use crate::listing::{Found, segments_as_listed, segments_of};
use crate::name::{WalId, segment_file_name};
use crate::report::{Damage, DamageReason, Record, ScanReport, Torn};
use crate::segment_scan::{Outcome, Task, Visit, scan_segment};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Visits every valid record of a log in the order of appending, without the lock and without
/// changing anything, also while the owner writes. Damage is reported and skipped.
///
/// # Errors
/// `NewerFormat` for a segment of a newer version, `Io` when the directory cannot be listed or a segment
/// cannot be opened.
pub fn scan(
    disk: &dyn Disk,
    dir: &Path,
    id: WalId,
    visit: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<ScanReport, WalError> {
    scan_listed(disk, dir, id, &[], visit)
}

/// The same for a log that a listing has just shown with these segments; saves listing the whole
/// directory once more for every log in it.
///
/// # Errors
/// As [`scan`].
pub fn scan_listed(
    disk: &dyn Disk,
    dir: &Path,
    id: WalId,
    listed: &[u32],
    visit: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<ScanReport, WalError> {
    let mut known = segments_as_listed(disk, dir, id, listed)?;
    let mut scan = Scan { disk, dir, id, report: ScanReport::default(), previous: None };
    loop {
        let vanished = scan.report.vanished.len();
        let segments = match known.take() {
            Some(segments) => segments,
            None => segments_of(disk, dir, id)?,
        };
        scan.segments(&segments, visit)?;
        if scan.report.stopped || scan.report.vanished.len() == vanished {
            return Ok(scan.report);
        }
    }
}

/// Visits every valid record of one segment, for a compaction that copies forward what lives in it.
/// Damage is skipped; a full [`scan`] reports it.
///
/// # Errors
/// As [`scan`]. A segment that is gone has no records.
pub fn scan_one_segment(
    disk: &dyn Disk,
    dir: &Path,
    id: WalId,
    sequence: u32,
    visit: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<(), WalError> {
    let path = dir.join(segment_file_name(id, sequence));
    let task = Task { id, sequence, is_last: false, from: 0 };
    open_and_scan(disk, &path, task, visit).map(|_| ())
}

/// Reads the body of one record, without the lock.
///
/// # Errors
/// `NoSuchRecord` when none lies there or the segment is gone, `Damaged` when its CRC does not match, `Io`.
pub fn read(disk: &dyn Disk, dir: &Path, id: WalId, at: RecordRef) -> Result<Vec<u8>, WalError> {
    let path = dir.join(segment_file_name(id, at.segment));
    match disk.open(&path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(WalError::NoSuchRecord { path, offset: at.offset })
        }
        Err(error) => Err(IoFailure::new("open", &path, error).into()),
        Ok(file) => read_record(&*file, &path, id, at),
    }
}

/// Reads and verifies one record of an open segment. Believes no length before a CRC vouched for it.
pub(crate) fn read_record(file: &dyn DiskFile, path: &Path, id: WalId, at: RecordRef) -> Result<Vec<u8>, WalError> {
    let io = |error| IoFailure::new("read", path, error).at(at.offset);
    let none = || WalError::NoSuchRecord { path: path.to_owned(), offset: at.offset };
    let start = at.offset.checked_sub(RECORD_HEADER_BYTES).ok_or_else(none)?;
    if at.offset.saturating_add(at.len.into()) > file.len().map_err(io)? {
        return Err(none());
    }
    let bytes = usize::try_from(at.len).map_err(|_| none())?.saturating_add(RECORD_HEADER);
    let mut record = vec![0; bytes];
    file.read_exact_at(&mut record, start).map_err(io)?;
    let damaged = |reason| WalError::Damaged { path: path.to_owned(), offset: start, reason };
    let seed = Seed::new(id, at.segment);
    let header = record.first_chunk().and_then(|bytes| RecordHeader::decode(bytes, seed, start));
    let header = header.ok_or_else(|| damaged(DamageReason::RecordHeader))?;
    if header.len != at.len {
        return Err(none());
    }
    record.drain(..RECORD_HEADER);
    if header.matches(seed, &record) { Ok(record) } else { Err(damaged(DamageReason::Body)) }
}

/// Opens and reads one segment; `None` when it is gone.
pub(crate) fn open_and_scan(
    disk: &dyn Disk,
    path: &Path,
    task: Task,
    visit: &mut Visit<'_>,
) -> Result<Option<Outcome>, WalError> {
    let file = match disk.open(path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| IoFailure::new("open", path, error))?,
    };
    let outcome = scan_segment(&*file, task, visit);
    match outcome.newer {
        Some(found) => {
            let path = path.to_owned();
            Err(WalError::NewerFormat { path, found, supported: FORMAT_VERSION })
        }
        None => Ok(Some(outcome)),
    }
}

/// The segment that was looked at last.
#[derive(Debug, Clone, Copy)]
struct Previous {
    sequence: u32,
    /// Where to go on, should the segment have grown.
    end: u64,
    /// Length of the file, if it was read as a sealed one.
    sealed_bytes: Option<u64>,
}

struct Scan<'d> {
    disk: &'d dyn Disk,
    dir: &'d Path,
    id: WalId,
    report: ScanReport,
    previous: Option<Previous>,
}

impl Scan<'_> {
    fn path(&self, sequence: u32) -> PathBuf {
        self.dir.join(segment_file_name(self.id, sequence))
    }

    /// Reads the listed segments that were not read before; the last one again from where it ended.
    fn segments(&mut self, listed: &[Found], visit: &mut Visit<'_>) -> Result<(), WalError> {
        let last = listed.last().map(|found| found.sequence);
        self.note_dropped(listed);
        for found in listed {
            let before = self.previous.map_or(0, |previous| previous.sequence);
            if found.sequence < before || (found.sequence == before && !found.is_file) {
                continue;
            }
            self.note_gap(found.sequence);
            if found.is_file {
                self.segment(found.sequence, last == Some(found.sequence), visit)?;
            } else {
                self.damage(found.sequence, 0, 0, DamageReason::NotAFile);
                self.previous = Some(Previous { sequence: found.sequence, end: 0, sealed_bytes: None });
            }
            if self.report.stopped {
                break;
            }
        }
        Ok(())
    }

    /// Segments that were created and dropped between two listings are no gap.
    fn note_dropped(&mut self, listed: &[Found]) {
        let (Some(previous), Some(first)) = (self.previous, listed.first()) else {
            return;
        };
        let newest_dropped = first.sequence.saturating_sub(1);
        if newest_dropped > previous.sequence {
            self.report.vanished.push(newest_dropped);
            self.previous = Some(Previous { sequence: newest_dropped, end: 0, sealed_bytes: None });
        }
    }

    fn note_gap(&mut self, next: u32) {
        let expected = self.previous.map_or(next, |previous| previous.sequence.saturating_add(1));
        for missing in (expected..next).take(MISSING_REPORTED) {
            self.damage(missing, 0, 0, DamageReason::Missing);
        }
    }

    fn segment(&mut self, sequence: u32, is_last: bool, visit: &mut Visit<'_>) -> Result<(), WalError> {
        let again = self.previous.filter(|previous| previous.sequence == sequence);
        let from = again.map_or(0, |previous| previous.end);
        let task = Task { id: self.id, sequence, is_last, from };
        let path = self.path(sequence);
        let Some(outcome) = open_and_scan(self.disk, &path, task, visit)? else {
            if again.is_none() {
                self.report.vanished.push(sequence);
                self.previous = Some(Previous { sequence, end: 0, sealed_bytes: None });
            }
            return Ok(());
        };
        if again.is_none() {
            self.note_shortened(outcome.previous_bytes);
        }
        self.previous =
            Some(Previous { sequence, end: outcome.end, sealed_bytes: (!is_last).then_some(outcome.file_bytes) });
        self.add(sequence, path, outcome);
        Ok(())
    }

    /// Compares the segment before with what this one's header says about it.
    fn note_shortened(&mut self, expected: u64) {
        let Some(Previous { sequence, sealed_bytes: Some(found), .. }) = self.previous else {
            return;
        };
        if found < expected {
            self.damage(sequence, found, expected - found, DamageReason::Shortened);
        }
    }

    fn add(&mut self, sequence: u32, path: PathBuf, outcome: Outcome) {
        self.report.records += outcome.records;
        self.report.bytes += outcome.record_bytes;
        self.report.stopped |= outcome.stopped;
        let torn = Torn { path, offset: outcome.end, bytes: outcome.torn_bytes };
        self.report.torn = (torn.bytes > 0).then_some(torn);
        for (offset, bytes, reason) in outcome.holes {
            self.damage(sequence, offset, bytes, reason);
        }
    }

    fn damage(&mut self, sequence: u32, offset: u64, bytes: u64, reason: DamageReason) {
        let path = self.path(sequence);
        self.report.damaged.push(Damage { path, offset, bytes, reason });
    }
}

/// A file with an absurd sequence must not fill the report: so many missing segments are named at a time.
const MISSING_REPORTED: usize = 100;
