//! Runs task components: inspects, compiles and caches them, and executes one attempt at a time or
//! many at once in a sandbox.
//!
//! Invariants: a failing guest is a value ([`Verdict`](wasmq_core::Verdict)), never an error of the
//! host. An attempt gets a fresh instance, sees nothing that was not granted, and ends at its
//! deadline. What it observed that can differ between attempts is recorded, so that a failure can be
//! called deterministic.
//!
//! Deliberately absent: retries, the queue, the data directory (only the cache of compiled code, in
//! a directory that the caller names), HTTP.
//!
//! | file | its one duty |
//! |---|---|
//! | `engine.rs` | engine settings, the instance pool |
//! | `ticker.rs` | interrupts guests every 10 ms |
//! | `inspect.rs`, `validate.rs`, `rejection.rs` | what a `.wasm` file is, without compiling it |
//! | `adapt.rs`, `rewrite.rs`, `program_break.rs`, `heap_end.rs` | core modules turned into components |
//! | `cache.rs` | compiled code on disk |
//! | `prepare.rs` | from a digest to something that can be run |
//! | `offered.rs`, `linker.rs`, `wasi.rs`, `exit.rs`, `host_impl.rs`, `stdio.rs` | what a guest can call |
//! | `state.rs`, `observed.rs`, `guest_log.rs`, `limits.rs` | what one attempt carries |
//! | `attempt.rs`, `drive.rs` | one attempt from start to report |
//! | `failure.rs`, `trap.rs` | from the end of a guest to a verdict |

mod adapt;
mod attempt;
mod bindings;
mod cache;
mod drive;
mod engine;
mod exit;
mod failure;
mod guest_log;
mod heap_end;
mod host_impl;
mod inspect;
mod limits;
mod linker;
mod observed;
mod offered;
mod prepare;
mod program_break;
mod rejection;
mod rewrite;
mod signals;
mod state;
mod stdio;
mod ticker;
mod trap;
mod validate;
mod wasi;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use wasmq_core::Digest;
use wasmtime::Engine;
use wasmtime::component::Linker;

pub(crate) use attempt::{Facts, Input, Limits};
pub use inspect::{Accepted, Inspection, MAX_COMPONENT_BYTES, Need, Rejection, Shape, accept, check_outside, inspect};
pub(crate) use prepare::Prepared;
pub use signals::{Progress, Signals};

use cache::Cache;
use state::State;
use ticker::Ticker;

/// The version of the WIT package that this host speaks.
pub(crate) const WIT_VERSION: &str = "0.1.0";
/// The version of the engine, for reports and dead tasks.
pub(crate) const ENGINE_VERSION: &str = "48.0.8";

/// What a process needs the runtime for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Purpose {
    /// Many attempts at once: instances come from a pool.
    #[default]
    Serve,
    /// Compiling at deploy, checking a file, a single attempt: no pool, quick to set up. The compiled
    /// code is the same and a serving process can load it.
    Once,
}

/// How to set up a [`Runtime`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// Where compiled code is kept between processes; without it every process compiles for itself.
    /// The directory must be writable for the operator alone.
    pub cache_dir: Option<PathBuf>,
    /// For how long; for ever when absent.
    pub cache_for: Option<Duration>,
    /// How many attempts run at once. More may be started; they wait for a free place.
    pub max_concurrent: u32,
    /// What the process needs the runtime for.
    pub purpose: Purpose,
}

/// Where instances get their memory from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allocator {
    /// A pool that was reserved at the start.
    Pooling {
        /// Whether the kernel can say which pages of a memory were touched (Linux 6.7 and later),
        /// which makes a fresh instance about three times cheaper.
        page_map_scan: bool,
    },
    /// Fresh mappings for every attempt.
    OnDemand {
        /// Why there is no pool.
        reason: String,
    },
}

/// Why the runtime cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeError {
    /// The engine does not accept its settings on this machine.
    #[error("cannot set up the wasm engine: {0}")]
    Engine(String),
    /// The host's functions do not fit together.
    #[error("cannot link the host functions: {0}")]
    Linker(String),
    /// No thread for the clock that interrupts guests.
    #[error("cannot start the thread that interrupts guests; check the limits on processes and memory")]
    Ticker(#[source] std::io::Error),
}

/// The engine and everything that is shared by all attempts of a process.
pub(crate) struct Runtime {
    engine: Engine,
    allocator: Allocator,
    linker: Linker<State>,
    cache: Option<Cache>,
    ticker: Ticker,
    prepared: Mutex<HashMap<Digest, Arc<Prepared>>>,
    /// Held while compiling, so that two attempts of a new task do not compile it twice.
    compiling: Mutex<()>,
    /// Rung when an attempt has given its place in the pool back.
    place_freed: Notify,
}

impl Runtime {
    /// Sets up the engine. Reserves address space, touches hardly any memory, compiles nothing.
    ///
    /// # Errors
    /// See [`RuntimeError`]. A pool that cannot be reserved is not an error: see [`Self::allocator`].
    pub(crate) fn new(options: &Options) -> Result<Self, RuntimeError> {
        let (engine, allocator) = match options.purpose {
            Purpose::Serve => engine::for_running(options.max_concurrent)?,
            Purpose::Once => engine::for_compiling()?,
        };
        let linker = linker::build(&engine).map_err(|error| RuntimeError::Linker(format!("{error:#}")))?;
        let cache = options.cache_dir.as_deref().map(|root| Cache::new(root, &engine::key(&engine), options.cache_for));
        tracing::debug!(?allocator, "the wasm engine is set up");
        let ticker = Ticker::start(&engine).map_err(RuntimeError::Ticker)?;
        Ok(Self {
            engine,
            allocator,
            linker,
            cache,
            ticker,
            prepared: Mutex::default(),
            compiling: Mutex::default(),
            place_freed: Notify::new(),
        })
    }

    /// Where instances get their memory from.
    #[must_use]
    #[allow(dead_code, reason = "for status output and tests")]
    pub(crate) const fn allocator(&self) -> &Allocator {
        &self.allocator
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("allocator", &self.allocator)
            .field("running", &self.ticker.count())
            .finish_non_exhaustive()
    }
}
