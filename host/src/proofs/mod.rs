//! Proofs on the simulated disk that need all parts at once: log, journal, keeper, dead letter queue,
//! replays, registry.
//!
//! - `crash_points`: the power is cut at every operation of one workload that does everything.
//! - `faults`: every operation of it fails, in every way, and the workload goes on.
//! - `model`: random histories agree with a plain model, over crashes.
//!
//! `workload` has the steps and `world` what they act on; `told` keeps what was acknowledged; `found` is
//! what a recovery brings to light; `invariants` compares the two. `WASMQ_CRASH_SEEDS` and
//! `WASMQ_MODEL_CASES` ask for more than a commit has time for.

mod crash_points;
mod faults;
mod found;
mod invariants;
mod model;
mod plain;
mod steps;
mod told;
mod workload;
mod world;

/// A number from the environment, for runs that may take longer.
fn wished(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
