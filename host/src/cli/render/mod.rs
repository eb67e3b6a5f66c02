//! Pages for people: how failures, attempts, payloads and dead tasks look on a terminal.
//!
//! Invariants: every text of a guest or user passes through [`safe`](super::output::safe) on its
//! way; nothing here decides anything, it only shows.
//!
//! Deliberately absent: JSON, which shows the data as it is.

pub mod attempts;
pub mod dead_task;
pub mod failure;
pub mod payload;
pub mod progress;
pub mod sheet;
