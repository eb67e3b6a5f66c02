//! From the end of a guest to a verdict with its evidence.
//!
//! Invariants: the task's own words (a returned failure) are kept as they are; the host speaks only
//! when the task could not. `deterministic` is claimed for traps and limits alone, and only when
//! nothing was observed that can differ between attempts. Every text is capped by the report types.

use wasmq_core::bytes::exact_size;
use wasmq_core::report::{FailureReport, Problem};
use wasmq_core::{Millis, TrapCode, TrapInfo, Verdict};
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::attempt::{Ended, Limits};
use super::bindings::wasmq::task::types::{Failure, Problem as GuestProblem};
use super::observed::Observation;
use super::state::State;
use super::stdio::OutputTooLarge;
use super::trap;

/// How the engine ends its sentence when a guest hands over more than 128 MiB in one call. The type
/// of that error is private to the engine.
const TOO_MUCH_AT_ONCE: &str = "fuel allocated for hostcalls has been exhausted";

/// What is found out about a failure before the rest of the evidence is added.
struct Finding {
    verdict: Verdict,
    problem: Problem,
    trap: Option<TrapInfo>,
    retry_after: Option<Millis>,
}

impl Finding {
    fn new(verdict: Verdict, message: &str) -> Self {
        let problem = Problem::new(&verdict.to_string(), message, None);
        Self { verdict, problem, trap: None, retry_after: None }
    }
}

/// Finds the verdict of an attempt that did not complete.
pub(super) fn explain(ended: Ended, mut state: State, limits: &Limits) -> (Verdict, FailureReport) {
    if state.limiter.host_was_short() {
        state.observe(Observation::HostMemory);
    }
    let finding = overrule(find(ended, &state, limits), &state);
    let may_be_certain = matches!(finding.verdict, Verdict::Trap(_) | Verdict::MemoryLimit | Verdict::OutputLimit);
    let report = FailureReport {
        problem: finding.problem,
        trap: finding.trap,
        stdout: state.stdout_tail(),
        stderr: state.stderr_tail(),
        deterministic: may_be_certain && state.observed.is_empty(),
        observed: state.observed.names(),
        retry_after: finding.retry_after,
        log: state.log.into_lines(),
    };
    (finding.verdict, report)
}

fn find(ended: Ended, state: &State, limits: &Limits) -> Finding {
    match ended {
        Ended::Failed(failure) => in_own_words(failure),
        Ended::Output(output) => {
            let message =
                format!("the output has {} bytes, the limit is {}", output.len(), exact_size(limits.output_bytes));
            Finding::new(Verdict::OutputLimit, &message)
        }
        Ended::Exited(code) => exited(code, state),
        Ended::TimedOut => {
            Finding::new(Verdict::Timeout, &format!("the attempt had not ended after {}", limits.timeout))
        }
        Ended::Stopped(error) => stopped(&error, state),
        Ended::NotInstantiated(error) => not_instantiated(&error, state),
    }
}

fn in_own_words(failure: Failure) -> Finding {
    let (verdict, problem, retry_after) = match failure {
        Failure::Retryable(problem) => (Verdict::ErrorRetryable, problem, None),
        Failure::RetryAfter(delayed) => (Verdict::ErrorRetryAfter, delayed.problem, Some(Millis(delayed.delay_ms))),
        Failure::Permanent(problem) => (Verdict::ErrorPermanent, problem, None),
    };
    let GuestProblem { code, message, details } = problem;
    Finding { verdict, problem: Problem::new(&code, &message, details.as_deref()), trap: None, retry_after }
}

/// The code, when the guest left through `wasi:cli/exit`.
pub(super) fn exit_code(error: &wasmtime::Error) -> Option<u32> {
    error.downcast_ref().map(|I32Exit(code)| u32::from_ne_bytes(code.to_ne_bytes()))
}

fn exited(code: u32, state: &State) -> Finding {
    let words = last_words(state).unwrap_or_else(|| format!("the task left with exit code {code}"));
    Finding::new(Verdict::Exit(code), &words)
}

fn not_instantiated(error: &wasmtime::Error, state: &State) -> Finding {
    let from_guest = error.is::<Trap>() || error.is::<I32Exit>() || error.is::<WasmBacktrace>();
    if from_guest || state.limiter.refusal().is_some() {
        return stopped(error, state);
    }
    Finding::new(Verdict::InvalidComponent, &format!("the component cannot be instantiated: {error:#}"))
}

fn stopped(error: &wasmtime::Error, state: &State) -> Finding {
    if let Some(code) = exit_code(error) {
        return exited(code, state);
    }
    if let Some(too_large) = error.downcast_ref::<OutputTooLarge>() {
        let message = format!("the output is larger than the limit of {}", exact_size(too_large.limit_bytes as u64));
        return Finding::new(Verdict::OutputLimit, &message);
    }
    if error.root_cause().to_string().ends_with(TOO_MUCH_AT_ONCE) {
        return Finding::new(Verdict::OutputLimit, "the task handed over more than 128 MiB in one call");
    }
    let trap = error.downcast_ref::<Trap>().copied();
    // Without a trap of the engine it was a host function or the lifting of a value that refused.
    let code = trap.map_or(TrapCode::Canonical, trap::code);
    let sentence = trap.map_or_else(|| error.root_cause().to_string(), trap::sentence);
    let words = last_words(state).unwrap_or_else(|| sentence.clone());
    Finding {
        verdict: Verdict::Trap(code),
        problem: Problem::new(code.name(), &words, None),
        trap: Some(trap::info(code, &sentence, error.downcast_ref())),
        retry_after: None,
    }
}

/// A failure after a refusal of the sandbox is blamed on the refusal, unless the task has said
/// something better itself.
fn overrule(mut finding: Finding, state: &State) -> Finding {
    let helpless = matches!(finding.verdict, Verdict::Trap(_) | Verdict::Exit(_));
    let would_retry = matches!(finding.verdict, Verdict::ErrorRetryable | Verdict::ErrorRetryAfter);
    if let (true, Some(refusal)) = (helpless, state.limiter.refusal()) {
        let wish = if refusal.initial { "needs at least" } else { "wanted" };
        let (wanted, limit) = (exact_size(refusal.wanted_bytes as u64), exact_size(state.limiter.limit_bytes() as u64));
        let message = format!("the task {wish} {wanted} of memory, the limit is {limit}");
        finding.verdict = Verdict::MemoryLimit;
        finding.problem = Problem::new("memory-limit", &message, last_words(state).as_deref());
    } else if let (true, Some(what)) = (helpless || would_retry, state.denied) {
        // Asking again would be denied again, whatever the task thinks.
        finding.verdict = Verdict::Denied;
        finding.retry_after = None;
        if helpless {
            let message = format!("the task used {what}, which was not granted to it");
            finding.problem = Problem::new("denied", &message, last_words(state).as_deref());
        }
    }
    finding
}

/// What the guest wrote to stderr before it died, as one sentence: the exception of a Python
/// traceback, the line in front of the stack of another language, a Rust panic with its message, otherwise the
/// last line that says something.
fn last_words(state: &State) -> Option<String> {
    let tail = state.stderr_tail();
    let text = String::from_utf8_lossy(&tail.bytes.0);
    let says_something = |line: &&str| !line.is_empty() && !line.starts_with("note: run with `RUST_BACKTRACE");
    let lines = || text.lines().map(str::trim_end).filter(says_something);
    // An interpreter written in Rust panics after the exception, so the exception comes first.
    exception(lines())
        .or_else(|| uncaught(lines()))
        .or_else(|| lines().find_map(of_quickjs))
        .or_else(|| panic_message(lines()))
        .or_else(|| lines().next_back().map(str::to_owned))
}

/// How other languages begin the line in front of a stack: JavaScript, Go.
const UNCAUGHT: [&str; 3] = ["Uncaught ", "panic: ", "fatal error: "];

fn uncaught<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    lines.find(|line| UNCAUGHT.iter().any(|prefix| line.starts_with(prefix))).map(str::to_owned)
}

/// The first line behind the last traceback that is not indented.
fn exception<'a>(lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let (mut inside, mut found) = (false, None);
    for line in lines {
        if line.starts_with("Traceback (most recent call last)") {
            inside = true;
        } else if inside && !line.starts_with(char::is_whitespace) {
            found = Some(line.to_owned());
            inside = false;
        }
    }
    found
}

/// The message in an exception of QuickJS as its wrapper for components prints it.
fn of_quickjs(line: &str) -> Option<String> {
    let (message, _) = line.strip_prefix("Exception { message: Some(\"")?.split_once("\"), stack:")?;
    let plain = message.replace("\\n", " ").replace("\\\"", "\"").replace("\\\\", "\\");
    Some(format!("uncaught exception: {plain}"))
}

fn panic_message<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let place = lines.find_map(|line| line.get(line.find("panicked at")?..))?;
    Some(lines.next().map_or_else(|| place.to_owned(), |message| format!("{place} {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_an_exception_of_quickjs_is_found_in_what_its_wrapper_prints() {
        let line =
            r#"Exception { message: Some("no \"shelf\" in C:\\x"), stack: Some("    at handle (/task.js:30:34)\n") })"#;
        assert_eq!(of_quickjs(line).as_deref(), Some(r#"uncaught exception: no "shelf" in C:\x"#));
        assert_eq!(of_quickjs("Exception { message: None, stack: None })"), None);
    }
}
