//! Handing ready invocations over to whoever has time: a log of their own that others adopt.
//!
//! The steps for a log S that hands over to a new log T, and what a crash after each leaves:
//!
//! 1. Create T, locked, with the line `from S` in its lock file.
//! 2. Append the invocations to T, sync. T is not valid yet, S holds them.
//! 3. Append one record `HANDED_OVER T ids` to S, sync. From here on T holds them and S does not.
//! 4. Add the line `committed` to T's lock file.
//! 5. Let go of T.
//!
//! Whoever finds a T with `from S` and without `committed` leaves it alone while S is there; whoever
//! adopts S settles its pending logs first: valid if S has the record, void otherwise.
//!
//! Invariant: at every moment exactly one of the two logs counts.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmq_core::{Event, InvocationId, event};
use wasmq_wal::disk::Disk;
use wasmq_wal::{Claim, Options, Record, Wal, WalId};

use super::JournalError;
use super::disk::{DiskJournal, new_log_id};
use crate::clock::Stopwatch;

/// How long the log of a hand-over is left to others before its source takes it back.
const FOR_OTHERS: Duration = Duration::from_secs(2);
const FROM: &str = "from ";
const COMMITTED: &str = "committed";

/// The log that a pending hand-over comes from, by the text of a lock file.
pub(super) fn pending_from(lock_text: &str) -> Option<WalId> {
    let from = lock_text.lines().find_map(|line| line.strip_prefix(FROM)?.parse().ok());
    from.filter(|_| !lock_text.lines().any(|line| line == COMMITTED))
}

/// Whether a line of a lock file is one of a hand-over.
pub(super) fn is_line_of_hand_over(line: &str) -> bool {
    line == COMMITTED || pending_from(line).is_some()
}

pub(super) fn hand_over(journal: &mut DiskJournal, limit: usize) -> Result<usize, JournalError> {
    if journal.is_short {
        return Ok(0);
    }
    let ids = journal.schedule.take_last_ready(limit);
    if ids.is_empty() {
        return Ok(0);
    }
    let target_id = new_log_id();
    let owner = format!("hand-over, pid {}", std::process::id());
    let log = Wal::create(Arc::clone(&journal.disk), &journal.dir, target_id, &owner, Options::short_lived());
    let mut target = match log {
        Err(error) if error.is_no_space() => return Ok(stay(journal, &ids)),
        other => other?,
    };
    match offer(journal, &mut target, target_id, &ids) {
        Err(error) if lacks_room(journal, &error) => {
            target.delete()?;
            return Ok(stay(journal, &ids));
        }
        other => other?,
    }
    journal.sync()?;
    journal.schedule.handed_over(&ids);
    target.mark(COMMITTED)?;
    target.close()?;
    journal.handed_over = Some((target_id, Stopwatch::start()));
    Ok(ids.len())
}

/// Steps 2 and 3 without the last sync. After an error for want of room neither log counts on the other.
fn offer(
    journal: &mut DiskJournal,
    target: &mut Wal,
    target_id: WalId,
    ids: &[InvocationId],
) -> Result<(), JournalError> {
    target.mark(&format!("{FROM}{}", journal.id))?;
    write(journal, target, ids)?;
    let _proof = target.sync()?;
    journal.scratch.clear();
    event::encode_handed_over(&mut journal.scratch, *target_id.as_bytes(), ids);
    journal.append(event::kind::HANDED_OVER, &[]).map(|_| ())
}

/// Whether the target has no room and this log is as it was.
fn lacks_room(journal: &DiskJournal, error: &JournalError) -> bool {
    journal.wal.poison().is_none() && matches!(error, JournalError::Log(error) if error.is_no_space())
}

/// There is no room for another log: all stays as it was.
fn stay(journal: &mut DiskJournal, ids: &[InvocationId]) -> usize {
    journal.schedule.put_back_last(ids);
    0
}

/// Whether a log is the last hand-over of this journal and still for others.
pub(super) fn is_for_others(journal: &DiskJournal, id: WalId) -> bool {
    journal.handed_over.is_some_and(|(log, since)| log == id && since.elapsed() < FOR_OTHERS)
}

fn write(journal: &mut DiskJournal, target: &mut Wal, ids: &[InvocationId]) -> Result<(), JournalError> {
    use super::LiveStore as _;
    let mut body = Vec::new();
    for id in ids {
        let payload = journal.payload(id)?;
        if let Some(entry) = journal.schedule.get(id) {
            body.clear();
            event::encode_entry(&mut body, entry);
            target.append(event::kind::SNAPSHOT, &[&body, &payload])?;
        }
    }
    Ok(())
}

/// Decides the fate of the pending hand-overs of a log that is being adopted. Returns whether all are
/// decided: somebody who looks at one holds its lock for a moment. Until then the source must stay.
pub(super) fn settle_pending(disk: &Arc<dyn Disk>, dir: &Path, from: WalId) -> Result<bool, JournalError> {
    let pending: Vec<WalId> = pending_logs(disk.as_ref(), dir, from)?;
    if pending.is_empty() {
        return Ok(true);
    }
    let mut valid = HashSet::new();
    wasmq_wal::scan(disk.as_ref(), dir, from, &mut |record: Record<'_>| {
        if let Ok(Some(Event::HandedOver(log, _))) = event::decode(record.kind, record.body) {
            valid.insert(log);
        }
        ControlFlow::Continue(())
    })?;
    for log in pending {
        match wasmq_wal::claim(Arc::clone(disk), dir, log)? {
            Claim::Claimed(mut target) if valid.contains(log.as_bytes()) => {
                target.mark(COMMITTED)?;
                target.release();
            }
            Claim::Claimed(target) => target.delete()?,
            Claim::Held => return Ok(false),
            Claim::Gone => {}
        }
    }
    Ok(true)
}

fn pending_logs(disk: &dyn Disk, dir: &Path, from: WalId) -> Result<Vec<WalId>, JournalError> {
    let logs = wasmq_wal::list(disk, dir)?.wals.into_iter().map(|log| log.id);
    let is_pending =
        |id: &WalId| super::adopt::lock_text(disk, dir, *id).as_deref().and_then(pending_from) == Some(from);
    Ok(logs.filter(is_pending).collect())
}
