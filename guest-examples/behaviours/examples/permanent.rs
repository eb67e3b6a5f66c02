//! Fails for good, with its payload in the details.

use behaviours::{Failure, Invocation, Payload, Problem};

behaviours::task!(handle);

fn handle(_: Invocation, payload: Payload) -> Result<Payload, Failure> {
    Err(Failure::Permanent(Problem {
        code: "no-use".to_owned(),
        message: "another attempt cannot help".to_owned(),
        details: Some(String::from_utf8_lossy(&payload).into_owned()),
    }))
}
