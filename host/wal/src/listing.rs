//! What logs there are in a directory, judged by names alone: no file is opened.

use crate::disk::{DirEntry, Disk, EntryKind};
use crate::error::{IoFailure, WalError};
use crate::name::{FileName, WalId, parse, segment_file_name};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// One segment of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number, from 1.
    pub sequence: u32,
    /// Its length in bytes, with header; for the active one without the zeros ahead when the owner says it.
    pub bytes: u64,
}

/// One log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalListing {
    /// Its id.
    pub id: WalId,
    /// Its segments, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// Length of all segments in bytes.
    pub bytes: u64,
    /// Whether its lock file is there. It says nothing about whether somebody holds it.
    pub has_lock_file: bool,
}

/// Something with the name of a log that is none this crate could read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: StrangerKind,
}

/// Why something is a [`Stranger`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrangerKind {
    /// A file of another format version.
    OtherVersion(u32),
    /// A directory or something else that is not a file.
    NotAFile,
    /// A name that begins like that of a log and goes on like none.
    BadName,
}

/// Everything in a directory that has to do with logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The logs, by id: with UUIDv7 the oldest first.
    pub wals: Vec<WalListing>,
    /// What to report and not to touch.
    pub strangers: Vec<Stranger>,
    /// Copies of damaged bytes that `quarantine` made, and whatever else was set aside under such a name.
    pub quarantined: Vec<PathBuf>,
}

/// Lists the logs of a directory. A directory that does not exist has none.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(disk: &dyn Disk, dir: &Path) -> Result<Listing, WalError> {
    let mut listing = Listing::default();
    let mut wals = BTreeMap::new();
    for entry in entries(disk, dir)? {
        sort_in(&entry, dir, &mut wals, &mut listing);
    }
    listing.wals = wals.into_values().collect();
    Ok(listing)
}

fn sort_in(entry: &DirEntry, dir: &Path, wals: &mut BTreeMap<WalId, WalListing>, listing: &mut Listing) {
    let path = dir.join(&entry.name);
    let name = parse(&entry.name);
    let kind = match name {
        FileName::Unrelated => return,
        FileName::OtherVersion(version) => StrangerKind::OtherVersion(version),
        FileName::Malformed => StrangerKind::BadName,
        FileName::Quarantined(_) => return listing.quarantined.push(path),
        _ if entry.kind != EntryKind::File => StrangerKind::NotAFile,
        FileName::Lock(id) => {
            wal_of(wals, id).has_lock_file = true;
            return;
        }
        FileName::Segment(id, sequence) => {
            let wal = wal_of(wals, id);
            wal.segments.push(SegmentInfo { sequence, bytes: entry.len });
            wal.bytes += entry.len;
            return;
        }
    };
    listing.strangers.push(Stranger { path, kind });
}

fn wal_of(wals: &mut BTreeMap<WalId, WalListing>, id: WalId) -> &mut WalListing {
    let empty = || WalListing { id, segments: Vec::new(), bytes: 0, has_lock_file: false };
    wals.entry(id).or_insert_with(empty)
}

fn entries(disk: &dyn Disk, dir: &Path) -> Result<Vec<DirEntry>, WalError> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => Ok(other.map_err(|error| IoFailure::new("list", dir, error))?),
    }
}

/// Something with the name of a segment of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) sequence: u32,
    pub(crate) is_file: bool,
    pub(crate) len: u64,
}

/// How often a directory that changes meanwhile is listed anew before a gap is believed.
const LISTINGS: u32 = 100;

/// The segments of one log by sequence. A directory is not read atomically: an owner that drops and creates
/// segments meanwhile can make it look as if one in the middle were missing. Segments go oldest first, so a gap
/// is believed only if the segment before it is still there and the missing one is not.
/// The segments of a log that a listing showed with these sequences, if it still has exactly those.
/// Costs a look at each instead of a listing of the whole directory. A log grows at its end and shrinks
/// at its front, so one look behind the last tells the rest.
pub(crate) fn segments_as_listed(
    disk: &dyn Disk,
    dir: &Path,
    id: WalId,
    listed: &[u32],
) -> Result<Option<Vec<Found>>, WalError> {
    let look = |sequence: u32| {
        let path = dir.join(segment_file_name(id, sequence));
        disk.stat(&path).map_err(|error| IoFailure::new("look at", &path, error))
    };
    let mut found = Vec::with_capacity(listed.len());
    for &sequence in listed {
        let Some(stat) = look(sequence)? else { return Ok(None) };
        found.push(Found { sequence, is_file: stat.kind == EntryKind::File, len: stat.len });
    }
    let is_contiguous = listed.iter().zip(listed.iter().skip(1)).all(|(a, b)| a.checked_add(1) == Some(*b));
    let Some(next) = listed.last().and_then(|last| last.checked_add(1)) else { return Ok(None) };
    let is_whole = is_contiguous && look(next)?.is_none();
    Ok(is_whole.then_some(found))
}

pub(crate) fn segments_of(disk: &dyn Disk, dir: &Path, id: WalId) -> Result<Vec<Found>, WalError> {
    for _ in 1..LISTINGS {
        let found = segments_once(disk, dir, id)?;
        let mut pairs = found.iter().zip(found.iter().skip(1));
        let gap = pairs.find(|(a, b)| a.sequence + 1 != b.sequence);
        let Some((before, _)) = gap else {
            return Ok(found);
        };
        let exists = |sequence| {
            let path = dir.join(segment_file_name(id, sequence));
            let stat = disk.stat(&path).map_err(|error| IoFailure::new("look at", &path, error));
            stat.map(|found| found.is_some())
        };
        if exists(before.sequence)? && !exists(before.sequence + 1)? {
            return Ok(found);
        }
    }
    segments_once(disk, dir, id)
}

fn segments_once(disk: &dyn Disk, dir: &Path, id: WalId) -> Result<Vec<Found>, WalError> {
    let found = entries(disk, dir)?.into_iter().filter_map(|entry| match parse(&entry.name) {
        FileName::Segment(found, sequence) if found == id => {
            Some(Found { sequence, is_file: entry.kind == EntryKind::File, len: entry.len })
        }
        _ => None,
    });
    Ok(found.collect())
}
