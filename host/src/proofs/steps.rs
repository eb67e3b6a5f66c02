//! What can happen in a history of the model test, and how often.

use proptest::prelude::*;

use super::world::LARGE;

/// The numbers of the invocations; few, so that they meet themselves again. One payload stays in the log.
pub(super) const NUMBERS: std::ops::RangeInclusive<u128> = 36..=LARGE;

/// One step of a history. Small numbers choose among what is there.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Enqueue {
        n: u128,
        hours: u64,
    },
    EnqueueOutside(u128),
    Start,
    PutBack,
    Park,
    Deployed,
    Done(usize),
    Retry {
        which: usize,
        hours: u64,
    },
    Release(usize),
    Exhaust(usize),
    Cancel(usize),
    Bury,
    RetryDead(usize),
    DeleteDead(usize),
    Flush,
    Commit,
    Adopt,
    HandOver(usize),
    Compact,
    CompactDead,
    Rotate,
    Forward(u64),
    Close,
    Kill,
    PowerCut {
        survival: usize,
        seed: u64,
    },
    /// The power is cut while something is done that changes nothing of what there is.
    CutDuring {
        what: usize,
        operation: u64,
        survival: usize,
    },
}

/// How often each happens.
pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (NUMBERS, 0..3u64).prop_map(|(n, hours)| Step::Enqueue { n, hours: hours / 2 }),
        3 => NUMBERS.prop_map(Step::EnqueueOutside),
        10 => Just(Step::Start),
        1 => Just(Step::PutBack),
        1 => Just(Step::Park),
        1 => Just(Step::Deployed),
        3 => (0..8usize).prop_map(Step::Done),
        3 => (0..8usize, 0..2u64).prop_map(|(which, hours)| Step::Retry { which, hours }),
        1 => (0..8usize).prop_map(Step::Release),
        5 => (0..8usize).prop_map(Step::Exhaust),
        1 => (0..8usize).prop_map(Step::Cancel),
        4 => Just(Step::Bury),
        4 => (0..8usize).prop_map(Step::RetryDead),
        1 => (0..8usize).prop_map(Step::DeleteDead),
        2 => Just(Step::Flush),
        4 => Just(Step::Commit),
        4 => Just(Step::Adopt),
        2 => (1..4usize).prop_map(Step::HandOver),
        2 => Just(Step::Compact),
        1 => Just(Step::CompactDead),
        1 => Just(Step::Rotate),
        1 => (1..3u64).prop_map(Step::Forward),
        1 => Just(Step::Close),
        2 => Just(Step::Kill),
        3 => (0..4usize, 0..1000u64).prop_map(|(survival, seed)| Step::PowerCut { survival, seed }),
        3 => (0..6usize, 0..14u64, 0..4usize)
            .prop_map(|(what, operation, survival)| Step::CutDuring { what, operation, survival }),
    ]
}
