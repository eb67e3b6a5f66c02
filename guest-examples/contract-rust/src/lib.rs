//! The contract guest in Rust: one task that does whatever its payload's first line says, the same in
//! every language. The host's tests run it; it is also an example of each thing a task can do.

use std::{hint, num::ParseIntError, thread, time::Duration};

use exports::wasmq::task::handler::Guest;
use serde_json::{Map, Value, json};
use wasmq::task::{
    host::{self, FollowUp, Level},
    types::{DelayedProblem, Failure, Invocation, Problem},
};

wit_bindgen::generate!({ path: "../../wit", world: "task" });

struct Contract;

impl Guest for Contract {
    fn handle(invocation: Invocation, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let (line, data) = match payload.iter().position(|byte| *byte == b'\n') {
            Some(at) => (&payload[..at], &payload[at + 1..]),
            None => (&payload[..], &[][..]),
        };
        let line = String::from_utf8_lossy(line);
        let (command, arguments) = cut(&line);
        match command {
            "echo" => Ok(data.to_vec()),
            "facts" => Ok(facts(invocation)),
            "attempt" => Ok(host::attempt_number().to_string().into_bytes()),
            "retryable" => Err(Failure::Retryable(problem(arguments))),
            "retry-after" => Err(retry_after(arguments)),
            "permanent" => Err(permanent(arguments)),
            "exception" => outer(arguments),
            "log" => Ok(log()),
            "follow-up" => follow_up(invocation.id, arguments, data),
            "cancelled" => Err(wait_until_cancelled()),
            "loop" => spin(),
            "memory" => exhaust(),
            "large" => large(arguments),
            unknown => Err(refuse("unknown-command", format!("there is no command {unknown:?}"))),
        }
    }
}

export!(Contract);

/// The parts before and after the first space.
fn cut(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn refuse(code: &str, message: String) -> Failure {
    Failure::Permanent(Problem { code: code.to_owned(), message, details: None })
}

/// A problem from `CODE MESSAGE…`.
fn problem(arguments: &str) -> Problem {
    let (code, message) = cut(arguments);
    Problem { code: code.to_owned(), message: message.to_owned(), details: None }
}

fn permanent(arguments: &str) -> Failure {
    let problem = problem(arguments);
    let details = Some(format!("details of {}", problem.code));
    Failure::Permanent(Problem { details, ..problem })
}

fn retry_after(arguments: &str) -> Failure {
    let (delay, arguments) = cut(arguments);
    match delay.parse() {
        Ok(delay_ms) => Failure::RetryAfter(DelayedProblem { problem: problem(arguments), delay_ms }),
        Err(error) => bad_delay(delay, error),
    }
}

fn bad_delay(delay: &str, error: ParseIntError) -> Failure {
    refuse("bad-delay", format!("{delay:?} is not a number of milliseconds: {error}"))
}

fn facts(invocation: Invocation) -> Vec<u8> {
    let metadata: Map<String, Value> =
        invocation.metadata.into_iter().map(|(key, value)| (key, value.into())).collect();
    let facts = json!({
        "id": invocation.id,
        "task": invocation.task,
        "enqueued_at_ms": invocation.enqueued_at_ms,
        "replays": invocation.replays,
        "max_attempts": invocation.max_attempts,
        "metadata": metadata,
    });
    facts.to_string().into_bytes()
}

fn log() -> Vec<u8> {
    host::log(Level::Info, "hello from the guest", &[("language".to_owned(), "rust".to_owned())]);
    host::progress(1, 2, "half");
    b"logged".to_vec()
}

/// Enqueues what `TASK DELAY-MS` asks for, with the data as its payload.
fn follow_up(parent: String, arguments: &str, data: &[u8]) -> Result<Vec<u8>, Failure> {
    let (task, delay) = cut(arguments);
    let delay_ms = delay.parse().map_err(|error| bad_delay(delay, error))?;
    let metadata = vec![("parent".to_owned(), parent)];
    let wanted = FollowUp { task: task.to_owned(), payload: data.to_vec(), delay_ms, metadata };
    host::enqueue(&wanted).map(String::into_bytes).map_err(|refusal| refuse("follow-up-refused", refusal))
}

#[inline(never)]
fn outer(message: &str) -> ! {
    inner(message)
}

#[inline(never)]
fn inner(message: &str) -> ! {
    panic!("{message}")
}

fn wait_until_cancelled() -> Failure {
    while !host::cancelled() {
        thread::sleep(Duration::from_millis(10));
    }
    Failure::Retryable(Problem { code: "cancelled".to_owned(), message: "stopped early".to_owned(), details: None })
}

fn spin() -> ! {
    loop {
        hint::black_box(());
    }
}

/// Takes memory until there is none, which aborts.
fn exhaust() -> ! {
    const CHUNK_BYTES: usize = 1 << 20;
    let mut chunks = Vec::new();
    loop {
        chunks.push(vec![1_u8; CHUNK_BYTES]);
        hint::black_box(&chunks);
    }
}

fn large(argument: &str) -> Result<Vec<u8>, Failure> {
    match argument.parse() {
        Ok(size) => Ok(vec![b'x'; size]),
        Err(error) => Err(refuse("bad-size", format!("{argument:?} is not a number of bytes: {error}"))),
    }
}
