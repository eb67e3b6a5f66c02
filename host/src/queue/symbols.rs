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
use crate::runtime::{accept, check_outside};
use crate::symbols::{self, Contents};

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
    pub contents: Contents,
    /// How many core modules with code the component has.
    pub modules: usize,
    /// For how many of them there is something.
    pub described: usize,
    /// Whether others were replaced.
    pub replaced: bool,
    /// How much is kept, in bytes.
    pub size_bytes: u64,
}

/// Symbols that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptSymbols {
    /// Of which component.
    pub component: Digest,
    /// The versions that have it.
    pub versions: Vec<(TaskName, VersionNumber)>,
    /// What they have; absent when they are damaged.
    pub contents: Option<Contents>,
    /// How much is kept, in bytes.
    pub size_bytes: u64,
}

/// What the backtraces of a component have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Explained {
    /// From the component itself.
    #[serde(flatten)]
    pub own: Contents,
    /// From symbols that were added.
    pub symbols: Option<Contents>,
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
        check_outside(file)?;
        let registry = &self.inner.registry;
        let bytes = registry.load_component(&component)?;
        let found = symbols::matched(&bytes, component, file).or_else(|refused| match accept(file) {
            // A core module is deployed as the component that is made of it.
            Ok(adapted) if adapted.module.is_some() => symbols::matched(&bytes, component, &adapted.component),
            _ => Err(refused),
        })?;
        let replaced = registry.store_symbols(&found.packed, &component)?;
        Ok(AddedSymbols {
            component,
            contents: found.contents,
            modules: found.modules,
            described: found.described,
            replaced,
            size_bytes: found.packed.len() as u64,
        })
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
            let bytes = self.inner.symbols_of(&component);
            KeptSymbols {
                component,
                versions: versions(component),
                contents: bytes.as_deref().map(symbols::packed_contents),
                size_bytes: bytes.map_or(0, |bytes| bytes.len() as u64),
            }
        };
        Ok(registry.with_symbols()?.into_iter().map(kept).collect())
    }

    /// What the backtraces of a component have; nothing when its file cannot be read.
    #[must_use]
    pub fn explained(&self, component: &Digest) -> Explained {
        let bytes = self.inner.registry.load_component(component).unwrap_or_default();
        let symbols = self.inner.symbols_of(component);
        Explained { own: symbols::contents(&bytes), symbols: symbols.as_deref().map(symbols::packed_contents) }
    }
}

impl Inner {
    /// The component that begins like this.
    fn find_digest(&self, text: &str) -> Result<Digest, QueueError> {
        let mut known = self.registry.components()?;
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
