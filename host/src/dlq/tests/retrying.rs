//! The retry protocol: intents, and who won.

use super::*;
use crate::dlq::{Intent, RemovalReason, Standing};
use wasmq_wal::disk::Survival;

const WAL: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn an_intent_dangles_until_its_entries_are_removed_and_survives_a_power_cut_and_a_compaction() {
    let (disk, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    dlq.lock().unwrap().intend(WAL, &[(id(0), 0), (id(1), 0)], NOW).unwrap();
    dlq.compact(NOW).unwrap();
    let dlq = on(&disk.after_power_cut(Survival::Lost, 0));
    let mut locked = dlq.lock().unwrap();
    let expected = Intent { wal: WAL.to_owned(), at: NOW, ids: vec![(id(0), 0), (id(1), 0)] };
    assert_eq!(locked.dangling().unwrap(), std::slice::from_ref(&expected));
    locked.removed(&[(id(0), 0)], RemovalReason::Retried, NOW).unwrap();
    assert_eq!(locked.dangling().unwrap(), [Intent { ids: vec![(id(1), 0)], ..expected }]);
    locked.removed(&[(id(1), 0)], RemovalReason::Retried, NOW).unwrap();
    assert_eq!(locked.dangling().unwrap(), []);
}

#[test]
fn an_intent_for_an_earlier_death_does_not_dangle() {
    let (disk, dlq) = new();
    dlq.add(&many(0..1)).unwrap();
    dlq.lock().unwrap().intend(WAL, &[(id(0), 0), (id(9), 0)], NOW).unwrap();
    dlq.add(&[dead(0, 1)]).unwrap();
    assert_eq!(dlq.lock().unwrap().dangling().unwrap(), []);
    assert_eq!(on(&disk).lock().unwrap().dangling().unwrap(), []);
}

#[test]
fn each_id_is_told_where_it_stands() {
    let (_, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    let mut locked = dlq.lock().unwrap();
    locked.removed(&[(id(0), 0)], RemovalReason::Retried, Timestamp(7)).unwrap();
    locked.removed(&[(id(1), 0)], RemovalReason::Deleted, Timestamp(8)).unwrap();
    let standings: Vec<_> = locked.current(&ids(0..4)).unwrap().into_iter().map(|(_, standing)| standing).collect();
    let expected = [
        Standing::AlreadyRetried { at: Timestamp(7), replays: 0 },
        Standing::Deleted { at: Timestamp(8) },
        Standing::Dead(Box::new(dead(2, 0))),
        Standing::Unknown,
    ];
    assert_eq!(standings, expected);
}

#[test]
fn an_adopter_removes_what_lives_on_in_the_log_and_may_do_it_again() {
    let (_, dlq) = new();
    dlq.add(&[dead(0, 0), dead(1, 1), dead(2, 3)]).unwrap();
    let mut locked = dlq.lock().unwrap();
    let adopted = [(id(0), 1), (id(1), 1), (id(2), 3), (id(7), 1)];
    assert_eq!(locked.drop_superseded(&adopted, NOW).unwrap(), 1);
    assert_eq!(locked.drop_superseded(&adopted, NOW).unwrap(), 0);
    drop(locked);
    assert_eq!(ids_of(&dlq), ids([1, 2]), "entries that died after that replay stay");
    assert_eq!(dlq.add(&[dead(0, 0)]).unwrap().stale, 1);
}

#[test]
fn removing_an_earlier_death_leaves_the_later_one() {
    let (_, dlq) = new();
    dlq.add(&[dead(0, 2)]).unwrap();
    assert_eq!(dlq.lock().unwrap().removed(&[(id(0), 1)], RemovalReason::Retried, NOW).unwrap(), 0);
    assert_eq!(all(&dlq), [dead(0, 2)]);
}

#[test]
fn two_hundred_thousand_ids_are_one_operation_without_a_hidden_maximum() {
    let (disk, dlq) = new();
    dlq.add(&many(0..10)).unwrap();
    let pairs: Vec<_> = (0..200_000).map(|number| (id(number), 0)).collect();
    let mut locked = dlq.lock().unwrap();
    locked.intend(WAL, &pairs, NOW).unwrap();
    assert_eq!(locked.dangling().unwrap()[0].ids.len(), 10);
    assert_eq!(locked.removed(&pairs, RemovalReason::Retried, NOW).unwrap(), 10);
    drop(locked);
    assert_eq!(on(&disk).counts().unwrap().total, 0);
    assert_eq!(on(&disk).add(&many(0..10)).unwrap().stale, 10);
}

#[test]
fn of_many_operators_at_once_exactly_one_wins_each_entry() {
    let dir = tempfile::tempdir().unwrap();
    let open = || DiskDlq::open(Arc::new(wasmq_wal::disk::RealDisk), dir.path()).unwrap();
    open().add(&many(0..8)).unwrap();
    let won: usize = std::thread::scope(|scope| {
        let operator = || {
            let dlq = open();
            let mut won = 0;
            for number in 0..8 {
                let mut locked = dlq.lock().unwrap();
                if let Standing::Dead(dead) = &locked.current(&[id(number)]).unwrap()[0].1 {
                    locked.intend(WAL, &[(dead.id, dead.replays)], NOW).unwrap();
                    won += locked.removed(&[(dead.id, dead.replays)], RemovalReason::Retried, NOW).unwrap();
                }
            }
            won
        };
        let operators: Vec<_> = (0..6).map(|_| scope.spawn(operator)).collect();
        operators.into_iter().map(|operator| operator.join().unwrap()).sum()
    });
    assert_eq!(won, 8);
    assert_eq!(all(&open()), []);
}
