//! How fast the first pass over a file is. Run by hand, in release:
//! `cargo test --release -- --ignored --nocapture one_pass`.
#![allow(clippy::print_stderr)]

use std::time::Instant;

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
    #[allow(clippy::disallowed_methods)]
    let time = |what: &str, work: &dyn Fn()| {
        let start = Instant::now();
        work();
        eprintln!("{what}: {:?}", start.elapsed());
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
    let status = String::from_utf8(RealDisk.open(Path::new("/proc/self/status"), OpenMode::Read).map_or_else(
        |_| Vec::new(),
        |file| {
            let mut buffer = vec![0; 8192];
            let count = file.read_at(&mut buffer, 0).unwrap_or(0);
            buffer.truncate(count);
            buffer
        },
    ))
    .unwrap();
    eprintln!(
        "{}",
        status
            .lines()
            .filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS"))
            .collect::<Vec<_>>()
            .join("  ")
    );
}
