//! Invocations for the no-op task: how large, and many of them in batches.

use std::sync::atomic::{AtomicUsize, Ordering};

use wasmq::queue::{NewInvocation, Queue};
use wasmq_core::{Invocation, InvocationId, Timestamp};

use crate::Fallible;
use crate::directory::TASK;

/// Invocations in a batch.
pub(crate) const BATCH: usize = 1000;
/// How many batches wait for their acknowledgement at the same time.
pub(crate) const FEEDERS: usize = 4;
/// The size of an enqueue record in the log, header included, on both sides of every comparison.
pub(crate) const RECORD_BYTES: usize = 256;

/// The payload that makes an enqueue record [`RECORD_BYTES`] long.
pub(crate) fn payload() -> Fallible<Vec<u8>> {
    let now = Timestamp(1_800_000_000_000);
    let mut head = Vec::new();
    Invocation::new(InvocationId::new(now, 1), TASK.parse()?, now).encode(&mut head);
    let taken = head.len() + usize::try_from(wasmq_wal::RECORD_HEADER_BYTES)?;
    Ok(vec![7; RECORD_BYTES - taken])
}

/// A request for the no-op task.
pub(crate) fn invocation(due_at: Option<Timestamp>) -> Fallible<NewInvocation> {
    Ok(NewInvocation { due_at, ..NewInvocation::new(TASK.parse()?, payload()?) })
}

/// Enqueues so many in batches, several batches at a time.
pub(crate) fn feed(queue: &Queue, tasks: usize, feeders: usize, due_at: Option<Timestamp>) -> Fallible<()> {
    let one = invocation(due_at)?;
    let taken = AtomicUsize::new(0);
    let feeder = || -> Fallible<()> {
        loop {
            let start = taken.fetch_add(BATCH, Ordering::Relaxed);
            if start >= tasks {
                return Ok(());
            }
            queue.enqueue_all(vec![one.clone(); BATCH.min(tasks - start)])?;
        }
    };
    std::thread::scope(|scope| {
        let feeders: Vec<_> = (0..feeders).map(|_| scope.spawn(feeder)).collect();
        feeders.into_iter().try_for_each(|feeder| feeder.join().map_err(|_| "a feeder died")?)
    })
}
