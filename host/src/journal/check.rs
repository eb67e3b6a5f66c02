//! Looking at all logs of a directory for damage: every record, every lock file, everything that is named
//! like a part of a log.
//!
//! Invariants: looking changes nothing; what a running owner is writing at this moment is no damage; a log
//! that comes and goes meanwhile is none either.
//!
//! Deliberately absent: zeros ahead of a log and the content of the reserve, which mean nothing.

use std::path::Path;
use std::sync::Arc;

use wasmq_wal::disk::{Disk, LockAttempt, OpenMode};
use wasmq_wal::{DamageReason, Record, ScanReport, Stranger, StrangerKind, WalError, WalId, WalListing};

use super::JournalError;
use super::adopt::{Replay, WORKER, adopter_of};
use super::hand_over::is_line_of_hand_over;
use super::reserve;
use crate::findings::{Check, Effect, Finding, Place, REPAIR, is_no_file, is_set_aside};

/// What is wrong with the logs in a directory.
pub fn check(disk: &Arc<dyn Disk>, dir: &Path) -> Check {
    Check::twice(|| look(disk.as_ref(), dir))
}

fn look(disk: &dyn Disk, dir: &Path) -> Check {
    let mut check = Check::default();
    let listing = match wasmq_wal::list(disk, dir) {
        Ok(listing) => listing,
        Err(error) => {
            check.add(Finding::unreadable(dir, with_cause(&error)));
            return check;
        }
    };
    for log in &listing.wals {
        one_log(disk, dir, log, &mut check);
    }
    check.findings.extend(listing.strangers.iter().map(stranger));
    check.findings.extend(
        listing
            .quarantined
            .iter()
            .map(|path| if is_leftover(path) { Finding::leftover(path) } else { Finding::set_aside(path) }),
    );
    beside_logs(disk, dir, &mut check);
    check
}

/// Whether a file is a copy of damaged bytes that was never finished.
pub(super) fn is_leftover(quarantined: &Path) -> bool {
    quarantined.extension().is_some_and(|extension| extension == "tmp")
}

/// The reserve, and what was set aside of it.
fn beside_logs(disk: &dyn Disk, dir: &Path, check: &mut Check) {
    let path = dir.join(reserve::FILE_NAME);
    if matches!(is_no_file(disk, &path), Ok(true)) {
        let what = "it is not a file, so no room is kept for a full disk";
        check.add(Finding::new(&path, Effect::Waits, what, REPAIR));
    }
    for entry in disk.list(dir).unwrap_or_default() {
        let name = entry.name.to_string_lossy();
        if name.starts_with(reserve::FILE_NAME) && is_set_aside(&name) {
            check.add(Finding::set_aside(&dir.join(&entry.name)));
        }
    }
}

fn stranger(stranger: &Stranger) -> Finding {
    let path = &stranger.path;
    let find = |effect, what: String, todo: &str| Finding::new(path, effect, what, todo);
    match stranger.kind {
        StrangerKind::OtherVersion(version) => find(
            Effect::Waits,
            format!("it is of format version {version}, which this wasmq does not know"),
            "use a wasmq that knows it; nothing touches it",
        ),
        StrangerKind::NotAFile => {
            find(Effect::Waits, "it is not a file, in place of a part of a log".to_owned(), REPAIR)
        }
        StrangerKind::BadName => find(
            Effect::Waits,
            "it looks like a log by its name but is none".to_owned(),
            "give it its name back, or move it away; nothing touches it",
        ),
    }
}

/// Whether some process owns a log.
pub(super) fn is_owned(disk: &dyn Disk, dir: &Path, id: WalId) -> bool {
    matches!(disk.try_lock_existing(&dir.join(wasmq_wal::lock_file_name(id))), Ok(LockAttempt::Held))
}

/// Reads one log as who adopts it would.
pub(super) fn read_through(disk: &dyn Disk, dir: &Path, log: &WalListing) -> Result<ScanReport, JournalError> {
    let listed: Vec<u32> = log.segments.iter().map(|segment| segment.sequence).collect();
    let mut replay = Replay::new(dir, log.id);
    let report = wasmq_wal::scan_listed(disk, dir, log.id, &listed, &mut |record: Record<'_>| replay.visit(&record))?;
    match replay.newer.take() {
        Some(newer) => Err(newer),
        None => Ok(replay.end(report).1),
    }
}

fn one_log(disk: &dyn Disk, dir: &Path, log: &WalListing, check: &mut Check) {
    let is_owned = is_owned(disk, dir, log.id);
    let text = lock_file(disk, dir, log, is_owned, check);
    if adopter_of(&text).is_some() {
        // Void: everything in it is in another log, and it is about to be deleted.
        return;
    }
    check.files += log.segments.len() as u64;
    match read_through(disk, dir, log) {
        Ok(report) => {
            damage(&report, is_owned, check);
            if report.records == 0 && report.damaged.is_empty() && report.torn.is_none() && !is_owned {
                check.findings.extend(log.segments.first().map(|first| no_records(dir, log.id, first.sequence)));
            }
        }
        Err(JournalError::Log(WalError::NewerFormat { path, found, supported })) => {
            let what = format!("it is of format version {found}; this wasmq knows {supported}, and leaves the log");
            check.add(Finding::new(&path, Effect::Waits, what, "use a wasmq that knows it"));
        }
        Err(JournalError::NewerRecord { path, kind, offset, known }) => {
            let what = format!("a record of kind {kind}; this wasmq knows kinds up to {known}, and leaves the log");
            check.add(Finding::new(&path, Effect::Waits, what, "use a wasmq that knows it").at(Place::Offset(offset)));
        }
        Err(JournalError::Log(WalError::Io(failure))) => {
            check.add(Finding::unreadable(&failure.path, &failure.source));
        }
        Err(error) => check.add(Finding::unreadable(&dir.join(wasmq_wal::lock_file_name(log.id)), with_cause(&error))),
    }
}

/// A log without records: it cannot be seen whether it ever had some.
fn no_records(dir: &Path, id: WalId, sequence: u32) -> Finding {
    let path = dir.join(wasmq_wal::segment_file_name(id, sequence));
    let what = "the log holds no records, as after an interrupted start, or when it was emptied";
    Finding::new(&path, Effect::Harmless, what, "nothing; the next worker removes it")
}

fn damage(report: &ScanReport, is_owned: bool, check: &mut Check) {
    check.records += report.records;
    let todo = if is_owned { "nothing now: its worker runs; what follows it sets the bytes aside" } else { REPAIR };
    // What is not a file is told of by its name.
    for damage in report.damaged.iter().filter(|damage| damage.reason != DamageReason::NotAFile) {
        let what = format!("{} bytes: {}", damage.bytes, damage.reason);
        check.add(Finding::new(&damage.path, Effect::Lost, what, todo).at(Place::Offset(damage.offset)));
    }
    if let Some(torn) = report.torn.as_ref().filter(|_| !is_owned) {
        let what = format!("the last {} bytes are no whole record, as a cut write leaves it or damage", torn.bytes);
        let todo = format!("{REPAIR}, or the next worker does it");
        check.add(Finding::new(&torn.path, Effect::Lost, what, todo).at(Place::Offset(torn.offset)));
    }
}

/// Looks at the lock file and returns its text.
fn lock_file(disk: &dyn Disk, dir: &Path, log: &WalListing, is_owned: bool, check: &mut Check) -> String {
    let path = dir.join(wasmq_wal::lock_file_name(log.id));
    if !log.has_lock_file {
        if !matches!(is_no_file(disk, &path), Ok(true)) {
            let what = "the lock file of a log is missing";
            check.add(Finding::new(&path, Effect::Harmless, what, "nothing; the next worker makes it anew"));
        }
        return String::new();
    }
    check.files += 1;
    let bytes = match disk.open(&path, OpenMode::Read).and_then(|file| file.read_all()) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return String::new(),
        Err(error) => {
            check.add(Finding::unreadable(&path, error));
            return String::new();
        }
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if !log.segments.is_empty() && !is_owned && !is_as_written(&text) {
        let what = "the text of a lock file is damaged; the log is read all the same, and an invocation that had left \
                    it may run once more";
        check.add(Finding::new(&path, Effect::Harmless, what, "nothing; the next worker takes the log over"));
    }
    text
}

/// Whether the text of a lock file can be what wasmq wrote: who holds it, then what became of the log.
fn is_as_written(text: &str) -> bool {
    let is_text =
        |line: &str| !line.is_empty() && !line.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER);
    let is_known = |line: &str| line.starts_with(WORKER) || adopter_of(line).is_some() || is_line_of_hand_over(line);
    let mut lines = text.lines();
    text.ends_with('\n') && lines.next().is_some_and(is_text) && lines.all(is_known)
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
