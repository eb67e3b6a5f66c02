//! Groups failures that are alike, so that an operator sees one failure and not a thousand dead tasks.
//!
//! Invariant: what changes with the payload or with a rebuild of the same code does not count: numbers,
//! addresses, hashes in names, and messages where there are functions to go by. Code without names has nothing
//! but the numbers of its functions, which a rebuild changes: there it is better to have a failure twice than
//! two failures as one.

use std::collections::BTreeSet;

use crate::name::TaskName;
use crate::report::{FailureReport, Frame, is_of_a_runtime};
use crate::verdict::Verdict;

/// The most functions that count, from the innermost.
const MAX_FUNCTIONS: usize = 8;
/// The same for those without a name, among which the language's own cannot be told from the author's.
const MAX_NAMELESS: usize = 24;

/// 16 hex digits for the task, the verdict, the error code, and where it failed: the author's own functions
/// on the stack that the language wrote to stderr (of an interpreted language they are nowhere else), or else
/// in the backtrace, by their numbers where none has a name; where there are none, the message without its
/// digits. FNV-1a, 64 bits.
#[must_use]
pub fn fingerprint(task: &TaskName, verdict: &Verdict, failure: &FailureReport) -> String {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.add(task.as_str());
    hash.add(&verdict.to_string());
    hash.add(&failure.problem.code);
    let mut parts = if matches!(verdict, Verdict::Trap(_) | Verdict::Exit(_)) { place(failure) } else { Vec::new() };
    if parts.is_empty() {
        let first_line = failure.problem.message.lines().next().unwrap_or_default();
        parts.push(first_line.chars().filter(|c| !c.is_ascii_digit()).collect());
    }
    parts.iter().for_each(|part| hash.add(part));
    format!("{:016x}", hash.0)
}

/// Where a guest failed that was not asked: the kind of its exception, and functions from the innermost.
fn place(failure: &FailureReport) -> Vec<String> {
    printed(failure).unwrap_or_else(|| {
        let frames = failure.trap.as_ref().map_or(&[][..], |trap| &trap.frames);
        let names = frames.iter().filter_map(|frame| frame.function.as_deref()).map(without_hashes);
        let named: Vec<String> = names.filter(|name| !is_of_a_runtime(name)).take(MAX_FUNCTIONS).collect();
        if named.is_empty() { nameless(frames) } else { named }
    })
}

/// The functions without a name by their numbers, each once however often it was called, since the depth of a
/// recursion comes from the payload.
fn nameless(frames: &[Frame]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let numbers = frames.iter().filter(|frame| frame.function.is_none()).map(|frame| frame.function_index);
    numbers.filter(|number| seen.insert(*number)).take(MAX_NAMELESS).map(|number| number.to_string()).collect()
}

/// Whether the language itself wrote a stack to stderr, as interpreters do, whose own functions are all there
/// is in a backtrace.
#[must_use]
pub fn has_printed_stack(failure: &FailureReport) -> bool {
    printed(failure).is_some()
}

/// A stack that a language wrote: the kind of the exception, where there are kinds, and the functions from the
/// innermost.
type Stack = (Option<String>, Vec<String>);

/// The stack that the language wrote to stderr, as parts of a fingerprint.
fn printed(failure: &FailureReport) -> Option<Vec<String>> {
    let stderr = String::from_utf8_lossy(&failure.stderr.bytes.0);
    let mut found = [of_python, of_javascript, of_go].into_iter().filter_map(|read| read(&stderr));
    let (kind, functions) = found.find(|(_, functions)| !functions.is_empty())?;
    Some(kind.into_iter().chain(functions.into_iter().take(MAX_FUNCTIONS)).collect())
}

/// The last traceback: `File "FILE", line N, in FUNCTION`, the outermost first, and behind them `TYPE: MESSAGE`.
fn of_python(stderr: &str) -> Option<Stack> {
    let (_, traceback) = stderr.rsplit_once("Traceback (most recent call last)")?;
    let mut lines = traceback.lines().skip(1);
    let mut functions = Vec::new();
    let exception = lines.find(|line| {
        let function = line.trim_start().strip_prefix("File \"").and_then(|place| place.rsplit_once(", in "));
        functions.extend(function.map(|(_, name)| name.to_owned()));
        !line.starts_with(' ') && !line.is_empty()
    });
    let kind = exception.map(|line| line.split_once(':').map_or(line, |(kind, _)| kind).to_owned());
    functions.reverse();
    Some((kind, functions))
}

/// `Uncaught TYPE: MESSAGE` and then `    at FUNCTION (FILE:LINE:COLUMN)`; QuickJS prints the stack on one line
/// when nobody caught the exception.
fn of_javascript(stderr: &str) -> Option<Stack> {
    const ON_ONE_LINE: &str = "stack: Some(\"";
    let (kind, stack) = match stderr.split_once("Uncaught ") {
        Some((_, stack)) => (stack.split([':', '\n']).next(), stack.to_owned()),
        None => (None, stderr.split_once(ON_ONE_LINE)?.1.replace("\\n", "\n")),
    };
    let stack = stack.split_once(ON_ONE_LINE).map_or(stack.as_str(), |(first, _)| first);
    let called = stack.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    let functions = called.map(|line| line.split_once(" (").map_or("<anonymous>", |(name, _)| name).to_owned());
    Some((kind.map(str::to_owned), functions.collect()))
}

/// `goroutine N [STATE]:`, and then two lines a function: `PACKAGE.FUNCTION(ARGUMENTS)` and where it is.
fn of_go(stderr: &str) -> Option<Stack> {
    let (_, stack) = stderr.split_once("\ngoroutine ")?;
    let first = stack.lines().skip(1).take_while(|line| !line.is_empty());
    let calls = first.filter(|line| !line.starts_with(['\t', ' '])).filter_map(|line| line.rsplit_once('('));
    let names = calls.map(|(name, _)| name).filter(|name| !is_of_a_runtime(name));
    Some((None, names.map(str::to_owned).collect()))
}

/// A function name without what is in brackets, such as `csv_report[1681a431dfcf7f1b]::read_row`.
fn without_hashes(name: &str) -> String {
    let mut depth = 0_u32;
    let kept = name.chars().filter(|&c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    kept.collect()
}

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{Bytes, Tail};
    use crate::report::{Problem, TrapInfo};
    use crate::verdict::TrapCode;

    fn print(verdict: &Verdict, failure: &FailureReport) -> String {
        fingerprint(&"csv".parse().unwrap(), verdict, failure)
    }

    fn failure(message: &str) -> FailureReport {
        FailureReport { problem: Problem::new("bad-row", message, None), ..FailureReport::default() }
    }

    /// The fingerprint of a trap with these functions in the backtrace and this on stderr.
    fn of_trap(names: &[&str], message: &str, stderr: &str) -> String {
        let frame = |name: &&str| Frame { function: Some((*name).to_owned()), ..Frame::default() };
        let trap = TrapInfo::new(TrapCode::Unreachable, "unreachable", names.iter().map(frame).collect());
        let stderr = Tail { bytes: Bytes(stderr.as_bytes().to_vec()), total_bytes: stderr.len() as u64 };
        let failure = FailureReport { trap: Some(trap), stderr, ..failure(message) };
        print(&Verdict::Trap(TrapCode::Unreachable), &failure)
    }

    #[test]
    fn failures_that_differ_only_in_numbers_have_one_fingerprint() {
        let print = |message: &str| print(&Verdict::ErrorPermanent, &failure(message));
        assert_eq!(print("row 17 is short"), print("row 3 is short"));
        assert_ne!(print("row 17 is short"), print("row 17 is long"));
    }

    #[test]
    fn a_rebuild_of_the_same_code_keeps_the_fingerprint_of_its_trap() {
        let print = |names: &[&str]| of_trap(names, "", "");
        let first = print(&["abort", "std[1f]::panicking::panic", "csv[16fa]::read_row"]);
        assert_eq!(first, print(&["__rustc[9]::rust_panic", "csv[22bb]::read_row"]));
        assert_ne!(first, print(&["abort", "csv[16fa]::read_header"]));
    }

    #[test]
    fn traps_whose_frames_say_nothing_are_told_apart_by_their_message() {
        let print = |message: &str| of_trap(&["abort", "wasmq:task/handler@0.1.0#handle"], message, "");
        assert_eq!(print("no shelf 3"), print("no shelf 14"));
        assert_ne!(print("no shelf 3"), print("no book"));
    }

    #[test]
    fn traps_in_different_functions_of_code_without_names_are_told_apart() {
        let print = |numbers: &[u32]| {
            let nameless = numbers.iter().map(|number| Frame { function_index: *number, ..Frame::default() });
            let entry = Frame { function: Some("wasmq:task/handler@0.1.0#handle".to_owned()), ..Frame::default() };
            let trap = TrapInfo::new(TrapCode::Unreachable, "unreachable", nameless.chain([entry]).collect());
            let failure = FailureReport { trap: Some(trap), ..failure("unreachable") };
            print(&Verdict::Trap(TrapCode::Unreachable), &failure)
        };
        assert_eq!(print(&[7, 40, 41]), print(&[7, 40, 41]));
        assert_ne!(print(&[7, 40, 41]), print(&[7, 43, 41]));
        assert_eq!(print(&[7, 40, 40, 40, 41]), print(&[7, 40, 40, 41]), "a recursion of another depth");
        assert_eq!(print(&[7, 40, 39, 40, 39, 41]), print(&[7, 40, 39, 41]), "one through two functions");
    }

    #[test]
    fn what_has_no_stack_is_not_taken_for_one() {
        for stderr in
            ["", "Uncaught ", "goroutine ", "panic: x\n\ngoroutine 1 [running]:\n", "thread 'a' panicked at b.rs:1:1:"]
        {
            let bytes = Bytes(stderr.as_bytes().to_vec());
            let failure = FailureReport { stderr: Tail { bytes, total_bytes: 0 }, ..failure("x") };
            assert!(!has_printed_stack(&failure), "{stderr}");
        }
    }

    #[test]
    fn exceptions_of_python_are_told_apart_by_their_type_and_functions() {
        let print = |kind: &str, function: &str, message: &str| {
            let traceback = format!(
                "Traceback (most recent call last):\n  File \"/0/wasmq_task.py\", line 96, in handle\n    return x\n\
                 ~~~~^^\n  File \"/0/shop.py\", line 32, in {function}\n    raise\n{kind}: {message}\n\n\
                 thread '<unnamed>' (1) panicked at runtime/src/lib.rs:1293:29:\n"
            );
            let traceback = traceback.replace("\n~~~~", "\n    ~~~~");
            of_trap(&["abort", "wit_dylib_export_call"], &format!("{kind}: {message}"), &traceback)
        };
        assert_eq!(print("KeyError", "price", "'apple'"), print("KeyError", "price", "'pear'"));
        assert_ne!(print("KeyError", "price", "'apple'"), print("ValueError", "price", "'apple'"));
        assert_ne!(print("KeyError", "price", "'apple'"), print("KeyError", "sum", "'apple'"));
    }

    #[test]
    fn exceptions_of_javascript_are_told_apart_by_their_type_and_functions() {
        let uncaught = |kind: &str, function: &str, message: &str| {
            let stderr = format!(
                "Uncaught {kind}: {message}\n    at {function} (/shop.js:58:21)\n    at handle (/wasmq-task.js:22:45)\n\n\
                 thread '<unnamed>' (1) panicked at crates/runtime/src/interpreter.rs:51:31:\n\
                 Exception {{ message: Some(\"{message}\"), stack: Some(\"    at {function} (/shop.js:58:21)\\n\") }}\n"
            );
            of_trap(&["wasmq:task/handler@0.1.0#handle"], message, &stderr)
        };
        assert_eq!(uncaught("TypeError", "price", "no apple"), uncaught("TypeError", "price", "no pear"));
        assert_ne!(uncaught("TypeError", "price", "no apple"), uncaught("RangeError", "price", "no apple"));
        assert_ne!(uncaught("TypeError", "price", "no apple"), uncaught("TypeError", "sum", "no apple"));
        let plain = |function: &str, message: &str| {
            let stderr = format!(
                "Exception {{ message: Some(\"{message}\"), stack: Some(\"    at {function} (/shop.js:58:21)\\n    at \
                 handle (/shop.js:1:2)\\n\") }}\n"
            );
            of_trap(&[], message, &stderr)
        };
        assert_eq!(plain("price", "no apple"), plain("price", "no pear"));
        assert_ne!(plain("price", "no apple"), plain("sum", "no apple"));
    }

    #[test]
    fn panics_of_go_are_told_apart_by_their_functions() {
        let print = |function: &str, message: &str, argument: &str| {
            let stderr = format!(
                "panic: {message}\n\ngoroutine 1 [running]:\npanic({{0x1, 0x2}})\n\truntime/panic.go:1 +0x2\n\
                 main.(*Shop).{function}({{{argument}, 0x24}}, ...)\n\tshop/main.go:76\nmain.main()\n\tshop/main.go:18 +0x2\n"
            );
            let stderr = Tail { total_bytes: stderr.len() as u64, bytes: Bytes(stderr.into_bytes()) };
            print(&Verdict::Exit(2), &FailureReport { stderr, ..failure(message) })
        };
        assert_eq!(print("Price", "no apple", "0x396009"), print("Price", "no pear", "0x1"));
        assert_ne!(print("Price", "no apple", "0x396009"), print("Sum", "no apple", "0x396009"));
    }

    #[test]
    fn what_a_task_says_of_itself_goes_before_what_it_wrote_to_stderr() {
        let stderr = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 1\n";
        let stderr = Tail { bytes: Bytes(stderr.as_bytes().to_vec()), total_bytes: stderr.len() as u64 };
        let print = |message: &str| {
            print(&Verdict::ErrorPermanent, &FailureReport { stderr: stderr.clone(), ..failure(message) })
        };
        assert_ne!(print("short"), print("long"));
    }
}
