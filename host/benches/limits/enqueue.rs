//! Durable single enqueues with many waiting producers, without a server and through one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmq::queue::{NewInvocation, Queue};
use wasmq_core::Timestamp;

use crate::feed::{RECORD_BYTES, invocation};
use crate::report::{Figure, Report, Target};
use crate::server::Server;
use crate::{Fallible, Scale, directory, raw_commit};

const PRODUCERS: usize = 64;
const HOUR_MS: u64 = 3_600_000;

pub(crate) fn measure(scale: Scale, report: &mut Report) -> Fallible<()> {
    let time = Duration::from_millis(scale.enqueue_ms);
    let (mut raw, mut alone, mut served) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let dir = directory::temporary()?;
        raw.push(raw_commit::rate(dir.path(), PRODUCERS, RECORD_BYTES, time)?);
        let queue = directory::queue(&dir.path().join("alone"))?;
        alone.push(rate(&queue, &invocation(None)?, time)?);
        let data = dir.path().join("served");
        let queue = directory::queue(&data)?;
        let mut server = Server::start(&data, 1, 16)?;
        server.wait_until_ready()?;
        served.push(rate(&queue, &invocation(Some(later(HOUR_MS)?))?, time)?);
        server.stop()?;
    }
    report.add(Figure {
        name: "durable enqueue, 64 producers, no server",
        unit: "1/s",
        measured: alone,
        limit: raw.clone(),
        target: Target::Share(0.7),
        note: String::new(),
    });
    report.add(Figure {
        name: "durable enqueue, 64 producers, through a server",
        unit: "1/s",
        measured: served,
        limit: raw,
        target: Target::None,
        note: String::new(),
    });
    Ok(())
}

/// A time so many milliseconds from now.
pub(crate) fn later(milliseconds: u64) -> Fallible<Timestamp> {
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    Ok(Timestamp(now + milliseconds))
}

fn rate(queue: &Queue, one: &NewInvocation, time: Duration) -> Fallible<f64> {
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let producer = || -> Fallible<()> {
        while !stop.load(Ordering::Relaxed) {
            queue.enqueue(one.clone())?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let clock = Instant::now();
    std::thread::scope(|scope| -> Fallible<()> {
        let producers: Vec<_> = (0..PRODUCERS).map(|_| scope.spawn(producer)).collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        producers.into_iter().try_for_each(|producer| producer.join().map_err(|_| "a producer died")?)
    })?;
    Ok(count.load(Ordering::Relaxed) as f64 / clock.elapsed().as_secs_f64())
}
