//! A dead task: an invocation that was given up, with its whole story.
//!
//! Invariant: building one from an invocation and its last report cannot fail, whatever they hold.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::id::{Digest, InvocationId};
use crate::invocation::{Invocation, MAX_DEATHS_KEPT};
use crate::name::{TaskName, VersionNumber};
use crate::report::{Attempt, FailureReport, Usage};
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// An earlier death of an invocation that was replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// When it was given up.
    pub dead_at: Timestamp,
    /// How often it had been replayed before.
    pub replays: u32,
    /// How many attempts it had.
    pub attempts: u32,
    /// The last verdict.
    pub verdict: Verdict,
    /// The version that ran last.
    pub version: VersionNumber,
    /// The component that ran last.
    pub digest: Digest,
    /// One line of why.
    pub summary: String,
}

/// An invocation that was given up (DESIGN, section "The DLQ").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadTask {
    /// The invocation's id.
    pub id: InvocationId,
    /// The task.
    pub task: TaskName,
    /// The version of the last attempt.
    pub version: VersionNumber,
    /// The component of the last attempt.
    pub component: Digest,
    /// The version of the WIT package the host spoke.
    pub wit: String,
    /// The last verdict.
    pub verdict: Verdict,
    /// Groups failures that are alike: 16 hex digits.
    pub fingerprint: String,
    /// When it was first enqueued.
    pub enqueued_at: Timestamp,
    /// When it was given up.
    pub dead_at: Timestamp,
    /// How many attempts it had since the last replay.
    pub attempts: u32,
    /// The budget it had.
    pub max_attempts: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// 0 to 9.
    #[serde(default)]
    pub priority: u8,
    /// Its own budget of attempts, when the enqueuer gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_max_attempts: Option<std::num::NonZeroU32>,
    /// Key-value pairs of the enqueuer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<(String, String)>,
    /// The failure of the last attempt: error, trap, backtrace, stdout, stderr.
    pub failure: FailureReport,
    /// Every attempt since the last replay, within a cap.
    pub history: Vec<Attempt>,
    /// Its earlier deaths, within a cap, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Death>,
    /// What the last attempt used.
    pub usage: Usage,
    /// The limits it had.
    pub limits: DeadLimits,
    /// What it was granted; nothing yet in this version.
    #[serde(default)]
    pub grants: Vec<String>,
    /// The worker that gave it up.
    pub worker: String,
    /// Name and version of the engine.
    pub engine: String,
    /// The payload, byte for byte.
    pub payload: Bytes,
}

/// The limits of the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLimits {
    /// Wall-clock limit, in milliseconds.
    pub timeout_ms: u64,
    /// Memory limit, in bytes.
    pub memory_bytes: u64,
    /// Output limit, in bytes.
    pub output_bytes: u64,
}

impl From<&Settings> for DeadLimits {
    fn from(settings: &Settings) -> Self {
        Self {
            timeout_ms: settings.timeout.0,
            memory_bytes: settings.memory_bytes,
            output_bytes: settings.output_bytes,
        }
    }
}

impl DeadTask {
    /// One line of why it died.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.history.last().map_or("", |attempt| attempt.summary.as_str())
    }

    /// The death this dead task is, as it will stand in the history of a replay.
    #[must_use]
    pub fn death(&self) -> Death {
        Death {
            dead_at: self.dead_at,
            replays: self.replays,
            attempts: self.attempts,
            verdict: self.verdict.clone(),
            version: self.version,
            digest: self.component,
            summary: self.summary().to_owned(),
        }
    }

    /// The invocation that a replay enqueues: same id, first enqueue time, payload and history, one
    /// replay more, a fresh budget, due at once.
    #[must_use]
    pub fn replay(&self) -> Invocation {
        let mut deaths = self.deaths.clone();
        deaths.push(self.death());
        if deaths.len() > MAX_DEATHS_KEPT {
            deaths.remove(1);
        }
        Invocation {
            id: self.id,
            task: self.task.clone(),
            pin: crate::invocation::Pin::Current,
            enqueued_at: self.enqueued_at,
            due_at: self.enqueued_at,
            is_delay: false,
            priority: self.priority,
            max_attempts: self.own_max_attempts,
            replays: self.replays.saturating_add(1),
            metadata: self.metadata.clone(),
            deaths,
        }
    }
}

/// Groups failures that are alike: the task, the verdict, the error code, and either the author's own
/// functions at the top of the backtrace or the message without its digits. What a compiler adds to a
/// name (hashes, offsets) and frames of a language's runtime do not count, so a rebuild of the same
/// code stays in its group. FNV-1a, 64 bits, as hex.
#[must_use]
pub fn fingerprint(task: &TaskName, verdict: &Verdict, failure: &FailureReport) -> String {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.add(task.as_str());
    hash.add(&verdict.to_string());
    hash.add(&failure.problem.code);
    let names = failure.trap.iter().flat_map(|trap| &trap.frames).filter_map(|frame| frame.function.as_deref());
    let mut named = false;
    for name in names.map(without_hashes).filter(|name| !is_of_a_runtime(name)).take(8) {
        hash.add(&name);
        named = true;
    }
    if !named {
        let first_line = failure.problem.message.lines().next().unwrap_or_default();
        let without_digits: String = first_line.chars().filter(|c| !c.is_ascii_digit()).collect();
        hash.add(&without_digits);
    }
    format!("{:016x}", hash.0)
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

/// Frames that say how a language panics and not why.
fn is_of_a_runtime(name: &str) -> bool {
    const PREFIXES: [&str; 8] = ["std::", "core::", "alloc::", "__rust", "<std::", "<core::", "rust_", "runtime."];
    name == "abort" || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
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
    use crate::report::{Frame, Problem, TrapInfo};
    use crate::verdict::TrapCode;

    fn failure(message: &str) -> FailureReport {
        FailureReport { problem: Problem::new("bad-row", message, None), ..FailureReport::default() }
    }

    #[test]
    fn failures_that_differ_only_in_numbers_have_one_fingerprint() {
        let task: TaskName = "csv".parse().unwrap();
        let print = |message: &str| fingerprint(&task, &Verdict::ErrorPermanent, &failure(message));
        assert_eq!(print("row 17 is short"), print("row 3 is short"));
        assert_ne!(print("row 17 is short"), print("row 17 is long"));
    }

    #[test]
    fn a_rebuild_of_the_same_code_keeps_the_fingerprint_of_its_trap() {
        let task: TaskName = "csv".parse().unwrap();
        let print = |names: &[&str]| {
            let frame = |name: &&str| Frame { function: Some((*name).to_owned()), ..Frame::default() };
            let trap = TrapInfo::new(TrapCode::Unreachable, "unreachable", names.iter().map(frame).collect());
            let failure = FailureReport { trap: Some(trap), ..FailureReport::default() };
            fingerprint(&task, &Verdict::Trap(TrapCode::Unreachable), &failure)
        };
        let first = print(&["abort", "std[1f]::panicking::panic", "csv[16fa]::read_row"]);
        assert_eq!(first, print(&["__rustc[9]::rust_panic", "csv[22bb]::read_row"]));
        assert_ne!(first, print(&["abort", "csv[16fa]::read_header"]));
    }
}
