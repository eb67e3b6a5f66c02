//! Clocks that are set while invocations wait.

use wasmq_core::event::Started;
use wasmq_core::state::{Entry, Suspicion};
use wasmq_core::{Attempt, Digest, Invocation, InvocationId, Millis, Moment, Timestamp, Verdict, VersionNumber};

use super::Payload;
use super::schedule::Schedule;

const HOURS_12: u64 = 12 * 3_600_000;
const YEARS_10: u64 = 10 * 365 * 86_400_000;
/// When everything here begins, by the clock of day.
const T: u64 = 1_800_000_000_000;
const DELAY: u64 = 10_000;
/// What the clock of day may show instead of `T`.
const SET_TO: [u64; 5] = [T - HOURS_12, T, T + HOURS_12, T + YEARS_10, 0];

/// So long after the beginning, with the clock of day set to `wall` at the beginning.
fn after(ms: u64, wall: u64) -> Moment {
    Moment { wall: Timestamp(wall + ms), steady: Millis(500 + ms) }
}

fn id() -> InvocationId {
    InvocationId::new(Timestamp(T), 1)
}

fn entry(delay: u64, is_delay: bool) -> Entry<Payload> {
    let mut invocation = Invocation::new(id(), "t".parse().unwrap(), Timestamp(T));
    invocation.due_at = Timestamp(T + delay);
    invocation.is_delay = is_delay;
    Entry::new(invocation, Payload::Inline([].into()))
}

fn failed() -> Attempt {
    Attempt {
        number: 1,
        version: VersionNumber::FIRST,
        digest: Digest::new([0; 32]),
        started_at: Timestamp(T),
        ended_at: Timestamp(T),
        verdict: Verdict::ErrorRetryable,
        deterministic: false,
        summary: String::new(),
    }
}

/// Every way to wait for ten seconds.
fn waiting() -> [(&'static str, Schedule); 3] {
    let now = after(0, T);
    let mut delayed = Schedule::default();
    delayed.insert(entry(DELAY, true), now);
    let mut retried = Schedule::default();
    retried.insert(entry(0, false), now);
    assert!(retried.claim(now).is_some());
    let (version, digest) = (VersionNumber::FIRST, Digest::new([0; 32]));
    retried.started(id(), Started { attempt: 1, version, digest, at: Timestamp(T), alone: false });
    retried.retry(id(), Timestamp(T + DELAY), failed(), now);
    let mut postponed = Schedule::default();
    let mut crashed = entry(0, false);
    crashed.remember(failed());
    crashed.suspicion = Suspicion::Alone;
    postponed.insert(crashed, now);
    postponed.postpone(id(), Millis(DELAY), now);
    [("a delay", delayed), ("a backoff", retried), ("a suspect", postponed)]
}

#[test]
fn a_span_takes_its_time_whatever_the_clock_is_set_to() {
    for wall in SET_TO {
        for (what, mut schedule) in waiting() {
            assert_eq!(schedule.counts().delayed, 1, "{what}");
            assert_eq!(schedule.claim(after(DELAY - 1, wall)), None, "{what} at {wall}");
            assert_eq!(schedule.until_due(after(DELAY - 1, wall)), Some(Millis(1)), "{what} at {wall}");
            assert!(schedule.claim(after(DELAY, wall)).is_some(), "{what} at {wall}");
            assert_eq!(schedule.counts().delayed, 0, "{what}");
        }
    }
}

#[test]
fn a_point_in_time_comes_when_the_clock_shows_it() {
    let mut schedule = Schedule::default();
    schedule.insert(entry(DELAY, false), after(0, T));
    assert_eq!(schedule.claim(after(DELAY, T - HOURS_12)), None);
    assert_eq!(schedule.until_due(after(0, T - HOURS_12)), Some(Millis(HOURS_12 + DELAY)));
    assert!(schedule.claim(after(0, T + DELAY)).is_some());
}

/// Without the process that began the wait only the clock of day is left.
#[test]
fn what_is_taken_over_after_the_clock_was_set_back_waits_no_longer_than_it_was_to() {
    for (what, schedule) in waiting() {
        let found = schedule.get(&id()).unwrap().clone();
        let mut next = Schedule::default();
        next.insert(found, after(0, T - HOURS_12));
        assert_eq!(next.claim(after(DELAY - 1, T - HOURS_12)), None, "{what}");
        assert!(next.claim(after(DELAY, T - HOURS_12)).is_some(), "{what}");
    }
}

#[test]
fn what_was_put_back_by_a_stop_is_due_at_once_after_the_clock_was_set_back() {
    let mut schedule = Schedule::default();
    schedule.insert(entry(DELAY, true), after(0, T));
    assert!(schedule.claim(after(DELAY, T)).is_some());
    let (version, digest) = (VersionNumber::FIRST, Digest::new([0; 32]));
    schedule.started(id(), Started { attempt: 1, version, digest, at: Timestamp(T + DELAY), alone: false });
    schedule.released(id());
    let found = schedule.get(&id()).unwrap();
    assert!(found.is_due(Timestamp(T - HOURS_12)));
    assert_eq!(found.attempts, 0);
}

#[test]
fn what_is_cancelled_while_it_waits_leaves_nothing_behind() {
    for (what, mut schedule) in waiting() {
        schedule.done(&id());
        assert_eq!((schedule.counts().delayed, schedule.until_due(after(0, T))), (0, None), "{what}");
    }
    let mut schedule = Schedule::default();
    schedule.insert(entry(DELAY, false), after(0, T));
    schedule.done(&id());
    assert_eq!(schedule.counts().delayed, 0);
}
