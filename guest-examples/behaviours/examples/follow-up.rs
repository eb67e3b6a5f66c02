//! Enqueues a follow-up and returns its id. The first line of the payload is the task of the
//! follow-up, the rest is its payload.

use behaviours::{
    Failure, Invocation, Payload,
    host::{self, FollowUp},
    permanent, text,
};

behaviours::task!(handle);

fn handle(invocation: Invocation, payload: Payload) -> Result<Payload, Failure> {
    let (task, rest) = text(&payload)?
        .split_once('\n')
        .ok_or_else(|| permanent("bad-payload", "the payload needs two lines: a task and its payload"))?;
    let id = host::enqueue(&FollowUp {
        task: task.to_owned(),
        payload: rest.as_bytes().to_vec(),
        delay_ms: 0,
        metadata: vec![("parent".to_owned(), invocation.id)],
    })
    .map_err(|refusal| permanent("follow-up-refused", refusal))?;
    Ok(id.into_bytes())
}
