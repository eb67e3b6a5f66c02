//! Races under a model checker: every test runs some thousand schedules, in which the checker decides at each
//! step of a thread which one goes on, and notices when all wait for ever.
//!
//! The modules with a path are the product's own source files. They take what threads share from `crate::sync`
//! and time from `crate::clock`, which are the checker's here, and their disk is `disk::SteppingDisk`, which
//! lets others go on before every operation and can let a process die at any. Where a test checks a copy of a
//! rule instead of the product's own code, its module says so.
// The unit tests of the product's files are not for here.
#![cfg(not(test))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    dead_code,
    unused_imports
)]

pub mod adoption;
mod clock;
mod disk;
pub mod group_commit;
pub mod retrying;
mod schedules;
pub mod shutdown;
mod sync;
pub mod waking;

#[path = "../../host/src/worker/attention.rs"]
mod attention;
#[path = "../../host/src/causes.rs"]
mod causes;
#[path = "../../host/src/dlq/mod.rs"]
mod dlq;
#[path = "../../host/src/findings.rs"]
mod findings;
#[path = "../../host/src/journal/mod.rs"]
mod journal;
#[path = "../../host/src/queue/outside.rs"]
mod outside;
