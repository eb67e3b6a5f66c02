//! From a digest to something that can be run: from memory, from the cache on disk, or compiled.
//!
//! Invariants: what is prepared under a digest was compiled from bytes with that digest. Imports
//! and the type of the export are checked here, once, so that an attempt only instantiates and calls.

use std::io;
use std::sync::{Arc, PoisonError};

use sha2::{Digest as _, Sha256};
use wasmq_core::Digest;
use wasmtime::component::Component;
use wasmtime_wasi::p2::bindings::CommandPre;

use super::bindings::TaskPre;
use super::state::State;
use super::{Runtime, Shape};

/// A component that is ready to be run.
pub(crate) struct Prepared {
    digest: Digest,
    pub(super) program: Program,
}

/// The two shapes of a task.
pub(super) enum Program {
    Typed(TaskPre<State>),
    Command(CommandPre<State>),
}

impl Prepared {
    /// Which export is called.
    #[must_use]
    pub(crate) const fn shape(&self) -> Shape {
        match self.program {
            Program::Typed(_) => Shape::Typed,
            Program::Command(_) => Shape::Command,
        }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("digest", &self.digest.to_string()).field("shape", &self.shape()).finish()
    }
}

/// Why a component cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// The file could not be read.
    #[error("cannot read the component {digest}")]
    Read {
        /// What was wanted.
        digest: Digest,
        /// What the disk said.
        #[source]
        source: io::Error,
    },
    /// The bytes are not those of the digest.
    #[error("component file damaged: expected {expected}, its bytes are {found}; deploy the component again")]
    Damaged {
        /// What was wanted.
        expected: Digest,
        /// What was there.
        found: Digest,
    },
    /// The engine cannot compile it, or it is larger than the pool allows.
    #[error("the engine cannot compile {digest}: {reason}")]
    Compile {
        /// The component.
        digest: Digest,
        /// The engine's sentence.
        reason: String,
    },
    /// It imports something the host does not have, or exports the entry point with another type.
    #[error("the component {digest} does not fit this host: {reason}; `wasmq check` says more")]
    Link {
        /// The component.
        digest: Digest,
        /// The engine's sentence.
        reason: String,
    },
}

impl Runtime {
    /// Makes a component ready to be run. The first time for a digest this loads compiled code from
    /// the cache (milliseconds) or compiles (up to many seconds, on several threads) and fills the
    /// cache; after that it is a look into a map. Blocks, so call it where blocking is allowed.
    ///
    /// `load` gives the bytes of the component and is only called when it has to be compiled.
    ///
    /// # Errors
    /// See [`PrepareError`]. A cache that is damaged or cannot be written is not an error.
    pub(crate) fn prepare(
        &self,
        digest: Digest,
        load: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        if let Some(prepared) = self.prepared(digest) {
            return Ok(prepared);
        }
        let component = match self.cache.as_ref().and_then(|cache| cache.load(&self.engine, digest)) {
            Some(component) => component,
            None => {
                let _only_one = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(prepared) = self.prepared(digest) {
                    return Ok(prepared);
                }
                let component = self.compile(digest, load)?;
                // Kept while the lock is held, so that whoever waits for it finds it.
                return self.keep(digest, &component);
            }
        };
        self.keep(digest, &component)
    }

    /// Whether a digest is ready, without doing anything about it.
    #[must_use]
    pub(crate) fn prepared(&self, digest: Digest) -> Option<Arc<Prepared>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    /// Lets go of a component, on disk too: what was compiled of it. It can be prepared again.
    pub(crate) fn discard(&self, digest: Digest) {
        self.forget(digest);
        self.cache.iter().for_each(|cache| cache.remove(digest));
    }

    /// Lets go of a component. Attempts that run it are not disturbed; the cache on disk stays.
    pub(crate) fn forget(&self, digest: Digest) {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest);
    }

    fn keep(&self, digest: Digest, component: &Component) -> Result<Arc<Prepared>, PrepareError> {
        let program =
            self.link(component).map_err(|error| PrepareError::Link { digest, reason: format!("{error:#}") })?;
        let prepared = Arc::new(Prepared { digest, program });
        let mut map = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(map.entry(digest).or_insert(prepared)))
    }

    fn compile(
        &self,
        digest: Digest,
        load: &mut dyn FnMut() -> io::Result<Vec<u8>>,
    ) -> Result<Component, PrepareError> {
        let bytes = load().map_err(|source| PrepareError::Read { digest, source })?;
        let found = digest_of(&bytes);
        if found != digest {
            return Err(PrepareError::Damaged { expected: digest, found });
        }
        let compiled = Component::new(&self.engine, &bytes);
        let component = compiled.map_err(|error| PrepareError::Compile { digest, reason: format!("{error:#}") })?;
        let Some(cache) = &self.cache else { return Ok(component) };
        cache.store(digest, &component);
        // The mapped file takes less memory than the fresh code and shares its pages with other workers.
        Ok(cache.load(&self.engine, digest).unwrap_or(component))
    }

    fn link(&self, component: &Component) -> wasmtime::Result<Program> {
        let instance = self.linker.instantiate_pre(component)?;
        // A component that has both entry points is a typed task that can also be tried by hand.
        if component.get_export_index(None, "wasmq:task/handler@0.1.0").is_some() {
            return Ok(Program::Typed(TaskPre::new(instance)?));
        }
        Ok(Program::Command(CommandPre::new(instance)?))
    }
}

/// The digest of a component's bytes.
pub(super) fn digest_of(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}
