//! Returns all that a task can know about its invocation, and the number of the attempt, as JSON.

use behaviours::{Failure, Invocation, Payload, host, json};
use serde_json::{Map, Value, json};

behaviours::task!(handle);

fn handle(invocation: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let metadata: Map<String, Value> =
        invocation.metadata.into_iter().map(|(key, value)| (key, value.into())).collect();
    Ok(json(&json!({
        "id": invocation.id,
        "task": invocation.task,
        "enqueued_at_ms": invocation.enqueued_at_ms,
        "replays": invocation.replays,
        "max_attempts": invocation.max_attempts,
        "metadata": metadata,
        "attempt": host::attempt_number(),
        "payload_bytes": payload.len(),
    })))
}
