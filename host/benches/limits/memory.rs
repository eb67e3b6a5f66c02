//! Memory of an idle worker, and of each further instance that runs at the same time.
//!
//! The raw limit of the latter is a process in which the same guest sleeps as often, and nothing else.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wasmq::queue::NewInvocation;

use crate::directory::{self, SLOW};
use crate::guest::Sleeping;
use crate::procfs::{self, Memory};
use crate::report::{Figure, Report, Target};
use crate::server::Server;
use crate::{Fallible, Scale};

/// The first argument of this program that makes it hold instances.
pub(crate) const ROLE: &str = "raw-memory";
const MORE: usize = 400;
const SETTLE: Duration = Duration::from_millis(500);
const SLOW_MS: &[u8] = b"8000";

pub(crate) fn measure(_: Scale, report: &mut Report) -> Fallible<()> {
    let dir = directory::temporary()?;
    let idle = idle_worker(&dir.path().join("idle"))?;
    let (one, many) = running(&dir.path().join("busy"))?;
    let more = MORE as f64;
    report.add(Figure {
        name: "resident memory of an idle worker",
        unit: "MiB",
        measured: vec![idle.rss_kib / 1024.0],
        limit: Vec::new(),
        target: Target::AtMost(40.0),
        note: format!("{:.1} MiB with shared pages divided by those who share them", idle.pss_kib / 1024.0),
    });
    report.add(Figure {
        name: "resident memory per further running instance",
        unit: "KiB",
        measured: vec![(many.rss_kib - one.rss_kib) / more],
        limit: vec![raw_instance_kib()?],
        target: Target::AtMost(40.0),
        note: format!("{:.1} KiB with shared pages divided", (many.pss_kib - one.pss_kib) / more),
    });
    Ok(())
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

/// A worker while one slow guest runs, and while [`MORE`] more do.
fn running(data: &Path) -> Fallible<(Memory, Memory)> {
    let queue = directory::queue(data)?;
    directory::deploy(&queue, SLOW, "slow")?;
    let mut server = Server::start(data, 1, MORE + 1)?;
    server.wait_until_ready()?;
    let slow = NewInvocation::new(SLOW.parse()?, SLOW_MS.to_vec());
    queue.enqueue(slow.clone())?;
    let one = memory_while_running(&mut server, 1)?;
    queue.enqueue_all(vec![slow; MORE])?;
    let many = memory_while_running(&mut server, MORE as u64 + 1)?;
    drop(server);
    Ok((one, many))
}

fn memory_while_running(server: &mut Server, wanted: u64) -> Fallible<Memory> {
    let clock = Instant::now();
    loop {
        let figures = server.figures()?;
        let worker = figures.workers.first().ok_or("no worker")?;
        if worker.figures.counts.running == wanted {
            std::thread::sleep(SETTLE);
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
    let raw = Sleeping::new("slow", u32::try_from(more)? + 1)?;
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
