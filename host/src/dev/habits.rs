//! Tells the files that somebody edits from those that the build itself writes.
//!
//! A change during a build makes it start anew, and a build that writes a watched file differs from somebody who
//! saves one in nothing but that it never stops. So a file that changed during each of the last few builds,
//! which were started for it, is taken for the build's own from then on, until it changes while no build runs.
//!
//! Invariant: no build starts more often in a row for a file that it writes itself than [`PATIENCE`] says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use wasmq_core::Timestamp;

use super::tree::Change;

/// For how many builds in a row a change is believed to be somebody's.
pub const PATIENCE: u32 = 5;
/// By how much the times of files may lag behind the clock, in milliseconds.
const LAG_MS: u64 = 20;

/// When a build ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
}

impl Span {
    fn covers(self, change: &Change) -> bool {
        match (change.written_at, self.ended_at) {
            (Some(at), end) => at.0 + LAG_MS >= self.started_at.0 && end.is_none_or(|end| at <= end),
            (None, end) => end.is_none(),
        }
    }
}

/// What is known of the files that changed lately.
#[derive(Debug, Default)]
pub struct Habits {
    /// During how many builds in a row each changed.
    streaks: BTreeMap<PathBuf, u32>,
}

/// Changes, told apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sifted {
    /// What is worth a build.
    pub wanted: Vec<Change>,
    /// What is the build's own, as it turned out just now.
    pub recognised: Vec<PathBuf>,
}

impl Habits {
    /// Takes out of the changes what the build itself keeps writing.
    pub fn sift(&mut self, changes: Vec<Change>, build: Option<Span>) -> Sifted {
        let mut sifted = Sifted::default();
        for change in changes {
            if !build.is_some_and(|build| build.covers(&change)) {
                self.streaks.remove(&change.path);
                sifted.wanted.push(change);
                continue;
            }
            let streak = self.streaks.entry(change.path.clone()).or_default();
            *streak = streak.saturating_add(1);
            match *streak {
                1..=PATIENCE => sifted.wanted.push(change),
                streak if streak == PATIENCE + 1 => sifted.recognised.push(change.path),
                _ => {}
            }
        }
        if !sifted.wanted.is_empty() {
            // A build that starts for other files ends a row, except of what is recognised.
            let wanted = &sifted.wanted;
            self.streaks.retain(|path, streak| *streak > PATIENCE || wanted.iter().any(|change| change.path == *path));
        }
        sifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: Span = Span { started_at: Timestamp(1000), ended_at: Some(Timestamp(2000)) };

    fn change(name: &str, at: u64) -> Change {
        Change { path: name.into(), written_at: Some(Timestamp(at)) }
    }

    #[test]
    fn what_every_build_writes_is_recognised_in_the_end_and_told_once() {
        let mut habits = Habits::default();
        for _ in 0..PATIENCE {
            assert_eq!(habits.sift(vec![change("stamp", 1500)], Some(BUILD)).wanted.len(), 1);
        }
        let sifted = habits.sift(vec![change("stamp", 1500)], Some(BUILD));
        assert_eq!((sifted.wanted.len(), sifted.recognised), (0, vec![PathBuf::from("stamp")]));
        assert_eq!(habits.sift(vec![change("main", 2500)], Some(BUILD)).wanted, [change("main", 2500)]);
        assert_eq!(habits.sift(vec![change("stamp", 1500)], Some(BUILD)), Sifted::default());
    }

    #[test]
    fn what_changes_while_nothing_is_built_is_always_wanted_and_forgives() {
        let mut habits = Habits::default();
        for _ in 0..=PATIENCE {
            habits.sift(vec![change("main", 1500)], Some(BUILD));
        }
        assert_eq!(habits.sift(vec![change("main", 2001)], Some(BUILD)).wanted.len(), 1);
        assert_eq!(habits.sift(vec![change("main", 1500)], Some(BUILD)).wanted.len(), 1);
        assert_eq!(habits.sift(vec![change("main", 1500)], None).wanted.len(), 1);
    }

    #[test]
    fn builds_that_start_for_other_files_end_a_row() {
        let mut habits = Habits::default();
        for _ in 0..3 * PATIENCE {
            assert_eq!(habits.sift(vec![change("a", 1500)], Some(BUILD)).wanted.len(), 1);
            assert_eq!(habits.sift(vec![change("b", 1500)], Some(BUILD)).wanted.len(), 1);
        }
    }

    #[test]
    fn a_file_that_is_gone_is_the_build_s_doing_only_while_it_runs() {
        let gone = Change { path: "gone".into(), written_at: None };
        assert!(!BUILD.covers(&gone));
        assert!(Span { ended_at: None, ..BUILD }.covers(&gone));
    }
}
