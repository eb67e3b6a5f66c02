//! A buffer that slides over a file, so that segments of any length are scanned in little memory.
//!
//! It holds one chunk, or as much as the caller wants at once if that is more; the caller wants a lot
//! only after a header CRC vouched for the length.

use crate::disk::DiskFile;
use std::io;

/// How much is read at once, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

pub(crate) struct Window<'f> {
    file: &'f dyn DiskFile,
    buffer: Vec<u8>,
    /// Offset in the file of the first byte of the buffer.
    start: u64,
    /// How many bytes of the buffer are content.
    filled: usize,
}

impl<'f> Window<'f> {
    pub(crate) fn new(file: &'f dyn DiskFile) -> Self {
        Self { file, buffer: Vec::new(), start: 0, filled: 0 }
    }

    /// The bytes from `offset` on: `want` of them, fewer only where the file ends.
    pub(crate) fn at(&mut self, offset: u64, want: usize) -> io::Result<&[u8]> {
        let inside = self.index(offset).is_some_and(|index| self.filled - index >= want);
        if !inside {
            self.slide(offset, want)?;
        }
        let index = self.index(offset).unwrap_or(self.filled);
        let end = self.filled.min(index.saturating_add(want));
        Ok(self.buffer.get(index..end).unwrap_or_default())
    }

    /// All bytes from `offset` on that are at hand without moving the buffer far: at least one chunk's
    /// rest, empty only at the end of the file.
    pub(crate) fn rest(&mut self, offset: u64, at_least: usize) -> io::Result<&[u8]> {
        self.at(offset, at_least)?;
        let index = self.index(offset).unwrap_or(self.filled);
        Ok(self.buffer.get(index..self.filled).unwrap_or_default())
    }

    /// Forgets what was read, so that the next look reads the file again.
    pub(crate) fn forget(&mut self) {
        self.filled = 0;
    }

    fn index(&self, offset: u64) -> Option<usize> {
        let index = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        (index <= self.filled).then_some(index)
    }

    fn slide(&mut self, offset: u64, want: usize) -> io::Result<()> {
        let kept = self.index(offset).map_or(0, |index| {
            self.buffer.copy_within(index..self.filled, 0);
            self.filled - index
        });
        self.start = offset;
        self.filled = kept;
        let remaining = self.file.len()?.saturating_sub(offset);
        // A small file takes a small buffer. Beyond its end only what the caller wants is tried.
        let size = want.max(usize::try_from(remaining).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES));
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        } else if self.buffer.len() > 4 * CHUNK_BYTES && size <= CHUNK_BYTES {
            self.buffer.truncate(CHUNK_BYTES.max(kept));
            self.buffer.shrink_to_fit();
        }
        let target = self.buffer.get_mut(kept..).unwrap_or_default();
        self.filled += self.file.read_up_to(target, offset + kept as u64)?;
        Ok(())
    }
}
