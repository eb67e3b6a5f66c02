//! How a failed attempt looks: the error, the trap with its backtrace, what it wrote.

use std::borrow::Cow;

use wasmq_core::fingerprint::has_printed_stack;
use wasmq_core::report::{FailureReport, Frame, Said};
use wasmq_core::{Tail, TrapCode, TrapInfo, Verdict};

use super::attempts::first_line;
use super::sheet::Sheet;
use crate::cli::output::Output;
use crate::cli::output::paint::Tone;
use crate::cli::output::safe::{safe_block, safe_bytes};
use crate::cli::output::time;

/// What to do about a backtrace of numbers.
const NAMELESS: &str =
    "built without names: keep `name` and debug sections, or add them later with `wasmq symbols add`";

/// The tone of a verdict.
#[must_use]
pub const fn tone_of(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::Completed => Tone::Good,
        Verdict::ErrorRetryable | Verdict::ErrorRetryAfter | Verdict::Timeout | Verdict::Cancelled => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// Says why a failure was, or was not, worth another attempt.
#[must_use]
pub fn repeatability(failure: &FailureReport) -> Option<String> {
    if failure.deterministic {
        return Some("deterministic: the same component on the same bytes must fail the same way again".to_owned());
    }
    if failure.observed.is_empty() {
        return None;
    }
    Some(format!("may differ between attempts: it used {}", failure.observed.join(", ")))
}

/// Says on stderr how an attempt ended and everything that is known of why. `rest` is what shows what is
/// left out; with none, nothing is.
pub fn note(
    out: &mut Output,
    verdict: &Verdict,
    beside: &str,
    failure: Option<&FailureReport>,
    rest: Option<&'static str>,
) {
    let mut sheet = out.notes_sheet().with_rest(rest);
    sheet.sentence(tone_of(verdict), &format!("{verdict} {beside}"));
    if let Some(failure) = failure {
        if let Some(why) = repeatability(failure) {
            sheet.sentence(Tone::Plain, &why);
        }
        show(&mut sheet, failure);
    }
    out.note_page(sheet);
}

/// Adds everything that is known of a failed attempt.
pub fn show(sheet: &mut Sheet, failure: &FailureReport) {
    problem(sheet, failure);
    if let Some(trap) = &failure.trap {
        sheet.heading("BACKTRACE", &format!("trap.{}, innermost first", trap.code));
        backtrace(sheet, trap, failure);
    }
    said(sheet, &failure.stdout, &failure.stderr, &failure.log);
}

/// Says on stderr what a completed attempt said besides its output. `rest` is as in [`note`].
pub fn note_said(out: &mut Output, words: Option<&Said>, rest: Option<&'static str>) {
    let Some(words) = words else { return };
    let mut sheet = out.notes_sheet().with_rest(rest);
    said(&mut sheet, &words.stdout, &words.stderr, &words.log);
    out.note_page(sheet);
}

/// Adds what a task said besides its output.
pub fn said(sheet: &mut Sheet, stdout: &Tail, stderr: &Tail, log: &[String]) {
    tail(sheet, "STDOUT", stdout);
    tail(sheet, "STDERR", stderr);
    if !log.is_empty() {
        sheet.heading("LOG", "the last records of the task");
        sheet.block(&safe_block(&log.join("\n")));
    }
}

fn problem(sheet: &mut Sheet, failure: &FailureReport) {
    let problem = &failure.problem;
    sheet.heading("ERROR", &problem.code);
    sheet.block(&safe_block(&problem.message));
    if let Some(bytes) = problem.message_bytes {
        sheet.sentence(Tone::Faint, &format!("the message had {} and was cut", time::count(bytes, "byte", "bytes")));
    }
    if let Some(details) = problem.details.as_deref().filter(|details| !details.is_empty()) {
        sheet.heading("DETAILS", "");
        sheet.block(&safe_block(details));
    }
}

fn backtrace(sheet: &mut Sheet, trap: &TrapInfo, failure: &FailureReport) {
    if trap.frames.is_empty() {
        sheet.sentence(Tone::Faint, "the engine has no frames of this trap");
        return;
    }
    if let Some(rest) = sheet.rest().filter(|_| has_printed_stack(failure)) {
        let count = time::count(trap.frames.len() as u64 + trap.frames_omitted, "frame", "frames");
        let text = format!("    {count} of the interpreter; {rest} shows them. The stack of the task is below");
        return sheet.sentence(Tone::Faint, &text);
    }
    let folded = sheet.rest().and_then(|rest| Some((folded(trap)?, rest)));
    frames(sheet, trap, folded.map_or(0, |(count, _)| count));
    if let Some((count, rest)) = folded {
        let last = count.saturating_sub(1);
        let kind = if trap.code == TrapCode::Unreachable.name() { " panic machinery" } else { "" };
        sheet.sentence(Tone::Faint, &format!("    frames 0 to {last} are the language's own{kind}; {rest} shows them"));
    }
    if lacks_names(failure) {
        sheet.sentence(Tone::Faint, &format!("    {NAMELESS}"));
    }
}

/// Whether a backtrace is of code without names. A few nameless frames among others are what a toolchain adds,
/// and an interpreter says itself where it was.
#[must_use]
pub fn lacks_names(failure: &FailureReport) -> bool {
    let frames = failure.trap.as_ref().map_or(&[][..], |trap| &trap.frames);
    let nameless = frames.iter().filter(|frame| frame.function.is_none()).count();
    nameless > 0 && nameless * 2 >= frames.len() && !has_printed_stack(failure)
}

/// How many frames at the top are the language's own, when they are many enough to stand in the way
/// and one of the author's follows.
fn folded(trap: &TrapInfo) -> Option<usize> {
    trap.frames.get(..split(trap)).unwrap_or(&trap.frames).iter().position(Frame::is_own).filter(|count| *count > 1)
}

/// Where frames are missing in the middle.
const fn split(trap: &TrapInfo) -> usize {
    if trap.frames_omitted > 0 { trap.frames.len() / 2 } else { usize::MAX }
}

/// Lists the frames from one on, each with its number in the whole backtrace.
fn frames(sheet: &mut Sheet, trap: &TrapInfo, from: usize) {
    let mut number = from as u64;
    let mut last: Option<(String, String)> = None;
    let mut again = 0;
    for (at, frame) in trap.frames.iter().enumerate().skip(from) {
        if at == split(trap) {
            repeated(sheet, std::mem::take(&mut again));
            number += trap.frames_omitted;
            let left_out = time::count(trap.frames_omitted, "frame", "frames");
            sheet.sentence(Tone::Faint, &format!("    … {left_out} left out …"));
        }
        let this = (name(frame), place(frame));
        if last.as_ref() == Some(&this) && sheet.rest().is_some() {
            again += 1;
        } else {
            repeated(sheet, std::mem::take(&mut again));
            let tone = if frame.is_own() { Tone::Strong } else { Tone::Faint };
            sheet.numbered(number, tone, &this.0, &this.1);
            last = Some(this);
        }
        number += 1;
    }
    repeated(sheet, again);
}

/// Says that the frame above stands there more often, as in a recursion.
fn repeated(sheet: &mut Sheet, times: u64) {
    if times > 0 {
        let more = time::count(times, "more frame", "more frames");
        sheet.sentence(Tone::Faint, &format!("    … and {more} of the same …"));
    }
}

/// One line of why an attempt failed: the summary, and where the engine had to speak because the task
/// said nothing, the author's function that it happened in.
#[must_use]
pub fn why<'a>(summary: &'a str, failure: &FailureReport) -> Cow<'a, str> {
    let line = first_line(summary);
    let silent = failure.trap.as_ref().filter(|trap| trap.message == failure.problem.message);
    let own = silent.and_then(|trap| {
        let mut named = trap.frames.iter().filter(|frame| frame.function.is_some());
        // What was inlined into the entry point has no other name.
        named.clone().find(|frame| frame.is_own()).or_else(|| named.next_back())
    });
    match own {
        Some(Frame { function: Some(name), source: Some(place), .. }) => format!("{line} in {name} ({place})").into(),
        Some(frame) => format!("{line} in {}", name(frame)).into(),
        None => line.into(),
    }
}

fn name(frame: &Frame) -> String {
    frame.function.clone().unwrap_or_else(|| format!("function {}", frame.function_index))
}

/// `file:line:column`, or where the instruction lies in its module.
fn place(frame: &Frame) -> String {
    if let Some(source) = &frame.source {
        return source.clone();
    }
    let module = frame.module.as_deref().unwrap_or("wasm");
    frame.offset.map_or_else(|| module.to_owned(), |offset| format!("{module}+{offset:#x}"))
}

fn tail(sheet: &mut Sheet, title: &str, tail: &Tail) {
    let bytes = &tail.bytes.0;
    if bytes.is_empty() {
        return;
    }
    let beside = if tail.is_cut() {
        format!("the last {} of {}", time::bytes(bytes.len() as u64), time::bytes(tail.total_bytes))
    } else {
        time::bytes(tail.total_bytes)
    };
    sheet.heading(title, &beside);
    sheet.block(&safe_bytes(bytes));
}

#[cfg(test)]
mod tests {
    use wasmq_core::Bytes;
    use wasmq_core::report::Problem;

    use super::*;
    use crate::cli::output::paint::Paint;

    const PANIC: [&str; 5] =
        ["abort", "__rustc::rust_panic", "std::panicking::begin", "core::panicking::panic_fmt", "csv::read_row"];

    fn trap(names: &[&str]) -> TrapInfo {
        let frame = |name: &&str| Frame { function: Some((*name).to_owned()), ..Frame::default() };
        TrapInfo::new(TrapCode::Unreachable, "unreachable executed", names.iter().map(frame).collect())
    }

    fn page(names: &[&str], rest: Option<&'static str>) -> Vec<String> {
        let mut sheet = Sheet::new(Paint::off(), None).with_rest(rest);
        sheet.heading("BACKTRACE", "");
        backtrace(&mut sheet, &trap(names), &FailureReport::default());
        sheet.into_lines()
    }

    #[test]
    fn the_author_s_frame_is_on_top_with_its_real_number_and_the_machinery_is_one_line() {
        let lines = page(&[&PANIC[..], &["handle"]].concat(), Some("--full"));
        assert_eq!(lines.len(), 4, "{lines:#?}");
        assert!(lines[1].starts_with("   4  csv::read_row") && lines[2].starts_with("   5  handle"), "{lines:#?}");
        assert_eq!(lines[3].trim(), "frames 0 to 3 are the language's own panic machinery; --full shows them");
    }

    #[test]
    fn nothing_is_folded_when_everything_is_wanted_or_nothing_would_be_left() {
        assert_eq!(page(&PANIC, None).len(), 6);
        assert_eq!(page(&PANIC[..4], Some("--full")).len(), 5);
        assert_eq!(page(&["abort", "handle"], Some("--full")).len(), 3);
        let deep: Vec<&str> = [["core::a"; 400], ["mine"; 400]].concat();
        assert!(page(&deep, Some("--full"))[1].starts_with("   0  core::a"), "the author's frame is behind the gap");
    }

    #[test]
    fn a_backtrace_of_numbers_says_what_to_do_and_one_with_names_does_not() {
        let told = |names: &[&str], stderr: &str| {
            let mut trap = trap(names);
            trap.frames.iter_mut().filter(|frame| frame.function.as_deref() == Some("")).for_each(|frame| {
                frame.function = None;
            });
            let stderr = Tail { bytes: Bytes(stderr.as_bytes().to_vec()), total_bytes: 0 };
            let failure = FailureReport { trap: Some(trap.clone()), stderr, ..FailureReport::default() };
            let mut sheet = Sheet::new(Paint::off(), None);
            backtrace(&mut sheet, &trap, &failure);
            sheet.into_lines().join("\n")
        };
        let hint = |names: &[&str]| told(names, "").contains("built without names");
        assert!(hint(&["", "", ""]) && hint(&["adapter", ""]));
        assert!(!hint(&PANIC) && !hint(&["handle", "", "run"]) && !hint(&[]));
        let stack = "Uncaught Error: no shelf\n    at price (/shop.js:58:21)\n";
        let told = told(&["", ""], stack);
        assert_eq!(told.trim(), "2 frames of the interpreter; --json shows them. The stack of the task is below");
    }

    #[test]
    fn a_task_that_said_nothing_is_told_apart_by_its_function() {
        let failure = |message: &str| FailureReport {
            problem: Problem::new("unreachable", message, None),
            trap: Some(trap(&PANIC)),
            ..FailureReport::default()
        };
        let told = |message: &str| why(message, &failure(message)).into_owned();
        assert_eq!(told("unreachable executed"), "unreachable executed in csv::read_row");
        assert_eq!(told("panicked at src/lib.rs: row 3\nmore"), "panicked at src/lib.rs: row 3");
        let mut nameless = failure("unreachable executed");
        nameless.trap.as_mut().unwrap().frames.iter_mut().for_each(|frame| frame.function = None);
        assert_eq!(why("unreachable executed", &nameless), "unreachable executed");
    }
}
