//! Returns its environment variables and arguments as JSON: none, unless the operator granted some.

use std::env;

use behaviours::{Failure, Invocation, Payload, json};
use serde_json::{Map, Value, json};

behaviours::task!(handle);

fn handle(_: Invocation, _: Payload) -> Result<Payload, Failure> {
    let variables: Map<String, Value> = env::vars().map(|(name, value)| (name, value.into())).collect();
    let arguments: Vec<String> = env::args().collect();
    Ok(json(&json!({ "variables": variables, "arguments": arguments })))
}
