//! What the threads of `wasmq dev` tell the one that decides.

use super::trial::Ended;
use crate::cli::error::CliError;
use crate::queue::Deployment;

/// Something happened. What belongs to a round has its number, so that news of an earlier one are recognised.
#[derive(Debug)]
pub enum Event {
    /// Something moved where somebody watches.
    Stirred,
    /// The build of this round ended.
    Built(u64),
    /// The component of this round is deployed.
    Deployed(u64, Box<Deployment>),
    /// The trial of this round ended.
    Tried(u64, Box<Ended>),
    /// Old versions could not be removed.
    Untidy(Box<CliError>),
    /// Somebody wants us to end.
    Signal,
}
