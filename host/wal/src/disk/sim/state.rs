//! The two images of the simulated disk, the changes between them, and the counter of operations.
//!
//! Every counted operation passes through `State::begin` before it does anything.

use super::Fault;
use crate::disk::{DirEntry, EntryKind, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Dir,
}

/// A change of directory entries that is not durable yet.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Change {
    /// The path whose directory has to be synced for this change.
    fn path(&self) -> &Path {
        match self {
            Self::Add(path, _) | Self::Remove(path) | Self::Rename(_, path) => path,
        }
    }

    pub(super) fn apply(&self, entries: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Add(path, node) => _ = entries.insert(path.clone(), *node),
            Self::Remove(path) => _ = entries.remove(path),
            Self::Rename(from, to) => {
                if let Some(node) = entries.remove(from) {
                    entries.insert(to.clone(), node);
                }
            }
        }
    }
}

/// A change of a file's content that is not durable yet.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Bytes { offset: usize, bytes: Vec<u8> },
    Len(usize),
}

impl Write {
    pub(super) fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Len(len) => content.resize(*len, 0),
            Self::Bytes { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                if let Some(target) = content.get_mut(*offset..end) {
                    target.copy_from_slice(bytes);
                }
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<Write>,
    modified: u64,
}

impl Inode {
    pub(super) fn settled(content: Vec<u8>) -> Self {
        Self { live: content.clone(), durable: content, ..Self::default() }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) live: BTreeMap<PathBuf, Node>,
    pub(super) durable: BTreeMap<PathBuf, Node>,
    pub(super) pending: Vec<Change>,
    pub(super) locked: BTreeSet<u64>,
    /// Directories whose entry a process has synced since it met them.
    pub(super) durable_dirs: BTreeSet<PathBuf>,
    pub(super) operations: u64,
    pub(super) cut_at: Option<u64>,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) capacity: Option<u64>,
    pub(super) next_inode: u64,
    pub(super) off: bool,
    /// The operations that were writes, and to which file.
    pub(super) writes: Vec<(u64, u64)>,
}

fn power_is_off() -> io::Error {
    io::Error::other("the simulated power is off")
}

fn error_of(fault: Fault) -> io::Error {
    // Raw numbers, so that callers see what a real disk gives them: 5 is EIO, 28 is ENOSPC.
    io::Error::from_raw_os_error(match fault {
        Fault::Io | Fault::Short(_) => 5,
        Fault::NoSpace => 28,
    })
}

impl State {
    pub(super) fn powered(&self) -> io::Result<()> {
        if self.off { Err(power_is_off()) } else { Ok(()) }
    }

    /// Counts an operation; says how it is to fail.
    fn begin(&mut self) -> io::Result<Option<Fault>> {
        self.powered()?;
        let number = self.operations;
        self.operations += 1;
        if self.cut_at.is_some_and(|cut| number >= cut) {
            self.off = true;
            self.locked.clear();
            return Err(power_is_off());
        }
        Ok(self.faults.remove(&number))
    }

    fn begin_or_fail(&mut self) -> io::Result<()> {
        self.begin()?.map_or(Ok(()), |fault| Err(error_of(fault)))
    }

    pub(super) fn node(&self, path: &Path) -> io::Result<Option<Node>> {
        self.powered()?;
        Ok(match self.live.get(path) {
            None if path.parent().is_none_or(|parent| parent.as_os_str().is_empty()) => {
                (path.parent().is_none()).then_some(Node::Dir)
            }
            found => found.copied(),
        })
    }

    fn require_dir(&self, path: &Path) -> io::Result<()> {
        match self.node(path)? {
            Some(Node::Dir) => Ok(()),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
        let inode = self.next_inode + 1;
        self.change(Change::Add(path.to_owned(), Node::File(inode)))?;
        self.next_inode = inode;
        self.inodes.insert(inode, Inode::default());
        Ok(inode)
    }

    pub(super) fn change(&mut self, change: Change) -> io::Result<()> {
        self.begin_or_fail()?;
        self.require_dir(change.path().parent().unwrap_or(Path::new("")))?;
        if let Change::Remove(path) | Change::Rename(path, _) = &change {
            match self.live.get(path) {
                None => return Err(io::ErrorKind::NotFound.into()),
                // What is in a directory does not move with it here.
                Some(Node::Dir) if matches!(change, Change::Rename(..)) && self.is_empty_dir(path) => {}
                Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
                Some(Node::File(_)) => {}
            }
        }
        change.apply(&mut self.live);
        self.pending.push(change);
        Ok(())
    }

    fn is_empty_dir(&self, dir: &Path) -> bool {
        !self.live.keys().any(|path| path.parent() == Some(dir))
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let fault = self.begin()?;
        self.require_dir(dir)?;
        let (synced, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|change: &Change| change.path().parent() == Some(dir));
        self.pending = rest;
        if let Some(fault) = fault {
            return Err(error_of(fault));
        }
        for change in synced {
            change.apply(&mut self.durable);
        }
        Ok(())
    }

    /// Removes a directory in which nothing is, without counting it.
    pub(super) fn forget_empty_dir(&mut self, dir: &Path) {
        if !self.live.keys().any(|path| path.parent() == Some(dir)) {
            self.live.remove(dir);
        }
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.require_dir(dir)?;
        let inside = self.live.iter().filter(|(path, _)| path.parent() == Some(dir));
        let mut entries: Vec<DirEntry> = inside
            .filter_map(|(path, &node)| {
                let (kind, len) = self.describe(node);
                Some(DirEntry { name: path.file_name()?.to_owned(), kind, len })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn describe(&self, node: Node) -> (EntryKind, u64) {
        match node {
            Node::Dir => (EntryKind::Dir, 0),
            Node::File(inode) => {
                let len = self.inodes.get(&inode).map_or(0, |inode| inode.live.len() as u64);
                (EntryKind::File, len)
            }
        }
    }

    pub(super) fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        Ok(self.node(path)?.map(|node| {
            let (kind, len) = self.describe(node);
            let number = if let Node::File(inode) = node { inode } else { 0 };
            let modified = self.inodes.get(&number).map_or(0, |inode| inode.modified);
            Stat { len, kind, inode: number, modified_ns: modified.into() }
        }))
    }

    pub(super) fn inode(&self, inode: u64) -> io::Result<&Inode> {
        self.powered()?;
        self.inodes.get(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn write(&mut self, inode: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        let fault = self.begin()?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let fits = self.fitting(inode, offset, bytes.len())?;
        let kept = match fault {
            Some(Fault::Io | Fault::NoSpace) => 0,
            Some(Fault::Short(count)) => count.min(fits),
            None => fits,
        };
        let part = bytes.get(..kept).unwrap_or(bytes).to_vec();
        self.record(inode, Write::Bytes { offset, bytes: part })?;
        self.writes.push((self.operations - 1, inode));
        match fault {
            Some(Fault::Io) => Err(error_of(Fault::Io)),
            None if kept == bytes.len() => Ok(()),
            Some(_) | None => Err(error_of(Fault::NoSpace)),
        }
    }

    /// How many of `len` bytes at `offset` the space that is left allows.
    fn fitting(&self, inode: u64, offset: usize, len: usize) -> io::Result<usize> {
        let old_len = self.inode(inode)?.live.len();
        let room = usize::try_from(self.free_bytes()).unwrap_or(usize::MAX);
        Ok(len.min(old_len.saturating_add(room).saturating_sub(offset)))
    }

    pub(super) fn set_len(&mut self, inode: u64, len: u64) -> io::Result<()> {
        self.begin_or_fail()?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.record(inode, Write::Len(len))
    }

    fn record(&mut self, inode: u64, write: Write) -> io::Result<()> {
        let modified = self.operations;
        let inode = self.inodes.get_mut(&inode).ok_or(io::ErrorKind::NotFound)?;
        write.apply(&mut inode.live);
        inode.pending.push(write);
        inode.modified = modified;
        Ok(())
    }

    pub(super) fn sync(&mut self, inode: u64) -> io::Result<()> {
        let fault = self.begin()?;
        let inode = self.inodes.get_mut(&inode).ok_or(io::ErrorKind::NotFound)?;
        let synced = std::mem::take(&mut inode.pending);
        if let Some(fault) = fault {
            return Err(error_of(fault));
        }
        for write in synced {
            write.apply(&mut inode.durable);
        }
        Ok(())
    }

    pub(super) fn free_bytes(&self) -> u64 {
        let used = || self.live.values().map(|&node| self.describe(node).1).sum();
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(used()))
    }
}
