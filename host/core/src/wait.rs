//! What a queued invocation waits for, by the clock of day alone.
//!
//! A point in time that somebody named is waited for on the clock of day. Everything else is a span: the
//! delay of an enqueue, the backoff after an attempt. A span is never longer than it was to be, so a clock
//! that is set back makes 10 seconds no 12 hours. Whoever lives through a span measures it with a clock
//! that nobody sets; this here is for whoever finds it written down.
//!
//! Invariant: what was never delayed, or has run already and was put back, is due whatever the clock says.

use crate::state::{Entry, Phase};
use crate::time::{Millis, Timestamp};

/// What a queued invocation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it may start.
    Over,
    /// That so much time passes, more than none.
    For(Millis),
    /// That the clock shows this, which it does not yet.
    Until(Timestamp),
}

impl<P> Entry<P> {
    /// What it waits for. One that is not queued waits for nothing.
    pub fn wait(&self, now: Timestamp) -> Wait {
        let Phase::Queued { due } = self.phase else { return Wait::Over };
        match self.counted_from(due) {
            Some(from) => match due.since(now).min(due.since(from)) {
                Millis(0) => Wait::Over,
                rest => Wait::For(rest),
            },
            None if due > now => Wait::Until(due),
            None => Wait::Over,
        }
    }

    /// When a span that ends at `due` began; `None` when `due` is a point in time that somebody named.
    fn counted_from(&self, due: Timestamp) -> Option<Timestamp> {
        let invocation = &self.invocation;
        match self.history.last() {
            Some(attempt) => Some(attempt.ended_at),
            None if invocation.is_delay || due <= invocation.enqueued_at => Some(invocation.enqueued_at),
            None => None,
        }
    }

    /// Whether it is queued and waits for nothing.
    pub fn is_due(&self, now: Timestamp) -> bool {
        matches!(self.phase, Phase::Queued { .. }) && self.wait(now) == Wait::Over
    }

    /// Whether it was made to wait after its last attempt.
    pub fn backs_off(&self) -> bool {
        let ended_at = self.history.last().map(|attempt| attempt.ended_at);
        matches!((&self.phase, ended_at), (Phase::Queued { due }, Some(ended_at)) if *due > ended_at)
    }

    /// The earliest next attempt as it looks at `now`, when it is queued.
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        match (&self.phase, self.wait(now)) {
            (Phase::Queued { .. }, Wait::For(rest)) => Some(now.after(rest)),
            (Phase::Queued { due }, _) => Some(*due),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Digest, InvocationId};
    use crate::invocation::Invocation;
    use crate::name::VersionNumber;
    use crate::report::Attempt;
    use crate::verdict::Verdict;

    const HOURS_12: u64 = 12 * 3_600_000;
    const YEARS_10: u64 = 10 * 365 * 86_400_000;
    const T: u64 = 1_800_000_000_000;

    fn delayed_by(ms: u64, is_delay: bool) -> Entry<()> {
        let mut invocation = Invocation::new(InvocationId::new(Timestamp(T), 1), "t".parse().unwrap(), Timestamp(T));
        invocation.due_at = Timestamp(T + ms);
        invocation.is_delay = is_delay;
        Entry::new(invocation, ())
    }

    fn backs_off(ms: u64) -> Entry<()> {
        let mut entry = delayed_by(0, false);
        entry.remember(Attempt {
            number: 1,
            version: VersionNumber::FIRST,
            digest: Digest::new([0; 32]),
            started_at: Timestamp(T),
            ended_at: Timestamp(T + 5),
            verdict: Verdict::ErrorRetryable,
            deterministic: false,
            summary: String::new(),
        });
        entry.phase = Phase::Queued { due: Timestamp(T + 5 + ms) };
        entry
    }

    #[test]
    fn a_span_is_not_longer_than_it_was_to_be_when_the_clock_is_set_back() {
        for entry in [delayed_by(10_000, true), backs_off(10_000)] {
            assert_eq!(entry.wait(Timestamp(T + 5 - HOURS_12)), Wait::For(Millis(10_000)));
            assert_eq!(entry.wait(Timestamp(0)), Wait::For(Millis(10_000)));
            assert_eq!(entry.due_at(Timestamp(0)), Some(Timestamp(10_000)));
        }
    }

    #[test]
    fn a_span_that_is_part_over_has_its_rest_left() {
        assert_eq!(delayed_by(10_000, true).wait(Timestamp(T + 4000)), Wait::For(Millis(6000)));
        assert_eq!(backs_off(10_000).wait(Timestamp(T + 4005)), Wait::For(Millis(6000)));
        assert_eq!(backs_off(10_000).wait(Timestamp(T + 10_005)), Wait::Over);
        assert_eq!(backs_off(10_000).wait(Timestamp(T + YEARS_10)), Wait::Over);
    }

    #[test]
    fn a_point_in_time_is_waited_for_as_the_clock_shows_it() {
        let entry = delayed_by(10_000, false);
        let due = Timestamp(T + 10_000);
        assert_eq!(entry.wait(Timestamp(T - HOURS_12)), Wait::Until(due));
        assert_eq!(entry.due_at(Timestamp(T - HOURS_12)), Some(due));
        assert_eq!(entry.wait(due), Wait::Over);
    }

    #[test]
    fn what_was_never_delayed_is_due_whatever_the_clock_says() {
        for now in [0, T - HOURS_12, T, T + YEARS_10] {
            assert!(delayed_by(0, false).is_due(Timestamp(now)));
            assert!(backs_off(0).is_due(Timestamp(now)));
        }
    }

    #[test]
    fn a_wait_after_an_attempt_is_a_backoff_and_a_delay_before_the_first_is_none() {
        assert!(backs_off(10).backs_off());
        assert!(!backs_off(0).backs_off());
        assert!(!delayed_by(10, true).backs_off());
    }

    #[test]
    fn only_what_is_queued_is_due() {
        let mut entry = delayed_by(0, false);
        entry.phase = Phase::Running(crate::event::Started {
            attempt: 1,
            version: VersionNumber::FIRST,
            digest: Digest::new([0; 32]),
            at: Timestamp(T),
            alone: false,
        });
        assert!(!entry.is_due(Timestamp(T)));
        assert_eq!(entry.due_at(Timestamp(T)), None);
    }
}
