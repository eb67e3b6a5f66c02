//! Rewriting the file without its garbage (`FORMAT.md`, "Compaction").
//!
//! Invariants: the file under the name holds the same entries before and after, at every point of a
//! crash; damaged bytes are moved aside durably before they leave the file; the copy is read back
//! before it replaces anything. The caller holds the lock.

use std::io::BufRead as _;

use wasmq_core::{InvocationId, Timestamp};
use wasmq_wal::disk::{DiskFile, OpenMode};

use super::error::DlqError;
use super::index::{DamagedBytes, Index};
use super::line::{self, IdPair, MAX_IDS_PER_LINE, Write};
use super::log::Log;
use super::reader::{Line, LineReader};
use super::slots::Slot;
use super::types::{DamageReason, RemovalReason};

const CHUNK_BYTES: usize = 1024 * 1024;
/// A file of damaged lines over this size is not searched for what was moved to it before.
const MAX_COMPARED_BYTES: u64 = 64 * 1024 * 1024;
/// The name of the copy while it is written.
pub(super) const COPY_NAME: &str = "dead-tasks-v1.jsonl.tmp";
pub(super) const DAMAGED_NAME: &str = "dead-tasks-v1.damaged";

/// A file that is written from front to end.
struct Copy<'a> {
    file: &'a dyn DiskFile,
    log: &'a Log,
    at: u64,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn flush_over(&mut self, limit: usize) -> Result<(), DlqError> {
        if self.buffer.len() > limit {
            let doing = DlqError::io("writing the compacted copy of", &self.log.path);
            self.file.write_all_at(&self.buffer, self.at).map_err(doing)?;
            self.at += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    fn operation(&mut self, operation: &Write<'_>) -> Result<(), DlqError> {
        line::push(&mut self.buffer, operation).map_err(DlqError::io("encoding a line of", &self.log.path))?;
        self.flush_over(CHUNK_BYTES)
    }

    /// An entry, byte for byte, if it is still what the index says.
    fn entry(&mut self, slot: &Slot) -> Result<Fate, DlqError> {
        let bytes = self.log.read_line(slot)?;
        match line::verify(&bytes) {
            Ok(body) if line::is_add(body) => {
                self.buffer.extend_from_slice(&bytes);
                self.buffer.push(b'\n');
                self.flush_over(CHUNK_BYTES)?;
                Ok(Fate::Kept)
            }
            Ok(_) => Ok(Fate::Deleted),
            Err(reason) => Ok(Fate::Damaged(reason)),
        }
    }

    /// The ids of one removal, in as many lines as it takes.
    fn removed(&mut self, ids: &[IdPair], reason: RemovalReason, at: u64) -> Result<(), DlqError> {
        ids.chunks(MAX_IDS_PER_LINE).try_for_each(|ids| self.operation(&Write::Removed { ids, reason, at }))
    }
}

/// What became of an entry since the index took it in.
enum Fate {
    Kept,
    /// Deleted in place by another process.
    Deleted,
    Damaged(DamageReason),
}

impl Log {
    /// Rewrites the file under a new inode. Tombstones older than 30 days at `now` are dropped but for the latest
    /// ones; time 0 keeps all.
    pub(super) fn compact(&mut self, now: Timestamp) -> Result<(), DlqError> {
        if !self.is_open() {
            return Ok(());
        }
        self.move_damage_aside(self.index.damage(), now)?;
        let temporary = self.path.with_file_name(COPY_NAME);
        let doing = "writing the compacted copy of";
        let file = self.disk.open(&temporary, OpenMode::Create).map_err(DlqError::io(doing, &self.path))?;
        let written = self.write_copy(&*file, now).and_then(|rotten| Ok((self.read_back(&*file, rotten)?, rotten)));
        let (index, rotten) = match written {
            Ok(good) => good,
            Err(error) => {
                // The first error is the one to tell; a leftover is overwritten by the next compaction.
                let _ = self.disk.remove(&temporary);
                return Err(error);
            }
        };
        if rotten > 0 || !self.index.damage().is_empty() {
            self.sync_name()?;
        }
        self.disk.rename(&temporary, &self.path).map_err(DlqError::io("replacing", &self.path))?;
        self.index = index;
        self.adopt(file, false)?;
        self.sync_name()
    }

    /// Makes the name durable again after a sync of the directory failed, by a new rename.
    pub(super) fn rewrite_name(&mut self) -> Result<(), DlqError> {
        let there = self.disk.stat(&self.path).map_err(DlqError::io("looking at", &self.path))?;
        if there.is_some() {
            return self.compact(Timestamp(0));
        }
        self.name_in_doubt = false;
        Ok(())
    }

    /// Returns how many entries turned out to be damaged or deleted in place since they were read.
    fn write_copy(&self, file: &dyn DiskFile, now: Timestamp) -> Result<usize, DlqError> {
        let doing = "writing the compacted copy of";
        file.set_len(0).map_err(DlqError::io(doing, &self.path))?;
        let mut copy = Copy { file, log: self, at: 0, buffer: Vec::with_capacity(CHUNK_BYTES) };
        copy.operation(&Write::Head { next: self.index.next_seq() })?;
        for ((at, reason), ids) in self.index.kept_tombstones(now) {
            copy.removed(&ids, reason, at)?;
        }
        let (mut deleted, mut rotten) = (Vec::new(), Vec::new());
        for slot in self.index.slots.live() {
            match copy.entry(slot)? {
                Fate::Kept => {}
                Fate::Deleted => deleted.push((InvocationId::from_u128(slot.id), slot.replays)),
                Fate::Damaged(reason) => {
                    rotten.push(DamagedBytes { line: 0, offset: slot.offset, len: u64::from(slot.len), reason });
                }
            }
        }
        copy.removed(&deleted, RemovalReason::Deleted, now.0)?;
        for intent in self.index.dangling() {
            for ids in intent.ids.chunks(MAX_IDS_PER_LINE) {
                copy.operation(&Write::Retry { wal: &intent.wal, at: intent.at.0, ids })?;
            }
        }
        copy.flush_over(0)?;
        file.sync_all().map_err(DlqError::io(doing, &self.path))?;
        self.move_damage_aside(&rotten, now)?;
        Ok(deleted.len() + rotten.len())
    }

    fn read_back(&self, file: &dyn DiskFile, rotten: usize) -> Result<Index, DlqError> {
        let mut index = Index::default();
        let mut reader = LineReader::new(file, 0);
        while let Some(line) = reader.next().map_err(DlqError::io("reading back the compacted copy of", &self.path))? {
            match line {
                Line::Whole(bytes) => index.take(bytes),
                Line::TooLong(len) => index.take_too_long(len),
            }
        }
        let (expected, found) = (self.index.slots.len().saturating_sub(rotten), index.slots.len());
        if found == expected && index.damage().is_empty() {
            return Ok(index);
        }
        Err(DlqError::CopyDiffers { path: self.path.clone(), found, expected })
    }

    /// Appends damaged bytes with a note to the file beside, durably but for its name. What it holds already,
    /// because somebody was interrupted after this step, it does not get twice.
    pub(super) fn move_damage_aside(&self, damage: &[DamagedBytes], now: Timestamp) -> Result<(), DlqError> {
        if damage.is_empty() {
            return Ok(());
        }
        let path = self.path.with_file_name(DAMAGED_NAME);
        let doing = "moving damaged lines to";
        let file = self.disk.open(&path, OpenMode::Create).map_err(DlqError::io(doing, &path))?;
        let mut at = file.len().map_err(DlqError::io(doing, &path))?;
        let there = Self::small_file(&*file, at).map_err(DlqError::io(doing, &path))?;
        for bytes in damage {
            let DamagedBytes { line, offset, len, reason } = bytes;
            let note = format!("\n# {} line {line} offset {offset} length {len} at ", super::log::FILE_NAME);
            if self.is_kept(&there, note.as_bytes(), bytes)? {
                continue;
            }
            tracing::warn!(from = %self.path.display(), line, offset, len, to = %path.display(), "moving a damaged line aside: {reason}");
            let note = format!("{note}{}: {reason}\n", now.0);
            at = self.copy_bytes(&*file, at, note.into_bytes(), bytes).map_err(|error| match error {
                DlqError::Io { source, .. } | DlqError::NoSpace { source, .. } => DlqError::io(doing, &path)(source),
                other => other,
            })?;
        }
        file.sync_all().map_err(DlqError::io(doing, &path))
    }

    /// The content of a file that is not large; nothing of one that is.
    fn small_file(file: &dyn DiskFile, len: u64) -> std::io::Result<Vec<u8>> {
        if len > MAX_COMPARED_BYTES { Ok(Vec::new()) } else { file.read_all() }
    }

    /// Whether the file beside holds damaged bytes under a note that begins like this.
    fn is_kept(&self, there: &[u8], note: &[u8], bytes: &DamagedBytes) -> Result<bool, DlqError> {
        if bytes.len > MAX_COMPARED_BYTES || there.is_empty() {
            return Ok(false);
        }
        let mut found = vec![0; usize::try_from(bytes.len).unwrap_or_default()];
        let count = self.read_bytes(bytes.offset, &mut found)?;
        found.truncate(count);
        let is_same = |at: usize| {
            let mut rest = there.get(at + note.len()..).unwrap_or_default();
            rest.skip_until(b'\n').is_ok() && rest.starts_with(&found)
        };
        Ok(there.windows(note.len()).enumerate().any(|(at, window)| window == note && is_same(at)))
    }

    /// Copies a note and damaged bytes in chunks; returns where the next one goes.
    fn copy_bytes(&self, to: &dyn DiskFile, at: u64, note: Vec<u8>, from: &DamagedBytes) -> Result<u64, DlqError> {
        let write = |bytes: &[u8], at| to.write_all_at(bytes, at).map_err(DlqError::io("writing", &self.path));
        write(&note, at)?;
        let mut target = at + note.len() as u64;
        let mut buffer = vec![0; CHUNK_BYTES.min(usize::try_from(from.len).unwrap_or(CHUNK_BYTES))];
        let mut done = 0;
        while done < from.len {
            let room = usize::try_from(from.len - done).unwrap_or(usize::MAX).min(buffer.len());
            let chunk = buffer.get_mut(..room).unwrap_or_default();
            let count = self.read_bytes(from.offset + done, chunk)?;
            if count == 0 {
                break;
            }
            write(chunk.get(..count).unwrap_or_default(), target)?;
            done += count as u64;
            target += count as u64;
        }
        Ok(target)
    }
}
