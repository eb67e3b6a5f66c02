//! The commands, a file each: its options and what it does with the queue.
//!
//! Invariant: a command talks to the queue and to its [`Output`](super::output::Output) and to
//! nothing else; it never decides about exit codes of errors, which [`super::error`] does.

pub mod cancel;
pub mod check;
pub mod completions;
pub mod config;
pub mod demo;
pub mod deploy;
pub mod dev;
pub mod dlq;
pub mod enqueue;
pub mod list;
pub mod man;
pub mod new;
pub mod run;
pub mod serve;
pub mod show;
pub mod status;
pub mod store;
pub mod symbols;
pub mod task;
pub mod wit;
pub mod worker;
