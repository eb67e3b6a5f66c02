//! The file and the index of it: catching up with other processes, appending, cutting back.
//!
//! Invariants: what an append acknowledged is durable, its directory entry included; the index
//! never runs ahead of what the file says; a failed append leaves the file as long as it was, as
//! far as the disk allows. Whoever calls a method that writes holds the lock.
//!
//! Deliberately absent: taking the lock; which operations to write.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wasmq_core::{DeadTask, InvocationId, Timestamp};
use wasmq_wal::disk::{Disk, DiskFile, OpenMode};

use super::error::DlqError;
use super::index::{DamagedBytes, Index};
use super::line::{self, HEAD_BYTES, MAX_LINE_BYTES};
use super::reader::{Line, LineReader};
use super::slots::Slot;
use super::types::{Damage, DamageReason};

/// The name of the queue's file.
pub(super) const FILE_NAME: &str = "dead-tasks-v1.jsonl";
/// The time of a note whose writer has no clock.
const NOT_KNOWN: Timestamp = Timestamp(0);

#[derive(Debug)]
pub(super) struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
    pub(super) index: Index,
    open: Option<Open>,
    /// A sync of the directory failed: the name may go back to what it named before.
    pub(super) name_in_doubt: bool,
}

/// The open file. It stays open, so its inode number cannot be given to another file.
#[derive(Debug)]
struct Open {
    file: Box<dyn DiskFile>,
    /// Opened at the first write.
    writer: Option<Box<dyn DiskFile>>,
    inode: u64,
    /// Whether this process has synced the directory since it met the inode.
    name_durable: bool,
}

impl Log {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self { disk, path: dir.join(FILE_NAME), index: Index::default(), open: None, name_in_doubt: false }
    }

    /// Reads anew at the next refresh.
    pub(super) fn forget(&mut self) {
        self.open = None;
        self.index = Index::default();
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes in what was written since the last time, by whomever.
    pub(super) fn refresh(&mut self) -> Result<(), DlqError> {
        let Some(stat) = self.disk.stat(&self.path).map_err(DlqError::io("looking at", &self.path))? else {
            self.forget();
            return Ok(());
        };
        if self.open.as_ref().is_none_or(|open| open.inode != stat.inode) {
            self.reopen()?;
        } else if !self.is_continued(stat.len)? {
            self.index = Index::default();
        }
        if stat.len > self.index.seen() { self.read_on() } else { Ok(()) }
    }

    fn reopen(&mut self) -> Result<(), DlqError> {
        self.forget();
        let doing = DlqError::io("opening", &self.path);
        let file = self.disk.open(&self.path, OpenMode::Read).map_err(doing)?;
        self.adopt(file, false)
    }

    /// Makes `file` the one that is read; the index is empty or fits it already.
    pub(super) fn adopt(&mut self, file: Box<dyn DiskFile>, name_durable: bool) -> Result<(), DlqError> {
        let inode = file.inode().map_err(DlqError::io("looking at", &self.path))?;
        self.open = Some(Open { file, writer: None, inode, name_durable });
        Ok(())
    }

    /// Whether the file still begins with what was read: it can shrink when a write was taken back.
    fn is_continued(&self, len: u64) -> Result<bool, DlqError> {
        let (Some(open), Some(last)) = (&self.open, self.index.last()) else { return Ok(true) };
        if len < self.index.seen() {
            return Ok(false);
        }
        let mut found = [0; HEAD_BYTES + 1];
        let doing = "reading";
        let (head, end) = found.split_at_mut(HEAD_BYTES);
        let line_len = usize::try_from(self.index.seen() - last.offset - 1).unwrap_or(usize::MAX);
        let head = head.get_mut(..line_len.min(HEAD_BYTES)).unwrap_or_default();
        open.file.read_up_to(head, last.offset).map_err(DlqError::io(doing, &self.path))?;
        open.file.read_up_to(end, self.index.seen() - 1).map_err(DlqError::io(doing, &self.path))?;
        Ok(found.split_at(HEAD_BYTES) == (&last.head[..], b"\n"))
    }

    fn read_on(&mut self) -> Result<(), DlqError> {
        let Some(open) = &self.open else { return Ok(()) };
        let mut reader = LineReader::new(&*open.file, self.index.seen());
        while let Some(line) = reader.next().map_err(DlqError::io("reading", &self.path))? {
            match line {
                Line::Whole(bytes) => self.index.take(bytes),
                Line::TooLong(len) => self.index.take_too_long(len),
            }
        }
        Ok(())
    }

    /// The dead task of a slot; `None` when it was deleted in place meanwhile.
    pub(super) fn read(&self, slot: &Slot) -> Result<Option<DeadTask>, DlqError> {
        let id = InvocationId::from_u128(slot.id);
        let damaged = |_| DlqError::Damaged { id, path: self.path.clone(), offset: slot.offset };
        line::parse_dead_task(&self.read_line(slot)?).map_err(damaged)
    }

    /// The raw line of a slot without its newline.
    pub(super) fn read_line(&self, slot: &Slot) -> Result<Vec<u8>, DlqError> {
        let mut bytes = vec![0; slot.len as usize];
        if let Some(open) = &self.open {
            open.file.read_up_to(&mut bytes, slot.offset).map_err(DlqError::io("reading", &self.path))?;
        }
        Ok(bytes)
    }

    /// Raw bytes of the file.
    pub(super) fn read_bytes(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DlqError> {
        let Some(open) = &self.open else { return Ok(0) };
        open.file.read_up_to(buffer, offset).map_err(DlqError::io("reading", &self.path))
    }

    /// Catches up and makes the end of the file fit to be appended to.
    pub(super) fn prepare_write(&mut self) -> Result<(), DlqError> {
        self.refresh()?;
        if self.name_in_doubt {
            self.rewrite_name()?;
        }
        let Some(open) = &self.open else { return Ok(()) };
        let len = open.file.len().map_err(DlqError::io("looking at", &self.path))?;
        if len > self.index.seen() { self.repair_tail(len) } else { Ok(()) }
    }

    /// How many bytes follow the last newline; `None` for none.
    pub(super) fn unended(&self) -> Result<Option<u64>, DlqError> {
        let Some(open) = &self.open else { return Ok(None) };
        let len = open.file.len().map_err(DlqError::io("looking at", &self.path))?;
        Ok(len.checked_sub(self.index.seen()).filter(|bytes| *bytes > 0))
    }

    /// What follows the last newline, as damage.
    pub(super) fn unended_line(&self) -> Result<Option<Damage>, DlqError> {
        let (path, line, offset) = (self.path.clone(), self.index.lines() + 1, self.index.seen());
        let unended = self.unended()?;
        Ok(unended.map(|len| Damage { path, line, offset, len, reason: DamageReason::NotWhole }))
    }

    /// Completes what follows the last newline, or moves it aside and cuts it off.
    fn repair_tail(&mut self, len: u64) -> Result<(), DlqError> {
        let from = self.index.seen();
        let room = usize::try_from(len - from).unwrap_or(usize::MAX).min(MAX_LINE_BYTES);
        let mut tail = vec![0; room];
        let count = self.read_bytes(from, &mut tail)?;
        tail.truncate(count);
        let doing = "repairing the end of";
        let path = self.path.clone();
        let good = good_len(&tail);
        if good.is_none() {
            self.keep_tail(from, len - from)?;
        }
        let writer = self.writer()?;
        match good {
            Some(good) => writer.write_all_at(b"\n", from + good as u64),
            None => writer.set_len(from),
        }
        .map_err(DlqError::io(doing, &path))?;
        self.read_on()
    }

    /// Keeps the bytes of a line that is not whole: it may have been once. On a full disk there is no room
    /// for them, and a write that was cut there was never acknowledged.
    fn keep_tail(&self, offset: u64, len: u64) -> Result<(), DlqError> {
        let tail = DamagedBytes { line: self.index.lines() + 1, offset, len, reason: DamageReason::NotWhole };
        match self.move_damage_aside(&[tail], NOT_KNOWN) {
            Err(DlqError::NoSpace { .. }) => {
                tracing::warn!(path = %self.path.display(), offset, bytes = len, "cut off a line that was never completed");
                Ok(())
            }
            other => other,
        }
    }

    /// Appends lines and makes them durable. On an error the file is cut back.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), DlqError> {
        let at = self.index.seen();
        if let Err(error) = self.write_and_sync(lines, at) {
            self.cut_back(at);
            return Err(error);
        }
        for bytes in lines.split_inclusive(|&byte| byte == b'\n') {
            self.index.take(bytes.strip_suffix(b"\n").unwrap_or(bytes));
        }
        Ok(())
    }

    fn write_and_sync(&mut self, lines: &[u8], at: u64) -> Result<(), DlqError> {
        let path = self.path.clone();
        let writer = self.writer()?;
        writer.write_all_at(lines, at).map_err(DlqError::io("appending to", &path))?;
        writer.sync_data().map_err(DlqError::io("syncing", &path))?;
        if self.open.as_ref().is_some_and(|open| open.name_durable) {
            return Ok(());
        }
        self.sync_name()
    }

    /// Makes the name durable: the entry of the file in its directory.
    pub(super) fn sync_name(&mut self) -> Result<(), DlqError> {
        let dir = self.path.parent().unwrap_or(&self.path);
        // A failed sync is never believed when a later one succeeds: the name has to be made anew.
        self.name_in_doubt = true;
        // Whoever made the directory itself may have died before it was durable.
        for dir in [Some(dir), dir.parent()].into_iter().flatten() {
            self.disk.sync_dir(dir).map_err(DlqError::io("syncing the directory of", &self.path))?;
        }
        self.name_in_doubt = false;
        if let Some(open) = &mut self.open {
            open.name_durable = true;
        }
        Ok(())
    }

    /// After a failed append: what was written must not be taken for more than it is.
    fn cut_back(&mut self, at: u64) {
        let Some(writer) = self.open.as_ref().and_then(|open| open.writer.as_deref()) else { return };
        if let Err(error) = writer.set_len(at) {
            tracing::warn!(path = %self.path.display(), offset = at, %error, "could not cut off a failed write; the next writer will");
            self.forget();
        }
    }

    /// The file opened for writing; created if absent.
    pub(super) fn writer(&mut self) -> Result<&dyn DiskFile, DlqError> {
        let doing = "opening";
        if self.open.is_none() {
            let file = self.disk.open(&self.path, OpenMode::Create).map_err(DlqError::io(doing, &self.path))?;
            self.adopt(file, false)?;
        }
        let Some(open) = &mut self.open else { return Err(DlqError::gone(&self.path)) };
        if open.writer.is_none() {
            let file = self.disk.open(&self.path, OpenMode::ReadWrite).map_err(DlqError::io(doing, &self.path))?;
            open.writer = Some(file);
        }
        open.writer.as_deref().ok_or_else(|| DlqError::gone(&self.path))
    }
}

/// How much of an unended last line is a line: all of it, or all but a last byte that was the
/// newline before it was damaged. `None`: the write never completed.
fn good_len(tail: &[u8]) -> Option<usize> {
    let mut rest = tail;
    for _ in 0..64 {
        let (_, without_last) = rest.split_last()?;
        for candidate in [rest, without_last] {
            if line::parse(candidate).is_ok() {
                return Some(tail.len() - rest.len() + candidate.len());
            }
        }
        rest = rest.get(line::next_start(rest)?..)?;
    }
    None
}
