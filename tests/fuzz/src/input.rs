//! Takes decisions and pieces from the front of the bytes that the fuzzer made, and puts files on a
//! simulated disk.

use std::path::Path;
use std::sync::Arc;

use wasmq_wal::disk::{Disk, OpenMode, SimDisk};

/// Bytes that are used up from the front.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte; 0 when nothing is left.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number of two bytes.
    pub fn short(&mut self) -> usize {
        usize::from(self.byte()) | usize::from(self.byte()) << 8
    }

    /// So many bytes, or as many as are left.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A simulated disk with this one file.
pub fn disk_with(path: &str, bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    put(&disk, path, bytes);
    disk
}

/// Writes a file durably; its directory is made if it is missing.
pub fn put(disk: &dyn Disk, path: &str, bytes: &[u8]) {
    let path = Path::new(path);
    let dir = path.parent().unwrap();
    disk.create_dir_all(dir).unwrap();
    let file = disk.open(path, OpenMode::Create).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(dir).unwrap();
}

/// The content of a file, if it is there.
pub fn content(disk: &dyn Disk, path: &str) -> Option<Vec<u8>> {
    disk.open(Path::new(path), OpenMode::Read).ok().map(|file| file.read_all().unwrap())
}

/// A handle of the same disk.
pub fn share(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}
