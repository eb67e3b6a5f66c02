//! The lock file of a log with any text in it, beside a log that it may name: the directory can be read, the
//! log can be adopted, and what lives in it is adopted or still there unless the text says that it is void.

use std::path::Path;

use wasmq_core::{Invocation, InvocationId, Timestamp};
use wasmq_wal::disk::{Disk as _, SimDisk};
use wasmq_wal::{Options, Wal, WalId, lock_file_name};

use crate::input::{put, share};
use crate::journal::{self, DiskJournal, Durability, JournalOptions, LiveStore as _};

const DIR: &str = "/journal";
const ID: WalId = WalId::from_bytes([0xA7; 16]);
const NAMED: WalId = WalId::from_bytes([0xB8; 16]);
const SMALL: Options = Options { segment_bytes: 3000, extend_bytes: 128, buffer_bytes: 1 << 12 };

/// See the module.
pub fn run(bytes: &[u8]) {
    let disk = SimDisk::new();
    let id = InvocationId::new(Timestamp(1), 7);
    log_with(&disk, ID, Some(id));
    log_with(&disk, NAMED, None);
    put(&disk, &format!("{DIR}/{}", lock_file_name(ID)), bytes);
    let text = String::from_utf8_lossy(bytes);
    let is_void = names_a_log(&text, "adopted-by ");
    let is_pending = names_a_log(&text, "from ");
    let before = journal::read_all(&share(&disk), Path::new(DIR)).unwrap();
    assert!(is_void || is_pending || before.entries.contains_key(&id), "readers see it");
    let options = JournalOptions { durability: Durability::Always, log: SMALL, reserve_bytes: 0 };
    let mut worker = DiskJournal::create(share(&disk), Path::new(DIR), "worker, fuzz", options).unwrap();
    let mut replays = 0;
    for _ in 0..3 {
        worker
            .adopt(Timestamp(5), &mut |found| {
                replays += found.len();
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(replays, 0, "nothing was replayed");
    let after = journal::read_all(&share(&disk), Path::new(DIR)).unwrap();
    assert!(is_void || is_pending || worker.get(&id).is_some(), "it is adopted");
    assert_eq!(worker.get(&id).is_some(), after.entries.contains_key(&id), "readers and the worker agree");
    Box::new(worker).close().unwrap();
}

/// Whether a line has this word and an id behind it.
fn names_a_log(text: &str, word: &str) -> bool {
    text.lines().any(|line| line.strip_prefix(word).is_some_and(|rest| rest.parse::<WalId>().is_ok()))
}

fn log_with(disk: &SimDisk, log: WalId, id: Option<InvocationId>) {
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut wal = Wal::create(share(disk), Path::new(DIR), log, "fuzz", SMALL).unwrap();
    if let Some(id) = id {
        let mut body = Vec::new();
        Invocation::new(id, "t".parse().unwrap(), Timestamp(1)).encode(&mut body);
        wal.append(wasmq_core::event::kind::ENQUEUED, &[&body, b"payload"]).unwrap();
    }
    wal.close().unwrap();
}
