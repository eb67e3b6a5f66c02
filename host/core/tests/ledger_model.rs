//! Random events, in their binary form, applied to the ledger and to a model that knows one invocation only.
//!
//! The ledger keeps maps of all invocations and of copies. The model goes through the whole list again
//! for each id and keeps four numbers, so that it can be read at a glance.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use wasmq_core::event::{self, Exhausted, Outcome, Started, kind};
use wasmq_core::report::FailureReport;
use wasmq_core::state::{Entry, Ledger, Phase, Suspicion};
use wasmq_core::{
    Attempt, Digest, Event, Invocation, InvocationId, Settings, Timestamp, Usage, Verdict, VersionNumber,
};

/// Few ids, so that events meet.
const IDS: std::ops::Range<u8> = 0..4;

/// An event about the id with this number.
#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        n: u8,
        replays: u32,
    },
    Start {
        n: u8,
        number: u32,
        alone: bool,
    },
    Retry {
        n: u8,
        number: u32,
        due: u64,
    },
    Release(u8),
    Exhaust(u8),
    End(u8),
    /// The whole state: replays, attempts.
    Snapshot {
        n: u8,
        replays: u32,
        attempts: u32,
    },
    Copy {
        n: u8,
        replays: u32,
        attempts: u32,
    },
    Adopted,
    HandOver(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = || (IDS, 0..3u32, 1..5u32);
    prop_oneof![
        4 => (IDS, 0..3u32).prop_map(|(n, replays)| Step::Enqueue { n, replays }),
        4 => (IDS, 1..5u32, any::<bool>()).prop_map(|(n, number, alone)| Step::Start { n, number, alone }),
        2 => (IDS, 1..5u32, 0..50u64).prop_map(|(n, number, due)| Step::Retry { n, number, due }),
        2 => IDS.prop_map(Step::Release),
        2 => IDS.prop_map(Step::Exhaust),
        1 => IDS.prop_map(Step::End),
        1 => numbers().prop_map(|(n, replays, attempts)| Step::Snapshot { n, replays, attempts }),
        2 => numbers().prop_map(|(n, replays, attempts)| Step::Copy { n, replays, attempts }),
        1 => Just(Step::Adopted),
        1 => proptest::collection::vec(IDS, 0..3).prop_map(Step::HandOver),
    ]
}

/// Where an invocation stands, in the model's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    Queued(u64),
    Running { number: u32, alone: bool },
    Exhausted,
}

/// What the model keeps of one invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct One {
    replays: u32,
    attempts: u32,
    ended_attempts: usize,
    stand: Stand,
}

const fn fresh(replays: u32, attempts: u32) -> One {
    One { replays, attempts, ended_attempts: 0, stand: Stand::Queued(1) }
}

/// What a list of events says of one id.
fn model(steps: &[Step], id: u8) -> Option<One> {
    let (mut known, mut copy): (Option<One>, Option<One>) = (None, None);
    for step in steps {
        match step {
            Step::Enqueue { n, replays } if *n == id => take(&mut known, fresh(*replays, 0)),
            Step::Snapshot { n, replays, attempts } if *n == id => known = Some(fresh(*replays, *attempts)),
            Step::Copy { n, replays, attempts } if *n == id => copy = Some(fresh(*replays, *attempts)),
            Step::Adopted => copy.take().into_iter().for_each(|copy| take(&mut known, copy)),
            Step::End(n) if *n == id => known = None,
            Step::HandOver(ids) if ids.contains(&id) => known = None,
            other => known = known.map(|one| changed(one, other, id)),
        }
    }
    known
}

/// One with more replays replaces one with fewer, and nothing else does.
fn take(known: &mut Option<One>, new: One) {
    if known.is_none_or(|known| known.replays < new.replays) {
        *known = Some(new);
    }
}

fn changed(one: One, step: &Step, id: u8) -> One {
    match *step {
        Step::Start { n, number, alone } if n == id => {
            One { attempts: number, stand: Stand::Running { number, alone }, ..one }
        }
        Step::Retry { n, number, due } if n == id => {
            One { attempts: number, ended_attempts: one.ended_attempts + 1, stand: Stand::Queued(due), ..one }
        }
        Step::Release(n) if n == id => match one.stand {
            Stand::Running { number, .. } => One { attempts: number - 1, stand: Stand::Queued(1), ..one },
            Stand::Queued(_) | Stand::Exhausted => one,
        },
        Step::Exhaust(n) if n == id => One { stand: Stand::Exhausted, ..one },
        _ => one,
    }
}

fn id(n: u8) -> InvocationId {
    InvocationId::new(Timestamp(1), u128::from(n))
}

fn invocation(n: u8, replays: u32) -> Invocation {
    Invocation { replays, ..Invocation::new(id(n), "t".parse().unwrap(), Timestamp(1)) }
}

fn attempt(number: u32) -> Attempt {
    Attempt {
        number,
        version: VersionNumber::FIRST,
        digest: Digest::new([0; 32]),
        started_at: Timestamp(2),
        ended_at: Timestamp(3),
        verdict: Verdict::Timeout,
        deterministic: false,
        summary: String::new(),
    }
}

fn exhausted() -> Exhausted {
    Exhausted {
        dead_at: Timestamp(3),
        attempt: attempt(1),
        failure: FailureReport::default(),
        usage: Usage::default(),
        limits: (&Settings::default()).into(),
        max_attempts: 3,
        worker: String::new(),
        engine: String::new(),
        wit: String::new(),
    }
}

/// The record of a step: its kind and its body.
fn record(step: &Step) -> (u8, Vec<u8>) {
    let mut body = Vec::new();
    let kind = match step {
        Step::Enqueue { n, replays } => {
            invocation(*n, *replays).encode(&mut body);
            body.push(*n);
            kind::ENQUEUED
        }
        Step::Snapshot { n, replays, attempts } | Step::Copy { n, replays, attempts } => {
            let entry = Entry { attempts: *attempts, ..Entry::new(invocation(*n, *replays), ()) };
            event::encode_entry(&mut body, &entry);
            body.push(*n);
            if matches!(step, Step::Copy { .. }) { kind::COPIED } else { kind::SNAPSHOT }
        }
        Step::Start { n, number, alone } => {
            let digest = Digest::new([0; 32]);
            let at = Timestamp(2);
            let started = Started { attempt: *number, version: VersionNumber::FIRST, digest, at, alone: *alone };
            event::encode_started(&mut body, id(*n), &started);
            kind::STARTED
        }
        Step::Retry { n, number, due } => {
            event::encode_retry(&mut body, id(*n), Timestamp(*due), &attempt(*number));
            kind::RETRY
        }
        Step::Release(n) => {
            event::encode_released(&mut body, id(*n));
            kind::RELEASED
        }
        Step::Exhaust(n) => {
            event::encode_exhausted(&mut body, id(*n), &exhausted());
            kind::EXHAUSTED
        }
        Step::End(n) => {
            event::encode_done(&mut body, id(*n), Outcome::Completed);
            kind::DONE
        }
        Step::Adopted => {
            body.extend([7; 16]);
            kind::ADOPTED
        }
        Step::HandOver(ids) => {
            let ids: Vec<_> = ids.iter().map(|n| id(*n)).collect();
            event::encode_handed_over(&mut body, [7; 16], &ids);
            kind::HANDED_OVER
        }
    };
    (kind, body)
}

fn replayed(steps: &[Step]) -> Ledger<Vec<u8>> {
    let mut ledger = Ledger::default();
    for step in steps {
        let (kind, body) = record(step);
        let event: Event<'_> = event::decode(kind, &body).unwrap().unwrap();
        ledger.apply(event, <[u8]>::to_vec);
    }
    ledger
}

fn seen(entry: &Entry<Vec<u8>>) -> One {
    let stand = match &entry.phase {
        Phase::Queued { due } => Stand::Queued(due.0),
        Phase::Running(started) => Stand::Running { number: started.attempt, alone: started.alone },
        Phase::Exhausted(_) => Stand::Exhausted,
    };
    One { replays: entry.invocation.replays, attempts: entry.attempts, ended_attempts: entry.history.len(), stand }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("WASMQ_MODEL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1500),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_ledger_agrees_with_a_plain_model_after_every_event(steps in proptest::collection::vec(step(), 1..18)) {
        for end in 1..=steps.len() {
            let ledger = replayed(&steps[..end]);
            for n in IDS {
                let entry = ledger.get(&id(n));
                prop_assert_eq!(entry.map(seen), model(&steps[..end], n), "{} after {:?}", n, &steps[..end]);
                prop_assert!(entry.is_none_or(|entry| entry.payload == [n]));
            }
            prop_assert_eq!(ledger.len(), IDS.filter(|n| model(&steps[..end], *n).is_some()).count());
        }
    }

    #[test]
    fn a_crash_counts_what_ran_and_touches_nothing_else(steps in proptest::collection::vec(step(), 1..60)) {
        let is_running = |one: &One| matches!(one.stand, Stand::Running { .. });
        let running = IDS.filter(|n| model(&steps, *n).as_ref().is_some_and(is_running)).count();
        let recovered = replayed(&steps).into_recovered(Timestamp(99));
        prop_assert_eq!(recovered.len(), IDS.filter(|n| model(&steps, *n).is_some()).count());
        for entry in recovered {
            let n = entry.payload[0];
            let before = model(&steps, n).unwrap();
            let Stand::Running { alone, .. } = before.stand else {
                prop_assert_eq!(seen(&entry), before);
                continue;
            };
            let ended_attempts = before.ended_attempts + 1;
            prop_assert_eq!(seen(&entry), One { ended_attempts, stand: Stand::Queued(99), ..before });
            prop_assert_eq!(&entry.history.last().unwrap().verdict, &Verdict::HostCrash);
            prop_assert_eq!(entry.suspicion == Suspicion::Alone, alone || running == 1);
        }
    }
}
