//! One workload that does everything that changes the disk, in steps.
//!
//! Each step works with whatever is there, so that the workload also goes on after a step that failed.
//! `went_through` says what must be left when none did.

use std::collections::BTreeMap;

use wasmq_core::InvocationId;

use super::found::{Copy, Found};
use super::world::{Acted, Trouble, Who, World, follow_up, number};
use crate::worker::{Beside, Ending};

use Who::{First, Second};

/// A step of the workload.
pub(super) type Step = (&'static str, fn(&mut World) -> Acted);

fn completed() -> Ending {
    Ending::Completed(Vec::new())
}

/// In their order.
pub(super) const STEPS: &[Step] = &[
    ("deploy", |world| {
        world.make_directories()?;
        world.deploy("resize", 0)?;
        world.deploy("mail", 0)
    }),
    ("enqueue outside", |world| world.enqueue_outside("resize", 1..=3)),
    ("adopt what was enqueued outside", |world| world.turn(First, true)),
    ("enqueue through a worker", |world| world.enqueue(First, "resize", 4..=6)),
    ("start attempts", |world| world.turn(First, false)),
    ("an end beside a commit, before its sync", |world| {
        world.send_enqueue(First, "resize", 7..=7)?;
        let ends = vec![(1, Ending::Completed(vec![follow_up("resize", 101)]))];
        world.turn_beside(First, false, Some((Beside::BeforeTheSync, ends)))
    }),
    ("an end beside a commit, after its sync", |world| {
        world.send_enqueue(First, "resize", 8..=8)?;
        world.turn_beside(First, false, Some((Beside::AfterTheSync, vec![(2, completed())])))?;
        world.commit(First)
    }),
    ("attempts that are to run again, one soon and one much later", |world| {
        world.settle(First, vec![(3, Ending::Again(0)), (4, Ending::Again(3_600_000))])?;
        world.commit(First)
    }),
    ("attempts that are given up, and their burial", |world| {
        world.finish(First, vec![(5, Ending::Permanent), (6, Ending::Permanent)])?;
        world.bury(First)?;
        world.finish_all(First, &Ending::Permanent)?;
        world.bury(First)?;
        world.finish_all(First, &Ending::Permanent)?;
        world.bury(First)
    }),
    ("cancel", |world| {
        world.enqueue(First, "mail", 9..=11)?;
        world.cancel(First, 4)
    }),
    ("put back", |world| {
        world.finish(First, vec![(9, Ending::Aborted)])?;
        world.commit(First)
    }),
    ("cancel one that runs", |world| {
        world.cancel(First, 10)?;
        world.commit(First)
    }),
    ("segments are filled, and dropped again", |world| churn(world, First, 20)),
    ("a worker is killed and another adopts its log", |world| {
        world.enqueue(First, "resize", 12..=14)?;
        world.commit(First)?;
        world.kill(First);
        world.turn(Second, true)?;
        world.commit(Second)
    }),
    ("suspects run alone", |world| complete_what_runs(world, Second)),
    ("retry dead tasks, and delete some", |world| {
        world.retry(&[5, 7])?;
        world.delete(&[6])
    }),
    ("adopt the replays", |world| {
        world.turn(Second, true)?;
        world.commit(Second)
    }),
    ("a replay dies again", |world| {
        world.finish_all(Second, &Ending::Permanent)?;
        world.bury(Second)?;
        world.bury(Second)
    }),
    ("deploy another version, go back, remove a task and deploy it again", |world| {
        world.deploy("resize", 1)?;
        world.activate("resize", 0)?;
        world.remove("mail")?;
        world.deploy("mail", 1)
    }),
    ("hand over from one worker to another", |world| {
        world.finish_all(Second, &completed())?;
        world.enqueue(Second, "mail", 40..=47)?;
        world.turn(Second, true)?;
        world.hand_over(Second, 4)?;
        world.turn(First, true)?;
        world.commit(First)
    }),
    ("both work, and one compacts", |world| {
        world.finish_all(First, &completed())?;
        world.commit(First)?;
        churn(world, First, 50)?;
        world.finish_all(Second, &completed())?;
        world.commit(Second)
    }),
    ("retry between a burial and the message about it", |world| {
        complete_what_runs(world, Second)?;
        world.enqueue(Second, "resize", 16..=17)?;
        world.finish_all(Second, &Ending::Permanent)?;
        world.turn(Second, false)?;
        world.write_dead(Second)?;
        world.retry(&[16])?;
        world.send_buried(Second)?;
        world.turn(Second, true)?;
        world.commit(Second)?;
        complete_what_runs(world, Second)
    }),
    ("rewrite the dead letter queue", |world| {
        world.compact_the_dead()?;
        world.delete(&[7])
    }),
    ("one worker ends in order, with work left", |world| {
        world.enqueue_outside("resize", 60..=62)?;
        world.enqueue(First, "resize", 63..=64)?;
        world.turn(First, true)?;
        world.drain(First)
    }),
    ("the other takes over", |world| {
        world.turn(Second, true)?;
        world.finish_all(Second, &completed())?;
        world.commit(Second)
    }),
];

/// Completes what runs and what starts meanwhile.
fn complete_what_runs(world: &mut World, who: Who) -> Acted {
    for _ in 0..6 {
        world.finish_all(who, &completed())?;
        world.turn(who, false)?;
    }
    world.commit(who)
}

/// Fills segments with invocations that end, and compacts meanwhile.
fn churn(world: &mut World, who: Who, from: u128) -> Acted {
    for n in (from..from + 6).step_by(2) {
        world.enqueue(who, "resize", n..=n + 1)?;
        world.turn(who, false)?;
        world.finish_all(who, &completed())?;
        world.turn(who, true)?;
        world.commit(who)?;
    }
    Ok(())
}

/// All of them until one fails. Returns the error and its step.
pub(super) fn run(world: &mut World) -> Result<(), (&'static str, Trouble)> {
    STEPS.iter().try_for_each(|(name, step)| step(world).map_err(|trouble| (*name, trouble)))
}

/// What is there at the end when nothing failed: the workload does what it says.
pub(super) fn went_through(found: &Found) {
    let numbers = |copies: &BTreeMap<InvocationId, Copy>| {
        copies.iter().map(|(id, copy)| (number(*id), copy.replays, copy.attempts)).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&found.live), [(63, 0, 1), (64, 0, 1)]);
    assert_eq!(numbers(&found.dead), [(3, 0, 2), (5, 1, 1), (8, 0, 1), (17, 0, 1), (101, 0, 1)]);
    assert_eq!((found.versions.len(), found.current.len()), (3, 2));
}
