//! Tells the log what died: each kind of failure at once when it first comes, and then how many more there were, now
//! and then.
//!
//! Invariant: however many die, and however many kinds of failure there are, at most [`MAX_KINDS`] records and one
//! more are written in [`PAUSE`], and so many kinds are held.

use std::collections::BTreeMap;
use std::time::Duration;

use wasmq_core::DeadTask;

use crate::clock::Stopwatch;

/// How long a kind of failure that was told of is only counted.
const PAUSE: Duration = Duration::from_secs(10);

/// How many kinds of failure are told apart in that time.
const MAX_KINDS: usize = 64;

/// Those that died and were not told of yet, by their fingerprint.
#[derive(Debug, Default)]
pub(super) struct Obituaries {
    groups: BTreeMap<String, Group>,
    /// How many died of further kinds and were not told of, and when such were told of last.
    others: u64,
    told_of_others: Option<Stopwatch>,
}

#[derive(Debug, Default)]
struct Group {
    /// When it was told of last.
    told: Option<Stopwatch>,
    /// How many died since.
    count: u64,
    /// The latest of them, as far as the log is told: task and version, verdict, id, why.
    latest: [String; 4],
}

impl Obituaries {
    /// Notes those that are in the dead letter queue now.
    pub(super) fn note(&mut self, tasks: &[DeadTask]) {
        let mut latest: BTreeMap<&str, (u64, &DeadTask)> = BTreeMap::new();
        for task in tasks {
            let group = latest.entry(&task.fingerprint).or_insert((0, task));
            *group = (group.0 + 1, task);
        }
        for (fingerprint, (count, dead)) in latest {
            if self.groups.len() >= MAX_KINDS && !self.groups.contains_key(fingerprint) {
                self.others += count;
                continue;
            }
            let group = self.groups.entry(fingerprint.to_owned()).or_default();
            group.count += count;
            let DeadTask { task, version, verdict, id, .. } = dead;
            group.latest =
                [format!("{task}@{version}"), verdict.to_string(), id.to_string(), dead.summary().to_owned()];
        }
    }

    /// Tells the log of those whose turn it is, or of all.
    pub(super) fn tell(&mut self, all: bool) {
        self.groups.retain(|fingerprint, group| {
            let is_recent = group.told.is_some_and(|since| since.elapsed() < PAUSE);
            if group.count > 0 && (all || !is_recent) {
                let [task, verdict, id, why] = &group.latest;
                let count = std::mem::take(&mut group.count);
                tracing::warn!(task, verdict, count, why, id, group = fingerprint, "moved to the dead letter queue");
                group.told = Some(Stopwatch::start());
                return true;
            }
            is_recent
        });
        if self.others > 0 && (all || self.told_of_others.is_none_or(|since| since.elapsed() >= PAUSE)) {
            let count = std::mem::take(&mut self.others);
            tracing::warn!(count, "moved to the dead letter queue, of further kinds; see `wasmq dlq groups`");
            self.told_of_others = Some(Stopwatch::start());
        }
    }
}

#[cfg(test)]
mod tests {
    use wasmq_core::Digest;

    use super::*;
    use crate::queue::tests::dead;

    fn died(kind: &str, count: u128) -> Vec<DeadTask> {
        let one = |n| DeadTask { fingerprint: kind.to_owned(), ..dead(n, Digest::new([7; 32])) };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_kind_is_told_of_at_once_and_then_only_counted() {
        let mut obituaries = Obituaries::default();
        let count = |obituaries: &Obituaries| obituaries.groups.get("a").map(|group| group.count);
        obituaries.note(&died("a", 3));
        assert_eq!(count(&obituaries), Some(3));
        obituaries.tell(false);
        obituaries.note(&died("a", 2));
        obituaries.tell(false);
        assert_eq!(count(&obituaries), Some(2), "it was told of a moment ago");
        obituaries.tell(true);
        assert_eq!(count(&obituaries), Some(0), "all is told at the end");
    }

    #[test]
    fn of_more_kinds_than_anybody_reads_only_a_number_is_held() {
        let mut obituaries = Obituaries::default();
        for kind in 0..1000 {
            obituaries.note(&died(&kind.to_string(), 1));
        }
        assert_eq!((obituaries.groups.len(), obituaries.others), (MAX_KINDS, 1000 - MAX_KINDS as u64));
        obituaries.tell(false);
        assert_eq!(obituaries.others, 0);
    }
}
