//! How fast the first pass over a file is. Run by hand, in release:
//! `cargo test --release -- --ignored --nocapture one_pass`.
#![allow(clippy::print_stderr)]

use std::time::Duration;

use super::*;
use wasmq_wal::disk::RealDisk;

#[test]
#[ignore = "a measurement"]
fn one_pass_over_many_entries_is_fast() {
    let count: u64 = std::env::var("ENTRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let dir = tempfile::tempdir().unwrap();
    let open = || DiskDlq::open(Arc::new(RealDisk), dir.path()).unwrap();
    for from in (0..count).step_by(10_000) {
        open().add(&many(from..from + 10_000)).unwrap();
    }
    let len = RealDisk.stat(&open().path()).unwrap().unwrap().len;
    let dlq = open();
    // Time on a core, so that a busy machine does not change the figures much.
    let time = |what: &str, work: &dyn Fn()| {
        let start = on_core();
        work();
        eprintln!("{what}: {:?} on a core", on_core() - start);
    };
    eprintln!("{count} entries of {} bytes", len / count);
    time("first counts (scan)", &|| assert_eq!(dlq.counts().unwrap().total, count));
    time("counts again", &|| _ = dlq.counts().unwrap());
    time("groups", &|| _ = dlq.groups().unwrap());
    time("page of 100", &|| _ = dlq.batch(None, 100, &Filter::default()).unwrap());
    time("latest 100", &|| _ = dlq.latest(None, 100, &Filter::default()).unwrap());
    time("find", &|| _ = dlq.find(&id(7).to_string()).unwrap());
    time("add one", &|| _ = dlq.add(&[dead(count + 1, 0)]).unwrap());
    time("compact", &|| dlq.compact(NOW).unwrap());
    let status = proc_file("/proc/self/status");
    eprintln!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

/// The time this thread has run so far.
fn on_core() -> Duration {
    let text = proc_file("/proc/thread-self/schedstat");
    Duration::from_nanos(text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default())
}

fn proc_file(path: &str) -> String {
    let mut buffer = vec![0; 8192];
    let count = RealDisk.open(Path::new(path), OpenMode::Read).unwrap().read_at(&mut buffer, 0).unwrap();
    buffer.truncate(count);
    String::from_utf8(buffer).unwrap()
}
