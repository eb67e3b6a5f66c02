//! The raw limit of durable single enqueues: the plainest group commit.
//!
//! Producers put a record with its checksum into a shared buffer and wait; one thread writes what
//! has gathered into a file that is filled with zeros ahead, syncs, and wakes those who wait.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Fallible;

/// The file is written from its beginning again when it has this many bytes.
const FILE_BYTES: u64 = 64 << 20;

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    staged: u64,
    synced: u64,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    staged: Condvar,
    synced: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_one(&self, body: &[u8]) {
        let crc = crc32c::crc32c(body).to_le_bytes();
        let mut state = self.lock();
        state.bytes.extend_from_slice(&crc);
        state.bytes.extend_from_slice(body);
        state.staged += 1;
        let mine = state.staged;
        self.staged.notify_one();
        while state.synced < mine {
            state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn commit(&self, file: &File) -> std::io::Result<()> {
        let mut offset = 0;
        let mut bytes = Vec::new();
        loop {
            let mut state = self.lock();
            while state.bytes.is_empty() && !state.stop {
                state = self.staged.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.bytes.is_empty() {
                return Ok(());
            }
            std::mem::swap(&mut state.bytes, &mut bytes);
            let covered = state.staged;
            drop(state);
            if offset + bytes.len() as u64 > FILE_BYTES {
                offset = 0;
            }
            file.write_all_at(&bytes, offset)?;
            file.sync_data()?;
            offset += bytes.len() as u64;
            bytes.clear();
            self.lock().synced = covered;
            self.synced.notify_all();
        }
    }
}

/// A file of zeros, durable.
pub(crate) fn zeroed(path: &Path, bytes: u64) -> Fallible<File> {
    let file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < bytes {
        file.write_all_at(&zeros, offset)?;
        offset += zeros.len() as u64;
    }
    file.sync_all()?;
    Ok(file)
}

/// Acknowledged records a second with so many producers and records of this size.
pub(crate) fn rate(dir: &Path, producers: usize, record_bytes: usize, time: Duration) -> Fallible<f64> {
    let file = zeroed(&dir.join("raw.log"), FILE_BYTES)?;
    let shared = Shared::default();
    let body = vec![7; record_bytes - 4];
    let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let clock = Instant::now();
    std::thread::scope(|scope| -> Fallible<()> {
        let committer = scope.spawn(|| shared.commit(&file));
        let producer = || {
            while !stop.load(Ordering::Relaxed) {
                shared.write_one(&body);
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let producers: Vec<_> = (0..producers).map(|_| scope.spawn(producer)).collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        producers.into_iter().for_each(|producer| drop(producer.join()));
        shared.lock().stop = true;
        shared.staged.notify_one();
        Ok(committer.join().map_err(|_| "the committer died")??)
    })?;
    Ok(count.load(Ordering::Relaxed) as f64 / clock.elapsed().as_secs_f64())
}
