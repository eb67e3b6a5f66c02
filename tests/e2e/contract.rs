//! One contract, every language: the same rows against the contract guest of each, through the real binary.
//!
//! The first line of a payload is a command with its arguments, the rest is data; `guest-examples/README.md`
//! lists them. A guest that is missing fails the test: `guest-examples/build` makes all of them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::world::{Ran, World, guest_file, repository, until};

/// What is particular about a language.
struct Language {
    name: &'static str,
    /// The component, where it is not that of the examples.
    file: Option<&'static str>,
    /// A typed task; a command has an exit code in place of a failure.
    typed: bool,
    exception: Exception,
    /// Enough memory to start, and little enough to run out of it soon.
    memory: &'static str,
}

/// What an uncaught exception leaves.
struct Exception {
    verdict: &'static str,
    /// What stderr must show of it.
    stderr: &'static [&'static str],
    /// Functions and files that the backtrace must name.
    frames: &'static [&'static str],
    /// Whether it is known to happen again, and so dead at once.
    must_happen_again: bool,
}

const TRAP: Exception = Exception { verdict: "trap.unreachable", stderr: &[], frames: &[], must_happen_again: true };
const TYPED: Language = Language { name: "", file: None, typed: true, exception: TRAP, memory: "64MiB" };

/// A world in which the guest is deployed under the name of its language.
struct Stage {
    world: World,
    language: Language,
}

impl Stage {
    fn new(language: Language) -> Self {
        let stage = Self { world: World::new(), language };
        stage.deploy(&[]);
        stage
    }

    fn file(&self) -> PathBuf {
        let fixture = self.language.file.map(|path| repository().join("tests/fixtures").join(path));
        fixture.unwrap_or_else(|| guest_file(&format!("contract-{}", self.language.name)))
    }

    /// The same component with other settings, as the current version.
    fn deploy(&self, more: &[&str]) {
        let file = self.file();
        let quick = ["--backoff", "fixed:10ms", "--jitter", "0"];
        self.world.deploy_as(self.language.name, &file, &[&quick, more].concat());
    }

    fn enqueue(&self, payload: &[u8], more: &[&str]) -> Ran {
        let arguments = ["enqueue", self.language.name, "-", "--wait", "--payload-limit", "4MiB"];
        self.world.run_with(&[&arguments, more].concat(), payload)
    }

    /// Runs one invocation to its end and returns its output.
    #[track_caller]
    fn completes(&self, payload: &[u8]) -> Vec<u8> {
        self.enqueue(payload, &[]).ok().stdout
    }

    /// Runs one invocation that fails and returns all about the dead task.
    #[track_caller]
    fn dies(&self, payload: &str, more: &[&str]) -> Value {
        let ran = self.enqueue(payload.as_bytes(), &[&["--json"], more].concat());
        assert_ne!(ran.code, 0, "{payload} completed");
        let end = ran.json();
        assert_eq!(end["dead"], true, "{end}");
        self.world.dead_task(end["id"].as_str().unwrap())
    }

    fn row(&self, name: &str) {
        println!("{:<12} {name}", self.language.name);
    }

    /// The verdict of a failure that the task declares.
    fn declared<'a>(&self, typed: &'a str, exit: &'a str) -> &'a str {
        if self.language.typed { typed } else { exit }
    }

    fn play(&self) {
        self.every_payload_comes_back_as_it_was();
        self.facts_are_told();
        self.attempts_are_counted();
        self.failures_are_in_the_words_of_the_task();
        if self.language.typed {
            self.a_delay_is_that_of_the_task();
        }
        self.an_uncaught_exception_is_in_the_words_of_the_language();
        self.log_and_progress();
        if self.language.typed && self.language.file.is_none() {
            self.a_follow_up_is_as_the_task_wants_it();
        }
        self.limits_end_it();
        self.a_cancellation_ends_it();
    }

    fn every_payload_comes_back_as_it_was(&self) {
        let million: Vec<u8> = (0..1_u32 << 20).map(|n| (n % 251) as u8).collect();
        let not_text = b"\xff\xfe\x00\x80 \xc3\x28\r\n\x1b[31m".as_slice();
        for data in [b"".as_slice(), b"x", &million, not_text] {
            let output = self.completes(&[b"echo\n", data].concat());
            assert!(output == data, "{} bytes went in, {} came back", data.len(), output.len());
        }
        self.row("echo of 0 B, 1 B, 1 MiB and of bytes that are no text");
    }

    fn facts_are_told(&self) {
        let ran = self.enqueue(b"facts\n", &["--json", "--meta", "tenant=42", "--max-attempts", "7"]).ok();
        let end = ran.json();
        let facts: Value = serde_json::from_str(end["output"]["text"].as_str().unwrap()).unwrap();
        assert_eq!(facts["id"], end["id"]);
        assert_eq!(facts["task"], self.language.name);
        assert_eq!((&facts["replays"], &facts["max_attempts"]), (&json!(0), &json!(7)), "{facts}");
        assert_eq!(facts["metadata"], json!({ "tenant": "42" }));
        assert!(facts["enqueued_at_ms"].as_u64().unwrap() > 1_700_000_000_000);
        self.row("facts of the invocation");
    }

    fn attempts_are_counted(&self) {
        assert_eq!(self.completes(b"attempt\n"), b"1");
        let file = self.file();
        let third = self.world.run(&["run", file.to_str().unwrap(), "--payload", "attempt\n", "--attempt", "3"]);
        assert_eq!(third.ok().stdout, b"3");
        self.row("number of the attempt");
    }

    fn failures_are_in_the_words_of_the_task(&self) {
        let retried = self.dies("retryable busy the other side is busy", &["--max-attempts", "2"]);
        assert_eq!(retried["verdict"], self.declared("error.retryable", "exit.75"));
        assert_eq!((&retried["attempts"], self.message(&retried)), (&json!(2), "the other side is busy"));
        let later = self.dies("retry-after 20 busy the other side is busy", &["--max-attempts", "2"]);
        assert_eq!(later["verdict"], self.declared("error.retry-after", "exit.75"));
        assert_eq!(later["attempts"], 2);
        let permanent = self.dies("permanent bad-row row 7 has no name", &[]);
        assert_eq!(permanent["verdict"], self.declared("error.permanent", "exit.65"));
        assert_eq!((&permanent["attempts"], self.message(&permanent)), (&json!(1), "row 7 has no name"));
        let unknown = self.dies("no-such-command", &[]);
        assert!(self.message(&unknown).contains("no-such-command"), "{unknown}");
        if self.language.typed {
            let problem = |dead: &Value| dead["failure"]["problem"].clone();
            assert_eq!(problem(&retried)["code"], "busy");
            assert_eq!(problem(&permanent)["code"], "bad-row");
            assert_eq!(problem(&permanent)["details"], "details of bad-row");
            assert_eq!(problem(&unknown)["code"], "unknown-command");
        }
        self.row("retryable, retry-after, permanent");
    }

    fn a_delay_is_that_of_the_task(&self) {
        let server = self.world.serve(&["--workers", "1"]);
        let id = self.world.enqueue(&[self.language.name, "retry-after 600000 busy the other side is busy"]);
        let waits = self.world.until_phase(&id, "delayed");
        let wait = time(&waits["due_at"]).duration_since(time(&waits["history"][0]["ended_at"]));
        assert!((599..=601).contains(&wait.as_secs()), "due after {wait}, with a backoff of 10 ms: {waits}");
        self.world.run(&["cancel", &id]).ok();
        server.stop();
        self.row("delay of the task's choice");
    }

    fn message<'a>(&self, dead: &'a Value) -> &'a str {
        let message = dead["failure"]["problem"]["message"].as_str().unwrap();
        // A command has no other place for the code.
        message.strip_prefix("busy: ").or_else(|| message.strip_prefix("bad-row: ")).unwrap_or(message)
    }

    fn an_uncaught_exception_is_in_the_words_of_the_language(&self) {
        let dead = self.dies("exception the shelf is empty", &["--max-attempts", "3"]);
        self.is_shown(&dead["failure"]);
        let expected = &self.language.exception;
        assert_eq!(dead["verdict"], expected.verdict, "{}", dead["failure"]);
        let attempts = if expected.must_happen_again { 1 } else { 3 };
        assert_eq!(dead["attempts"], attempts, "{}", dead["failure"]);
        assert_eq!(dead["failure"]["deterministic"], expected.must_happen_again, "{}", dead["failure"]);
        // Whatever the words, it failed in the same place; what ends elsewhere is another failure.
        let again = self.dies("exception the shop is closed", &["--max-attempts", "1"]);
        assert_eq!(dead["fingerprint"], again["fingerprint"], "{} {}", dead["failure"], again["failure"]);
        let elsewhere = self.dies("memory", &["--max-attempts", "1"]);
        assert_ne!(dead["fingerprint"], elsewhere["fingerprint"], "{}", elsewhere["failure"]);
        self.row("uncaught exception with its own message and stack, dead at once if it must happen again");
    }

    /// The message of the exception, and what stderr and the backtrace have of it.
    fn is_shown(&self, failure: &Value) {
        assert!(failure["problem"]["message"].as_str().unwrap().contains("the shelf is empty"), "{failure}");
        let stderr = failure["stderr"]["text"].as_str().unwrap_or_default();
        for expected in self.language.exception.stderr {
            assert!(stderr.contains(expected), "{expected} is missing in: {stderr}");
        }
        let frames = failure["trap"]["frames"].to_string();
        for expected in self.language.exception.frames {
            assert!(frames.contains(expected), "{expected} is missing in: {frames}");
        }
    }

    fn log_and_progress(&self) {
        let ran = self.enqueue(b"log\n", &["--json"]).ok();
        let end = ran.json();
        assert_eq!(end["output"]["text"], "logged");
        if self.language.typed {
            let log = end["said"]["log"].to_string();
            let record = format!("INFO hello from the guest language={}", self.language.name);
            assert!(log.contains(&record) && log.contains("PROGRESS 1/2 half"), "{log}");
        } else {
            assert!(end["said"]["stderr"]["text"].as_str().unwrap().contains("hello from the guest"), "{end}");
        }
        self.row("log and progress");
    }

    fn a_follow_up_is_as_the_task_wants_it(&self) {
        let name = self.language.name;
        let end = self.follow_up(&format!("{name} 0"), "permanent bad-row row 7 has no name\nand more");
        let later = self.follow_up(&format!("{name} 600000"), "echo\nlater");
        let server = self.world.serve(&["--workers", "1"]);
        let id = end["output"]["text"].as_str().unwrap();
        until("the follow-up is dead", || self.world.dead().iter().any(|dead| dead["id"] == id));
        let dead = self.world.dead_task(id);
        assert_eq!(dead["payload"]["text"], "permanent bad-row row 7 has no name\nand more");
        assert_eq!((&dead["task"], &dead["metadata"]), (&json!(name), &json!([["parent", end["id"]]])), "{dead}");
        let later = self.world.until_phase(later["output"]["text"].as_str().unwrap(), "delayed");
        let wait = time(&later["due_at"]).duration_since(time(&later["enqueued_at"]));
        assert!((599..=601).contains(&wait.as_secs()), "due after {wait}: {later}");
        self.world.run(&["cancel", later["id"].as_str().unwrap()]).ok();
        server.stop();
        let refused = self.dies("follow-up NoSuchName 0\nx", &[]);
        assert_eq!(refused["verdict"], "error.permanent", "{}", refused["failure"]);
        assert!(self.message(&refused).contains("task name"), "{}", refused["failure"]);
        self.row("follow-ups with payload, delay and metadata, or why not");
    }

    /// Has a follow-up enqueued and returns how that ended.
    fn follow_up(&self, wanted: &str, payload: &str) -> Value {
        self.enqueue(format!("follow-up {wanted}\n{payload}").as_bytes(), &["--json"]).ok().json()
    }

    fn limits_end_it(&self) {
        self.deploy(&["--timeout", "1s", "--max-attempts", "1"]);
        assert_eq!(self.dies("loop", &[])["verdict"], "timeout");
        self.deploy(&["--memory", self.language.memory, "--max-attempts", "1"]);
        let dead = self.dies("memory", &[]);
        assert_eq!(dead["verdict"], "memory-limit", "{}", dead["failure"]);
        self.deploy(&["--output-limit", "1MiB", "--max-attempts", "1"]);
        assert_eq!(self.completes(b"large 1048576").len(), 1 << 20);
        assert_eq!(self.dies("large 1048577", &[])["verdict"], "output-limit");
        self.row("timeout in an endless loop, memory limit, output too large");
    }

    fn a_cancellation_ends_it(&self) {
        self.deploy(&["--timeout", "10m"]);
        let mut server = self.world.serve(&["--workers", "1", "--grace", "10m"]);
        let id = self.world.enqueue(&[self.language.name, "cancelled\n"]);
        self.world.until_phase(&id, "running");
        if self.language.typed {
            // It is told, and does not make the server wait for ten minutes.
            server.signal("TERM");
            assert_eq!(server.ended(), 0, "{}", server.log());
            assert_eq!(self.world.live()[0]["attempts"], 0, "put back");
            server = self.world.serve(&["--workers", "1"]);
            self.world.until_phase(&id, "running");
        }
        self.world.run(&["cancel", &id]).ok();
        assert!(self.world.live().is_empty());
        assert!(self.world.dead().iter().all(|dead| dead["id"] != id.as_str()));
        server.stop();
        self.row("cancellation");
    }
}

/// A time as the commands print it in JSON.
fn time(printed: &Value) -> jiff::Timestamp {
    printed.as_str().unwrap().parse().unwrap()
}

#[test]
fn rust() {
    let exception = Exception { stderr: &["panicked at", "lib.rs:"], frames: &["::inner", "::outer"], ..TRAP };
    Stage::new(Language { name: "rust", exception, ..TYPED }).play();
}

/// It was built when the contract was at 0.1.0, and is never built again.
#[test]
fn a_component_of_the_first_version_of_the_contract() {
    let exception = Exception { stderr: &["panicked at"], ..TRAP };
    Stage::new(Language { name: "rust", file: Some("wit-0.1.0/contract.wasm"), exception, ..TYPED }).play();
}

#[test]
fn python() {
    let stderr = &["Traceback (most recent call last)", "in inner", "in outer"];
    // The interpreter draws random numbers before the task begins.
    let exception = Exception { stderr, must_happen_again: false, ..TRAP };
    Stage::new(Language { name: "python", exception, memory: "128MiB", ..TYPED }).play();
}

#[test]
fn javascript() {
    let exception = Exception { stderr: &["Error: the shelf is empty", "inner", "outer"], ..TRAP };
    Stage::new(Language { name: "javascript", exception, ..TYPED }).play();
}

#[test]
fn typescript() {
    let exception = Exception { stderr: &["Error: the shelf is empty", "inner", "outer"], ..TRAP };
    Stage::new(Language { name: "typescript", exception, ..TYPED }).play();
}

#[test]
fn go() {
    let stderr = &["panic: ", "goroutine 1", "main.inner", "main.outer", "main.go:"];
    // A panic is an exit code, and the runtime reads the clock before the task begins.
    let exception = Exception { verdict: "exit.2", stderr, must_happen_again: false, ..TRAP };
    Stage::new(Language { name: "go", typed: false, exception, ..TYPED }).play();
}

#[test]
fn c() {
    let exception = Exception { frames: &["inner", "outer", "/contract.c:"], ..TRAP };
    Stage::new(Language { name: "c", exception, ..TYPED }).play();
}

#[test]
fn c_command() {
    let exception = Exception { frames: &["inner", "outer", "/contract-command.c:"], ..TRAP };
    Stage::new(Language { name: "c-command", typed: false, exception, ..TYPED }).play();
}

#[test]
fn zig() {
    let exception = Exception { stderr: &["panic"], frames: &["inner", "outer", "/contract.zig:"], ..TRAP };
    Stage::new(Language { name: "zig", typed: false, exception, ..TYPED }).play();
}
