//! Symbols that were added for components: one file each, in `data/symbols/sha256/`, under the name that the
//! component has in `components/`.
//!
//! What is kept ends in a section with the digest of the component and the SHA-256 of all before it, so that a
//! file is believed only where it belongs and as it was written.
//!
//! Invariants: a file is replaced atomically and durable when [`super::Registry::store_symbols`] returns;
//! symbols stay as long as the file of their component does, also when its task is removed.
//!
//! Deliberately absent: what the bytes mean.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wasmq_core::Digest;
use wasmq_wal::disk::{Disk, EntryKind, OpenMode, write_atomically};

use super::components;
use super::error::RegistryError;

/// The name of the section at the end, with its length and that of the section in front of it.
const SEAL: [u8; 16] = *b"\x00\x4e\x0dwasmq.symbols";
/// The section at the end: its head, the digest of the component, the SHA-256 of everything before it.
const SEAL_BYTES: usize = SEAL.len() + 32 + 32;
/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024 + SEAL_BYTES as u64;

/// Where all symbols are.
pub(super) fn dir_of(data_dir: &Path) -> PathBuf {
    data_dir.join("symbols").join("sha256")
}

/// Where the symbols of a component are or would be.
pub(super) fn path_of(data_dir: &Path, digest: &Digest) -> PathBuf {
    dir_of(data_dir).join(format!("{}.wasm", digest.hex()))
}

/// Stores symbols durably, in place of those that are there. Returns whether there were any.
pub(super) fn store(disk: &dyn Disk, path: &Path, bytes: &[u8], digest: &Digest) -> Result<bool, RegistryError> {
    let dir = path.parent().unwrap_or(path);
    disk.create_dir_all(dir).map_err(RegistryError::io("creating", dir))?;
    let replaces = disk.stat(path).map_err(RegistryError::io("looking at", path))?.is_some();
    write_atomically(disk, path, &sealed(bytes, digest)).map_err(RegistryError::io("writing symbols", path))?;
    Ok(replaces)
}

/// The symbols of a component; none when none were added.
pub(super) fn load(disk: &dyn Disk, path: &Path, digest: &Digest) -> Result<Option<Vec<u8>>, RegistryError> {
    let damaged = || RegistryError::SymbolsDamaged { digest: *digest, path: path.to_owned() };
    match disk.stat(path).map_err(RegistryError::io("looking at", path))? {
        None => return Ok(None),
        Some(found) if found.kind != EntryKind::File || found.len > MAX_FILE_BYTES => return Err(damaged()),
        Some(_) => {}
    }
    let file = match disk.open(path, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(RegistryError::io("opening", path))?,
    };
    let mut bytes = file.read_all().map_err(RegistryError::io("reading", path))?;
    let length = unsealed(&bytes, digest).ok_or_else(damaged)?;
    bytes.truncate(length);
    Ok(Some(bytes))
}

/// Removes the symbols of a component durably. Returns whether there were any.
pub(super) fn remove(disk: &dyn Disk, path: &Path) -> Result<bool, RegistryError> {
    if disk.stat(path).map_err(RegistryError::io("looking at", path))?.is_none() {
        return Ok(false);
    }
    disk.remove(path).map_err(RegistryError::io("removing", path))?;
    let dir = path.parent().unwrap_or(path);
    disk.sync_dir(dir).map_err(RegistryError::io("syncing", dir))?;
    Ok(true)
}

/// The components that have symbols, or files in their place.
pub(super) fn all(disk: &dyn Disk, data_dir: &Path) -> Result<Vec<Digest>, RegistryError> {
    components::digests_in(disk, &dir_of(data_dir))
}

fn sealed(bytes: &[u8], digest: &Digest) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(bytes.len() + SEAL_BYTES);
    sealed.extend_from_slice(bytes);
    sealed.extend_from_slice(&SEAL);
    sealed.extend_from_slice(digest.as_bytes());
    let sum = Sha256::digest(&sealed);
    sealed.extend_from_slice(&sum);
    sealed
}

/// How many bytes of a file are the symbols of this component; nothing when it is damaged or another's.
fn unsealed(bytes: &[u8], digest: &Digest) -> Option<usize> {
    let (before, sum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    let content = before.strip_suffix(digest.as_bytes())?.strip_suffix(&SEAL)?;
    (Sha256::digest(before).as_slice() == sum).then_some(content.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: Digest = Digest::new([7; 32]);

    #[test]
    fn whatever_byte_changes_the_symbols_are_not_believed() {
        let bytes = sealed(b"\0asm\x0d\0\x01\0", &DIGEST);
        assert_eq!(unsealed(&bytes, &DIGEST), Some(8));
        assert_eq!(unsealed(&bytes, &Digest::new([8; 32])), None, "of another component");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(unsealed(&damaged, &DIGEST), None, "byte {at}");
            assert_eq!(unsealed(&bytes[..at], &DIGEST), None, "cut at {at}");
        }
    }

    #[test]
    fn what_is_kept_is_a_file_that_other_tools_can_read() {
        let bytes = sealed(b"\0asm\x0d\0\x01\0", &DIGEST);
        let sections = wasmparser::Parser::new(0).parse_all(&bytes).map(Result::unwrap);
        let names: Vec<String> = sections
            .filter_map(|payload| match payload {
                wasmparser::Payload::CustomSection(section) => Some(section.name().to_owned()),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["wasmq.symbols"]);
    }
}
