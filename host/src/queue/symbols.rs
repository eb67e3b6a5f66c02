//! Symbols: names and lines for the backtraces of components that were deployed without them.
//!
//! Invariants: symbols are kept beside a component and never change it, nor what is stored of its dead tasks;
//! they are looked into when a failure is shown. Whatever is wrong with them, the failure is shown without.

use serde::Serialize;
use wasmq_core::report::FailureReport;
use wasmq_core::{DeadTask, Digest, TaskName, VersionNumber};

use super::{Completion, Inner, Queue, QueueError};
use crate::causes::error_chain;
use crate::config::close::close_names;
use crate::registry::RegistryError;
use crate::runtime::{accept, check_outside};
use crate::symbols::{self, Contents, Described, MAX_SYMBOLS_BYTES, Matched, SymbolsRefused};

/// How a component is named where no task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentName {
    /// `sha256:` and at least 12 hex digits, of any component that is in the store.
    Digest(String),
    /// A version of a task: `current`, `v2`, a label, or a digest.
    Version {
        /// The task.
        task: TaskName,
        /// The version.
        version: String,
    },
}

/// Symbols that were added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddedSymbols {
    /// For which component.
    pub component: Digest,
    /// What they have.
    #[serde(flatten)]
    pub described: Described,
    /// Whether others were replaced.
    pub replaced: bool,
    /// How much is kept, in bytes.
    pub size_bytes: u64,
}

/// Symbols that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSymbols {
    /// Of which component.
    pub component: Digest,
    /// The versions that have it.
    pub versions: Vec<(TaskName, VersionNumber)>,
    /// What there is of them.
    pub state: KeptState,
}

/// What there is of symbols that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptState {
    /// They are as they were written.
    Whole {
        /// What they have.
        described: Described,
        /// How much is kept, in bytes.
        size_bytes: u64,
    },
    /// They are not what was written.
    Damaged,
    /// The disk does not give them.
    Unreadable {
        /// Why, in a sentence.
        why: String,
    },
}

/// What the backtraces of a component have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Explained {
    /// From the component itself; absent when it cannot be read.
    pub own: Option<Contents>,
    /// From symbols that were added.
    pub symbols: Option<Described>,
}

impl Queue {
    /// The component that a name means.
    ///
    /// # Errors
    /// [`QueueError::Unresolved`], [`QueueError::UnknownComponent`], [`QueueError::AmbiguousComponent`], or
    /// when the registry cannot be read.
    pub fn find_component(&self, name: &ComponentName) -> Result<Digest, QueueError> {
        match name {
            ComponentName::Version { task, version } => Ok(self.inner.choose(task, version)?.digest),
            ComponentName::Digest(text) => self.inner.find_digest(text),
        }
    }

    /// Adds symbols for a component: an unstripped build of the same code, as a component or a core module.
    /// They take the place of those that were added before.
    ///
    /// # Errors
    /// [`QueueError::Refused`] when the file is no wasm, [`QueueError::SymbolsRefused`] when it is of other code
    /// or says nothing; or the component cannot be read, or the disk is full or fails.
    pub fn add_symbols(&self, component: Digest, file: &[u8]) -> Result<AddedSymbols, QueueError> {
        self.inner.refuse_place()?;
        if file.len() as u64 > MAX_SYMBOLS_BYTES {
            return Err(SymbolsRefused::TooLarge { limit_bytes: MAX_SYMBOLS_BYTES }.into());
        }
        check_outside(file)?;
        let registry = &self.inner.registry;
        let found = matched(&registry.load_component(&component)?, component, file)?;
        let replaced = registry.store_symbols(&found.packed, &component)?;
        let size_bytes = found.packed.len() as u64;
        Ok(AddedSymbols { component, described: found.described, replaced, size_bytes })
    }

    /// Removes the symbols of a component.
    ///
    /// # Errors
    /// [`QueueError::NoSymbols`], or the disk fails.
    pub fn remove_symbols(&self, component: Digest) -> Result<(), QueueError> {
        self.inner.refuse_place()?;
        // Looked at first: removing takes a lock, which makes the directory that it lies in.
        let is_there = self.inner.registry.with_symbols()?.contains(&component);
        if is_there && self.inner.registry.remove_symbols(&component)? {
            return Ok(());
        }
        Err(QueueError::NoSymbols(component))
    }

    /// All symbols that are kept, by component.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn symbols(&self) -> Result<Vec<KeptSymbols>, QueueError> {
        let registry = &self.inner.registry;
        let tasks = registry.tasks()?;
        let versions = |component: Digest| {
            let of_task = move |task: &crate::registry::Task| {
                let versions = task.versions.iter().filter(move |version| version.digest == component);
                versions.map(|version| (task.name.clone(), version.number)).collect::<Vec<_>>()
            };
            tasks.iter().flat_map(of_task).collect()
        };
        let kept = |component: Digest| {
            let state = kept_state(registry.load_symbols(&component))?;
            Some(KeptSymbols { component, versions: versions(component), state })
        };
        Ok(registry.with_symbols()?.into_iter().filter_map(kept).collect())
    }

    /// What the backtraces of a component have.
    #[must_use]
    pub fn explained(&self, component: &Digest) -> Explained {
        let bytes = self.inner.registry.load_component(component).inspect_err(|error| {
            tracing::warn!(error = error_chain(error), "what the backtraces of a component have is not known");
        });
        let symbols = self.inner.symbols_of(component);
        Explained {
            own: bytes.ok().map(|bytes| symbols::contents(&bytes)),
            symbols: symbols.as_deref().map(symbols::packed),
        }
    }
}

/// What a file describes of a component. A core module is deployed as the component that is made of it.
fn matched(bytes: &[u8], component: Digest, file: &[u8]) -> Result<Matched, SymbolsRefused> {
    let refused = match symbols::matched(bytes, component, file) {
        Err(refused @ SymbolsRefused::OtherCode { .. }) => refused,
        found => return found,
    };
    match accept(file) {
        Ok(adapted) if adapted.module.is_some() => symbols::matched_adapted(bytes, component, &adapted.component),
        _ => Err(refused),
    }
}

/// What there is of symbols; nothing when they were removed in the meantime.
fn kept_state(loaded: Result<Option<Vec<u8>>, RegistryError>) -> Option<KeptState> {
    Some(match loaded {
        Ok(bytes) => {
            let bytes = bytes?;
            KeptState::Whole { described: symbols::packed(&bytes), size_bytes: bytes.len() as u64 }
        }
        Err(RegistryError::SymbolsDamaged { .. }) => KeptState::Damaged,
        Err(error) => KeptState::Unreadable { why: error_chain(&error) },
    })
}

impl Inner {
    /// The component that begins like this, of those that are stored, deployed or described.
    fn find_digest(&self, text: &str) -> Result<Digest, QueueError> {
        let mut known = self.registry.components()?;
        known.extend(self.registry.with_symbols()?);
        let tasks = self.registry.tasks()?;
        known.extend(tasks.iter().flat_map(|task| &task.versions).map(|version| version.digest));
        known.sort_unstable();
        known.dedup();
        let text = text.to_ascii_lowercase();
        let names: Vec<String> = known.iter().map(ToString::to_string).collect();
        let found: Vec<Digest> =
            known.iter().zip(&names).filter(|(_, name)| name.starts_with(&text)).map(|(digest, _)| *digest).collect();
        match found.as_slice() {
            [digest] => Ok(*digest),
            [] => {
                let beginnings = names.iter().filter_map(|name| name.get(..text.len()));
                let close = close_names(&text, beginnings).into_iter().map(str::to_owned).collect();
                Err(QueueError::UnknownComponent { text, close })
            }
            _ => Err(QueueError::AmbiguousComponent { text, components: found }),
        }
    }

    /// A dead task with what symbols have for its backtrace.
    pub(super) fn explain_dead(&self, mut dead: DeadTask) -> DeadTask {
        self.explain(&dead.component, &mut dead.failure);
        dead
    }

    /// The end of an invocation with what symbols have for its backtrace.
    pub(super) fn explain_end(&self, mut completion: Completion) -> Completion {
        if let (Some(component), Some(failure)) = (&completion.component, &mut completion.failure) {
            self.explain(component, failure);
        }
        completion
    }

    /// Adds to the backtrace of a failure what the symbols of its component have.
    pub(super) fn explain(&self, component: &Digest, failure: &mut FailureReport) {
        if let Some(trap) = &mut failure.trap
            && let Some(symbols) = self.symbols_of(component)
        {
            symbols::resolve(trap, &symbols);
        }
    }

    /// The symbols of a component. A failure has to be shown also when they cannot be read.
    fn symbols_of(&self, component: &Digest) -> Option<Vec<u8>> {
        self.registry.load_symbols(component).unwrap_or_else(|error| {
            tracing::warn!(error = error_chain(&error), "the backtraces of this component are shown without symbols");
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use wasmq_wal::disk::SimDisk;

    use super::super::tests::{deploy, open};
    use super::*;
    use crate::symbols::samples::{stripped, wasm};

    /// A program of wasip1, whose code is changed when it is made a component.
    const PROGRAM: &str = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1) (func $start (export "_start") (call $exit (i32.const 65))))"#;

    #[test]
    fn a_stripped_core_module_is_refused_and_what_was_added_stays() {
        let queue = open(&SimDisk::new()).unwrap();
        let program = wasm(PROGRAM);
        let adapted = accept(&program).unwrap().component.into_owned();
        let bare = accept(&stripped(&program)).unwrap().component.into_owned();
        for component in [stripped(&adapted), bare] {
            let digest = deploy(&queue, &component);
            let added = queue.add_symbols(digest, &program).unwrap();
            assert!(added.described.contents.names && added.described.described == 1, "{added:?}");
            let refused = queue.add_symbols(digest, &stripped(&program)).unwrap_err();
            assert!(matches!(refused, QueueError::SymbolsRefused(SymbolsRefused::Stripped { .. })), "{refused}");
            let kept = queue.explained(&digest).symbols.unwrap();
            assert_eq!(kept, added.described);
        }
    }

    #[test]
    fn symbols_of_a_component_that_is_gone_are_listed_and_removed_by_its_digest() {
        let queue = open(&SimDisk::new()).unwrap();
        let gone = Digest::new([9; 32]);
        queue.inner.registry.store_symbols(b"of a component that is gone", &gone).unwrap();
        let found = queue.find_component(&ComponentName::Digest(gone.to_string())).unwrap();
        assert_eq!((found, queue.symbols().unwrap().len()), (gone, 1));
        queue.remove_symbols(found).unwrap();
        assert_eq!(queue.symbols().unwrap(), []);
    }

    #[test]
    fn a_disk_that_fails_is_not_called_damage_and_what_was_just_removed_is_not_listed() {
        let path = std::path::PathBuf::from("/data/symbols");
        let denied = RegistryError::Io {
            doing: "reading",
            path: path.clone(),
            source: std::io::ErrorKind::PermissionDenied.into(),
        };
        let Some(KeptState::Unreadable { why }) = kept_state(Err(denied)) else { panic!("it is not read") };
        assert!(why.contains("permission denied"), "{why}");
        let damaged = RegistryError::SymbolsDamaged { digest: Digest::new([9; 32]), path };
        assert_eq!(kept_state(Err(damaged)), Some(KeptState::Damaged));
        assert_eq!(kept_state(Ok(None)), None);
    }

    #[test]
    fn a_component_that_cannot_be_read_is_not_called_nameless() {
        let queue = open(&SimDisk::new()).unwrap();
        assert_eq!(queue.explained(&Digest::new([9; 32])).own, None);
        let digest = deploy(&queue, &stripped(&wasm(PROGRAM)));
        assert_eq!(queue.explained(&digest).own, Some(Contents::default()));
    }
}
