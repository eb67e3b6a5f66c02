//! One attempt in the sandbox, without any store: what `wasmq run` does.

use wasmq_core::settings::RawSettings;
use wasmq_core::{AttemptReport, TaskName};

use super::QueueError;
use crate::clock;
use crate::runtime::{Facts, Input, Limits, Options, Purpose, Runtime, inspect};

/// What to run once.
#[derive(Debug, Clone, PartialEq)]
pub struct OnceRequest {
    /// The name that the task sees.
    pub task: TaskName,
    /// Any bytes.
    pub payload: Vec<u8>,
    /// The limits.
    pub settings: RawSettings,
    /// The number of the attempt that the task sees.
    pub attempt: u32,
    /// Key-value pairs that the task sees.
    pub metadata: Vec<(String, String)>,
}

/// Runs a component once on a payload.
///
/// # Errors
/// When the component is refused or cannot be prepared. A task that fails is a report.
pub fn run_once(component: &[u8], request: &OnceRequest) -> Result<AttemptReport, QueueError> {
    let settings = request.settings.check()?;
    let inspection = inspect(component)?;
    let options = Options { cache_dir: None, max_concurrent: 1, purpose: Purpose::Once };
    let runtime = Runtime::new(&options).map_err(|error| QueueError::Prepare(error.to_string()))?;
    let mut load = || Ok(component.to_vec());
    let prepared =
        runtime.prepare(inspection.digest, &mut load).map_err(|error| QueueError::Prepare(error.to_string()))?;
    let facts = Facts {
        id: clock::new_invocation_id(),
        task: request.task.as_str(),
        enqueued_at_ms: clock::now().0,
        replays: 0,
        max_attempts: settings.max_attempts,
        metadata: &request.metadata,
    };
    let input = Input {
        facts,
        payload: &request.payload,
        attempt: request.attempt,
        limits: Limits::from(&settings),
        cancel: None,
        progress: None,
    };
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| QueueError::Worker(error.into()))?;
    Ok(tokio.block_on(runtime.run(&prepared, input)))
}
