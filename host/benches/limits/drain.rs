//! Many tasks enqueued first and drained then by two workers.
//!
//! Twice: enqueued while no server runs, and counted from the start of the server, its start and
//! the adoption of the log included; and enqueued through a running server with a common due time,
//! counted from that time.

use std::time::{Duration, Instant};

use crate::enqueue::later;
use crate::feed::{FEEDERS, feed};
use crate::report::{Figure, Report, Target};
use crate::server::Server;
use crate::{Fallible, Scale, directory, raw_loop};

const WORKERS: usize = 2;
/// How far ahead the common due time is.
const AHEAD_MS: u64 = 4000;

pub(crate) fn measure(scale: Scale, report: &mut Report) -> Fallible<()> {
    let (mut raw, mut adopted, mut due) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let dir = directory::temporary()?;
        raw.push(raw_loop::together(dir.path(), WORKERS, scale.drained, true)?.per_second);
        adopted.push(drain_adopted(scale.drained, scale.concurrency)?);
        due.push(drain_due(scale.drained, scale.concurrency)?);
    }
    report.add(Figure {
        name: "enqueue all without a server, then start and drain",
        unit: "1/s",
        measured: adopted,
        limit: raw.clone(),
        target: Target::AtLeast(60_000.0),
        note: "counted from the start of the server".to_owned(),
    });
    report.add(Figure {
        name: "enqueue all for the same time, then drain",
        unit: "1/s",
        measured: due,
        limit: raw,
        target: Target::AtLeast(60_000.0),
        note: "counted from the due time".to_owned(),
    });
    Ok(())
}

fn drain_adopted(tasks: usize, concurrency: usize) -> Fallible<f64> {
    let dir = directory::temporary()?;
    let data = dir.path().join("data");
    let queue = directory::queue(&data)?;
    feed(&queue, tasks, 1, None)?;
    queue.flush()?;
    let clock = Instant::now();
    let mut server = Server::start(&data, WORKERS, concurrency)?;
    let end = server.wait_for(tasks as u64)?;
    server.stop()?;
    Ok(tasks as f64 / (end - clock).as_secs_f64())
}

fn drain_due(tasks: usize, concurrency: usize) -> Fallible<f64> {
    let dir = directory::temporary()?;
    let data = dir.path().join("data");
    let queue = directory::queue(&data)?;
    let mut server = Server::start(&data, WORKERS, concurrency)?;
    server.wait_until_ready()?;
    let (clock, due_at) = (Instant::now(), later(AHEAD_MS)?);
    feed(&queue, tasks, FEEDERS, Some(due_at))?;
    let due = clock + Duration::from_millis(AHEAD_MS);
    if Instant::now() > due {
        return Err("enqueueing took longer than the time until the tasks are due".into());
    }
    std::thread::sleep(due - Instant::now());
    let end = server.wait_for(tasks as u64)?;
    server.stop()?;
    Ok(tasks as f64 / (end - due).as_secs_f64())
}
