//! Tells the log what died: each kind of failure at once when it first comes, and then how many more there were, now
//! and then.
//!
//! Invariant: however many die, a kind of failure is told of once in [`PAUSE`].

use std::collections::BTreeMap;
use std::time::Duration;

use wasmq_core::DeadTask;

use crate::clock::Stopwatch;

/// How long a kind of failure that was told of is only counted.
const PAUSE: Duration = Duration::from_secs(10);

/// Those that died and were not told of yet, by their fingerprint.
#[derive(Debug, Default)]
pub(super) struct Obituaries {
    groups: BTreeMap<String, Group>,
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
    }
}
