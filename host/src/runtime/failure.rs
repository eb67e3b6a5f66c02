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
    let words = words(state, Some(code)).unwrap_or_else(|| format!("the task left with exit code {code}"));
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

/// The exit codes with which languages end a program that failed: Python and JavaScript, Go, Rust, `abort`.
const OF_LANGUAGES: [u32; 4] = [1, 2, 101, 134];

/// What the guest wrote to stderr before it died.
fn last_words(state: &State) -> Option<String> {
    words(state, None)
}

fn words(state: &State, code: Option<u32>) -> Option<String> {
    words_in(&String::from_utf8_lossy(&state.stderr_tail().bytes.0), code)
}

/// The words of a language that ended the program, or the last line that says something. A program that chose
/// its exit code has caught what came before: there the words of a language count only at the very end.
fn words_in(stderr: &str, code: Option<u32>) -> Option<String> {
    let says_something = |line: &&str| !line.is_empty() && !line.starts_with("note: run with `RUST_BACKTRACE");
    let lines: Vec<&str> = stderr.lines().map(str::trim_end).filter(says_something).collect();
    let last = *lines.last()?;
    let is_chosen = code.is_some_and(|code| !OF_LANGUAGES.contains(&code));
    let is_at_the_end = |words: &String| last.starts_with(char::is_whitespace) || words.ends_with(last);
    let words = of_a_language(&lines).filter(|words| !is_chosen || is_at_the_end(words));
    Some(words.unwrap_or_else(|| last.to_owned()))
}

/// The exception of a Python traceback, the line in front of the stack of another language, a Rust panic with its
/// message. An interpreter written in Rust panics after the exception, so the exception comes first.
fn of_a_language(lines: &[&str]) -> Option<String> {
    exception(lines.iter().copied())
        .or_else(|| uncaught(lines))
        .or_else(|| lines.iter().find_map(|line| of_quickjs(line)))
        .or_else(|| panic_message(lines.iter().copied()))
}

/// How other languages begin the line in front of a stack.
const OF_JAVASCRIPT: &str = "Uncaught ";
const OF_GO: [&str; 2] = ["panic: ", "fatal error: "];

/// The last such line that a stack follows; nothing else begins like that only at the end of a program.
fn uncaught(lines: &[&str]) -> Option<String> {
    (0..lines.len()).rev().find_map(|at| {
        let (line, rest) = lines.get(at..)?.split_first()?;
        let is_script = line.starts_with(OF_JAVASCRIPT);
        let begins = is_script || OF_GO.iter().any(|prefix| line.starts_with(prefix));
        (begins && is_followed_by_stack(is_script, rest)).then(|| (*line).to_owned())
    })
}

/// Whether the next of what ends a program is a stack of the language: behind the message, which can have several
/// lines. What was thrown and is no error has no stack; then the interpreter panics at once.
fn is_followed_by_stack(is_script: bool, rest: &[&str]) -> bool {
    if is_script && rest.first().is_some_and(|line| line.contains(PANICKED)) {
        return true;
    }
    let is_stack = |line: &str| match is_script {
        true => line.trim_start().starts_with("at ") && line.starts_with(char::is_whitespace),
        false => line.starts_with("goroutine ") || line.starts_with("runtime stack:"),
    };
    rest.iter().take_while(|line| !line.contains(PANICKED)).any(|line| is_stack(line))
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
    let message = unquoted(line.strip_prefix("Exception { message: Some(\"")?)?;
    Some(format!("uncaught exception: {message}"))
}

/// A text up to its closing quote as Rust's `Debug` prints it, on one line. Rare characters stay escaped.
fn unquoted(text: &str) -> Option<String> {
    let (mut plain, mut characters) = (String::new(), text.chars());
    loop {
        match characters.next()? {
            '"' => return Some(plain),
            '\\' => match characters.next()? {
                'n' | 'r' | 't' => plain.push(' '),
                escaped @ ('"' | '\'' | '\\') => plain.push(escaped),
                other => plain.extend(['\\', other]),
            },
            other => plain.push(other),
        }
    }
}

/// How Rust says where it panicked.
const PANICKED: &str = "panicked at";

fn panic_message<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let place = lines.find_map(|line| line.get(line.find(PANICKED)?..))?;
    Some(lines.next().map_or_else(|| place.to_owned(), |message| format!("{place} {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_an_exception_of_quickjs_is_found_in_what_its_wrapper_prints() {
        let printed = |message: &str| {
            let stack = "    at handle (/task.js:30:34)\n";
            format!("Exception {{ message: Some({message:?}), stack: Some({stack:?}) }})")
        };
        for (message, expected) in [
            (r#"no "shelf" in C:\x"#, r#"no "shelf" in C:\x"#),
            (r"C:\new\table", r"C:\new\table"),
            ("two\nlines\tand\ra \u{7f}", "two lines and a \\u{7f}"),
            (r#"it said "), stack: Some("x"#, r#"it said "), stack: Some("x"#),
        ] {
            assert_eq!(of_quickjs(&printed(message)), Some(format!("uncaught exception: {expected}")));
        }
        for line in [
            "Exception { message: None, stack: None })",
            r#"Exception { message: Some("cut off"#,
            r#"Exception { message: Some("\"#,
        ] {
            assert_eq!(of_quickjs(line), None);
        }
    }

    const CHOSEN: Option<u32> = Some(65);

    #[test]
    fn a_line_that_only_looks_like_the_end_is_not_taken_for_it() {
        for code in [CHOSEN, Some(1)] {
            assert_eq!(words("fatal error: retrying\nbad row 3\n", code), "bad row 3");
        }
        let panicked = "Uncaught in row 3\nmore\nfatal error: again\nthread 'main' panicked at src/a.rs:1:2:\nno shelf\n   0: f\n             at src/a.rs:1:2\n";
        assert_eq!(words(panicked, None), "panicked at src/a.rs:1:2: no shelf");
        assert_eq!(words("panic: x\n", Some(2)), "panic: x");
    }

    #[test]
    fn the_line_in_front_of_the_last_stack_speaks() {
        let go = "fatal error: retrying\npanic: no\nshelf\n[signal SIGSEGV]\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:3 +0x2\n";
        assert_eq!(words(go, Some(2)), "panic: no");
        let script = "Uncaught Error: one\n    at f (/a.js:1:2)\ngoing on\nUncaught Error: two\n    at f (/a.js:1:2)\n";
        assert_eq!(words(script, None), "Uncaught Error: two");
        let thrown = "Uncaught 5\n\nthread '<unnamed>' (1) panicked at crates/runtime/src/interpreter.rs:51:31:\nx\n";
        assert_eq!(words(thrown, None), "Uncaught 5");
        let overflow = "runtime: goroutine stack exceeds 1000000000-byte limit\nfatal error: stack overflow\n\nruntime stack:\nruntime.throw()\n";
        assert_eq!(words(overflow, Some(2)), "fatal error: stack overflow");
    }

    /// Who chooses an exit code has caught what came before, and says why at the end.
    #[test]
    fn a_program_that_chose_its_exit_code_has_said_why_in_its_last_line() {
        let caught = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 1\nbad row 3\n";
        assert_eq!(words(caught, CHOSEN), "bad row 3");
        assert_eq!(words(caught, Some(1)), "KeyError: 1", "Python leaves with 1 itself");
        let panicked = "thread 'main' panicked at src/a.rs:1:2:\nno shelf\n";
        assert_eq!(words(&format!("{panicked}bad row 3\n"), CHOSEN), "bad row 3");
        assert_eq!(words(panicked, CHOSEN), "panicked at src/a.rs:1:2: no shelf");
        let stack = "Uncaught Error: two\n    at f (/a.js:1:2)\n";
        assert_eq!(words(stack, CHOSEN), "Uncaught Error: two");
        assert_eq!(words(&format!("{stack}bad row 3\n"), CHOSEN), "bad row 3");
    }

    fn words(stderr: &str, code: Option<u32>) -> String {
        words_in(stderr, code).unwrap()
    }
}
