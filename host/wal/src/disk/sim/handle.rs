//! Open files and held locks of the simulated disk: an inode number and a way to the state.

use super::Shared;
use super::state::{Change, Node};
use crate::disk::{DiskFile, DiskLock, lock_line};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) shared: Arc<Shared>,
    pub(super) inode: u64,
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.shared.state();
        let content = &state.inode(self.inode)?.live;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = content.get(offset..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        for (target, source) in buffer.iter_mut().zip(found) {
            *target = *source;
        }
        Ok(count)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.shared.state().write(self.inode, bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.shared.state().set_len(self.inode, len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.shared.state().inode(self.inode)?.live.len() as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.state().sync(self.inode)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.shared.state().sync(self.inode)
    }

    fn inode(&self) -> io::Result<u64> {
        Ok(self.inode)
    }
}

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) file: SimFile,
    pub(super) path: PathBuf,
}

impl DiskLock for SimLock {
    fn append_line(&mut self, text: &str) -> io::Result<()> {
        let existing = self.file.read_all()?;
        let line = lock_line(&existing, text);
        self.file.write_all_at(line.as_bytes(), existing.len() as u64)?;
        self.file.sync_all()
    }

    fn read(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.file.read_all()?).into_owned())
    }

    fn remove(self: Box<Self>) -> io::Result<()> {
        let mut state = self.file.shared.state();
        if state.node(&self.path)? != Some(Node::File(self.file.inode)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change(Change::Remove(self.path.clone()))
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.file.shared.state().locked.remove(&self.file.inode);
        self.file.shared.released.notify_all();
    }
}
