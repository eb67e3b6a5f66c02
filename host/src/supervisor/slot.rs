//! The place of one worker in a supervisor: what is known of it, and what it should get or give away.
//!
//! Deliberately absent: the frames to it, and other workers.

use std::time::Duration;

use super::children::Worker;
use crate::clock::Stopwatch;
use crate::worker::{AttemptProgress, WorkerFigures};

/// A backlog below this is not worth handing over, unless it stays.
const HAND_OVER_FROM: u64 = 500;
/// A backlog that has stayed this long is handed over however short it is: long attempts are ahead of it.
const OLD_BACKLOG: Duration = Duration::from_secs(1);
/// How long a worker is left alone after it was asked to hand work over.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(300);
/// The most invocations of one hand-over.
const HAND_OVER_MOST: u64 = 20_000;

/// A worker that has said nothing for so long gets nothing more while there are others.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct Slot {
    pub(super) worker: Option<Worker>,
    pub(super) life: u64,
    pub(super) started: Stopwatch,
    pub(super) pause: Duration,
    /// What it says of itself, but for its progress.
    pub(super) figures: WorkerFigures,
    /// How far its attempts are, apart: only few want to know.
    pub(super) progress: Vec<AttemptProgress>,
    /// When it said something last.
    pub(super) heard: Stopwatch,
    /// Its silence was logged.
    pub(super) missed: bool,
    /// Invocations routed here since the last figures.
    pub(super) routed: u64,
    /// When it was last asked to hand work over.
    pub(super) asked_to_hand_over: Option<Stopwatch>,
    /// Since when it has had a backlog.
    pub(super) backlog_since: Option<Stopwatch>,
}

impl Slot {
    pub(super) fn load(&self) -> u64 {
        self.figures.counts.ready + self.figures.counts.running + self.routed
    }

    pub(super) fn is_idle(&self) -> bool {
        self.adopts() && self.load() == 0
    }

    /// How many more attempts could run in it at once, of so many.
    pub(super) fn free_places(&self, places: u64) -> u64 {
        if self.adopts() && !self.isolates() { places.saturating_sub(self.load()) } else { 0 }
    }

    /// Whether it takes over what others let go of.
    fn adopts(&self) -> bool {
        self.worker.is_some() && !self.is_silent() && !self.figures.draining && !self.figures.log.is_empty()
    }

    /// Stopped by somebody, or held up by its disk: others take what comes in.
    pub(super) fn is_silent(&self) -> bool {
        self.heard.elapsed() > SILENCE
    }

    /// It lets suspects of a crash run alone: what else waits in it would wait long.
    pub(super) fn isolates(&self) -> bool {
        self.figures.counts.suspects + self.figures.counts.alone > 0
    }

    /// What waits in it and is no suspect.
    pub(super) fn harmless(&self) -> u64 {
        self.figures.counts.ready.saturating_sub(self.figures.counts.suspects)
    }

    /// Takes what a worker says of itself.
    pub(super) fn take(&mut self, mut figures: WorkerFigures) {
        self.progress = std::mem::take(&mut figures.progress);
        let ended = figures.ended().saturating_sub(self.figures.ended());
        self.figures = figures;
        self.routed = 0;
        // What ends as fast as it comes has not waited, although there always is some.
        let waiting = if self.isolates() { self.harmless() } else { self.figures.counts.ready };
        let has_backlog = waiting > ended;
        self.backlog_since = self.backlog_since.filter(|_| has_backlog).or_else(|| has_backlog.then(Stopwatch::start));
    }

    /// Whether something has waited in it for long.
    pub(super) fn has_old_backlog(&self) -> bool {
        self.backlog_since.is_some_and(|since| since.elapsed() >= OLD_BACKLOG)
    }

    /// How many of its invocations others should take, if any. `is_idle` says that one of them has nothing to
    /// do, `is_free` that one of them has no suspects, `free` how many more could run in them now. It is half
    /// then, however many could run: those with a free place now will have more of them.
    pub(super) fn surplus(&self, is_idle: bool, is_free: bool, free: u64) -> Option<u64> {
        let is_old = self.has_old_backlog();
        let asked = self.asked_to_hand_over.is_some_and(|since| since.elapsed() < HAND_OVER_PAUSE);
        let ready = self.figures.counts.ready;
        let most = match (is_idle, self.isolates() && is_free) {
            _ if asked || !(is_old || ready >= HAND_OVER_FROM) => return None,
            // Suspects are left where they are: elsewhere they would hold up others.
            (_, true) if self.harmless() > 0 => self.harmless(),
            (true, _) => ready.div_ceil(2),
            (false, _) if is_old && free > 0 => self.harmless().div_ceil(2),
            (false, _) => 0,
        };
        Some(most.min(HAND_OVER_MOST)).filter(|most| *most > 0)
    }
}
