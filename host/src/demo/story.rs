//! The steps of the story. Each shows a command, runs it, and checks that it showed what it should.

use std::process::Stdio;

use serde_json::json;
use wasmq_core::{DeadTask, InvocationId};

use super::files::{FAILING, PAYLOADS};
use super::stage::Stage;
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::cli::output::paint::Tone;
use crate::cli::output::safe::safe;
use crate::clock::Stopwatch;
use crate::queue::{Queue, Selection, Status};

/// Tells the whole story.
pub(super) fn tell(stage: &Stage, out: &mut Output) -> Result<(), CliError> {
    let since = Stopwatch::start();
    let queue = stage.queue()?;
    let mut teller = Teller { stage, out, queue };
    teller.say(&format!("Everything happens in {}, which is removed at the end.", stage.dir().display()))?;
    teller.fail()?;
    let id = teller.look()?;
    teller.retry_in_vain(id)?;
    teller.repair()?;
    teller.end()?;
    let seconds = since.elapsed().as_secs_f64();
    teller.step(&format!("That is the whole story, told in {seconds:.1} s. Next: wasmq deploy NAME YOUR.wasm"))
}

struct Teller<'a> {
    stage: &'a Stage,
    out: &'a mut Output,
    queue: Queue,
}

impl Teller<'_> {
    /// A task with a fault meets files of real life.
    fn fail(&mut self) -> Result<(), CliError> {
        self.step("Deploy a task. It reads CSV files, and its author has not met every kind of them yet.")?;
        self.run(&["deploy", "csv-report", "csv-report-v1.wasm"])?;
        self.step("Start a server.")?;
        self.show_command("serve &")?;
        let greeting = self.stage.start_server()?;
        self.say(&greeting)?;
        self.step("Enqueue six files that people published. Each id is printed once the work is durable.")?;
        for file in &PAYLOADS {
            self.run(&["enqueue", "csv-report", &format!("@{}", file.name)])?;
        }
        self.quiet(PAYLOADS.len() as u64 - FAILING, FAILING)
    }

    /// The dead letter queue says what happened.
    fn look(&mut self) -> Result<InvocationId, CliError> {
        self.step("Three of them trapped. They are in the dead letter queue.")?;
        self.run(&["dlq", "list"])?;
        let dead = self.latest()?;
        let frames =
            dead.failure.trap.as_ref().map(|trap| trap.frames.iter().filter(|frame| frame.function.is_some()).count());
        expect(dead.verdict.family() == "trap", || format!("the verdict should be a trap, not {}", dead.verdict))?;
        expect(frames.is_some_and(|count| count > 0), || "the backtrace has no function names".to_owned())?;
        self.step("The whole story of one: panic message, backtrace, component, payload, and what to type next.")?;
        self.run(&["dlq", "show", &dead.id.to_string()])?;
        Ok(dead.id)
    }

    /// The same component on the same bytes fails again.
    fn retry_in_vain(&mut self, id: InvocationId) -> Result<(), CliError> {
        self.step("Retry it with the component that failed: the same bytes, so it must fail again.")?;
        self.run(&["dlq", "retry", &id.to_string(), "--component", "original"])?;
        self.quiet(PAYLOADS.len() as u64 - FAILING, FAILING)?;
        self.run(&["dlq", "list"])?;
        let dead = self.queue.dead_tasks().get(&id.to_string())?;
        expect(dead.replays == 1 && dead.deaths.len() == 1, || format!("{id} should have died twice"))
    }

    /// A repaired version does what the first could not.
    fn repair(&mut self) -> Result<(), CliError> {
        self.step("Deploy the repaired version.")?;
        self.run(&["deploy", "csv-report", "csv-report-v2.wasm"])?;
        self.step("Retry everything that died, with version 2.")?;
        self.run(&["dlq", "retry", "--all", "--component", "v2"])?;
        self.quiet(PAYLOADS.len() as u64, 0)?;
        self.step("All are done; nothing is dead any more.")?;
        self.run(&["status"])?;
        self.step("One more, and this time wait for its output.")?;
        self.run(&["enqueue", "csv-report", "@danish_data.csv", "--wait"])?;
        self.say("")
    }

    /// The server stops in an orderly way.
    fn end(&mut self) -> Result<(), CliError> {
        self.step("Stop the server; what is not done would wait on the disk for the next one.")?;
        if !self.out.is_json() {
            self.out.line(self.out.paint().apply(Tone::Command, "$ kill %1"))?;
        }
        let status = self.stage.stop_server()?;
        expect(status.is_some_and(|status| status.success()), || {
            format!("the server should have stopped in an orderly way; it said:\n{}", self.stage.server_log())
        })
    }

    /// A sentence between commands.
    fn step(&mut self, sentence: &str) -> Result<(), CliError> {
        self.stage.check_interrupted()?;
        if self.out.is_json() {
            return self.out.json(&json!({ "step": sentence }));
        }
        let sentence = self.out.paint().apply(Tone::Strong, &safe(sentence));
        self.out.line(format_args!("\n{sentence}"))?;
        self.out.flush()
    }

    fn say(&mut self, text: &str) -> Result<(), CliError> {
        if self.out.is_json() { Ok(()) } else { self.out.line(text) }
    }

    fn show_command(&mut self, words: &str) -> Result<(), CliError> {
        if self.out.is_json() {
            return Ok(());
        }
        let line = self.out.paint().apply(Tone::Command, &format!("$ wasmq {words}"));
        self.out.line(line)?;
        self.out.flush()
    }

    /// Shows a command and runs it; its output goes where ours goes.
    fn run(&mut self, arguments: &[&str]) -> Result<(), CliError> {
        self.stage.check_interrupted()?;
        let words = arguments.join(" ");
        self.show_command(&words)?;
        let mut command = self.stage.command(arguments);
        if self.out.is_json() {
            command.stdout(Stdio::null());
        }
        let status = command.status().map_err(CliError::from_file("run", "wasmq".as_ref()))?;
        self.stage.check_interrupted()?;
        if self.out.is_json() {
            self.out.json(&json!({ "command": format!("wasmq {words}"), "exit": status.code() }))?;
        }
        expect(status.success(), || format!("`wasmq {words}` ended with {status}"))
    }

    /// Waits until nothing is live, so many were completed by this server and so many are dead.
    fn quiet(&self, done: u64, dead: u64) -> Result<(), CliError> {
        let what = format!("{done} invocations to be done and {dead} to be dead");
        self.stage.wait_for(&what, || {
            let status = self.queue.status()?;
            let holds = status.counts.live() == 0 && completed(&status) == done && status.dead == Some(dead);
            Ok(holds.then_some(()))
        })
    }

    fn latest(&self) -> Result<DeadTask, CliError> {
        let found = self.queue.dead_tasks().latest(&Selection::All, 1)?.pop();
        found.ok_or_else(|| CliError::Demo("the dead letter queue should not be empty".to_owned()))
    }
}

fn completed(status: &Status) -> u64 {
    let workers = status.servers.iter().flat_map(|server| &server.workers);
    workers.map(|worker| worker.figures.completed).sum()
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), CliError> {
    if holds { Ok(()) } else { Err(CliError::Demo(otherwise())) }
}
