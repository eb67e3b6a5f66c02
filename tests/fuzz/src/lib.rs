//! What the fuzz targets do with their bytes, a module each. Every one panics when a promise is broken.
//!
//! The modules with a path are the product's own source files, taken in as they are: they use nothing of
//! the crate `wasmq` but each other, so the engine is not needed to fuzz them.
#![allow(dead_code, unused_imports, clippy::all)]

pub mod cli_values;
pub mod component_check;
pub mod dlq_line;
pub mod enqueue_body;
pub mod input;
pub mod registry_file;
pub mod symbols_file;
pub mod wal_lock_file;
pub mod wal_record;
pub mod wal_segment;
pub mod wire_frame;

#[path = "../../../host/src/causes.rs"]
mod causes;
#[path = "../../../host/src/clock.rs"]
mod clock;
mod config;
#[path = "../../../host/src/dlq/mod.rs"]
mod dlq;
#[path = "../../../host/src/findings.rs"]
mod findings;
#[path = "../../../host/src/journal/mod.rs"]
mod journal;
#[path = "../../../host/src/registry/mod.rs"]
mod registry;
mod runtime;
#[path = "../../../host/src/symbols/mod.rs"]
mod symbols;
#[path = "../../../host/src/cli/values.rs"]
mod values;
#[path = "../../../host/src/wire.rs"]
mod wire;
