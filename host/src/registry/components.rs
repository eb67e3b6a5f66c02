//! The components on disk: one file each, named by the SHA-256 of its bytes.
//!
//! Invariants: a file under such a name was synced before it got the name; what is loaded has the
//! digest that was asked for; no text of a user is part of a path.
//!
//! Deliberately absent: finding components that nothing refers to; what the bytes mean.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wasmq_core::Digest;
use wasmq_wal::disk::{Disk, OpenMode, write_atomically};

use super::error::RegistryError;

/// The digest of a component.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}

/// Where all components are.
pub(super) fn dir_of(data_dir: &Path) -> PathBuf {
    data_dir.join("components").join("sha256")
}

/// Where a component is or would be.
pub(super) fn path_of(data_dir: &Path, digest: &Digest) -> PathBuf {
    dir_of(data_dir).join(format!("{}.wasm", digest.hex()))
}

/// Whether a file has the name of a component.
pub(super) fn is_file_name(name: &str) -> bool {
    digest_in(name).is_some()
}

/// The digest that the name of a component says.
pub(super) fn digest_in(name: &str) -> Option<Digest> {
    format!("sha256:{}", name.strip_suffix(".wasm")?).parse().ok()
}

/// The digests that the names in a directory say, in order; none where there is no directory.
pub(super) fn digests_in(disk: &dyn Disk, dir: &Path) -> Result<Vec<Digest>, RegistryError> {
    let entries = match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(RegistryError::io("listing", dir))?,
    };
    let mut digests: Vec<_> = entries.iter().filter_map(|entry| digest_in(&entry.name.to_string_lossy())).collect();
    digests.sort_unstable();
    Ok(digests)
}

/// Stores a component durably. One that is there is verified, and repaired when it is damaged.
/// Returns whether it was written.
pub(super) fn store(disk: &dyn Disk, path: &Path, bytes: &[u8], digest: &Digest) -> Result<bool, RegistryError> {
    let found = digest_of(bytes);
    if found != *digest {
        return Err(RegistryError::DigestMismatch { expected: *digest, found });
    }
    let dir = path.parent().unwrap_or(path);
    disk.create_dir_all(dir).map_err(RegistryError::io("creating", dir))?;
    if is_good(disk, path, bytes)? {
        // Whoever wrote it may have died before this step.
        disk.sync_dir(dir).map_err(RegistryError::io("syncing", dir))?;
        return Ok(false);
    }
    write_atomically(disk, path, bytes).map_err(|error| {
        // After a failed sync of the directory the name must not be trusted by the next deploy.
        let _ = disk.remove(path);
        RegistryError::io("writing component", path)(error)
    })?;
    Ok(true)
}

fn is_good(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<bool, RegistryError> {
    let found = disk.stat(path).map_err(RegistryError::io("looking at", path))?;
    if found.is_none_or(|found| found.len != bytes.len() as u64) {
        return Ok(false);
    }
    // An unreadable file is as good as a damaged one: it is replaced.
    let there = disk.open(path, OpenMode::Read).and_then(|file| file.read_all());
    Ok(there.is_ok_and(|there| digest_of(&there) == digest_of(bytes)))
}

/// Removes a component durably, if it is there.
pub(super) fn remove(disk: &dyn Disk, path: &Path) -> Result<(), RegistryError> {
    if disk.stat(path).map_err(RegistryError::io("looking at", path))?.is_none() {
        return Ok(());
    }
    disk.remove(path).map_err(RegistryError::io("removing", path))?;
    let dir = path.parent().unwrap_or(path);
    disk.sync_dir(dir).map_err(RegistryError::io("syncing", dir))
}

/// Loads a component and verifies it.
pub(super) fn load(disk: &dyn Disk, path: &Path, digest: &Digest) -> Result<Vec<u8>, RegistryError> {
    if disk.stat(path).map_err(RegistryError::io("looking at", path))?.is_none() {
        return Err(RegistryError::ComponentMissing { digest: *digest, path: path.to_owned() });
    }
    let file = disk.open(path, OpenMode::Read).map_err(RegistryError::io("opening", path))?;
    let bytes = file.read_all().map_err(RegistryError::io("reading", path))?;
    if digest_of(&bytes) != *digest {
        return Err(RegistryError::ComponentDamaged { digest: *digest, path: path.to_owned() });
    }
    Ok(bytes)
}
