//! Components on their way into memory: loaded from the compile cache, or compiled when the cache
//! does not have them, on a thread of its own.
//!
//! Invariant: nothing waits for a compilation but the invocations that need that component.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use wasmq_core::Digest;

use super::figures::BrokenComponent;
use super::keeper::Command;
use crate::causes::error_chain;
use crate::journal::Claim;
use crate::registry::Registry;
use crate::runtime::{Prepared, Runtime};

/// What came of loading a component.
pub struct Loaded {
    digest: Digest,
    result: Result<Arc<Prepared>, String>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("digest", &self.digest).field("ok", &self.result.is_ok()).finish()
    }
}

enum State {
    Loading(Vec<Claim>),
    Ready(Arc<Prepared>),
    Broken(String),
}

/// What the keeper hears when it asks for a component.
pub(super) enum Ask {
    /// Here it is.
    Ready(Arc<Prepared>),
    /// It is on its way; the claim waits for it.
    Loading,
    /// It cannot be loaded; only a deploy helps.
    Broken,
}

/// The components a worker knows.
pub(super) struct Components {
    states: HashMap<Digest, State>,
    loader: Sender<Digest>,
}

impl Components {
    pub(super) fn new(loader: Sender<Digest>) -> Self {
        Self { states: HashMap::new(), loader }
    }

    pub(super) fn ask(&mut self, digest: Digest, claim: Claim) -> Ask {
        match self.states.get_mut(&digest) {
            Some(State::Ready(prepared)) => Ask::Ready(Arc::clone(prepared)),
            Some(State::Broken(_)) => Ask::Broken,
            Some(State::Loading(waiting)) => {
                waiting.push(claim);
                Ask::Loading
            }
            None => {
                let _ = self.loader.send(digest);
                self.states.insert(digest, State::Loading(vec![claim]));
                Ask::Loading
            }
        }
    }

    /// Notes what came of loading. Returns the claims that waited for it.
    pub(super) fn settle(&mut self, loaded: Loaded) -> Vec<Claim> {
        let state = match loaded.result {
            Ok(prepared) => State::Ready(prepared),
            Err(error) => {
                tracing::error!(digest = %loaded.digest, error, "a component cannot be loaded; its invocations wait for a deploy");
                State::Broken(error)
            }
        };
        match self.states.insert(loaded.digest, state) {
            Some(State::Loading(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// A component that turned out not to be instantiable.
    pub(super) fn broke(&mut self, digest: Digest, reason: &str) {
        tracing::error!(%digest, reason, "a component cannot be instantiated; its invocations wait for a deploy");
        self.states.insert(digest, State::Broken(reason.to_owned()));
    }

    /// Those that cannot be used, and why.
    pub(super) fn broken(&self) -> Vec<BrokenComponent> {
        let broken = |(digest, state): (&Digest, &State)| match state {
            State::Broken(reason) => Some(BrokenComponent { digest: *digest, reason: reason.clone() }),
            State::Loading(_) | State::Ready(_) => None,
        };
        self.states.iter().filter_map(broken).collect()
    }

    /// After a deploy, and now and then, what was broken may be repaired. Returns whether any was.
    pub(super) fn forget_broken(&mut self) -> bool {
        let before = self.states.len();
        self.states.retain(|_, state| !matches!(state, State::Broken(_)));
        self.states.len() < before
    }
}

/// Runs until the keeper is gone.
pub(super) fn run(
    runtime: &Arc<Runtime>,
    registry: &Arc<Registry>,
    digests: &Receiver<Digest>,
    keeper: &Sender<Command>,
) {
    for digest in digests {
        let mut load = || registry.load_component(&digest).map_err(std::io::Error::other);
        let result = runtime.prepare(digest, &mut load).map_err(|error| error_chain(&error));
        if keeper.send(Command::Loaded(Loaded { digest, result })).is_err() {
            return;
        }
    }
}
