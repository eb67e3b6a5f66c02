//! The state of the queue: what runs, what waits, what is dead, and what somebody should look at.
//!
//! Invariant: what cannot be asked or read is a problem that is told of, and hides nothing of the rest.

use std::collections::{BTreeMap, BTreeSet};

use wasmq_core::TaskName;
use wasmq_core::state::{Entry, Phase};

use super::live::suspect_since;
use super::phase::{Judge, LivePhase};
use super::{Inner, Queue, QueueError};
use crate::causes::error_chain;
use crate::journal::{self, Counts, Snapshot};
use crate::store::StoreKind;
use crate::supervisor::ServerFigures;

/// The state of the queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    /// The servers that run on this data directory.
    pub servers: Vec<ServerFigures>,
    /// Whether there are servers that could not be asked.
    pub has_unknown_servers: bool,
    /// All live invocations.
    pub counts: Counts,
    /// Live invocations by task.
    pub by_task: BTreeMap<TaskName, Counts>,
    /// Logs that wait to be adopted.
    pub free_logs: u32,
    /// Dead tasks; absent with the store `none`, and when they cannot be read.
    pub dead: Option<u64>,
    /// Damage and other things somebody should look at.
    pub problems: Vec<String>,
}

impl Queue {
    /// How much there is of everything.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn status(&self) -> Result<Status, QueueError> {
        let inner = &self.inner;
        let (servers, problems) = inner.ask_servers()?;
        let mut status = Status { has_unknown_servers: !problems.is_empty(), servers, problems, ..Status::default() };
        status.problems.extend(silent_workers(&status.servers));
        if inner.options.store == StoreKind::None {
            for server in &status.servers {
                server.workers.iter().for_each(|worker| add(&mut status.counts, &worker.figures.counts));
            }
            return Ok(status);
        }
        let snapshot = inner.snapshot()?;
        status.count_live(&snapshot, &mut Judge::new(inner, &status.servers));
        status.add_problems_of_logs(snapshot);
        status.problems.extend(inner.problems()?);
        self.add_dead(&mut status);
        Ok(status)
    }

    /// Adds what the dead letter queue has to say.
    fn add_dead(&self, status: &mut Status) {
        match self.dead_tasks().damage().and_then(|damage| Ok((damage, self.inner.dlq.counts()?.total))) {
            Ok((damage, total)) => {
                status.problems.extend(damage);
                status.dead = Some(total);
            }
            Err(error) => status.problems.push(error_chain(&error)),
        }
    }
}

impl Status {
    /// Counts what lives, with the components that stand in its way and what it waits for.
    fn count_live(&mut self, snapshot: &Snapshot, judge: &mut Judge<'_>) {
        self.problems.extend(judge.broken().iter().map(|(digest, reason)| {
            format!("component {digest} cannot be used, and what needs it waits for a deploy: {reason}")
        }));
        self.problems.extend(judge.missing_components());
        let mut lacking: BTreeMap<String, u64> = BTreeMap::new();
        for live in snapshot.entries.values() {
            let phase = judge.phase(live);
            if let Some(lacks) = judge.lacks(&phase, live) {
                *lacking.entry(lacks).or_default() += 1;
            }
            count(&mut self.counts, &phase, &live.entry);
            count(self.by_task.entry(live.entry.invocation.task.clone()).or_default(), &phase, &live.entry);
        }
        let all = self.counts.awaiting_deploy;
        let sentence = |(lacks, count)| format!("awaiting a deploy: {count} of {all}: {lacks}");
        self.problems.extend(lacking.into_iter().map(sentence));
    }

    /// Adds what is wrong with logs. What reading one tells as well as a worker is told once.
    fn add_problems_of_logs(&mut self, snapshot: Snapshot) {
        self.free_logs = snapshot.free_logs;
        let is_told = |why: &String| snapshot.problems.iter().any(|problem| why.ends_with(problem));
        self.problems.extend(left_alone_by(&self.servers).into_iter().filter(|why| !is_told(why)));
        self.problems.extend(snapshot.problems);
    }
}

impl Inner {
    /// What is wrong with the registry, the directory and the disk.
    fn problems(&self) -> Result<Vec<String>, QueueError> {
        let mut problems: Vec<String> = self.registry.damage().map(|error| error_chain(&error)).into_iter().collect();
        if !self.exists()? {
            let root = self.layout.root().display();
            problems.push(format!("{root} does not exist; nothing was ever deployed or enqueued there"));
        }
        if journal::refuses_new_work(&self.disk, &self.layout.journal()) {
            let full = "the disk is full: new work is refused until there is room; what is queued runs on";
            problems.push(full.to_owned());
        }
        Ok(problems)
    }
}

/// Workers that say nothing, a sentence each.
fn silent_workers(servers: &[ServerFigures]) -> Vec<String> {
    let silent = servers.iter().flat_map(|server| &server.workers).filter(|worker| worker.is_silent());
    let sentence = |(pid, seconds)| {
        format!(
            "the worker with pid {pid} has said nothing for {seconds} s: it was stopped, or waits for its disk; when it \
             is killed, another takes over its work"
        )
    };
    silent.map(|worker| sentence((worker.figures.pid, worker.silent_ms / 1000))).collect()
}

/// Logs that workers cannot take over, as problems, each once however many workers tell of it.
fn left_alone_by(servers: &[ServerFigures]) -> BTreeSet<String> {
    let workers = servers.iter().flat_map(|server| &server.workers);
    let logs = workers.filter(|worker| worker.alive).flat_map(|worker| &worker.figures.left_alone);
    logs.map(|why| format!("a log cannot be taken over, and what is in it waits: {why}")).collect()
}

fn count<P>(counts: &mut Counts, phase: &LivePhase, entry: &Entry<P>) {
    let runs_alone = matches!(&entry.phase, Phase::Running(started) if started.alone);
    counts.alone += u64::from(runs_alone && matches!(phase, LivePhase::Running { .. }));
    counts.suspects += u64::from(*phase == LivePhase::Ready && suspect_since(entry).is_some());
    let field = match phase {
        LivePhase::Ready => &mut counts.ready,
        LivePhase::Orphaned => &mut counts.orphaned,
        LivePhase::Delayed => &mut counts.delayed,
        LivePhase::AwaitingDeploy => &mut counts.awaiting_deploy,
        LivePhase::Running { .. } => &mut counts.running,
        LivePhase::Exhausted => &mut counts.exhausted,
    };
    *field += 1;
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.ready += more.ready;
    sum.delayed += more.delayed;
    sum.running += more.running;
    sum.awaiting_deploy += more.awaiting_deploy;
    sum.exhausted += more.exhausted;
    sum.orphaned += more.orphaned;
    sum.suspects += more.suspects;
    sum.alone += more.alone;
}
