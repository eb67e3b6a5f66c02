//! The retry policy: what follows from a verdict.
//!
//! Invariants: all arithmetic saturates; no delay is longer than [`MAX_BACKOFF`] unless the task
//! itself asked for it; the guard on attempts is `>=`, so a number that is too high ends and never
//! loops.

use crate::settings::{Action, Backoff, MAX_BACKOFF, Settings};
use crate::time::Millis;
use crate::verdict::Verdict;

/// What happens to an invocation after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Over, successfully or because an operator cancelled it.
    Done,
    /// Another attempt after the delay.
    Again(Millis),
    /// Given up: it becomes a dead task.
    Dead,
    /// It waits, visibly and without using up attempts, until a deploy makes it runnable.
    AwaitDeploy,
}

/// What is known when the decision is made.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// How the attempt ended.
    pub verdict: &'a Verdict,
    /// Whether the failure must repeat on the same bytes.
    pub deterministic: bool,
    /// The delay the task asked for.
    pub retry_after: Option<Millis>,
    /// The number of the attempt that ended, from 1.
    pub attempt: u32,
    /// The budget: of the invocation if it has its own, else of the task.
    pub max_attempts: u32,
}

/// Decides. `chance` is a random number from 0 to 1 and becomes the jitter.
#[must_use]
pub fn decide(outcome: Outcome<'_>, settings: &Settings, chance: f64) -> Decision {
    match outcome.verdict {
        Verdict::Completed | Verdict::Cancelled => return Decision::Done,
        Verdict::InvalidComponent | Verdict::ComponentMissing => return Decision::AwaitDeploy,
        _ => {}
    }
    let action = settings.action(outcome.verdict).unwrap_or_else(|| default_action(&outcome));
    if action == Action::Dead || outcome.attempt >= outcome.max_attempts {
        return Decision::Dead;
    }
    Decision::Again(match outcome.retry_after {
        Some(asked) => asked,
        None => with_jitter(backoff(settings.backoff, outcome.attempt), settings.jitter, chance),
    })
}

fn default_action(outcome: &Outcome<'_>) -> Action {
    match outcome.verdict {
        Verdict::ErrorPermanent | Verdict::Denied => Action::Dead,
        // From sysexits.h: EX_USAGE and EX_DATAERR cannot get better by running again.
        Verdict::Exit(64 | 65) => Action::Dead,
        Verdict::Trap(_) | Verdict::MemoryLimit | Verdict::OutputLimit if outcome.deterministic => Action::Dead,
        _ => Action::Retry,
    }
}

/// The delay after a failed attempt, without jitter.
#[must_use]
pub fn backoff(formula: Backoff, attempt: u32) -> Millis {
    let attempt = u64::from(attempt.max(1));
    let delay = match formula {
        Backoff::Polynomial => Millis::from_secs(attempt.saturating_pow(4).saturating_add(10)),
        Backoff::Fixed { delay_ms } => Millis(delay_ms),
        Backoff::Exponential { base_ms, factor, cap_ms } => Millis(exponential(base_ms, factor, attempt).min(cap_ms)),
    };
    delay.min(MAX_BACKOFF)
}

/// base × factor^(attempt − 1). A float that is too large becomes `u64::MAX` in the cast.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn exponential(base_ms: u64, factor: f64, attempt: u64) -> u64 {
    let exponent = i32::try_from(attempt - 1).unwrap_or(i32::MAX);
    (base_ms as f64 * factor.powi(exponent)) as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn with_jitter(delay: Millis, jitter: f64, chance: f64) -> Millis {
    let extra = delay.0 as f64 * jitter * chance.clamp(0.0, 1.0);
    Millis(delay.0.saturating_add(extra as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::RawSettings;
    use crate::verdict::TrapCode;
    use proptest::prelude::*;

    fn outcome(verdict: &Verdict, attempt: u32, deterministic: bool) -> Outcome<'_> {
        Outcome { verdict, deterministic, retry_after: None, attempt, max_attempts: 3 }
    }

    #[test]
    fn the_third_of_three_attempts_is_the_last() {
        let settings = Settings::default();
        for (attempt, dead) in [(1, false), (2, false), (3, true), (4, true)] {
            let decision = decide(outcome(&Verdict::Timeout, attempt, false), &settings, 0.0);
            assert_eq!(decision == Decision::Dead, dead, "attempt {attempt}");
        }
    }

    #[test]
    fn a_deterministic_trap_does_not_burn_the_budget() {
        let trap = Verdict::Trap(TrapCode::Unreachable);
        assert_eq!(decide(outcome(&trap, 1, true), &Settings::default(), 0.0), Decision::Dead);
        assert!(matches!(decide(outcome(&trap, 1, false), &Settings::default(), 0.0), Decision::Again(_)));
    }

    #[test]
    fn a_policy_wins_over_the_default() {
        let policy = [("trap".to_owned(), Action::Retry), ("timeout".to_owned(), Action::Dead)].into();
        let settings = RawSettings { policy, ..RawSettings::default() }.check().unwrap();
        let trap = Verdict::Trap(TrapCode::Unreachable);
        assert!(matches!(decide(outcome(&trap, 1, true), &settings, 0.0), Decision::Again(_)));
        assert_eq!(decide(outcome(&Verdict::Timeout, 1, false), &settings, 0.0), Decision::Dead);
    }

    #[test]
    fn usage_and_data_errors_are_permanent_and_temporary_failure_is_not() {
        let settings = Settings::default();
        assert_eq!(decide(outcome(&Verdict::Exit(64), 1, false), &settings, 0.0), Decision::Dead);
        assert_eq!(decide(outcome(&Verdict::Exit(65), 1, false), &settings, 0.0), Decision::Dead);
        assert!(matches!(decide(outcome(&Verdict::Exit(75), 1, false), &settings, 0.0), Decision::Again(_)));
    }

    #[test]
    fn the_delay_a_task_asks_for_is_taken_as_it_is() {
        let asked = Outcome { retry_after: Some(Millis(1234)), ..outcome(&Verdict::ErrorRetryAfter, 1, false) };
        assert_eq!(decide(asked, &Settings::default(), 1.0), Decision::Again(Millis(1234)));
    }

    #[test]
    fn the_default_backoff_is_attempt_to_the_fourth_plus_ten_seconds() {
        let delays: Vec<u64> = (1..=3).map(|n| backoff(Backoff::Polynomial, n).0 / 1000).collect();
        assert_eq!(delays, [11, 26, 91]);
    }

    proptest! {
        #[test]
        fn no_backoff_is_longer_than_thirty_days_and_jitter_only_adds(
            attempt: u32, base_ms: u64, factor in 1.0..100.0f64, cap_ms: u64, chance in 0.0..1.0f64,
        ) {
            for formula in [Backoff::Polynomial, Backoff::Fixed { delay_ms: base_ms }, Backoff::Exponential { base_ms, factor, cap_ms }] {
                let plain = backoff(formula, attempt);
                prop_assert!(plain <= MAX_BACKOFF);
                let more = with_jitter(plain, 0.25, chance);
                prop_assert!(more >= plain && more.0 <= plain.0 + plain.0 / 4 + 1);
            }
        }
    }
}
