//! The order in which what waits may start.

use super::*;
use wasmq_core::{Digest, Invocation, VersionNumber};

/// Both clocks show the same.
fn at(ms: u64) -> Moment {
    Moment { wall: Timestamp(ms), steady: Millis(ms) }
}

fn id(n: u128) -> InvocationId {
    InvocationId::new(Timestamp(1), n)
}

fn entry(n: u128, due: u64, priority: u8) -> Entry<Payload> {
    let mut invocation = Invocation::new(id(n), "t".parse().unwrap(), Timestamp(1));
    invocation.due_at = Timestamp(due);
    invocation.priority = priority;
    Entry::new(invocation, Payload::Inline([].into()))
}

fn start(schedule: &mut Schedule, n: u128) {
    start_as(schedule, n, false);
}

fn start_as(schedule: &mut Schedule, n: u128, alone: bool) {
    let digest = Digest::new([0; 32]);
    let started = Started { attempt: 1, version: VersionNumber::FIRST, digest, at: Timestamp(9), alone };
    schedule.started(id(n), started);
}

fn claimed(schedule: &mut Schedule, now: u64) -> Vec<InvocationId> {
    std::iter::from_fn(|| schedule.claim(at(now))).map(|claim| claim.id).collect()
}

#[test]
fn a_higher_priority_starts_first_and_equal_ones_in_order() {
    let mut schedule = Schedule::default();
    for (n, priority) in [(1, 0), (2, 9), (3, 0), (4, 9)] {
        schedule.insert(entry(n, 1, priority), at(5));
    }
    assert_eq!(claimed(&mut schedule, 5), [id(2), id(4), id(1), id(3)]);
}

#[test]
fn a_delayed_invocation_starts_at_its_time_and_not_before() {
    let mut schedule = Schedule::default();
    schedule.insert(entry(1, 100, 0), at(5));
    assert_eq!(claimed(&mut schedule, 99), []);
    assert_eq!(schedule.until_due(at(40)), Some(Millis(60)));
    assert_eq!(claimed(&mut schedule, 100), [id(1)]);
}

#[test]
fn a_suspect_waits_until_nothing_runs_and_then_runs_alone() {
    let mut schedule = Schedule::default();
    schedule.insert(entry(1, 1, 0), at(5));
    assert_eq!(claimed(&mut schedule, 5), [id(1)]);
    start(&mut schedule, 1);
    let mut suspect = entry(2, 1, 0);
    suspect.suspicion = Suspicion::InCompany;
    schedule.insert(suspect, at(5));
    schedule.insert(entry(3, 1, 0), at(5));
    assert_eq!(schedule.claim(at(5)), None);
    schedule.done(&id(1));
    assert_eq!(schedule.claim(at(5)), Some(Claim { id: id(2), alone: true }));
    start_as(&mut schedule, 2, true);
    assert_eq!(schedule.claim(at(5)), None);
    schedule.done(&id(2));
    assert_eq!(claimed(&mut schedule, 5), [id(3)]);
}

#[test]
fn a_parked_invocation_comes_back_with_the_deploy_of_its_task() {
    let mut schedule = Schedule::default();
    schedule.insert(entry(1, 1, 0), at(5));
    assert_eq!(claimed(&mut schedule, 5), [id(1)]);
    schedule.await_deploy(id(1));
    assert_eq!(schedule.counts().awaiting_deploy, 1);
    schedule.deployed(Some(&"other".parse().unwrap()));
    assert_eq!(claimed(&mut schedule, 5), []);
    schedule.deployed(Some(&"t".parse().unwrap()));
    assert_eq!(claimed(&mut schedule, 5), [id(1)]);
}

#[test]
fn those_that_would_start_last_are_handed_over() {
    let mut schedule = Schedule::default();
    for (n, priority) in [(1, 0), (2, 9), (3, 0), (4, 0)] {
        schedule.insert(entry(n, 1, priority), at(5));
    }
    let taken = schedule.take_last_ready(2);
    assert_eq!(taken, [id(3), id(4)]);
    schedule.handed_over(&taken);
    assert_eq!(claimed(&mut schedule, 5), [id(2), id(1)]);
}

#[test]
fn what_somebody_waits_for_is_never_handed_over() {
    let mut schedule = Schedule::default();
    for n in 1..=4 {
        schedule.insert(entry(n, 1, 0), at(5));
    }
    schedule.hold(id(3));
    assert_eq!(schedule.take_last_ready(2), [id(2), id(4)]);
    assert_eq!(claimed(&mut schedule, 5), [id(1), id(3)]);
}

#[test]
fn suspects_are_handed_over_too_but_for_the_first() {
    let mut schedule = Schedule::default();
    for n in 1..=3 {
        let mut suspect = entry(n, 1, 0);
        suspect.suspicion = Suspicion::InCompany;
        schedule.insert(suspect, at(5));
    }
    assert_eq!(schedule.take_last_ready(5), [id(2), id(3)]);
    assert_eq!(schedule.claim(at(5)), Some(Claim { id: id(1), alone: true }));
}

#[test]
fn a_suspect_that_was_postponed_before_is_postponed_once_and_to_the_later_time() {
    let mut schedule = Schedule::default();
    let mut suspect = entry(1, 50, 0);
    suspect.suspicion = Suspicion::Alone;
    schedule.insert(suspect, at(5));
    schedule.postpone(id(1), Millis(85), at(5));
    assert_eq!((schedule.counts().delayed, schedule.claim(at(60))), (1, None));
    assert_eq!(claimed(&mut schedule, 90), [id(1)]);
}

#[test]
fn a_cancelled_invocation_leaves_every_queue() {
    let mut schedule = Schedule::default();
    schedule.insert(entry(1, 1, 3), at(5));
    schedule.insert(entry(2, 900, 3), at(5));
    schedule.done(&id(1));
    schedule.done(&id(2));
    assert_eq!(schedule.counts(), Counts::default());
    assert_eq!(schedule.live_bytes(), 0);
}
