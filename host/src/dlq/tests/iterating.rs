//! Cursors: every entry that stays is seen once, whatever happens between two pages.

use std::collections::BTreeSet;

use super::*;
use crate::dlq::{Page, RemovalReason};

/// Goes through the queue in pages of `limit`, and does something after each.
fn visit(dlq: &DiskDlq, limit: usize, filter: &Filter, mut after: impl FnMut(&Page)) -> Vec<InvocationId> {
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = dlq.batch(cursor, limit, filter).unwrap();
        seen.extend(page.entries.iter().map(|dead| dead.id));
        after(&page);
        let Some(next) = page.next else { return seen };
        cursor = Some(next);
    }
}

#[test]
fn deleting_each_page_in_the_loop_visits_all_of_them() {
    for limit in [1, 3, 10, 100] {
        let (disk, dlq) = new();
        dlq.add(&many(0..50)).unwrap();
        let seen = visit(&dlq, limit, &Filter::default(), |page| {
            let gone: Vec<_> = page.entries.iter().map(|dead| (dead.id, dead.replays)).collect();
            on(&disk).lock().unwrap().removed(&gone, RemovalReason::Deleted, NOW).unwrap();
        });
        assert_eq!(seen, ids(0..50));
        assert_eq!(all(&dlq), []);
    }
}

#[test]
fn a_compaction_between_two_pages_skips_nothing_and_repeats_nothing() {
    let (disk, dlq) = new();
    dlq.add(&many(0..30)).unwrap();
    let seen = visit(&dlq, 4, &Filter::default(), |page| {
        let gone: Vec<_> = page.entries.iter().take(2).map(|dead| (dead.id, dead.replays)).collect();
        let other = on(&disk);
        other.lock().unwrap().removed(&gone, RemovalReason::Retried, NOW).unwrap();
        other.compact(NOW).unwrap();
    });
    assert_eq!(seen, ids(0..30));
}

#[test]
fn a_cursor_stays_valid_after_everything_was_deleted_and_compacted() {
    let (disk, dlq) = new();
    dlq.add(&many(0..5)).unwrap();
    let end = dlq.end().unwrap();
    let gone: Vec<_> = (0..5).map(|number| (id(number), 0)).collect();
    dlq.lock().unwrap().removed(&gone, RemovalReason::Deleted, NOW).unwrap();
    dlq.compact(NOW).unwrap();
    on(&disk).add(&many(10..12)).unwrap();
    let page = on(&disk).batch(Some(end), 10, &Filter::default()).unwrap();
    assert_eq!(page.entries.iter().map(|dead| dead.id).collect::<Vec<_>>(), ids([10, 11]));
}

#[test]
fn a_loop_up_to_the_end_at_its_start_ends_although_failures_stream_in() {
    let (_, dlq) = new();
    dlq.add(&many(0..10)).unwrap();
    let filter = Filter { until: Some(dlq.end().unwrap()), ..Filter::default() };
    let mut number = 100;
    let seen = visit(&dlq, 2, &filter, |page| {
        let gone: Vec<_> = page.entries.iter().map(|dead| (dead.id, dead.replays)).collect();
        dlq.lock().unwrap().removed(&gone, RemovalReason::Retried, NOW).unwrap();
        // Each retry fails at once, and others fail too.
        let mut again: Vec<_> = page.entries.iter().map(|dead| dead.replay()).map(|i| (i.id, i.replays)).collect();
        again.truncate(1);
        for (again, replays) in again {
            let of = (0..10).find(|of| id(*of) == again).unwrap();
            dlq.add(&[dead(of, replays), dead(number, 0)]).unwrap();
            number += 1;
        }
    });
    assert_eq!(seen, ids(0..10));
    assert_eq!(dlq.counts().unwrap().total, 10);
}

#[test]
fn adding_the_same_death_again_behind_the_cursor_does_not_hide_it() {
    let (_, dlq) = new();
    dlq.add(&many(0..6)).unwrap();
    let filter = Filter { until: Some(dlq.end().unwrap()), ..Filter::default() };
    let seen = visit(&dlq, 2, &filter, |_| _ = dlq.add(&many(0..6)).unwrap());
    assert_eq!(seen, ids(0..6));
}

#[test]
fn the_latest_come_first_page_by_page() {
    let (_, dlq) = new();
    dlq.add(&many(0..7)).unwrap();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = dlq.latest(before, 3, &Filter::default()).unwrap();
        seen.extend(page.entries.iter().map(|dead| dead.id));
        let Some(next) = page.next else { break };
        before = Some(next);
    }
    assert_eq!(seen, ids((0..7).rev()));
}

#[test]
fn filters_restrict_by_task_verdict_family_fingerprint_and_ids() {
    let (_, dlq) = new();
    let trap = wasmq_core::Verdict::Trap(wasmq_core::TrapCode::Unreachable);
    dlq.add(&[dead(0, 0), dead_of("mail", trap.clone(), 1, 0), dead_of("resize", trap, 2, 0)]).unwrap();
    let seen = |filter: Filter| {
        assert_eq!(dlq.count(&filter).unwrap(), dlq.batch(None, 9, &filter).unwrap().entries.len() as u64);
        visit(&dlq, 1, &filter, |_| ())
    };
    assert_eq!(seen(Filter { task: Some("resize".parse().unwrap()), ..Filter::default() }), ids([0, 2]));
    assert_eq!(seen(Filter { verdict: Some("trap".into()), ..Filter::default() }), ids([1, 2]));
    assert_eq!(seen(Filter { verdict: Some("trap.unreachable".into()), ..Filter::default() }), ids([1, 2]));
    assert_eq!(seen(Filter { verdict: Some("trap.unreach".into()), ..Filter::default() }), ids([]));
    assert_eq!(seen(Filter { fingerprint: Some(dead(0, 0).fingerprint), ..Filter::default() }), ids([0]));
    assert_eq!(seen(Filter { ids: Some(BTreeSet::from([id(1), id(7)])), ..Filter::default() }), ids([1]));
    assert_eq!(seen(Filter { ids: Some(BTreeSet::new()), ..Filter::default() }), ids([]), "no ids is not every id");
}
