//! No-op tasks end to end, with one worker and with two, and what the host costs for each.
//!
//! The overhead is the processor time of all threads of the worker process for a task (storing,
//! scheduling, syncing, bookkeeping, the figures), less the processor time of the raw instantiate
//! and call in the same run. Waiting is not in it, and neither are the supervisor and the client,
//! which are shown beside it.

use std::time::Instant;

use serde_json::json;

use crate::feed::{FEEDERS, feed, payload};
use crate::guest::Raw;
use crate::procfs::{self, ThreadTimes};
use crate::raw_loop::{self, Reached};
use crate::report::{Figure, Report, Target, median};
use crate::server::Server;
use crate::{Fallible, Scale, directory};

const WARM_UP: usize = 2000;

/// One turn of the product.
struct Turn {
    per_second: f64,
    /// Processor time for a task, in microseconds.
    worker_us: ThreadTimes,
    supervisor_us: f64,
    client_us: f64,
}

impl Turn {
    fn all_us(&self) -> f64 {
        self.worker_us.values().sum::<f64>() + self.supervisor_us + self.client_us
    }
}

#[derive(Default)]
struct Series {
    turns: Vec<Turn>,
    raw: Vec<Reached>,
}

impl Series {
    fn rates(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.per_second).collect()
    }

    fn raw_rates(&self) -> Vec<f64> {
        self.raw.iter().map(|reached| reached.per_second).collect()
    }

    fn median_of(&self, value: impl Fn(&Turn) -> f64) -> f64 {
        median(&self.turns.iter().map(value).collect::<Vec<_>>())
    }

    fn processor_time(&self) -> serde_json::Value {
        let names =
            self.turns.first().map(|turn| turn.worker_us.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let by_thread: serde_json::Map<_, _> = names
            .into_iter()
            .map(|name| {
                let value = self.median_of(|turn| turn.worker_us.get(&name).copied().unwrap_or(0.0));
                (name, json!(value))
            })
            .collect();
        json!({
            "worker_threads": by_thread,
            "supervisor": self.median_of(|turn| turn.supervisor_us),
            "client": self.median_of(|turn| turn.client_us),
        })
    }
}

pub(crate) fn measure(scale: Scale, report: &mut Report) -> Fallible<()> {
    let raw = Raw::new("echo", 16)?;
    let payload = payload()?;
    raw.cost(WARM_UP, &payload)?;
    let (mut one, mut two, mut costs) = (Series::default(), Series::default(), Vec::new());
    for _ in 0..scale.rounds {
        costs.push(raw.cost(scale.tasks / 4, &payload)?);
        for (series, workers) in [(&mut one, 1), (&mut two, 2)] {
            let dir = directory::temporary()?;
            series.raw.push(raw_loop::together(dir.path(), workers, scale.tasks * workers, false)?);
            series.turns.push(turn(scale.tasks * workers, workers, scale.concurrency)?);
        }
    }
    add_rates(report, &one, &two);
    let raw_us: Vec<f64> = costs.iter().map(|cost| cost.cpu_us).collect();
    let overhead = one.turns.iter().zip(&raw_us).map(|(turn, raw)| turn.worker_us.values().sum::<f64>() - raw);
    report.add(Figure {
        name: "host overhead per task over instantiate and call",
        unit: "us",
        measured: overhead.collect(),
        limit: raw_us,
        target: Target::AtMost(8.0),
        note: "processor time of the worker process less the raw limit, which is instantiate and call alone".to_owned(),
    });
    report.explain(
        "instantiate_and_call_wall_us",
        json!(median(&costs.iter().map(|cost| cost.wall_us).collect::<Vec<_>>())),
    );
    report.explain("processor_us_per_task_1_worker", one.processor_time());
    report.explain("processor_us_per_task_2_workers", two.processor_time());
    Ok(())
}

fn add_rates(report: &mut Report, one: &Series, two: &Series) {
    for (name, series) in [("no-op tasks end to end, 1 worker", one), ("no-op tasks end to end, 2 workers", two)] {
        report.add(Figure {
            name,
            unit: "1/s",
            measured: series.rates(),
            limit: series.raw_rates(),
            target: Target::Share(0.6),
            note: String::new(),
        });
    }
    report.add(Figure {
        name: "no-op tasks in a second of processor time",
        unit: "1/s",
        measured: two.turns.iter().map(|turn| 1e6 / turn.all_us()).collect(),
        limit: two.raw.iter().map(|reached| 1e6 / reached.cpu_us).collect(),
        target: Target::None,
        note: "2 workers, supervisor and client included; hardly depends on what else the machine does".to_owned(),
    });
    let scaling = |of_two: Vec<f64>, of_one: Vec<f64>| of_two.iter().zip(&of_one).map(|(two, one)| two / one).collect();
    report.add(Figure {
        name: "2 workers over 1 worker",
        unit: "x",
        measured: scaling(two.rates(), one.rates()),
        limit: scaling(two.raw_rates(), one.raw_rates()),
        target: Target::AtLeast(1.7),
        note: String::new(),
    });
}

/// Feeds a fresh server so many tasks and waits until the last one is completed.
fn turn(tasks: usize, workers: usize, concurrency: usize) -> Fallible<Turn> {
    let dir = directory::temporary()?;
    let data = dir.path().join("data");
    let queue = directory::queue(&data)?;
    let mut server = Server::start(&data, workers, concurrency)?;
    server.wait_until_ready()?;
    feed(&queue, WARM_UP, FEEDERS, None)?;
    server.wait_for(WARM_UP as u64)?;
    let (workers_before, supervisor_before) = server.cpu()?;
    let client_before = procfs::this_process_cpu_us()?;
    let clock = Instant::now();
    feed(&queue, tasks, FEEDERS, None)?;
    let client_us = procfs::this_process_cpu_us()? - client_before;
    let end = server.wait_for((WARM_UP + tasks) as u64)?;
    let (workers_after, supervisor_after) = server.cpu()?;
    server.stop()?;
    let per_task = 1.0 / tasks as f64;
    let mut worker_us = procfs::added(&workers_before, &workers_after);
    worker_us.values_mut().for_each(|time| *time *= per_task);
    Ok(Turn {
        per_second: tasks as f64 / (end - clock).as_secs_f64(),
        worker_us,
        supervisor_us: (supervisor_after - supervisor_before) * per_task,
        client_us: client_us * per_task,
    })
}
