//! Damage of every kind to every kind of file: it is told of with file and place, everything else is
//! served, it is found by `store verify`, set aside by `store repair`, and the second repair does nothing.
//!
//! All cases begin with a copy of one data directory: a task `echo` with live invocations in two logs of
//! command lines, three dead tasks of `permanent`, compiled code and a reserve.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::stories::{enqueue_batch, numbered, run_until_dead, until_completed};
use crate::world::{Ran, World, guest_file, until};

/// Invocations in the log that is damaged, and in the one that is not.
const IN_LOG: usize = 6;
const IN_OTHER: usize = 1;
const DEAD: usize = 3;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Segment,
    Lock,
    Dlq,
    Registry,
    Component,
    Cache,
    Reserve,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Flip,
    Cut,
    Zero,
    Duplicate,
    Directory,
    Empty,
    Random,
    Future,
}

const HARMS: [Harm; 8] =
    [Harm::Flip, Harm::Cut, Harm::Zero, Harm::Duplicate, Harm::Directory, Harm::Empty, Harm::Random, Harm::Future];

/// What `store verify` says, and again after `store repair`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It means nothing or heals by itself.
    Harmless,
    /// It is damage, and the repair sets it aside.
    Repaired,
    /// It is damage that is left and named.
    Stays,
}

/// What is to be expected of a case: a row of the table below.
struct Expected {
    found: Found,
    /// How many invocations are still there, at least.
    live: usize,
    /// How many of them a server runs before the repair.
    runs: usize,
    /// How many dead tasks are still there; `None` when the queue cannot be read.
    dead: Option<usize>,
    /// Whether the tasks can be read.
    tasks: bool,
    /// Whether everything refuses, because another version was at work.
    refused: bool,
}

/// All is there and nothing needs anybody.
const WHOLE: Expected = Expected {
    found: Found::Harmless,
    live: IN_LOG + IN_OTHER,
    runs: IN_LOG + IN_OTHER,
    dead: Some(DEAD),
    tasks: true,
    refused: false,
};

/// The table of the cases.
fn expected(kind: Kind, harm: Harm) -> Expected {
    let live = |found, live| Expected { found, live, runs: live, ..WHOLE };
    let dead = |found, dead| Expected { found, dead, ..WHOLE };
    match (kind, harm) {
        (Kind::Segment, Harm::Flip | Harm::Zero) => live(Found::Repaired, IN_LOG - 1 + IN_OTHER),
        // What follows the place is not where it says it is; records before it are read.
        (Kind::Segment, Harm::Cut | Harm::Duplicate) => live(Found::Repaired, 2 + IN_OTHER),
        (Kind::Segment, Harm::Directory | Harm::Random) => live(Found::Repaired, IN_OTHER),
        // As after a crash while the log was made.
        (Kind::Segment, Harm::Empty) => live(Found::Harmless, IN_OTHER),
        (Kind::Segment, Harm::Future) => live(Found::Stays, IN_OTHER),
        // Nobody can take the log over.
        (Kind::Lock, Harm::Directory) => Expected { found: Found::Repaired, runs: IN_OTHER, ..WHOLE },
        (Kind::Lock, Harm::Future) => live(Found::Stays, IN_LOG + IN_OTHER),
        (Kind::Dlq, Harm::Flip | Harm::Zero | Harm::Duplicate) => dead(Found::Repaired, Some(DEAD - 1)),
        (Kind::Dlq, Harm::Cut) => dead(Found::Repaired, Some(1)),
        (Kind::Dlq, Harm::Directory) => dead(Found::Repaired, None),
        // As after a crash during the first write.
        (Kind::Dlq, Harm::Empty) => dead(Found::Harmless, Some(0)),
        (Kind::Dlq, Harm::Random) => dead(Found::Repaired, Some(0)),
        (Kind::Dlq, Harm::Future) => Expected { refused: true, ..dead(Found::Stays, None) },
        (Kind::Registry, Harm::Future) => Expected { found: Found::Stays, runs: 0, tasks: false, ..WHOLE },
        // Its copy is used.
        (Kind::Registry, _) => Expected { found: Found::Repaired, ..WHOLE },
        // Compiled code is used; only a deploy brings the component back.
        (Kind::Component, _) => Expected { found: Found::Stays, ..WHOLE },
        (Kind::Reserve, Harm::Directory) => Expected { found: Found::Repaired, ..WHOLE },
        (Kind::Lock | Kind::Cache | Kind::Reserve, _) => WHOLE,
    }
}

/// The directory that all cases begin with.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = TEMPLATE.get_or_init(|| {
        let world = World::new();
        world.deploy("permanent", &[]);
        world.deploy("echo", &[]);
        enqueue_batch(&world, "permanent", &numbered(DEAD));
        run_until_dead(&world, DEAD as u64);
        world.wait_for(&["echo", "compiled"]);
        let payloads: Vec<String> = numbered(IN_LOG).iter().map(|text| text.repeat(20)).collect();
        assert_eq!(enqueue_batch(&world, "echo", &payloads).len(), IN_LOG);
        world.enqueue(&["echo", "other"]);
        let kept = tempfile::tempdir().unwrap();
        let path = kept.path().join("data");
        copy_all(&world.data(), &path);
        (kept, path)
    });
    path
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_all(&path, &target),
            kind if kind.is_file() => _ = std::fs::copy(&path, &target).unwrap(),
            _ => {}
        }
    }
}

fn world() -> World {
    let world = World::new();
    copy_all(template(), &world.data());
    world
}

/// The file of a kind: of the larger log, of `echo`.
fn file(world: &World, kind: Kind) -> PathBuf {
    let data = world.data();
    let with_end = |dir: &Path, end: &str| {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(end)).collect();
        found.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
        found
    };
    let segment = || with_end(&data.join("journal"), ".log").remove(0);
    let digest = || {
        let versions = world.run(&["task", "show", "echo", "--json"]).ok().text();
        versions.split_once("sha256:").unwrap().1[..64].to_owned()
    };
    match kind {
        Kind::Segment => segment(),
        Kind::Lock => PathBuf::from(segment().to_string_lossy().replace("-0000000001.log", ".lock")),
        Kind::Dlq => data.join("dlq/dead-tasks-v1.jsonl"),
        Kind::Registry => data.join("tasks-v1.json"),
        Kind::Component => data.join(format!("components/sha256/{}.wasm", digest())),
        Kind::Cache => {
            let engine = with_end(&data.join("cache"), "").remove(0);
            with_end(&engine, &format!("{}.cwasm", digest())).remove(0)
        }
        Kind::Reserve => data.join("journal/reserve"),
    }
}

fn harm(path: &Path, kind: Kind, harm: Harm) {
    let bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    let write = |bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    match harm {
        Harm::Flip => write(&with(&bytes, middle, &[bytes[middle] ^ 0x04])),
        Harm::Cut => write(&bytes[..middle]),
        Harm::Zero => write(&with(&bytes, middle, &vec![0; 16.min(bytes.len() - middle)])),
        Harm::Duplicate => {
            let block = 100.min(middle);
            write(&[&bytes[..middle], &bytes[middle - block..]].concat());
        }
        Harm::Directory => {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("inside"), b"somebody's").unwrap();
        }
        Harm::Empty => write(b""),
        Harm::Random => write(&noise(5000)),
        Harm::Future => future(path, kind, &bytes),
    }
}

fn with(bytes: &[u8], at: usize, part: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + part.len()].copy_from_slice(part);
    bytes
}

/// Bytes that look like nothing; always the same.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// The file as a later version would write it.
fn future(path: &Path, kind: Kind, bytes: &[u8]) {
    let rename = |from: &str, to: &str| {
        std::fs::rename(path, path.to_string_lossy().replace(from, to)).unwrap();
    };
    match kind {
        Kind::Segment => {
            let header = with(&bytes[..60], 8, &2_u32.to_le_bytes());
            let crc = crc32c::crc32c(&header).to_le_bytes();
            std::fs::write(path, [&header[..], &crc, &bytes[64..]].concat()).unwrap();
        }
        Kind::Lock => rename("wal-v1-", "wal-v2-"),
        Kind::Dlq => rename("-v1.jsonl", "-v2.jsonl"),
        Kind::Registry => std::fs::write(path, br#"{ "format": 2, "jobs": [] }"#).unwrap(),
        Kind::Component | Kind::Cache | Kind::Reserve => std::fs::write(path, [b"v2 ", bytes].concat()).unwrap(),
    }
}

/// No command may panic, whatever lies there.
fn calm(ran: Ran, what: &str) -> Ran {
    assert!(!ran.stderr.contains("panicked") && ran.code >= 0, "{what}: {}", ran.stderr);
    ran
}

fn verify(world: &World, what: &str) -> (i32, Vec<Value>) {
    let ran = calm(world.run(&["store", "verify", "--json"]), what);
    (ran.code, ran.json()["findings"].as_array().unwrap().clone())
}

fn needs_action(findings: &[Value]) -> Vec<&Value> {
    findings.iter().filter(|finding| finding["effect"] == "lost" || finding["effect"] == "waits").collect()
}

/// The names under which a damaged file may be told of.
fn names(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    vec![name.replace("-v1", "-v2"), name]
}

/// What the commands that look say. Returns how many invocations are live.
fn looks(world: &World, path: &Path, expected: &Expected, is_told: bool, what: &str) -> usize {
    let told = |ran: &Ran| names(path).iter().any(|name| ran.text().contains(name) || ran.stderr.contains(name));
    let look = |arguments: &[&str]| calm(world.run(arguments), what);
    let [status, live, dead, tasks] = [
        look(&["status", "--json"]),
        look(&["list", "--json"]),
        look(&["dlq", "list", "--json"]),
        look(&["task", "list", "--json"]),
    ];
    if expected.refused {
        for ran in [&status, &live, &dead, &tasks] {
            assert!(ran.code == 8 && told(ran), "{what}: {} {}", ran.code, ran.stderr);
        }
        return 0;
    }
    assert_eq!((status.code, live.code), (0, 0), "{what}: {} {}", status.stderr, live.stderr);
    assert_eq!(is_told, told(&status), "{what}: {}", status.text());
    let count = live.lines().len();
    assert!(count >= expected.live, "{what}: {count} live");
    match expected.dead {
        Some(count) => assert_eq!(dead.ok().lines().len(), count, "{what}"),
        None => assert!(dead.code == 8 && told(&dead), "{what}: {}", dead.stderr),
    }
    match expected.tasks {
        true => assert_eq!(tasks.ok().lines().len(), 2, "{what}"),
        false => assert!(tasks.code == 8 && told(&tasks), "{what}: {}", tasks.stderr),
    }
    count
}

/// A server runs everything that is not damaged.
fn serves(world: &World, expected: &Expected, told: Option<&str>, live: usize, what: &str) {
    if expected.refused || !expected.tasks {
        let ran = calm(world.run(&["serve"]), what);
        assert!(ran.code == 8 && ran.stderr.contains("-v"), "{what}: {}", ran.stderr);
        return;
    }
    let server = world.serve(&["--workers", "1"]);
    let left = if expected.runs == expected.live { 0 } else { live - expected.runs };
    until(&format!("{what}: what is not damaged has run"), || world.live().len() == left);
    until_completed(world, (live - left) as u64);
    let log = server.log();
    assert!(!log.contains("panicked"), "{what}: {log}");
    let lines = told.map_or(1, |name| log.lines().filter(|line| line.contains(name)).count());
    assert!((1..4).contains(&lines), "{what}: told of once and not all the time: {log}");
    server.stop();
}

/// The repair is done twice and leaves what it says it leaves.
fn repairs(world: &World, path: &Path, found: Found, what: &str) {
    let first = calm(world.run(&["store", "repair", "--json"]), what);
    assert_eq!(first.json()["failures"], serde_json::json!([]), "{what}");
    let (code, findings) = verify(world, what);
    let left = needs_action(&findings);
    match found {
        Found::Stays => {
            assert_eq!((first.code, code), (11, 11), "{what}: {findings:?}");
            let is_named = |finding: &&Value| names(path).iter().any(|name| finding["path"].to_string().contains(name));
            assert!(left.iter().all(is_named), "{what}: {left:?}");
        }
        Found::Harmless | Found::Repaired => assert_eq!((first.code, code), (0, 0), "{what}: {findings:?}"),
    }
    if found == Found::Repaired {
        assert!(findings.iter().any(|finding| finding["effect"] == "set-aside"), "{what}: {findings:?}");
    }
    let before = listing(&world.data());
    let second = calm(world.run(&["store", "repair", "--json"]), what);
    assert_eq!(second.json()["done"], serde_json::json!([]), "{what}: the second time");
    assert_eq!(listing(&world.data()), before, "{what}: the second time");
}

/// Every file with its length.
fn listing(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(listing(&entry.path())),
            false => all.push((entry.path(), entry.metadata().unwrap().len())),
        }
    }
    all.sort();
    all
}

/// One case: looked at, verified, repaired; and another copy of it served as it is.
fn case(kind: Kind, harm_: Harm) {
    let what = format!("{kind:?} {harm_:?}");
    let expected = expected(kind, harm_);
    let repaired = world();
    let path = file(&repaired, kind);
    harm(&path, kind, harm_);
    let served = World::new();
    copy_all(&repaired.data(), &served.data());

    let (code, findings) = verify(&repaired, &what);
    let damage = needs_action(&findings);
    let is_sound = expected.found == Found::Harmless;
    assert_eq!((code == 0, damage.is_empty()), (is_sound, is_sound), "{what}: {findings:?}");
    let is_named = |finding: &&Value| names(&path).iter().any(|name| finding["path"].to_string().contains(name));
    assert!(damage.iter().all(is_named), "{what}: {findings:?}");
    // Components and the reserve are looked at by `store verify` alone.
    let is_told = !is_sound && !matches!(kind, Kind::Component | Kind::Reserve);
    let live = looks(&repaired, &path, &expected, is_told, &what);
    repairs(&repaired, &path, expected.found, &what);
    if !expected.refused && expected.tasks {
        assert_eq!(repaired.live().len(), live, "{what}: after the repair");
    }
    let is_logged =
        !is_sound && matches!(kind, Kind::Segment | Kind::Lock) && (kind, harm_) != (Kind::Lock, Harm::Future);
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    serves(&served, &expected, is_logged.then_some(name.as_str()), live, &what);
}

fn all_cases(kind: Kind) {
    HARMS.into_iter().for_each(|harm| case(kind, harm));
}

#[test]
fn damage_to_a_segment_costs_the_records_it_covers() {
    all_cases(Kind::Segment);
}

#[test]
fn damage_to_a_lock_file_costs_nothing() {
    all_cases(Kind::Lock);
}

#[test]
fn damage_to_the_dead_letter_queue_costs_the_lines_it_covers() {
    all_cases(Kind::Dlq);
}

#[test]
fn damage_to_the_registry_costs_nothing_because_there_is_a_copy() {
    all_cases(Kind::Registry);
}

#[test]
fn damage_to_a_component_is_named_until_it_is_deployed_again() {
    all_cases(Kind::Component);
}

#[test]
fn damage_to_compiled_code_heals() {
    all_cases(Kind::Cache);
}

#[test]
fn damage_to_the_reserve_heals() {
    all_cases(Kind::Reserve);
}

#[test]
fn a_damaged_component_is_sound_again_after_it_was_deployed_again() {
    for harm_ in [Harm::Flip, Harm::Directory] {
        let world = world();
        harm(&file(&world, Kind::Component), Kind::Component, harm_);
        world.run(&["store", "repair"]).fails(11, "");
        world.deploy_as("echo", &guest_file("echo"), &["--backoff", "fixed:50ms", "--jitter", "0"]);
        assert_eq!(verify(&world, "deployed").0, 0);
    }
}

#[test]
fn a_component_that_is_gone_is_a_problem_that_status_tells_of() {
    let world = world();
    std::fs::remove_file(file(&world, Kind::Component)).unwrap();
    let gone = world.status()["problems"].to_string();
    assert!(gone.contains("the component of echo v1 is gone") && gone.contains("deploy it again"), "{gone}");
    let verified = world.run(&["store", "verify"]).fails(11, "");
    assert!(verified.text().contains("with --no-activate"), "{}", verified.text());
    assert!(!verified.stderr.contains("is repaired by"), "nothing can be: {}", verified.stderr);
}
