//! What the runtime says of one attempt, and the short form of it that stays with the invocation.
//!
//! Invariant: every text and list in here is capped before it is encoded, so a guest cannot make
//! the bookkeeping fail by the size or content of what it says.

use serde::{Deserialize, Serialize};

use crate::bytes::{Tail, cap_text};
use crate::id::{Digest, InvocationId};
use crate::name::{TaskName, VersionNumber};
use crate::time::{Millis, Timestamp};
use crate::verdict::{TrapCode, Verdict};

/// The longest code of a problem that is kept, in bytes.
pub const MAX_CODE_BYTES: usize = 256;
/// The longest message of a problem that is kept, in bytes; of a longer one head and tail stay.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// The longest details of a problem that are kept, in bytes; of longer ones head and tail stay.
pub const MAX_DETAILS_BYTES: usize = 256 * 1024;
/// How many frames of a backtrace are kept: this many from the top and as many from the bottom.
pub const MAX_FRAMES_EACH_END: usize = 32;
/// The longest function or file name in a frame, in bytes.
pub const MAX_FRAME_NAME_BYTES: usize = 1024;
/// The longest one-line message in the short form of an attempt, in bytes.
pub const MAX_SUMMARY_BYTES: usize = 512;

/// What went wrong, in the task's own words or the host's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Problem {
    /// A short, stable, machine-readable word. Empty when the task gave none.
    pub code: String,
    /// A sentence for the person who has to repair it.
    pub message: String,
    /// Anything more: a stack, the offending row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// The length of the message before it was cut, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<u64>,
}

impl Problem {
    /// A problem with code and message, capped.
    #[must_use]
    pub fn new(code: &str, message: &str, details: Option<&str>) -> Self {
        let (short, cut) = cap_text(message, MAX_MESSAGE_BYTES);
        Self {
            code: cap_text(code, MAX_CODE_BYTES).0,
            message: short,
            details: details.map(|text| cap_text(text, MAX_DETAILS_BYTES).0),
            message_bytes: cut.then_some(message.len() as u64),
        }
    }
}

/// One frame of a wasm backtrace, innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Frame {
    /// The demangled function name; absent when the component has no name section. What symbols that were
    /// added later have is not stored, but added when the frame is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The core module inside the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The index of the function in its module.
    pub function_index: u32,
    /// The offset of the instruction in the component, in bytes. With the component it also says which of its
    /// core modules the frame belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// `file:line:column`, where the component has debug information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Frame {
    /// Whether it is of the author's code, as far as its name or place tells: not how a language panics, not how
    /// the host called. The culprit hardly is among the others.
    #[must_use]
    pub fn is_own(&self) -> bool {
        // Rust's sources lie there whoever built them; what was inlined has lost its crate from its name.
        const SOURCES: [&str; 3] = ["library/std/src/", "library/core/src/", "library/alloc/src/"];
        if self.source.as_deref().is_some_and(|source| SOURCES.iter().any(|place| source.contains(place))) {
            return false;
        }
        self.function.as_deref().is_none_or(|name| !is_of_a_runtime(name))
    }
}

/// Whether a function is of a language's own machinery, or where the host calls a component.
pub(crate) fn is_of_a_runtime(name: &str) -> bool {
    const NAMES: [&str; 8] =
        ["_start", "abort", "raise", "panic", "rust_begin_unwind", "rust_eh_personality", "rust_oom", "rust_panic"];
    const PREFIXES: [&str; 4] = ["__", "_start.", "runtime.", "wit_dylib_"];
    // What clang makes of `int main(int argc, char **argv)`.
    if name == "__main_argc_argv" {
        return false;
    }
    let is_entry_point = name.contains('#') && (name.starts_with("wasmq:") || name.starts_with("wasi:"));
    is_entry_point
        || NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_of_rust(name)
}

/// Whether a function is of Rust's own libraries: by its path, or as one of a type and a trait that both are.
fn is_of_rust(name: &str) -> bool {
    let is_of_library = |path: &str| ["std::", "core::", "alloc::"].iter().any(|library| path.starts_with(library));
    let Some(implementation) = name.strip_prefix('<').and_then(up_to_closing) else { return is_of_library(name) };
    let (of, interface) = implementation;
    // What the language itself has, such as `str` and `[T]`, is the one type that has no path.
    (is_of_library(of) || !of.contains("::")) && interface.is_none_or(is_of_library)
}

/// The type and the trait of `TYPE as TRAIT>::function` or `TYPE>::function`.
fn up_to_closing(text: &str) -> Option<(&str, Option<&str>)> {
    let (mut depth, mut last, mut separator) = (0_u32, ' ', None);
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if last == '-' => {}
            '>' if depth == 0 => {
                let (inside, function) = text.split_at(at);
                let parts = separator.map_or((inside, None), |at| {
                    let (of, interface) = inside.split_at(at);
                    (of, interface.strip_prefix(" as "))
                });
                return function.starts_with(">::").then_some(parts);
            }
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && separator.is_none() && text.get(at..)?.starts_with(" as ") => separator = Some(at),
            _ => {}
        }
        last = c;
    }
    None
}

/// A trap with its backtrace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrapInfo {
    /// The name of the trap code, without `trap.`.
    pub code: String,
    /// The engine's sentence.
    pub message: String,
    /// The kept frames, innermost first.
    pub frames: Vec<Frame>,
    /// How many frames were left out of the middle.
    #[serde(default)]
    pub frames_omitted: u64,
}

impl TrapInfo {
    /// A trap with its frames, capped at both ends.
    #[must_use]
    pub fn new(code: TrapCode, message: &str, frames: Vec<Frame>) -> Self {
        let message = cap_text(message, MAX_MESSAGE_BYTES).0;
        Self { code: code.name().to_owned(), message, frames: Vec::new(), frames_omitted: 0 }.with_frames(frames)
    }

    /// The same trap with other frames for those that it has, capped at both ends.
    #[must_use]
    pub fn with_frames(&self, mut frames: Vec<Frame>) -> Self {
        let mut frames_omitted = self.frames_omitted;
        if frames.len() > 2 * MAX_FRAMES_EACH_END {
            let bottom = frames.split_off(frames.len() - MAX_FRAMES_EACH_END);
            frames_omitted += (frames.len() - MAX_FRAMES_EACH_END) as u64;
            frames.truncate(MAX_FRAMES_EACH_END);
            frames.extend(bottom);
        }
        for frame in &mut frames {
            for name in [&mut frame.function, &mut frame.module, &mut frame.source].into_iter().flatten() {
                if name.len() > MAX_FRAME_NAME_BYTES {
                    *name = cap_text(name, MAX_FRAME_NAME_BYTES).0;
                }
            }
        }
        Self { code: self.code.clone(), message: self.message.clone(), frames, frames_omitted }
    }
}

/// What an attempt used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The largest linear memory, all memories together, in bytes.
    pub memory_peak_bytes: u64,
    /// Time spent running guest code, in microseconds.
    pub cpu_us: u64,
    /// Time from start to end, in microseconds.
    pub wall_us: u64,
}

/// A follow-up invocation that an attempt asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowUp {
    /// Its id, derived from the parent's.
    pub id: InvocationId,
    /// The task to run.
    pub task: TaskName,
    /// Its payload.
    pub payload: Vec<u8>,
    /// The earliest first attempt, from the completion of the parent.
    pub delay: Millis,
    /// Key-value pairs.
    pub metadata: Vec<(String, String)>,
}

/// Everything the runtime knows of one attempt once it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptReport {
    /// How it ended.
    pub verdict: Verdict,
    /// The output, when it completed.
    pub output: Vec<u8>,
    /// The rest, which only failures have and a completed attempt does not pay for.
    pub failure: Option<Box<FailureReport>>,
    /// What the attempt used.
    pub usage: Usage,
    /// Follow-ups of a completed attempt.
    pub follow_ups: Vec<FollowUp>,
    /// What a completed attempt said besides its output, when it said anything. A failure has it in its report.
    pub said: Option<Box<Said>>,
}

/// What a completed attempt said besides its output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Said {
    /// The end of stdout, unless that is the output.
    #[serde(default)]
    pub stdout: Tail,
    /// The end of stderr.
    #[serde(default)]
    pub stderr: Tail,
    /// The last structured log records and progress, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// What is known of a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FailureReport {
    /// The task's own words, or the host's when it had none.
    pub problem: Problem,
    /// The trap, when it trapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trap: Option<TrapInfo>,
    /// The end of stdout.
    #[serde(default)]
    pub stdout: Tail,
    /// The end of stderr.
    #[serde(default)]
    pub stderr: Tail,
    /// The last structured log records and progress, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Whether the same component on the same bytes must fail the same way again.
    pub deterministic: bool,
    /// What the attempt called that can differ between attempts; empty when `deterministic`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<String>,
    /// The delay the task asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Millis>,
}

/// The short form of one attempt, kept with the invocation until it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 1, and again from 1 after a replay.
    pub number: u32,
    /// The version that ran.
    pub version: VersionNumber,
    /// The component that ran.
    pub digest: Digest,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended, or when its end was noticed.
    pub ended_at: Timestamp,
    /// How it ended.
    pub verdict: Verdict,
    /// Whether the failure was proved deterministic.
    #[serde(default)]
    pub deterministic: bool,
    /// One line of why, at most [`MAX_SUMMARY_BYTES`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machinery_of_a_language_and_the_entry_point_are_not_the_author_s() {
        let frame = |name: &str, source: Option<&str>| Frame {
            function: Some(name.to_owned()),
            source: source.map(str::to_owned),
            ..Frame::default()
        };
        for name in [
            "abort",
            "_start",
            "_start.command_export",
            "__main_void",
            "std::panicking::begin",
            "__rustc::rust_panic",
            "wasmq:task/handler@0.1.0#handle",
        ] {
            assert!(!frame(name, None).is_own(), "{name}");
        }
        for name in ["handle", "csv::read_row", "main.outer", "abort_order", "C#", "main", "__main_argc_argv"] {
            assert!(frame(name, None).is_own(), "{name}");
        }
        for name in [
            "<str as core::fmt::Display>::fmt",
            "<str>::trim",
            "<[u8]>::copy_from_slice",
            "<[T] as core::slice::CloneFromSpec<T>>::spec_clone_from",
            "< as alloc::slice::Join<&str>>::join",
            "<usize as core::slice::index::SliceIndex<[T]>>::index",
            "<alloc::vec::Vec<strategy::Plan> as core::ops::Index<usize>>::index",
            "<fn() -> u8 as core::ops::FnOnce<()>>::call_once",
            "rust_begin_unwind",
            "rust_panic",
        ] {
            assert!(!frame(name, None).is_own(), "{name}");
        }
        for name in [
            "<strategy::Plan as strategy::Task>::run",
            "<strategy::Plan as core::fmt::Display>::fmt",
            "<string_cache::Atom>::new",
            "<str as strategy::Task>::run",
            "<alloc::vec::Vec<u8> as strategy::Task>::run",
            "rust_decimal::Decimal::parse",
            "rust_main",
            "<anonymous>",
            "<",
        ] {
            assert!(frame(name, None).is_own(), "{name}");
        }
        assert!(!frame("panic_fmt", Some("/rustc/abc/library/core/src/panicking.rs:80:14")).is_own());
        assert!(frame("panic_fmt", Some("src/panicking.rs:80:14")).is_own());
        assert!(Frame::default().is_own(), "nobody knows");
    }

    #[test]
    fn a_backtrace_keeps_both_ends_and_counts_the_rest() {
        let frames = (0..1000).map(|n| Frame { function_index: n, ..Frame::default() }).collect();
        let trap = TrapInfo::new(TrapCode::StackOverflow, "call stack exhausted", frames);
        assert_eq!(trap.frames.len(), 64);
        assert_eq!(trap.frames_omitted, 936);
        assert_eq!(trap.frames.last().unwrap().function_index, 999);
    }

    #[test]
    fn a_message_over_the_limit_keeps_its_length() {
        let problem = Problem::new("c", &"x".repeat(MAX_MESSAGE_BYTES + 1), None);
        assert_eq!(problem.message_bytes, Some(MAX_MESSAGE_BYTES as u64 + 1));
        assert!(problem.message.len() <= MAX_MESSAGE_BYTES);
        assert_eq!(Problem::new("c", &"x".repeat(MAX_MESSAGE_BYTES), None).message_bytes, None);
    }
}
