//! Where the data directory lies, and whether it may be written there.
//!
//! Everything durable rests on locks that hold and appends that are seen. Network file systems promise
//! neither, so nothing is written on one unless that was allowed; what is read there is warned of.
//!
//! Invariants: the worst place of the directory and its parts counts, and for what does not exist yet that
//! of its nearest ancestor; what is found to be unusable was not touched.

use std::path::{Path, PathBuf};

use wasmq_wal::disk::{Disk, Locality};

use super::QueueError;
use crate::store::Layout;

/// Whether to write on a network file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkDisk {
    /// Never.
    #[default]
    Refuse,
    /// As on any other.
    Allow,
}

/// A directory and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    path: PathBuf,
    locality: Locality,
}

impl Place {
    /// Finds the worst place among the parts of a data directory. A part that cannot be looked at tells
    /// its trouble to whoever uses it.
    pub(super) fn of(disk: &dyn Disk, layout: &Layout) -> Self {
        let parts = [layout.root().to_owned(), layout.journal(), layout.dlq()];
        let mut worst = Self { path: layout.root().to_owned(), locality: Locality::Local };
        for path in parts {
            let locality = locality(disk, &path);
            if locality > worst.locality {
                worst = Self { path, locality };
            }
        }
        worst
    }

    /// Whether it may be written to.
    pub(super) fn refuse(&self, network: NetworkDisk) -> Result<(), QueueError> {
        match self.locality {
            Locality::Network(file_system) if network == NetworkDisk::Refuse => {
                Err(QueueError::NetworkDisk { path: self.path.clone(), file_system })
            }
            _ => Ok(()),
        }
    }

    /// What whoever uses it should know.
    pub(super) fn warning(&self, network: NetworkDisk) -> Option<String> {
        let path = self.path.display();
        match self.locality {
            _ if network == NetworkDisk::Allow => None,
            Locality::Local => None,
            Locality::Userspace => Some(format!(
                "{path} is on a FUSE file system: whether its locks hold and its syncs reach a disk depends on the program behind it"
            )),
            Locality::Network(file_system) => Some(format!(
                "{path} is on {file_system}, a network file system: what is shown may lag behind, and nothing is written there"
            )),
        }
    }
}

/// Where a path is, or would be.
fn locality(disk: &dyn Disk, path: &Path) -> Locality {
    let here = |path: &Path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() };
    path.ancestors().find_map(|path| disk.locality(&here(path)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(locality: Locality) -> Place {
        Place { path: PathBuf::from("/data/journal"), locality }
    }

    #[test]
    fn a_network_is_refused_unless_it_is_allowed_and_told_of_where_it_is_read() {
        let there = place(Locality::Network("NFS"));
        let refused = there.refuse(NetworkDisk::Refuse).unwrap_err().to_string();
        assert!(refused.contains("/data/journal") && refused.contains("NFS"), "{refused}");
        assert!(there.warning(NetworkDisk::Refuse).unwrap().contains("NFS"));
        assert!(there.refuse(NetworkDisk::Allow).is_ok() && there.warning(NetworkDisk::Allow).is_none());
    }

    #[test]
    fn a_program_behind_the_files_is_warned_of_and_a_local_disk_is_not() {
        let there = place(Locality::Userspace);
        assert!(there.refuse(NetworkDisk::Refuse).is_ok());
        assert!(there.warning(NetworkDisk::Refuse).unwrap().contains("FUSE"));
        assert!(there.warning(NetworkDisk::Allow).is_none());
        let there = place(Locality::Local);
        assert!(there.refuse(NetworkDisk::Refuse).is_ok() && there.warning(NetworkDisk::Refuse).is_none());
    }
}
