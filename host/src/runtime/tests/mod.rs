//! Behaviour of the runtime, a file per subject. The components are written by hand in the text
//! format (`support.rs`), so that the tests need no toolchain for guests.

mod adapting;
mod caching;
mod determinism;
mod guests;
mod host_functions;
mod inspection;
mod limits;
mod support;
mod verdicts;
