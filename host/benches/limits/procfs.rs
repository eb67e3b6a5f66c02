//! What the kernel knows about processes: processor time by thread, memory.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Fallible;

/// Processor time of every thread that a process has now, in microseconds, by thread name.
pub(crate) type ThreadTimes = BTreeMap<String, f64>;

/// Processor time of this thread, in microseconds.
pub(crate) fn this_thread_cpu_us() -> Fallible<f64> {
    on_cpu_us(Path::new("/proc/thread-self"))
}

fn on_cpu_us(task: &Path) -> Fallible<f64> {
    let text = std::fs::read_to_string(task.join("schedstat"))?;
    let nanoseconds: f64 = text.split_whitespace().next().ok_or("an empty schedstat")?.parse()?;
    Ok(nanoseconds / 1000.0)
}

/// See [`ThreadTimes`].
pub(crate) fn thread_times(pid: u32) -> Fallible<ThreadTimes> {
    let mut times = ThreadTimes::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm"))?.trim().to_owned();
        *times.entry(name).or_default() += on_cpu_us(&task)?;
    }
    Ok(times)
}

/// What was added between two looks.
pub(crate) fn added(before: &ThreadTimes, after: &ThreadTimes) -> ThreadTimes {
    after.iter().map(|(name, time)| (name.clone(), time - before.get(name).copied().unwrap_or(0.0))).collect()
}

/// Processor time of this process and its ended threads, in microseconds.
pub(crate) fn this_process_cpu_us() -> Fallible<f64> {
    const TICK_US: f64 = 10_000.0;
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) * TICK_US)
}

/// How many threads want a processor, on average over the last minute.
pub(crate) fn load_average() -> Fallible<f64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split_whitespace().next().unwrap_or_default().parse()?)
}

/// What a process holds in memory, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Resident, pages of the program file and shared ones included.
    pub(crate) rss_kib: f64,
    /// The same with shared pages divided by those who share them.
    pub(crate) pss_kib: f64,
}

/// See [`Memory`].
pub(crate) fn memory(pid: u32) -> Fallible<Memory> {
    let rss_kib = field(&format!("/proc/{pid}/status"), "VmRSS:")?;
    let pss_kib = field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")?;
    Ok(Memory { rss_kib, pss_kib })
}

fn field(path: &str, name: &str) -> Fallible<f64> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("{path} has no {name}"))?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}
