//! End-to-end tests: the real binary in real directories, one behaviour per file.
//!
//! They use nothing of the library, so they see what a user sees. Guests come from
//! `guest-examples/build`, which the test command of the README runs first.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    missing_docs,
    unused_crate_dependencies
)]

mod cases;
mod clocks;
mod contract;
mod crashing;
mod damage;
mod dead_letters;
mod demo;
mod deploying;
mod dev_project;
mod developing;
mod developing_losses;
mod developing_versions;
mod embedded;
mod enqueueing;
mod examples;
mod failing_sync;
mod first_steps;
mod follow_ups;
mod full_disk;
mod full_disk_places;
mod kills;
mod manners;
mod one_outcome;
mod places;
mod poison;
mod power_cut;
mod privileges;
mod retrying;
mod running_once;
mod sandbox;
mod scaffolding;
mod serving;
mod settings;
mod store_checks;
mod store_none;
mod stories;
mod strangers;
mod symbols;
mod upgrades;
mod verdicts;
mod world;
