//! Verifying and repairing on the simulated disk: every kind of damage at once, the power cut at every
//! operation of the repair, and the same afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wasmq_core::{DeadTask, Invocation, InvocationId, Timestamp, event};
use wasmq_wal::disk::{Disk, EntryKind, OpenMode, SimDisk, Survival};
use wasmq_wal::{Options as LogOptions, Wal, WalId, segment_file_name};

use super::store_check::{Check, Effect, Repair, repair_on, verify_on};
use super::tests::{dead, deploy, open};
use crate::journal;

const DATA: &str = "/data";
const DLQ: &str = "/data/dlq/dead-tasks-v1.jsonl";
const TASKS: &str = "/data/tasks-v1.json";
const SYMBOLS: &str = "/data/symbols/sha256";

fn shared(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn verify(disk: &SimDisk) -> Check {
    verify_on(&shared(disk), Path::new(DATA)).unwrap()
}

fn repair(disk: &SimDisk) -> Repair {
    repair_on(&shared(disk), Path::new(DATA)).unwrap()
}

fn log_id(n: u8) -> WalId {
    WalId::from_bytes([n; 16])
}

fn segment(log: u8, sequence: u32) -> PathBuf {
    Path::new(DATA).join("journal").join(segment_file_name(log_id(log), sequence))
}

fn id(n: u128) -> InvocationId {
    InvocationId::new(Timestamp(1), n)
}

/// A log as a command line leaves it, with these invocations; the offset of each record.
fn leave_log(disk: &SimDisk, log: u8, numbers: &[u128]) -> Vec<u64> {
    let dir = Path::new(DATA).join("journal");
    let mut wal = Wal::create(shared(disk), &dir, log_id(log), "enqueue, pid 1", LogOptions::short_lived()).unwrap();
    let mut offsets = Vec::new();
    for n in numbers {
        let mut body = Vec::new();
        Invocation::new(id(*n), "resize".parse().unwrap(), Timestamp(1)).encode(&mut body);
        let at = wal.append(event::kind::ENQUEUED, &[&body, b"payload"]).unwrap();
        offsets.push(at.offset);
    }
    wal.close().unwrap();
    offsets
}

fn content(disk: &SimDisk, path: &Path) -> Vec<u8> {
    disk.open(path, OpenMode::Read).unwrap().read_all().unwrap()
}

fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Create).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
}

fn flip(disk: &SimDisk, path: &Path, offset: u64) {
    let mut bytes = content(disk, path);
    bytes[offset as usize] ^= 0x10;
    put(disk, path, &bytes);
}

/// A sound directory: a task, three dead tasks, two logs.
fn sound() -> SimDisk {
    let disk = SimDisk::new();
    let queue = open(&disk).unwrap();
    queue.prepare_to_serve().unwrap();
    let digest = deploy(&queue, b"component one");
    queue.inner.dlq.add(&[dead(1, digest), dead(2, digest), dead(3, digest)]).unwrap();
    leave_log(&disk, 1, &[11, 12, 13]);
    leave_log(&disk, 2, &[21]);
    disk
}

/// The same with damage in every file that can be repaired.
fn damaged() -> SimDisk {
    let disk = sound();
    let offsets = leave_log(&disk, 3, &[31, 32, 33]);
    flip(&disk, &segment(3, 1), offsets[1] + 3);
    let mut tail = content(&disk, &segment(2, 1));
    tail.extend(b"half a record");
    put(&disk, &segment(2, 1), &tail);
    let lines = content(&disk, Path::new(DLQ));
    let second = lines.iter().position(|byte| *byte == b'\n').unwrap() as u64 + 1;
    flip(&disk, Path::new(DLQ), second + 60);
    let mut lines = content(&disk, Path::new(DLQ));
    lines.extend(b"{\"crc\":\"00000000\",\"half a line");
    put(&disk, Path::new(DLQ), &lines);
    flip(&disk, Path::new(TASKS), 40);
    put(&disk, Path::new("/data/dlq/dead-tasks-v1.jsonl.tmp"), b"left");
    put(&disk, Path::new("/data/tasks-v1.json.tmp-7-7"), b"left");
    put(&disk, &segment(2, 1).with_extension("log.damaged-64.tmp"), b"left");
    disk.create_dir_all(Path::new(SYMBOLS)).unwrap();
    put(&disk, &symbols(7), b"no symbols");
    put(&disk, &symbols(8).with_extension("wasm.tmp-7-7"), b"left");
    disk
}

fn symbols(component: u8) -> PathBuf {
    Path::new(SYMBOLS).join(format!("{}.wasm", wasmq_core::Digest::new([component; 32]).hex()))
}

/// What is served: live ids, dead tasks, deployed tasks.
type Served = (BTreeSet<InvocationId>, BTreeMap<InvocationId, DeadTask>, usize);

fn served(disk: &SimDisk) -> Served {
    let live = journal::read_all(&shared(disk), &Path::new(DATA).join("journal")).unwrap().entries;
    let queue = open(disk).unwrap();
    let page = queue.inner.dlq.batch(None, 100, &Default::default()).unwrap().entries;
    let tasks = queue.inner.registry.tasks().unwrap().iter().len();
    (live.into_keys().collect(), page.into_iter().map(|dead| (dead.id, dead)).collect(), tasks)
}

/// Every file with its content.
fn files(disk: &SimDisk, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in disk.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        match entry.kind {
            EntryKind::Dir => all.extend(files(disk, &path)),
            _ => _ = all.insert(path.clone(), content(disk, &path)),
        }
    }
    all
}

fn evidence(disk: &SimDisk) -> Vec<Vec<u8>> {
    let is_evidence = |path: &PathBuf| path.to_string_lossy().contains("damaged");
    files(disk, Path::new(DATA)).into_iter().filter(|(path, _)| is_evidence(path)).map(|(_, bytes)| bytes).collect()
}

/// The damaged line of the dead letter queue.
fn lost_line() -> Vec<u8> {
    content(&damaged(), Path::new(DLQ)).split(|byte| *byte == b'\n').nth(1).unwrap().to_vec()
}

fn copies_of(bytes: &[u8], evidence: &[Vec<u8>]) -> usize {
    evidence.iter().map(|all| all.windows(bytes.len()).filter(|window| *window == bytes).count()).sum()
}

fn only_set_aside(check: &Check) -> bool {
    check.findings.iter().all(|finding| finding.effect == Effect::SetAside)
}

#[test]
fn a_sound_directory_has_no_findings_and_repairing_it_changes_nothing() {
    let disk = sound();
    let check = verify(&disk);
    assert_eq!(check.findings, []);
    // The registry and its copy, a component, the dead letter queue, two logs with their lock files.
    assert_eq!(check.files, 8);
    let before = disk.operations();
    assert_eq!(repair(&disk).done, []);
    assert_eq!(disk.operations(), before);
}

#[test]
fn every_damage_is_found_with_its_file_and_place_and_finding_changes_nothing() {
    let disk = damaged();
    let before = disk.operations();
    let check = verify(&disk);
    assert_eq!(disk.operations(), before);
    let needs_action: Vec<String> = check
        .findings
        .iter()
        .filter(|finding| finding.effect.needs_action())
        .map(|finding| format!("{} {}", finding.path.file_name().unwrap().to_string_lossy(), finding.place))
        .collect();
    let name = |log| segment_file_name(log_id(log), 1);
    assert_eq!(needs_action.len(), 6, "{check:#?}");
    assert!(needs_action[0].starts_with("tasks-v1.json "), "{needs_action:?}");
    assert!(needs_action[1].starts_with("0707070707"), "{needs_action:?}");
    assert!(needs_action[2].starts_with("dead-tasks-v1.jsonl line 2, offset "), "{needs_action:?}");
    assert!(needs_action[3].starts_with("dead-tasks-v1.jsonl offset "), "{needs_action:?}");
    assert!(needs_action[4].starts_with(&format!("{} offset ", name(2))), "{needs_action:?}");
    assert!(needs_action[5].starts_with(&format!("{} offset ", name(3))), "{needs_action:?}");
    assert_eq!(check.findings.iter().filter(|finding| finding.what.contains("leftover")).count(), 4);
}

#[test]
fn a_repair_serves_the_rest_keeps_the_evidence_and_does_nothing_the_second_time() {
    let disk = damaged();
    let before = served(&disk);
    let lost = lost_line();
    let tasks = content(&disk, Path::new(TASKS));
    let repaired = repair(&disk);
    assert_eq!(repaired.failures, [] as [String; 0]);
    assert!(only_set_aside(&repaired.left), "{:#?}", repaired.left);
    assert_eq!(served(&disk), before);
    assert_eq!((before.0.len(), before.1.len(), before.2), (6, 2, 1));
    let evidence = evidence(&disk);
    for kept in [&lost[..], &tasks, b"half a record", b"half a line", b"no symbols"] {
        assert!(evidence.iter().any(|bytes| bytes.windows(kept.len()).any(|window| window == kept)));
    }
    let first = files(&disk, Path::new(DATA));
    assert_eq!(repair(&disk).done, []);
    assert_eq!(files(&disk, Path::new(DATA)), first);
}

#[test]
fn a_power_cut_at_every_step_of_a_repair_and_a_second_repair_give_the_same() {
    let expected = served(&damaged());
    let whole = damaged();
    repair(&whole);
    let kept = evidence(&whole);
    let lost = lost_line();
    for cut in 0.. {
        let disk = damaged();
        disk.cut_power_at(disk.operations() + cut);
        let finished = repair_on(&shared(&disk), Path::new(DATA)).is_ok_and(|repair| repair.failures.is_empty());
        for survival in Survival::ALL {
            let what = format!("cut {cut}, {survival:?}");
            let after = disk.after_power_cut(survival, cut);
            let repaired = repair(&after);
            assert!(repaired.failures.is_empty() && repaired.left.is_sound(), "{what}: {repaired:#?}");
            assert_eq!(served(&after), expected, "{what}");
            let found = evidence(&after);
            for bytes in kept.iter().filter(|bytes| !bytes.starts_with(b"\n# ")) {
                assert!(found.contains(bytes), "{what}: evidence is lost");
            }
            let copies = copies_of(&lost, &found);
            assert!(copies == 1 || (copies > 1 && survival != Survival::Kept), "{what}: {copies} copies");
            assert_eq!(repair(&after).done, [], "{what}");
        }
        if finished {
            assert!(cut > 30);
            break;
        }
    }
}

#[test]
fn what_a_living_process_owns_is_left_and_named_and_its_half_written_end_is_no_damage() {
    let disk = damaged();
    let lock = Path::new(DATA).join("journal").join(wasmq_wal::lock_file_name(log_id(3)));
    let held = disk.lock(&lock, wasmq_wal::disk::Wait::No).unwrap().unwrap();
    let lock = Path::new(DATA).join("journal").join(wasmq_wal::lock_file_name(log_id(2)));
    let other = disk.lock(&lock, wasmq_wal::disk::Wait::No).unwrap().unwrap();
    let repaired = repair(&disk);
    let left: Vec<_> = repaired.left.findings.iter().filter(|finding| finding.effect.needs_action()).collect();
    assert_eq!(left.len(), 1, "{left:#?}");
    assert!(left[0].path == segment(3, 1) && left[0].todo.contains("its worker runs"), "{left:#?}");
    drop((held, other));
    assert!(only_set_aside(&repair(&disk).left));
}

#[test]
fn records_that_nothing_can_be_made_of_are_set_aside_when_their_log_goes() {
    let disk = sound();
    let dir = Path::new(DATA).join("journal");
    let mut wal = Wal::create(shared(&disk), &dir, log_id(4), "enqueue, pid 1", LogOptions::short_lived()).unwrap();
    let missing_fields = wal.append(event::kind::ENQUEUED, &[&[1, 2, 3]]).unwrap();
    wal.close().unwrap();
    let problems = open(&disk).unwrap().status().unwrap().problems;
    assert!(problems.iter().any(|problem| problem.contains("cannot be understood")), "{problems:?}");
    let check = verify(&disk);
    let places: Vec<_> = check.findings.iter().map(|finding| finding.place.to_string()).collect();
    assert_eq!(places, [offset(missing_fields)], "{check:#?}");
    assert!(only_set_aside(&repair(&disk).left));
    assert!(evidence(&disk).iter().any(|bytes| bytes.ends_with(&[1, 2, 3])));
    assert_eq!(served(&disk).0.len(), 4);
}

#[test]
fn a_log_that_a_later_version_wrote_to_waits_for_it_untouched() {
    let disk = sound();
    let dir = Path::new(DATA).join("journal");
    let mut wal = Wal::create(shared(&disk), &dir, log_id(4), "enqueue, pid 1", LogOptions::short_lived()).unwrap();
    let later = wal.append(99, &[b"of a later version"]).unwrap();
    wal.close().unwrap();
    let before = content(&disk, &segment(4, 1));
    let check = verify(&disk);
    assert_eq!(check.findings.len(), 1, "{check:#?}");
    assert!(check.findings[0].what.contains("a record of kind 99"), "{check:#?}");
    assert_eq!(check.findings[0].place.to_string(), offset(later));
    assert_eq!(repair(&disk).left.findings, check.findings);
    assert_eq!(content(&disk, &segment(4, 1)), before);
}

fn offset(at: wasmq_wal::RecordRef) -> String {
    format!("offset {}", at.offset - wasmq_wal::RECORD_HEADER_BYTES)
}

#[test]
fn lines_that_are_gone_without_a_trace_are_noticed_by_the_numbers_of_the_others() {
    let disk = sound();
    let lines = content(&disk, Path::new(DLQ));
    let mut lines: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    lines.remove(1);
    put(&disk, Path::new(DLQ), &lines.concat());
    let check = verify(&disk);
    assert_eq!(check.findings.len(), 1, "{check:#?}");
    assert!(check.findings[0].what.contains("number 3 instead of 2"), "{check:#?}");
    assert!(only_set_aside(&repair(&disk).left));
    assert_eq!(served(&disk).1.len(), 2);
}

#[test]
fn directories_in_the_places_of_files_are_moved_aside_and_the_rest_is_served() {
    let disk = sound();
    for path in [
        PathBuf::from(TASKS),
        "/data/tasks.lock".into(),
        DLQ.into(),
        "/data/dlq/dead-tasks.lock".into(),
        "/data/journal/reserve".into(),
        segment(2, 1),
        symbols(7),
        Path::new("/data/journal").join(wasmq_wal::lock_file_name(log_id(1))),
    ] {
        let _ = disk.remove(&path);
        disk.create_dir_all(&path).unwrap();
    }
    let found = verify(&disk).findings.into_iter().filter(|finding| finding.effect.needs_action()).count();
    assert_eq!(found, 8);
    let repaired = repair(&disk);
    assert!(repaired.failures.is_empty() && repaired.left.is_sound(), "{repaired:#?}");
    let (live, dead, tasks) = served(&disk);
    assert_eq!((live.len(), dead.len(), tasks), (3, 0, 1));
    assert_eq!(repair(&disk).done, []);
}

#[test]
fn what_lies_among_the_symbols_and_is_none_is_named_and_does_no_harm() {
    let disk = sound();
    disk.create_dir_all(Path::new(SYMBOLS)).unwrap();
    for strange in ["/data/symbols/notes.txt", "/data/symbols/sha256/notes.txt"] {
        put(&disk, Path::new(strange), b"mine");
        let check = verify(&disk);
        let found = check.findings.iter().find(|finding| finding.path == Path::new(strange)).unwrap();
        assert_eq!(found.effect, Effect::Harmless);
    }
    let queue = open(&disk).unwrap();
    queue.inner.registry.store_symbols(b"of a component that is gone", &wasmq_core::Digest::new([9; 32])).unwrap();
    let check = verify(&disk);
    assert!(check.is_sound(), "{check:#?}");
    let finding = check.findings.iter().find(|finding| finding.path == symbols(9)).unwrap();
    assert!(finding.what.contains("a component that is not there"), "{finding:?}");
    repair(&disk);
    assert_eq!(verify(&disk), check, "a repair leaves it");
}
