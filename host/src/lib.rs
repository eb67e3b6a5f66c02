//! wasmq: a WebAssembly task host with a durable queue and a dead letter queue.
//!
//! Tasks are WebAssembly components. [`queue`] is the one door to everything: deploy, enqueue, query,
//! dead tasks. The binary `wasmq` is a thin layer of words and tables over it.
//!
//! `ARCHITECTURE.md` beside this crate draws the whole; every file says what its one duty is.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::cast_possible_truncation,
        clippy::disallowed_methods
    )
)]

/// The code of the README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

mod causes;
pub mod cli;
mod clock;
mod config;
mod demo;
mod dev;
mod dlq;
mod findings;
mod journal;
#[cfg(test)]
mod proofs;
pub mod queue;
mod registry;
mod runtime;
mod scaffold;
mod store;
mod supervisor;
mod symbols;
mod sync;
mod telemetry;
mod wire;
mod worker;

pub use queue::{Component, DeadTasks, NewInvocation, Options, Queue, QueueError, Selection};
