//! Precompiled components on disk: `<cache>/<engine key>/<digest hex>.cwasm`.
//!
//! A file is the engine's ELF image followed by a trailer of 88 bytes, numbers little-endian:
//!
//! ```text
//!   16  magic "wasmq-compiled-1"
//!    8  length of the image
//!   32  SHA-256 of the component the image was compiled from
//!   32  SHA-256 of the image, then the fields above
//! ```
//!
//! The trailer is behind the image, so the image starts on a page and can be mapped: the pages of
//! one file are shared by all workers of the machine.
//!
//! Invariants: a file is checked in full before it is mapped; one that does not check or load is
//! compiled anew and replaced by a rename, never repaired and never trusted. Two processes may write
//! the same file at once. Losing the directory costs time, never correctness.
//!
//! Trust: compiled code runs outside the sandbox. Whoever can write to this directory can run code
//! as this process, exactly as whoever can replace its executable. The checks catch damage, not
//! malice; the directory must be writable for the operator alone.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use wasmq_core::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

const MAGIC: [u8; 16] = *b"wasmq-compiled-1";
const TRAILER_BYTES: u64 = 16 + 8 + 32 + 32;
const CHUNK_BYTES: usize = 256 * 1024;
/// How the name of a file begins that is being written, and how long after that it is a leftover.
const UNFINISHED: (&str, Duration) = (".compiling-", Duration::from_hours(24));

/// The precompiled components that one kind of engine can load.
#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    dir: PathBuf,
    keep_for: Option<Duration>,
}

/// Why a file in the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("no such file")]
    Absent,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(&'static str),
    #[error("the engine refuses it: {0}")]
    Refused(String),
}

impl Cache {
    /// With a time to keep, files that are older are removed when another is written, those of other engines
    /// too.
    pub(super) fn new(root: &Path, engine_key: &str, keep_for: Option<Duration>) -> Self {
        Self { root: root.to_owned(), dir: root.join(engine_key), keep_for }
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.dir.join(format!("{}.cwasm", digest.hex()))
    }

    /// Loads a component. `None` means that it has to be compiled; why is a matter for the log.
    pub(super) fn load(&self, engine: &Engine, digest: Digest) -> Option<Component> {
        let path = self.path(digest);
        match load_file(engine, &path, digest) {
            Ok(component) => Some(component),
            Err(Unusable::Absent) => None,
            Err(reason) => {
                tracing::warn!(path = %path.display(), %reason, "precompiled component is not usable; compiling it again");
                None
            }
        }
    }

    /// Stores a component. A failure is only worth a warning: the next process compiles again.
    pub(super) fn store(&self, digest: Digest, component: &Component) {
        let path = self.path(digest);
        let stored = component
            .serialize()
            .map_err(io::Error::other)
            .and_then(|image| write_file(&self.dir, &path, digest, &image));
        if let (Ok(now), Some(keep_for)) = (&stored, self.keep_for) {
            sweep_old(&self.root, *now, keep_for);
        }
        if let Err(error) = stored {
            tracing::warn!(path = %path.display(), %error, "cannot keep the precompiled component; it will be compiled again next time");
        }
    }

    /// Removes what any engine compiled of a component. Whoever has it mapped goes on with it.
    #[allow(clippy::disallowed_methods)] // As for `load_file`.
    pub(super) fn remove(&self, digest: Digest) {
        let name = format!("{}.cwasm", digest.hex());
        for engine in std::fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(engine.path().join(&name));
        }
    }
}

fn trailer(image_bytes: u64, component: Digest, mut hash: Sha256) -> Vec<u8> {
    let mut fields = Vec::with_capacity(88);
    fields.extend_from_slice(&MAGIC);
    fields.extend_from_slice(&image_bytes.to_le_bytes());
    fields.extend_from_slice(component.as_bytes());
    hash.update(&fields);
    fields.extend_from_slice(&hash.finalize());
    fields
}

/// Writes a file and says when, by the clock of the disk.
fn write_file(dir: &Path, path: &Path, digest: Digest, image: &[u8]) -> io::Result<SystemTime> {
    std::fs::create_dir_all(dir)?;
    let mut file = tempfile::Builder::new().prefix(UNFINISHED.0).tempfile_in(dir)?;
    file.write_all(image)?;
    file.write_all(&trailer(image.len() as u64, digest, Sha256::new_with_prefix(image)))?;
    file.as_file().sync_all()?;
    let written = file.persist(path).map_err(|error| error.error)?.metadata()?.modified()?;
    sweep(dir, written);
    Ok(written)
}

/// The files of all engines that are older than this.
#[allow(clippy::disallowed_methods)] // As for `load_file`.
fn sweep_old(root: &Path, now: SystemTime, keep_for: Duration) {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries(root).flat_map(|engine| entries(&engine.path())) {
        let modified = entry.metadata().and_then(|found| found.modified());
        let is_old = modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > keep_for));
        if is_old && entry.path().extension().is_some_and(|extension| extension == "cwasm") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes what processes left that died while they wrote. There is no lock, but none writes for a day.
#[allow(clippy::disallowed_methods)] // As for `load_file`.
fn sweep(dir: &Path, now: SystemTime) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|found| found.modified());
        let is_old = modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > UNFINISHED.1));
        if is_old && entry.file_name().to_string_lossy().starts_with(UNFINISHED.0) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

// Nothing that has to last: the cache may be lost at any time, so it needs no simulated disk.
#[allow(clippy::disallowed_methods)]
fn load_file(engine: &Engine, path: &Path, digest: Digest) -> Result<Component, Unusable> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unusable::Absent),
        other => other?,
    };
    verify(&mut file, digest)?;
    deserialize(engine, path).map_err(|error| Unusable::Refused(format!("{error:#}")))
}

fn verify(file: &mut File, digest: Digest) -> Result<(), Unusable> {
    let Some(image_bytes) = file.seek(SeekFrom::End(0))?.checked_sub(TRAILER_BYTES) else {
        return Err(Unusable::Damaged("the file is too short"));
    };
    file.seek(SeekFrom::Start(0))?;
    let hash = hash_image(file, image_bytes)?;
    let mut found = Vec::new();
    file.read_to_end(&mut found)?;
    if found != trailer(image_bytes, digest, hash) {
        return Err(Unusable::Damaged("the checksum does not match"));
    }
    Ok(())
}

fn hash_image(file: &mut File, mut left: u64) -> io::Result<Sha256> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let part = chunk.get_mut(..want).unwrap_or_default();
        file.read_exact(part)?;
        hash.update(&*part);
        left -= want as u64;
    }
    Ok(hash)
}

#[allow(unsafe_code)]
fn deserialize(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the file was written by `write_file` from `Component::serialize` and its checksum was
    // just verified; files are replaced by rename and never changed in place, so the mapped pages
    // stay what they were. The engine checks its version and settings itself. What remains is trust
    // in the directory, see the top of this file.
    unsafe { Component::deserialize_file(engine, path) }
}
