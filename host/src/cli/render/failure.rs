//! How a failed attempt looks: the error, the trap with its backtrace, what it wrote.

use wasmq_core::report::{FailureReport, Frame};
use wasmq_core::{Tail, TrapInfo, Verdict};

use super::sheet::Sheet;
use crate::cli::output::Output;
use crate::cli::output::paint::Tone;
use crate::cli::output::safe::{safe_block, safe_bytes};
use crate::cli::output::time;

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

/// Says on stderr how an attempt ended and everything that is known of why.
pub fn note(out: &mut Output, verdict: &Verdict, beside: &str, failure: Option<&FailureReport>) {
    let mut sheet = out.notes_sheet();
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
        backtrace(sheet, trap);
    }
    tail(sheet, "STDERR", &failure.stderr);
    tail(sheet, "STDOUT", &failure.stdout);
    if !failure.log.is_empty() {
        sheet.heading("LOG", "the last records of the task");
        sheet.block(&safe_block(&failure.log.join("\n")));
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

fn backtrace(sheet: &mut Sheet, trap: &TrapInfo) {
    sheet.heading("BACKTRACE", &format!("trap.{}, innermost first", trap.code));
    if trap.frames.is_empty() {
        sheet.sentence(Tone::Faint, "the engine has no frames of this trap");
        return;
    }
    let split = if trap.frames_omitted > 0 { trap.frames.len() / 2 } else { usize::MAX };
    let mut number = 0;
    let mut last: Option<(String, String)> = None;
    let mut again = 0;
    for (at, frame) in trap.frames.iter().enumerate() {
        if at == split {
            repeated(sheet, std::mem::take(&mut again));
            number += trap.frames_omitted;
            let left_out = time::count(trap.frames_omitted, "frame", "frames");
            sheet.sentence(Tone::Faint, &format!("    … {left_out} left out …"));
        }
        let this = (name(frame), place(frame));
        if last.as_ref() == Some(&this) {
            again += 1;
        } else {
            repeated(sheet, std::mem::take(&mut again));
            let tone = if is_plumbing(&this.0) { Tone::Faint } else { Tone::Strong };
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

/// Whether a function belongs to the language's own machinery and hardly is the culprit.
fn is_plumbing(name: &str) -> bool {
    const PREFIXES: [&str; 7] = ["std::", "core::", "alloc::", "<core::", "<alloc::", "<std::", "__"];
    name == "abort" || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
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
