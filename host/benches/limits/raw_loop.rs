//! The raw limit of no-op tasks end to end: the plainest loop of the same shape, as a process.
//!
//! One thread appends batches of 1,000 enqueue records as long as fewer than [`FEEDERS`] batches
//! wait for their sync, runs each task in a fresh instance and appends a done record; another thread
//! syncs 2 ms after something was written. The loop is over when the last done record is durable.
//! No index of tasks, no versions, no started record, no retries, no supervision.
//!
//! The process gets ready, says so, and starts when it is told, so that several start together.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::feed::{BATCH, FEEDERS, RECORD_BYTES};
use crate::guest::Raw;
use crate::{Fallible, procfs, raw_commit};

/// The first argument of this program that makes it such a process.
pub(crate) const ROLE: &str = "raw-loop";
const WINDOW: Duration = Duration::from_millis(2);
const DONE_BYTES: usize = 30;
const TURN: usize = 256;

#[derive(Default)]
struct Ends {
    written: u64,
    synced: u64,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    ends: Mutex<Ends>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_sync(&self, end: u64) -> u64 {
        let mut ends = self.lock();
        while ends.synced < end {
            ends = self.changed.wait(ends).unwrap_or_else(PoisonError::into_inner);
        }
        ends.synced
    }

    fn sync_until_stopped(&self, file: &File) -> std::io::Result<()> {
        loop {
            let mut ends = self.lock();
            while ends.written == ends.synced && !ends.stop {
                ends = self.changed.wait(ends).unwrap_or_else(PoisonError::into_inner);
            }
            if ends.written == ends.synced {
                return Ok(());
            }
            drop(ends);
            std::thread::sleep(WINDOW);
            let covered = self.lock().written;
            file.sync_data()?;
            self.lock().synced = covered;
            self.changed.notify_all();
        }
    }
}

struct Log<'a> {
    file: &'a File,
    shared: &'a Shared,
    buffer: Vec<u8>,
    end: u64,
}

impl Log<'_> {
    fn append(&mut self, body: &[u8]) {
        self.buffer.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
        self.buffer.extend_from_slice(body);
    }

    fn write(&mut self) -> std::io::Result<()> {
        self.file.write_all_at(&self.buffer, self.end)?;
        self.end += self.buffer.len() as u64;
        self.buffer.clear();
        self.shared.lock().written = self.end;
        self.shared.changed.notify_all();
        Ok(())
    }
}

/// Runs so many tasks; with `enqueue_first` nothing runs before all are enqueued, and only the
/// draining is timed.
fn run(raw: &Raw, log: &mut Log<'_>, tasks: usize, enqueue_first: bool) -> Fallible<Duration> {
    let (body, done) = (vec![7; RECORD_BYTES - 4], vec![9; DONE_BYTES - 4]);
    let mut ready: VecDeque<Box<[u8]>> = VecDeque::new();
    let mut unsynced: VecDeque<u64> = VecDeque::new();
    let (mut enqueued, mut ended) = (0, 0);
    let mut clock = Instant::now();
    while ended < tasks {
        let synced = log.shared.lock().synced;
        unsynced.retain(|end| *end > synced);
        while enqueued < tasks && unsynced.len() < FEEDERS {
            let batch = BATCH.min(tasks - enqueued);
            (0..batch).for_each(|_| log.append(&body));
            ready.extend((0..batch).map(|_| Box::from(body.as_slice())));
            enqueued += batch;
            log.write()?;
            unsynced.push_back(log.end);
        }
        if ready.is_empty() || (enqueue_first && enqueued < tasks) {
            log.shared.wait_for_sync(unsynced.front().copied().unwrap_or_default());
            clock = if enqueue_first { Instant::now() } else { clock };
            continue;
        }
        for payload in ready.drain(..TURN.min(ready.len())) {
            raw.call(&payload)?;
            log.append(&done);
            ended += 1;
        }
        log.write()?;
    }
    log.shared.wait_for_sync(log.end);
    Ok(clock.elapsed())
}

/// The process: file, number of tasks, whether to enqueue all first.
pub(crate) fn child(arguments: &[String]) -> Fallible<()> {
    let [path, tasks, order] = arguments else { return Err("a raw loop takes a file, a number and an order".into()) };
    let tasks: usize = tasks.parse()?;
    let raw = Raw::new("echo", 16)?;
    let file = raw_commit::zeroed(Path::new(path), (tasks * (RECORD_BYTES + DONE_BYTES)) as u64 + (1 << 20))?;
    raw.cost(2000, &[7; 200])?;
    let shared = Arc::new(Shared::default());
    let (syncer, synced) = (Arc::clone(&shared), file.try_clone()?);
    let syncer = std::thread::spawn(move || syncer.sync_until_stopped(&synced));
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut log = Log { file: &file, shared: &shared, buffer: Vec::new(), end: 0 };
    let before = procfs::this_process_cpu_us()?;
    let took = run(&raw, &mut log, tasks, order == "first")?;
    let cpu_us = procfs::this_process_cpu_us()? - before;
    shared.lock().stop = true;
    shared.changed.notify_all();
    syncer.join().map_err(|_| "the syncer died")??;
    println!("{} {}", took.as_secs_f64(), cpu_us / tasks as f64);
    Ok(())
}

/// What raw loops reached together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    pub(crate) per_second: f64,
    /// Processor time for a task, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Runs so many processes together.
pub(crate) fn together(dir: &Path, processes: usize, tasks: usize, enqueue_first: bool) -> Fallible<Reached> {
    let mut children = (0..processes)
        .map(|number| start(&dir.join(format!("raw-{number}.log")), tasks / processes, enqueue_first))
        .collect::<Fallible<Vec<_>>>()?;
    for (_, lines) in &mut children {
        lines.read_line(&mut String::new())?;
    }
    for (child, _) in &mut children {
        child.stdin.take().ok_or("no standard input")?.write_all(b"go\n")?;
    }
    let (mut longest, mut cpu_us): (f64, f64) = (0.0, 0.0);
    for (mut child, mut lines) in children {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let (seconds, cpu) = line.trim().split_once(' ').ok_or("a raw loop failed")?;
        longest = longest.max(seconds.parse()?);
        cpu_us += cpu.parse::<f64>()? / processes as f64;
        child.wait()?;
    }
    Ok(Reached { per_second: tasks as f64 / longest, cpu_us })
}

type Started = (Child, BufReader<std::process::ChildStdout>);

fn start(path: &Path, tasks: usize, enqueue_first: bool) -> Fallible<Started> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([ROLE.as_ref(), path.as_os_str()])
        .args([tasks.to_string(), if enqueue_first { "first" } else { "mixed" }.to_owned()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("no standard output")?);
    Ok((child, lines))
}
