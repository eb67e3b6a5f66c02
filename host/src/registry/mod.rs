//! The registry: which tasks are deployed, in which versions, with which settings and components.
//!
//! `data/tasks-v1.json` holds names, versions and settings; `data/components/sha256/` the
//! components; `data/symbols/sha256/` what was added later to explain their backtraces. [`Registry`] is a handle of both; [`Tasks`] is what was deployed at one moment.
//!
//! Invariants:
//! - the file is replaced atomically under `data/tasks.lock`, so a reader or a crash sees the old
//!   tasks or the new ones;
//! - a component is durable before a version names it, and stays until after the last one that does;
//! - what a deploy acknowledged is durable;
//! - a damaged file or one of another format is never taken for "no tasks", and is touched by nothing but
//!   a repair, which sets it aside;
//! - `data/tasks-v1.copy.json` has at every moment what was acknowledged: it is written first. While the
//!   file itself is damaged, reading goes on with the copy and nothing can be changed.
//!
//! Deliberately absent: what components export; running them; collecting unused ones; the clock.

mod check;
mod close;
mod components;
mod error;
mod file;
mod state;
mod symbols;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wasmq_core::{Digest, TaskName, Timestamp, VersionNumber};
use wasmq_wal::disk::{Disk, DiskLock, EntryKind, OpenMode, Stat, Wait, sweep_temporaries, write_atomically};

pub use check::{check, mend};
#[cfg(test)]
pub use components::digest_of;
pub use error::{RegistryError, Unresolved};
pub use state::{Activated, Deployed, NewVersion};
pub use tasks::{Resolved, Task, Tasks, Version};

use state::State;

const FILE_NAME: &str = "tasks-v1.json";
const COPY_NAME: &str = "tasks-v1.copy.json";
const LOCK_NAME: &str = "tasks.lock";

/// A handle of the registry in a data directory. Any number of handles, threads and processes may
/// use one at the same time.
#[derive(Debug)]
pub struct Registry {
    disk: Arc<dyn Disk>,
    data_dir: PathBuf,
    path: PathBuf,
    loaded: Mutex<Loaded>,
    /// A write failed after the new file may have got the name: the next one writes in any case.
    in_doubt: AtomicBool,
}

/// What was read last, and what the file looked like.
#[derive(Debug, Default)]
struct Loaded {
    /// `None` before the first look, `Some(None)` when there was no file.
    stamp: Option<Option<Stat>>,
    tasks: Tasks,
}

impl Registry {
    /// The registry of a data directory. Nothing is created before the first write.
    ///
    /// # Errors
    /// Another version of wasmq wrote the registry, or the directory cannot be read.
    pub fn open(disk: Arc<dyn Disk>, data_dir: &Path) -> Result<Self, RegistryError> {
        refuse_other_formats(&*disk, data_dir)?;
        Ok(Self::unchecked(disk, data_dir))
    }

    /// The same without a look at the directory.
    fn unchecked(disk: Arc<dyn Disk>, data_dir: &Path) -> Self {
        Self {
            disk,
            data_dir: data_dir.to_owned(),
            path: data_dir.join(FILE_NAME),
            loaded: Mutex::default(),
            in_doubt: AtomicBool::new(false),
        }
    }

    /// What is deployed now. Without a file there are no tasks. The file is read only if it has
    /// changed since the last look of this handle.
    ///
    /// # Errors
    /// The file cannot be read, is damaged or of another format.
    pub fn tasks(&self) -> Result<Tasks, RegistryError> {
        let stamp = self.disk.stat(&self.path).map_err(RegistryError::io("looking at", &self.path))?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.stamp != Some(stamp) {
            let tasks = self.read_or_copy()?.into_tasks();
            *loaded = Loaded { stamp: Some(stamp), tasks };
        }
        Ok(loaded.tasks.clone())
    }

    /// What is wrong with the file, although its copy may be read instead.
    #[must_use]
    pub fn damage(&self) -> Option<RegistryError> {
        match self.read_file(&self.path) {
            Ok(Some(_)) => None,
            Ok(None) => matches!(self.read_file(&self.copy_path()), Ok(Some(_)))
                .then(|| RegistryError::Missing { path: self.path.clone() }),
            Err(error) => Some(error),
        }
    }

    /// Brings a snapshot up to date; returns whether it changed. Costs one look at the file's
    /// inode, time and length when it did not.
    ///
    /// # Errors
    /// As [`Registry::tasks`]; the snapshot stays as it was.
    pub fn refresh_if_changed(&self, tasks: &mut Tasks) -> Result<bool, RegistryError> {
        let now = self.tasks()?;
        let changed = !now.is_same(tasks);
        *tasks = now;
        Ok(changed)
    }

    /// Where a component is or would be.
    #[must_use]
    pub fn component_path(&self, digest: &Digest) -> PathBuf {
        components::path_of(&self.data_dir, digest)
    }

    /// Stores a component durably. One that is there is verified, and repaired when it is damaged.
    /// Returns whether it was written.
    ///
    /// # Errors
    /// The bytes have another digest, or the disk is full or fails.
    pub fn store_component(&self, bytes: &[u8], digest: &Digest) -> Result<bool, RegistryError> {
        let _lock = self.lock()?;
        components::store(&*self.disk, &self.component_path(digest), bytes, digest)
    }

    /// The bytes of a component, verified.
    ///
    /// # Errors
    /// It is missing or damaged, or the disk fails.
    pub fn load_component(&self, digest: &Digest) -> Result<Vec<u8>, RegistryError> {
        components::load(&*self.disk, &self.component_path(digest), digest)
    }

    /// The components whose files are there, deployed or not, in order.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn components(&self) -> Result<Vec<Digest>, RegistryError> {
        components::digests_in(&*self.disk, &components::dir_of(&self.data_dir))
    }

    /// Keeps symbols of a component durably, in place of those that are there. Returns whether there were any.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn store_symbols(&self, bytes: &[u8], digest: &Digest) -> Result<bool, RegistryError> {
        let _lock = self.lock()?;
        symbols::store(&*self.disk, &symbols::path_of(&self.data_dir, digest), bytes, digest)
    }

    /// The symbols of a component, verified; none when none were added.
    ///
    /// # Errors
    /// They are damaged, or the disk fails.
    pub fn load_symbols(&self, digest: &Digest) -> Result<Option<Vec<u8>>, RegistryError> {
        symbols::load(&*self.disk, &symbols::path_of(&self.data_dir, digest), digest)
    }

    /// Removes the symbols of a component durably, damaged or not. Returns whether there were any.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove_symbols(&self, digest: &Digest) -> Result<bool, RegistryError> {
        let _lock = self.lock()?;
        symbols::remove(&*self.disk, &symbols::path_of(&self.data_dir, digest))
    }

    /// The components that have symbols, in order.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn with_symbols(&self) -> Result<Vec<Digest>, RegistryError> {
        symbols::all(&*self.disk, &self.data_dir)
    }

    /// Deploys a component that has been stored as a version of a task. The same component with the
    /// same settings is no new version, but gets the label and becomes current as asked.
    ///
    /// # Errors
    /// The component was not stored, the file is damaged, or the disk is full or fails.
    pub fn deploy(
        &self,
        name: &TaskName,
        new: NewVersion,
        activate: bool,
        now: Timestamp,
    ) -> Result<Deployed, RegistryError> {
        let _lock = self.lock()?;
        let component = self.component_path(&new.digest);
        let stat = self.disk.stat(&component).map_err(RegistryError::io("looking at", &component))?;
        let Some(stat) = stat else {
            return Err(RegistryError::ComponentMissing { digest: new.digest, path: component });
        };
        self.change_locked(|state| Ok(state.deploy(name, new, stat.len, activate, now)))
    }

    /// Makes the version current that a text chooses (see [`Task::choose`]).
    ///
    /// # Errors
    /// There is no such task or version, or as [`Registry::deploy`].
    pub fn activate(&self, name: &TaskName, choice: &str) -> Result<Activated, RegistryError> {
        self.change(|state| state.activate(name, choice))
    }

    /// Removes a task; returns it as it was. Its components stay, and its version numbers are not
    /// given out again.
    ///
    /// # Errors
    /// There is no such task, or as [`Registry::deploy`].
    pub fn remove(&self, name: &TaskName) -> Result<Task, RegistryError> {
        self.change(|state| state.remove(name))
    }

    /// Removes versions of a task, and then the components that no version of any task has any more, with
    /// their symbols. The current version and the latest one stay, so that numbers are not given out again.
    /// Returns what was removed. Whoever is interrupted may leave components that nothing needs.
    ///
    /// # Errors
    /// There is no such task, or as [`Registry::deploy`].
    pub fn remove_versions(
        &self,
        name: &TaskName,
        numbers: &BTreeSet<VersionNumber>,
    ) -> Result<Vec<Version>, RegistryError> {
        let _lock = self.lock()?;
        let (removed, unused) = self.change_locked(|state| state.remove_versions(name, numbers))?;
        for digest in unused {
            symbols::remove(&*self.disk, &symbols::path_of(&self.data_dir, &digest))?;
            components::remove(&*self.disk, &self.component_path(&digest))?;
        }
        Ok(removed)
    }

    /// The version that a text chooses among those of a task (see [`Task::choose`]).
    ///
    /// # Errors
    /// There is no such task or version, or as [`Registry::tasks`].
    pub fn choose(&self, name: &TaskName, text: &str) -> Result<Version, RegistryError> {
        Ok(self.tasks()?.choose(name, text)?.clone())
    }

    fn lock(&self) -> Result<Box<dyn DiskLock>, RegistryError> {
        let lock = self.try_lock(Wait::Forever)?;
        lock.ok_or_else(|| RegistryError::io("locking", &self.path)(std::io::ErrorKind::WouldBlock.into()))
    }

    /// Takes the lock of all writers; `None` when another has it as long as this waits.
    fn try_lock(&self, wait: Wait) -> Result<Option<Box<dyn DiskLock>>, RegistryError> {
        self.disk.create_dir_all(&self.data_dir).map_err(RegistryError::io("creating", &self.data_dir))?;
        let path = self.data_dir.join(LOCK_NAME);
        let lock = self.disk.lock(&path, wait).map_err(RegistryError::io("locking", &path))?;
        if lock.is_some() {
            self.sweep();
        }
        Ok(lock)
    }

    /// Removes what writers left that died. All of them hold the lock, as the caller does.
    fn sweep(&self) {
        let (components, symbols) = (components::dir_of(&self.data_dir), symbols::dir_of(&self.data_dir));
        let swept = sweep_temporaries(&*self.disk, &self.data_dir, is_file_or_copy)
            .and_then(|_| sweep_temporaries(&*self.disk, &components, components::is_file_name))
            .and_then(|_| sweep_temporaries(&*self.disk, &symbols, components::is_file_name));
        if let Err(error) = swept {
            tracing::warn!(dir = %self.data_dir.display(), %error, "leftovers of an interrupted deploy could not be removed");
        }
    }

    /// The state that a change begins with, and whether the file itself has it. Without a file it is that of
    /// the copy, which the first deploy left when it was interrupted.
    fn read_to_change(&self) -> Result<(State, bool), RegistryError> {
        match self.read_file(&self.path)? {
            Some(state) => Ok((state, true)),
            None => Ok((self.read_file(&self.copy_path())?.unwrap_or_default(), false)),
        }
    }

    /// The state to go on with for who only reads.
    fn read_or_copy(&self) -> Result<State, RegistryError> {
        let error = match self.read_file(&self.path) {
            Ok(Some(state)) => return Ok(state),
            Ok(None) => return Ok(self.read_file(&self.copy_path()).ok().flatten().unwrap_or_default()),
            Err(error) if error.is_damage() => error,
            Err(error) => return Err(error),
        };
        match self.read_file(&self.copy_path()) {
            Ok(Some(state)) => {
                tracing::error!(%error, copy = %self.copy_path().display(), "the registry is damaged; its copy is used");
                Ok(state)
            }
            _ => Err(error),
        }
    }

    /// What the file or its copy holds; `None` when there is none.
    fn read_file(&self, path: &Path) -> Result<Option<State>, RegistryError> {
        match self.disk.stat(path).map_err(RegistryError::io("looking at", path))? {
            None => return Ok(None),
            Some(found) if found.kind != EntryKind::File => {
                return Err(RegistryError::NotAFile { path: path.to_owned() });
            }
            Some(_) => {}
        }
        let file = match self.disk.open(path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(RegistryError::io("opening", path))?,
        };
        let bytes = file.read_all().map_err(RegistryError::io("reading", path))?;
        file::decode(&bytes, path).map(Some)
    }

    fn copy_path(&self) -> PathBuf {
        self.data_dir.join(COPY_NAME)
    }

    /// Makes a state durable, in the copy first.
    fn write(&self, state: &State) -> Result<(), RegistryError> {
        self.write_to(&self.copy_path(), state)?;
        self.write_to(&self.path, state)
    }

    fn write_to(&self, path: &Path, state: &State) -> Result<(), RegistryError> {
        let bytes = file::encode(state).map_err(|error| RegistryError::io("writing", path)(error.into()))?;
        write_atomically(&*self.disk, path, &bytes).map_err(RegistryError::io("writing", path))
    }

    /// Changes the file under the lock and makes the change durable.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> Result<T, Unresolved>) -> Result<T, RegistryError> {
        let _lock = self.lock()?;
        self.change_locked(change)
    }

    /// The same for who has the lock.
    fn change_locked<T>(&self, change: impl FnOnce(&mut State) -> Result<T, Unresolved>) -> Result<T, RegistryError> {
        refuse_other_formats(&*self.disk, &self.data_dir)?;
        let (before, is_there) = self.read_to_change()?;
        let mut after = before.clone();
        let answer = change(&mut after)?;
        if after == before && is_there && !self.in_doubt.load(Ordering::Relaxed) {
            // Whoever wrote what is there may have died before this step.
            let dir = &self.data_dir;
            self.disk.sync_dir(dir).map_err(RegistryError::io("syncing", dir))?;
            return Ok(answer);
        }
        self.in_doubt.store(true, Ordering::Relaxed);
        self.write(&after)?;
        self.in_doubt.store(false, Ordering::Relaxed);
        Ok(answer)
    }
}

/// Whether a name is that of the file or its copy.
fn is_file_or_copy(name: &str) -> bool {
    matches!(name, FILE_NAME | COPY_NAME)
}

/// A `tasks-v<N>.json` with another N belongs to another version of wasmq.
fn refuse_other_formats(disk: &dyn Disk, data_dir: &Path) -> Result<(), RegistryError> {
    if disk.stat(data_dir).map_err(RegistryError::io("looking at", data_dir))?.is_none() {
        return Ok(());
    }
    for entry in disk.list(data_dir).map_err(RegistryError::io("listing", data_dir))? {
        let name = entry.name.to_string_lossy();
        let number = name.strip_prefix("tasks-v").and_then(|rest| rest.strip_suffix(".json"));
        if let Some(found) = number.and_then(|text| text.parse().ok()).filter(|found| *found != file::FORMAT) {
            return Err(RegistryError::OtherFormat { path: data_dir.join(&entry.name), found, known: file::FORMAT });
        }
    }
    Ok(())
}
