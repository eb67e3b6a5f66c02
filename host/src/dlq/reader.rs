//! Reads a file line by line through one buffer that is used again and again.
//!
//! Invariants: the buffer grows to the longest line and never past the limit of a line; bytes after
//! the last newline are not returned as a line.
//!
//! Deliberately absent: what lines mean.

use std::io::{self, BufRead as _};

use wasmq_wal::disk::DiskFile;

use super::line::MAX_LINE_BYTES;

const FIRST_BUFFER_BYTES: usize = 256 * 1024;

/// A line that was found, without its newline.
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// Over the limit; so many bytes were passed over.
    TooLong(u64),
}

pub(super) struct LineReader<'f> {
    file: &'f dyn DiskFile,
    buffer: Vec<u8>,
    /// The part of the buffer that holds bytes of the file not returned yet.
    start: usize,
    end: usize,
    /// Where `start` is in the file.
    offset: u64,
}

impl<'f> LineReader<'f> {
    /// Reads from `offset`, which must be the start of a line.
    pub(super) fn new(file: &'f dyn DiskFile, offset: u64) -> Self {
        Self { file, buffer: vec![0; FIRST_BUFFER_BYTES], start: 0, end: 0, offset }
    }

    /// The next line; `None` when there is no newline any more.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let mut rest = self.buffer.get(self.start + searched..self.end).unwrap_or_default();
            let more = rest.skip_until(b'\n')?;
            let after = self.start + searched + more;
            if more > 0 && self.buffer.get(after - 1) == Some(&b'\n') {
                return Ok(Some(self.take(after)));
            }
            searched += more;
            if searched > MAX_LINE_BYTES {
                return self.pass_over(searched as u64);
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn take(&mut self, after: usize) -> Line<'_> {
        let from = self.start;
        self.offset += (after - from) as u64;
        self.start = after;
        Line::Whole(self.buffer.get(from..after - 1).unwrap_or_default())
    }

    /// Reads more bytes behind the ones that are there; `false` at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let count = self.file.read_up_to(room, self.offset + self.end as u64)?;
        self.end += count;
        Ok(count > 0)
    }

    /// Drops the bytes of a line that is too long, up to its newline.
    fn pass_over(&mut self, mut len: u64) -> io::Result<Option<Line<'_>>> {
        let offset = self.offset;
        self.buffer.truncate(FIRST_BUFFER_BYTES);
        self.buffer.shrink_to_fit();
        loop {
            let count = self.file.read_up_to(&mut self.buffer, offset + len)?;
            let mut rest = self.buffer.get(..count).unwrap_or_default();
            let more = rest.skip_until(b'\n')?;
            len += more as u64;
            if more > 0 && self.buffer.get(more - 1) == Some(&b'\n') {
                (self.start, self.end, self.offset) = (0, 0, offset + len);
                return Ok(Some(Line::TooLong(len - 1)));
            }
            if count == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wasmq_wal::disk::{Disk as _, OpenMode, SimDisk};

    use super::*;

    #[test]
    fn lines_longer_than_the_buffer_empty_lines_and_a_rest_are_told_apart() {
        let disk = SimDisk::new();
        let file = disk.open(Path::new("/f"), OpenMode::Create).unwrap();
        let long = vec![b'x'; 3 * FIRST_BUFFER_BYTES + 7];
        let content = [&b"a\n\n"[..], &long, b"\nb\nrest"].concat();
        file.write_all_at(&content, 0).unwrap();
        let mut reader = LineReader::new(&*file, 0);
        let mut found = Vec::new();
        while let Some(Line::Whole(bytes)) = reader.next().unwrap() {
            found.push(bytes.len());
        }
        assert_eq!(found, [1, 0, long.len(), 1]);
    }
}
