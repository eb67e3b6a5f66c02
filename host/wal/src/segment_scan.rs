//! Reading one segment from record to record, around damage, to its end.
//!
//! The table under "Reading" in `FORMAT.md` is this file. Work is linear in the length of the file:
//! a length is acted on only after a CRC vouched for it, and a search tests one header per byte.

use crate::disk::DiskFile;
use crate::durable::RecordRef;
use crate::format::{
    RECORD_HEADER, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER, SEGMENT_HEADER_BYTES, Seed, SegmentHeader,
    decode_segment_header,
};
use crate::name::WalId;
use crate::report::{DamageReason, Record};
use crate::window::Window;
use std::io;
use std::ops::ControlFlow;

/// What to do with each record.
pub(crate) type Visit<'v> = dyn FnMut(Record<'_>) -> ControlFlow<()> + 'v;

/// Which segment, and how to judge its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) id: WalId,
    pub(crate) sequence: u32,
    /// The newest segment may end in zeros or a torn record.
    pub(crate) is_last: bool,
    /// Where to go on; 0 to begin with the header.
    pub(crate) from: u64,
}

/// Damaged bytes: offset, how many, what is wrong.
pub(crate) type Hole = (u64, u64, DamageReason);

/// What one segment held.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) records: u64,
    pub(crate) record_bytes: u64,
    /// Where the last thing that counts ends: records may be appended to the log after this.
    pub(crate) end: u64,
    /// Bytes after `end` that are a torn record.
    pub(crate) torn_bytes: u64,
    pub(crate) holes: Vec<Hole>,
    /// The sealed length of the segment before, as the header says; 0 if unknown.
    pub(crate) previous_bytes: u64,
    /// The segment was never finished: no header and nothing behind it.
    pub(crate) unborn: bool,
    /// It was written by a newer version.
    pub(crate) newer: Option<u32>,
    pub(crate) stopped: bool,
    /// Length of the file when it was read.
    pub(crate) file_bytes: u64,
}

impl Outcome {
    /// Whether the operating system refused to read a part of it.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.holes.iter().any(|(_, _, reason)| matches!(reason, DamageReason::Unreadable(_)))
    }
}

/// What is found at one offset.
enum At {
    End,
    Record(RecordHeader),
    /// The header is right, the body is not.
    BadBody(RecordHeader),
    /// All zeros, as far as a header reaches.
    Zeros,
    Nothing,
}

struct Scan<'f, 'v, 'w> {
    task: Task,
    seed: Seed,
    window: Window<'f>,
    visit: &'v mut Visit<'w>,
    outcome: Outcome,
    /// What `last_nonzero` found, and from where it looked: it reads to the end of the file only once.
    nonzero: Option<(u64, Option<u64>)>,
    file: &'f dyn DiskFile,
}

/// Reads one segment. A read error becomes a hole to the end of the file.
pub(crate) fn scan_segment(file: &dyn DiskFile, task: Task, visit: &mut Visit<'_>) -> Outcome {
    let mut scan = Scan {
        task,
        seed: Seed::new(task.id, task.sequence),
        window: Window::new(file),
        visit,
        outcome: Outcome { end: task.from, ..Outcome::default() },
        nonzero: None,
        file,
    };
    if let Err(error) = scan.run() {
        let end = scan.outcome.end;
        let rest = scan.outcome.file_bytes.saturating_sub(end);
        scan.outcome.holes.push((end, rest, DamageReason::Unreadable(error.to_string())));
    }
    scan.outcome
}

impl Scan<'_, '_, '_> {
    fn run(&mut self) -> io::Result<()> {
        self.outcome.file_bytes = self.file.len()?;
        let mut at = self.task.from;
        if at == 0 {
            match self.header()? {
                Some(first) => at = first,
                None => return Ok(()),
            }
        }
        while let Some(next) = self.step(at)? {
            self.outcome.end = next;
            at = next;
        }
        Ok(())
    }

    /// Judges the header; where records begin, `None` if there are none to look for.
    fn header(&mut self) -> io::Result<Option<u64>> {
        let bytes = self.window.at(0, SEGMENT_HEADER)?;
        match decode_segment_header(bytes, self.task.id, self.task.sequence) {
            SegmentHeader::Valid { previous_bytes } => {
                self.outcome.previous_bytes = previous_bytes;
                self.outcome.end = SEGMENT_HEADER_BYTES;
                Ok(Some(SEGMENT_HEADER_BYTES))
            }
            SegmentHeader::Newer { version } => {
                self.outcome.newer = Some(version);
                Ok(None)
            }
            SegmentHeader::Unfinished if self.task.is_last && self.last_nonzero(SEGMENT_HEADER_BYTES)?.is_none() => {
                self.outcome.unborn = true;
                Ok(None)
            }
            SegmentHeader::Misplaced => self.without_header(DamageReason::Misplaced),
            SegmentHeader::Unfinished | SegmentHeader::Invalid => self.without_header(DamageReason::Header),
        }
    }

    fn without_header(&mut self, reason: DamageReason) -> io::Result<Option<u64>> {
        let len = self.outcome.file_bytes;
        let first = self.search(SEGMENT_HEADER_BYTES.min(len))?;
        self.outcome.holes.push((0, first.unwrap_or(len), reason));
        self.outcome.end = first.unwrap_or(0);
        Ok(first)
    }

    /// Deals with what lies at `at`; where to go on, `None` at the end.
    fn step(&mut self, at: u64) -> io::Result<Option<u64>> {
        match self.look(at)? {
            At::End => Ok(None),
            At::Record(header) => self.visit(at, header),
            At::BadBody(header) => {
                let after = at + header.record_bytes();
                if matches!(self.look(after)?, At::Record(_) | At::BadBody(_)) {
                    return self.hole(at, after, DamageReason::Body);
                }
                self.skip(at, DamageReason::Body)
            }
            At::Zeros if self.last_nonzero(at)?.is_none() => {
                if !self.task.is_last {
                    let rest = self.outcome.file_bytes.saturating_sub(at);
                    self.outcome.holes.push((at, rest, DamageReason::Zeros));
                }
                Ok(None)
            }
            At::Zeros => self.skip(at, DamageReason::Zeros),
            At::Nothing => self.skip(at, DamageReason::RecordHeader),
        }
    }

    fn look(&mut self, at: u64) -> io::Result<At> {
        let bytes = self.window.at(at, RECORD_HEADER)?;
        if bytes.is_empty() {
            return Ok(At::End);
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(At::Zeros);
        }
        let header = bytes.first_chunk().and_then(|bytes| RecordHeader::decode(bytes, self.seed, at));
        match header {
            Some(header) if at + header.record_bytes() <= self.outcome.file_bytes => {
                let valid = header.matches(self.seed, self.body(at, header)?);
                Ok(if valid { At::Record(header) } else { At::BadBody(header) })
            }
            _ => Ok(At::Nothing),
        }
    }

    fn body(&mut self, at: u64, header: RecordHeader) -> io::Result<&[u8]> {
        let want = usize::try_from(header.record_bytes()).unwrap_or(usize::MAX);
        Ok(self.window.at(at, want)?.get(RECORD_HEADER..).unwrap_or_default())
    }

    fn visit(&mut self, at: u64, header: RecordHeader) -> io::Result<Option<u64>> {
        let offset = at + RECORD_HEADER_BYTES;
        let place = RecordRef { segment: self.task.sequence, offset, len: header.len };
        let want = usize::try_from(header.record_bytes()).unwrap_or(usize::MAX);
        let bytes = self.window.at(at, want)?;
        let body = bytes.get(RECORD_HEADER..).unwrap_or_default();
        self.outcome.records += 1;
        self.outcome.record_bytes += header.record_bytes();
        if (self.visit)(Record { kind: header.kind, body, at: place }).is_break() {
            self.outcome.stopped = true;
            self.outcome.end = at + header.record_bytes();
            return Ok(None);
        }
        Ok(Some(at + header.record_bytes()))
    }

    /// Goes on behind something invalid: at the next valid record, or not at all.
    fn skip(&mut self, at: u64, reason: DamageReason) -> io::Result<Option<u64>> {
        let next = self.search(at + 1)?;
        if self.is_valid_now(at)? {
            // A writer was in the middle of it at the first look.
            self.window.forget();
            return Ok(Some(at));
        }
        match next {
            Some(next) => self.hole(at, next, reason),
            None if self.task.is_last => {
                self.outcome.torn_bytes = self.last_nonzero(at)?.map_or(0, |last| last + 1 - at);
                Ok(None)
            }
            None => self.hole(at, self.outcome.file_bytes, reason).map(|_| None),
        }
    }

    /// Reads a record afresh, past the window, and refreshes the length of the file.
    fn is_valid_now(&mut self, at: u64) -> io::Result<bool> {
        self.outcome.file_bytes = self.file.len()?;
        let mut header = [0; RECORD_HEADER];
        self.file.read_up_to(&mut header, at)?;
        let header = RecordHeader::decode(&header, self.seed, at)
            .filter(|header| at + header.record_bytes() <= self.outcome.file_bytes);
        let Some(header) = header else {
            return Ok(false);
        };
        let mut body = vec![0; usize::try_from(header.len).unwrap_or(usize::MAX)];
        self.file.read_up_to(&mut body, at + RECORD_HEADER_BYTES)?;
        Ok(header.matches(self.seed, &body))
    }

    fn hole(&mut self, at: u64, next: u64, reason: DamageReason) -> io::Result<Option<u64>> {
        self.outcome.holes.push((at, next.saturating_sub(at), reason));
        Ok(Some(next))
    }

    /// The offset of the next valid header of a record that fits into the file.
    fn search(&mut self, from: u64) -> io::Result<Option<u64>> {
        let mut at = from;
        loop {
            let bytes = self.window.rest(at, RECORD_HEADER)?;
            if bytes.len() < RECORD_HEADER {
                return Ok(None);
            }
            let seed = self.seed;
            let mut offset = at;
            for candidate in bytes.array_windows() {
                let found = RecordHeader::decode(candidate, seed, offset);
                if found.is_some_and(|it| offset + it.record_bytes() <= self.outcome.file_bytes) {
                    return Ok(Some(offset));
                }
                offset += 1;
            }
            at = offset;
        }
    }

    /// The offset of the last byte from `from` on that is not zero.
    fn last_nonzero(&mut self, from: u64) -> io::Result<Option<u64>> {
        if let Some((_, last)) = self.nonzero.filter(|&(looked_from, _)| looked_from <= from) {
            return Ok(last.filter(|&last| last >= from));
        }
        let mut last = None;
        let mut at = from;
        loop {
            let bytes = self.window.rest(at, 1)?;
            if bytes.is_empty() {
                self.nonzero = Some((from, last));
                return Ok(last);
            }
            if let Some(index) = bytes.iter().rposition(|&byte| byte != 0) {
                last = Some(at + index as u64);
            }
            at += bytes.len() as u64;
        }
    }
}
