//! Memory of an idle worker, and of each further instance that runs at the same time.
//!
//! Twice: a small guest that computes, and one that has used formatting, the clock and a timer of the
//! standard library before it sleeps, most of whose memory is its own. The raw limit of the latter is
//! a process in which the same guest sleeps as often, and nothing else.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wasmq::queue::NewInvocation;

use crate::directory;
use crate::guest::Sleeping;
use crate::procfs::{self, Memory};
use crate::report::{Figure, Report, Target};
use crate::server::Server;
use crate::{Fallible, Scale};

const COMPUTING: &str = "spin";
const SLOW: &str = "slow";
/// The first argument of this program that makes it hold instances.
pub(crate) const ROLE: &str = "raw-memory";
const MORE: usize = 400;
const SETTLE: Duration = Duration::from_millis(500);
const SLOW_MS: &[u8] = b"8000";
/// A computing guest keeps the thread for a tick of 10 ms, then the next one has its first turn.
const EACH_HAD_A_TURN: Duration = Duration::from_millis(15 * (MORE as u64 + 1));

pub(crate) fn measure(_: Scale, report: &mut Report) -> Fallible<()> {
    let dir = directory::temporary()?;
    let idle = idle_worker(&dir.path().join("idle"))?;
    let computing = running(&dir.path().join("computing"), COMPUTING, EACH_HAD_A_TURN)?;
    let sleeping = running(&dir.path().join("sleeping"), SLOW, SETTLE)?;
    report.add(Figure {
        name: "resident memory of an idle worker",
        unit: "MiB",
        measured: vec![idle.rss_kib / 1024.0],
        limit: Vec::new(),
        target: Target::AtMost(40.0),
        note: format!("{:.1} MiB with shared pages divided by those who share them", idle.pss_kib / 1024.0),
    });
    add_instance(report, "resident memory per further small instance", computing, Vec::new(), Target::AtMost(40.0));
    add_instance(report, "the same of a guest that sleeps", sleeping, vec![raw_instance_kib()?], Target::None);
    Ok(())
}

fn add_instance(
    report: &mut Report,
    name: &'static str,
    (one, many): (Memory, Memory),
    limit: Vec<f64>,
    target: Target,
) {
    let more = MORE as f64;
    report.add(Figure {
        name,
        unit: "KiB",
        measured: vec![(many.rss_kib - one.rss_kib) / more],
        limit,
        target,
        note: format!("{:.1} KiB with shared pages divided", (many.pss_kib - one.pss_kib) / more),
    });
}

/// A worker of the default size that has run a task and has nothing to do.
fn idle_worker(data: &Path) -> Fallible<Memory> {
    let queue = directory::queue(data)?;
    let mut server = Server::start(data, 1, 16)?;
    server.wait_until_ready()?;
    queue.enqueue(crate::feed::invocation(None)?)?;
    server.wait_for(1)?;
    std::thread::sleep(SETTLE);
    let pid = server.workers()?.first().copied().ok_or("no worker")?;
    let memory = procfs::memory(pid)?;
    server.stop()?;
    Ok(memory)
}

/// A worker while one guest runs, and while [`MORE`] more do.
fn running(data: &Path, guest: &str, settle: Duration) -> Fallible<(Memory, Memory)> {
    let queue = directory::queue(data)?;
    directory::deploy(&queue, guest, guest)?;
    let mut server = Server::start(data, 1, MORE + 1)?;
    server.wait_until_ready()?;
    let invocation = NewInvocation::new(guest.parse()?, SLOW_MS.to_vec());
    queue.enqueue(invocation.clone())?;
    let one = memory_while_running(&mut server, 1, SETTLE)?;
    queue.enqueue_all(vec![invocation; MORE])?;
    let many = memory_while_running(&mut server, MORE as u64 + 1, settle)?;
    // Dropping kills it; nobody wants to wait for guests that compute for ever.
    drop(server);
    Ok((one, many))
}

fn memory_while_running(server: &mut Server, wanted: u64, settle: Duration) -> Fallible<Memory> {
    let clock = Instant::now();
    loop {
        let figures = server.figures()?;
        let worker = figures.workers.first().ok_or("no worker")?;
        if worker.figures.counts.running == wanted {
            std::thread::sleep(settle);
            return procfs::memory(worker.figures.pid);
        }
        if clock.elapsed() > Duration::from_secs(7) {
            return Err(format!("{} of {wanted} run at the same time", worker.figures.counts.running).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn raw_instance_kib() -> Fallible<f64> {
    let output =
        Command::new(std::env::current_exe()?).args([ROLE, &MORE.to_string()]).stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Prints what each of so many further instances takes, in KiB.
pub(crate) fn child(arguments: &[String]) -> Fallible<()> {
    let more: usize = arguments.first().ok_or("how many?")?.parse()?;
    let raw = Sleeping::new(SLOW, u32::try_from(more)? + 1)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (one, many) = tokio::task::LocalSet::new().block_on(&tokio, async {
        raw.start(SLOW_MS);
        tokio::time::sleep(SETTLE).await;
        let one = procfs::memory(std::process::id())?;
        (0..more).for_each(|_| raw.start(SLOW_MS));
        tokio::time::sleep(SETTLE).await;
        Fallible::Ok((one, procfs::memory(std::process::id())?))
    })?;
    println!("{}", (many.rss_kib - one.rss_kib) / more as f64);
    Ok(())
}
