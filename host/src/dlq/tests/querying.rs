//! Prefixes, counts, groups.

use super::*;
use crate::dlq::{DlqError, Found, RemovalReason};

#[test]
fn a_prefix_finds_one_none_or_tells_how_many() {
    let (_, dlq) = new();
    let far = InvocationId::new(Timestamp(1), 3);
    let mut other = dead(0, 0);
    other.id = far;
    dlq.add(&[dead(0, 0), dead(1, 0), other]).unwrap();
    let text = id(1).to_string();
    assert!(matches!(dlq.find(&text).unwrap(), Found::One(dead) if dead.id == id(1)));
    assert!(matches!(dlq.find(&text.replace('-', "")).unwrap(), Found::One(_)));
    assert!(matches!(dlq.find(&far.to_string()[..8]).unwrap(), Found::One(dead) if dead.id == far));
    assert_eq!(dlq.find("ffffffff").unwrap(), Found::None);
    assert_eq!(dlq.find(&text[..9]).unwrap(), Found::Many { ids: ids([0, 1]), total: 2 });
}

#[test]
fn wildcards_short_texts_and_empty_ones_are_no_prefixes() {
    let (_, dlq) = new();
    dlq.add(&many(0..2)).unwrap();
    for text in ["", "%", "*", "0193", "0193abc", "--------", "________", "zzzzzzzz", &"0".repeat(33), "\u{1b}[2J"] {
        let error = dlq.find(text).unwrap_err();
        assert!(matches!(error, DlqError::Prefix { .. }), "{text}");
        assert!(!error.to_string().contains('\u{1b}'));
    }
}

#[test]
fn counts_follow_every_change_and_know_the_oldest() {
    let (_, dlq) = new();
    dlq.add(&[dead(5, 0), dead(3, 0), dead_of("mail", Verdict::Timeout, 4, 0)]).unwrap();
    let counts = dlq.counts().unwrap();
    assert_eq!((counts.total, counts.oldest), (3, Some(dead(3, 0).dead_at)));
    assert_eq!(counts.by_task[&"resize".parse().unwrap()], 2);
    assert_eq!(counts.by_verdict[&Verdict::Timeout], 1);
    dlq.lock().unwrap().removed(&[(id(3), 0), (id(4), 0)], RemovalReason::Deleted, NOW).unwrap();
    let counts = dlq.counts().unwrap();
    assert_eq!((counts.total, counts.oldest, counts.by_task.len()), (1, Some(dead(5, 0).dead_at), 1));
}

#[test]
fn failures_that_are_alike_make_one_group_with_the_components_they_ran() {
    let (_, dlq) = new();
    let mut other = dead(9, 0);
    other.component = Digest::new([8; 32]);
    dlq.add(&many(0..8)).unwrap();
    dlq.add(&[other, dead_of("mail", Verdict::Timeout, 20, 0)]).unwrap();
    let groups = dlq.groups().unwrap();
    assert_eq!(groups.len(), 2);
    let first = &groups[0];
    assert_eq!((first.count, first.summary.as_str()), (9, "row 17 is short"));
    assert_eq!((first.first, first.last), (dead(0, 0).dead_at, dead(9, 0).dead_at));
    assert_eq!(first.samples, ids([9, 7, 6, 5, 4]));
    assert_eq!(first.digests, [Digest::new([7; 32]), Digest::new([8; 32])]);
    assert_eq!(groups[1].task.as_str(), "mail");
}
