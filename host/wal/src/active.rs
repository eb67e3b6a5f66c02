//! The segment that is written to: its buffer, the zeros ahead of it, and what of it is synced.
//!
//! Order within the file, always: `synced <= written <= end() <= zeroed_to <= reaches`. Methods return the plain
//! failure; the log decides what it means.
//!
//! Deliberately absent: poison, rotation, the choice of sizes.

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::durable::{Position, RecordRef};
use crate::error::{IoFailure, WalError};
use crate::format::{RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, Seed, encode_segment_header};
use crate::name::{WalId, segment_file_name};
use crate::options::Options;
use crate::sync::PendingSync;
use crate::wal::unlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest extension that the length of a segment calls for by itself, in bytes.
const LARGEST_EXTENSION_BYTES: u64 = 4 << 20;
/// The largest extension once the disk was full: what is left is for others too.
const MODEST_EXTENSION_BYTES: u64 = 64 << 10;
/// What the file is extended with, at most so much with one write.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) path: PathBuf,
    pub(crate) sequence: u32,
    file: Arc<dyn DiskFile>,
    seed: Seed,
    /// Records that are not in the file yet.
    buffer: Vec<u8>,
    /// Where the buffer begins in the file.
    written: u64,
    /// Up to here the file is durable.
    synced: u64,
    /// Up to here the file has records or zeros.
    zeroed_to: u64,
    /// The file may be as long as this: a write of zeros that ran out of space stops anywhere.
    reaches: u64,
    /// An extension ran out of space.
    modest: bool,
}

/// Where a segment is to be created.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) dir: &'a Path,
    pub(crate) id: WalId,
    pub(crate) sequence: u32,
    /// Sealed length of the segment before, 0 if there is none.
    pub(crate) previous_bytes: u64,
}

impl Active {
    /// Creates a segment, durably with its name. When that fails for want of space, the file is
    /// durably gone again and the error is `NoSpace`; any other error leaves it in doubt.
    pub(crate) fn create(place: Place<'_>, options: &Options) -> Result<Self, WalError> {
        let path = place.dir.join(segment_file_name(place.id, place.sequence));
        let no_space = |failure| WalError::NoSpace { needed_bytes: SEGMENT_HEADER_BYTES, failure };
        let file = match place.disk.open(&path, OpenMode::CreateNew) {
            Ok(file) => Arc::from(file),
            Err(error) => {
                let failure = IoFailure::new("create", &path, error);
                let full = failure.is_no_space();
                return Err(if full { no_space(failure) } else { failure.into() });
            }
        };
        let mut active = Self::empty(file, path, place);
        let Err(failure) = active.write_header(place, options) else {
            return Ok(active);
        };
        if failure.is_no_space() {
            active.unlink(place)?;
            return Err(no_space(failure));
        }
        Err(failure.into())
    }

    fn empty(file: Arc<dyn DiskFile>, path: PathBuf, place: Place<'_>) -> Self {
        Self {
            path,
            sequence: place.sequence,
            file,
            seed: Seed::new(place.id, place.sequence),
            buffer: Vec::new(),
            written: SEGMENT_HEADER_BYTES,
            synced: SEGMENT_HEADER_BYTES,
            zeroed_to: SEGMENT_HEADER_BYTES,
            reaches: SEGMENT_HEADER_BYTES,
            modest: false,
        }
    }

    fn write_header(&mut self, place: Place<'_>, options: &Options) -> Result<(), IoFailure> {
        let header = encode_segment_header(place.id, place.sequence, place.previous_bytes);
        self.file.write_all_at(&header, 0).map_err(|error| IoFailure::new("write the header of", &self.path, error))?;
        self.make_room(0, options)?;
        self.file.sync_all().map_err(|error| IoFailure::new("sync", &self.path, error))?;
        place.disk.sync_dir(place.dir).map_err(|error| IoFailure::new("sync", place.dir, error))
    }

    fn unlink(&self, place: Place<'_>) -> Result<(), IoFailure> {
        unlink(place.disk, place.dir, &self.path)?.durably()
    }

    /// Where the next record begins.
    pub(crate) fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(crate) fn position(&self) -> Position {
        Position { segment: self.sequence, offset: self.end() }
    }

    pub(crate) fn has_records(&self) -> bool {
        self.end() > SEGMENT_HEADER_BYTES
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced == self.end()
    }

    pub(crate) fn is_written(&self, end: u64) -> bool {
        end <= self.written
    }

    pub(crate) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// Sees to it that `bytes` more fit into the zeros ahead. Writes only behind the last record.
    pub(crate) fn make_room(&mut self, bytes: u64, options: &Options) -> Result<(), IoFailure> {
        let needed = self.end() + bytes;
        if needed <= self.zeroed_to && bytes > 0 {
            return Ok(());
        }
        // A segment that has become long will become longer: doubling keeps extensions rare.
        let longest = if self.modest { MODEST_EXTENSION_BYTES } else { u64::MAX };
        let step = options.extend_bytes.max(self.zeroed_to.min(LARGEST_EXTENSION_BYTES)).min(longest);
        let ahead = self.zeroed_to.saturating_add(step).min(options.segment_bytes);
        match self.zero_to(ahead.max(needed)) {
            Err(failure) if failure.is_no_space() => {
                self.modest = true;
                self.zero_to(needed)?;
                self.give_back(needed)
            }
            other => other,
        }
    }

    /// Zeros ahead of the records, in bytes: what fits without more space.
    pub(crate) fn room(&self) -> u64 {
        self.zeroed_to.saturating_sub(self.end())
    }

    /// Cuts off zeros that an extension took before it ran out of space, except a few behind `needed`.
    fn give_back(&mut self, needed: u64) -> Result<(), IoFailure> {
        let keep = needed.saturating_add(MODEST_EXTENSION_BYTES);
        if self.reaches > keep {
            self.file.set_len(keep).map_err(|error| IoFailure::new("cut", &self.path, error).at(keep))?;
            self.zeroed_to = self.zeroed_to.min(keep);
            self.reaches = keep;
        }
        Ok(())
    }

    fn zero_to(&mut self, target: u64) -> Result<(), IoFailure> {
        while self.zeroed_to < target {
            let count = (target - self.zeroed_to).min(ZEROS.len() as u64);
            let zeros = usize::try_from(count).ok().and_then(|count| ZEROS.get(..count));
            self.reaches = self.reaches.max(self.zeroed_to + count);
            self.file
                .write_all_at(zeros.unwrap_or(&ZEROS), self.zeroed_to)
                .map_err(|error| IoFailure::new("extend", &self.path, error).at(self.zeroed_to))?;
            self.zeroed_to += count;
        }
        Ok(())
    }

    /// Puts a record into the buffer. The caller made room for it.
    pub(crate) fn push(&mut self, kind: u8, len: u32, parts: &[&[u8]]) -> RecordRef {
        let start = self.end();
        let header = RecordHeader::new(self.seed, kind, len, parts);
        self.buffer.extend_from_slice(&header.encode(self.seed, start));
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        RecordRef { segment: self.sequence, offset: start + RECORD_HEADER_BYTES, len }
    }

    /// Writes the buffer with one write. A buffer that a large record made large is given back.
    pub(crate) fn flush(&mut self, options: &Options) -> Result<(), IoFailure> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file
            .write_all_at(&self.buffer, self.written)
            .map_err(|error| IoFailure::new("write to", &self.path, error).at(self.written))?;
        self.written = self.end();
        self.buffer.clear();
        if self.buffer.capacity() / 4 > options.buffer_bytes {
            self.buffer.shrink_to(options.buffer_bytes);
        }
        Ok(())
    }

    /// Makes durable what is written.
    pub(crate) fn sync(&mut self) -> Result<(), IoFailure> {
        if self.synced == self.written {
            return Ok(());
        }
        self.sync_file()
    }

    /// The sync that would make durable what is written, for whoever runs it; `None` when all is.
    pub(crate) fn pending_sync(&self) -> Option<PendingSync> {
        (self.synced < self.written).then(|| {
            let covers = Position { segment: self.sequence, offset: self.written };
            PendingSync::new(Arc::clone(&self.file), self.path.clone(), covers)
        })
    }

    /// A sync that began when this was the end of what is written has succeeded.
    pub(crate) fn synced_to(&mut self, position: Position) {
        // A segment that was sealed meanwhile was synced then.
        if position.segment == self.sequence {
            self.synced = self.synced.max(position.offset);
        }
    }

    fn sync_file(&mut self) -> Result<(), IoFailure> {
        self.file.sync_data().map_err(|error| IoFailure::new("sync", &self.path, error))?;
        self.synced = self.written;
        Ok(())
    }

    /// Cuts off the zeros ahead. The buffer must be empty. Durable with the next sync of the file.
    pub(crate) fn trim(&mut self) -> Result<(), IoFailure> {
        if self.reaches > self.written {
            self.file
                .set_len(self.written)
                .map_err(|error| IoFailure::new("cut", &self.path, error).at(self.written))?;
            self.zeroed_to = self.written;
            self.reaches = self.written;
        }
        Ok(())
    }

    /// Writes everything, cuts off the zeros and makes both durable.
    pub(crate) fn seal(&mut self, options: &Options) -> Result<(), IoFailure> {
        self.flush(options)?;
        self.trim()?;
        self.sync_file()
    }
}
