//! Clocks of day that are set while servers run: 12 hours back, 10 years ahead, to 1970.
//!
//! A clock that the test sets is compiled from `shifted_clock.c`; without `cc` these tests say so and pass.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::privileges::skipped;
use crate::stories::{dead_count, deploy_as, enqueue_batch, numbered, ran, run_until_dead, running};
use crate::world::{Ran, Server, World, guest_file, until};

const HOURS_12: i64 = 12 * 3600;
const YEARS_10: i64 = 10 * 365 * 86_400;

/// A clock of day that is set by the test, for the processes that are started with it.
struct Clock {
    library: PathBuf,
    offset: PathBuf,
}

impl Clock {
    /// `None`, and a line on stderr, when there is no compiler for it.
    fn new(world: &World) -> Option<Self> {
        let (library, offset) = (world.path("shifted_clock.so"), world.file("offset", &[0; 8]));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/e2e/shifted_clock.c");
        match Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status() {
            Ok(status) => assert!(status.success(), "{source} does not compile"),
            Err(error) => {
                skipped("setting the clock, because cc does not run", &error);
                return None;
            }
        }
        let clock = Self { library, offset };
        clock.set(-3600);
        let facts = clock.run(world, &["run", guest_file("facts").to_str().unwrap()]).ok().json();
        let behind = jiff::Timestamp::now().as_millisecond() / 1000 - facts["enqueued_at_ms"].as_i64().unwrap() / 1000;
        assert!((3500..3700).contains(&behind), "the clock is {behind} s behind, not an hour");
        clock.set(0);
        Some(clock)
    }

    /// Sets the clock so many seconds off, for all its processes at once.
    fn set(&self, seconds: i64) {
        let file = OpenOptions::new().write(true).open(&self.offset).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    fn command(&self, world: &World, arguments: &[&str]) -> Command {
        let mut command = world.command(arguments);
        command.env("LD_PRELOAD", &self.library).env("SHIFTED_CLOCK", &self.offset);
        command
    }

    fn run(&self, world: &World, arguments: &[&str]) -> Ran {
        ran(self.command(world, arguments).output().unwrap())
    }

    fn serve(&self, world: &World, arguments: &[&str]) -> Server {
        world.serve_by(self.command(world, &[&["serve"], arguments].concat()))
    }

    #[track_caller]
    fn enqueue(&self, world: &World, arguments: &[&str]) -> String {
        self.run(world, &[&["enqueue"], arguments].concat()).ok().text().trim().to_owned()
    }

    #[track_caller]
    fn phase(&self, world: &World, id: &str) -> String {
        let shown = self.run(world, &["show", id, "--json"]).ok().json();
        shown["phase"].as_str().unwrap_or("dead").to_owned()
    }
}

/// The seconds that take the clock to 1970.
fn to_1970() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    -i64::try_from(now.as_secs()).unwrap()
}

fn all_times() -> [i64; 4] {
    [0, -HOURS_12, YEARS_10, to_1970()]
}

/// Deploys `fails`, whose second attempt follows its first after so long.
fn deploy_that_waits(world: &World, backoff: &str) {
    let formula = format!("fixed:{backoff}");
    let settings = ["--backoff", &formula, "--jitter", "0", "--max-attempts", "2"];
    world.deploy_as("fails", &guest_file("retryable"), &settings);
}

/// No server log may tell of a thread that died.
#[track_caller]
fn stop(server: Server) {
    assert!(!server.log().contains("panicked"), "{}", server.log());
    server.stop();
}

#[test]
fn ids_are_unique_and_usable_whatever_the_clock_is_set_to() {
    let world = World::new();
    let Some(clock) = Clock::new(&world) else { return };
    deploy_as(&world, "job", "permanent", &[]);
    let server = clock.serve(&world, &["--workers", "2"]);
    let lines: String = numbered(100).iter().map(|payload| format!("{payload}\n")).collect();
    let file = world.file("lines", lines.as_bytes());
    let mut ids = Vec::new();
    for seconds in [YEARS_10, -HOURS_12, to_1970(), 0, 0] {
        clock.set(seconds);
        let batch = clock.run(&world, &["enqueue", "job", "--batch", file.to_str().unwrap()]).ok();
        ids.extend(batch.text().lines().map(str::to_owned));
    }
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (500, 500), "ids that are not unique");
    until("they are dead", || dead_count(&world) == 500);
    for id in ids.iter().step_by(50) {
        assert_eq!(world.dead_task(id)["attempts"], 1);
    }
    deploy_as(&world, "job", "echo", &[]);
    world.run(&["dlq", "retry", &ids[0]]).ok();
    let retried = world.run(&["dlq", "retry", "--all"]).ok();
    assert!(retried.stderr.contains("499 dead tasks put back"), "{}", retried.stderr);
    world.until_done();
    assert_eq!(dead_count(&world), 0);
    stop(server);
}

/// Neither at once with all others, nor 12 hours late.
#[test]
fn delays_and_backoffs_take_their_time_whatever_the_clock_is_set_to() {
    let world = World::new();
    let Some(clock) = Clock::new(&world) else { return };
    deploy_that_waits(&world, "3s");
    deploy_as(&world, "once", "permanent", &[]);
    let server = clock.serve(&world, &["--workers", "1"]);
    for (rounds, seconds) in [-HOURS_12, YEARS_10, to_1970()].into_iter().enumerate() {
        clock.set(0);
        let since = Instant::now();
        let delayed = clock.enqueue(&world, &["once", "--delay", "3s"]);
        let retried = clock.enqueue(&world, &["fails"]);
        until("both wait", || [&delayed, &retried].iter().all(|id| clock.phase(&world, id) == "delayed"));
        clock.set(seconds);
        until("both are over", || dead_count(&world) == 2 * (rounds as u64 + 1));
        assert!(since.elapsed() >= Duration::from_secs(3), "set to {seconds}, they waited {:?}", since.elapsed());
        for (id, attempts) in [(&delayed, 1), (&retried, 2)] {
            assert_eq!(world.dead_task(id)["attempts"], attempts, "set to {seconds}");
        }
    }
    stop(server);
}

#[test]
fn a_point_in_time_comes_when_the_clock_shows_it_and_its_crowd_starts_in_order() {
    let world = World::new();
    let Some(clock) = Clock::new(&world) else { return };
    world.deploy("slow", &[]);
    let server = clock.serve(&world, &["--workers", "1", "--concurrency", "3"]);
    let at = (jiff::Timestamp::now() + Duration::from_secs(3600)).to_string();
    let lines = "100\n".repeat(30);
    world.run_with(&["enqueue", "slow", "--batch", "-", "--at", &at], lines.as_bytes()).ok();
    let late = world.enqueue(&["slow", "1", "--at", "2090-01-01T00:00:00Z"]);
    clock.set(-HOURS_12);
    let worked = world.enqueue(&["slow", "1"]);
    until("what was not delayed is done", || !world.live().iter().any(|live| live["id"] == worked.as_str()));
    assert_eq!(world.live().len(), 31, "nothing else has started");
    clock.set(YEARS_10);
    until("the others are done", || {
        assert!(running(&world).len() <= 3, "{:?}", running(&world));
        world.live().len() == 1
    });
    crate::stories::until_completed(&world, 31);
    assert_eq!(world.live()[0]["id"], late.as_str());
    stop(server);
}

/// The next owner of a log knows the wait only by the clock of day.
#[test]
fn what_waited_is_not_held_up_for_hours_after_a_restart_with_a_clock_that_was_set_back() {
    let world = World::new();
    let Some(clock) = Clock::new(&world) else { return };
    deploy_that_waits(&world, "2s");
    deploy_as(&world, "once", "permanent", &[]);
    let server = clock.serve(&world, &["--workers", "1"]);
    let delayed = clock.enqueue(&world, &["once", "--delay", "2s"]);
    let retried = clock.enqueue(&world, &["fails"]);
    until("both wait", || [&delayed, &retried].iter().all(|id| clock.phase(&world, id) == "delayed"));
    stop(server);
    clock.set(-HOURS_12);
    for live in clock.run(&world, &["list", "--json"]).ok().lines() {
        let due = live["due_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let wait = due.duration_since(jiff::Timestamp::now()).as_secs() + HOURS_12;
        assert!((-5..=2).contains(&wait), "listed as due in {wait} s: {live}");
    }
    let server = clock.serve(&world, &["--workers", "1"]);
    until("both are over", || dead_count(&world) == 2);
    assert_eq!(world.dead_task(&retried)["attempts"], 2);
    stop(server);
}

/// Every number in a JSON document.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(number) => number.as_f64().into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Object(fields) => fields.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

/// The attempts in a JSON document that ended before they started.
fn backwards(value: &Value) -> Vec<Value> {
    let attempts = value["history"].as_array().cloned().unwrap_or_default();
    let text = |attempt: &Value, field: &str| attempt[field].as_str().unwrap().to_owned();
    attempts.into_iter().filter(|attempt| text(attempt, "ended_at") < text(attempt, "started_at")).collect()
}

#[track_caller]
fn shows_nothing_negative(ran: &Ran, is_json: bool) {
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    let text = ran.text();
    if !is_json {
        let signs = text.match_indices(" -").filter(|(at, _)| text.as_bytes()[at + 2].is_ascii_digit());
        assert_eq!(signs.count(), 0, "{text}");
        return;
    }
    for value in ran.lines() {
        assert!(numbers(&value).iter().all(|number| *number >= 0.0), "{value}");
        assert_eq!(backwards(&value), Vec::<Value>::new());
    }
}

#[test]
fn no_duration_is_negative_and_nobody_panics_whatever_the_clock_says() {
    let world = World::new();
    let Some(clock) = Clock::new(&world) else { return };
    deploy_as(&world, "slow", "slow", &["--timeout", "600ms", "--max-attempts", "2"]);
    let server = clock.serve(&world, &["--workers", "1"]);
    let mut ids = Vec::new();
    for seconds in [-HOURS_12, YEARS_10, to_1970()] {
        clock.set(0);
        ids.push(clock.enqueue(&world, &["slow", "60000"]));
        until("it runs", || !running(&world).is_empty());
        clock.set(seconds);
        until("it is dead", || dead_count(&world) == ids.len() as u64);
    }
    let waiting = clock.enqueue(&world, &["slow", "1", "--delay", "1h"]);
    for seconds in all_times() {
        clock.set(seconds);
        let one = ids.iter().chain([&waiting]).map(|id| vec!["show", id]);
        let dead = ids.iter().map(|id| vec!["dlq", "show", id]);
        let all = [vec!["status"], vec!["list"], vec!["dlq", "list"], vec!["dlq", "groups"], vec!["dlq", "stats"]];
        for arguments in one.chain(dead).chain(all).chain([vec!["task", "list"], vec!["task", "show", "slow"]]) {
            shows_nothing_negative(&clock.run(&world, &arguments).ok(), false);
            shows_nothing_negative(&clock.run(&world, &[&arguments[..], &["--json"]].concat()).ok(), true);
        }
    }
    stop(server);
}

/// A worker that died before it wrote down that a task is dead would bring back what was retried since.
#[test]
fn nothing_in_the_dead_letter_queue_expires_when_the_clock_jumps_ten_years() {
    let world = World::new();
    let Some(clock) = Clock::new(&world) else { return };
    deploy_as(&world, "job", "permanent", &[]);
    let mut ids = enqueue_batch(&world, "job", &numbered(2));
    let payload = world.file("payload", &[b'x'; 700 << 10]);
    let at = format!("@{}", payload.display());
    ids.extend((0..3).map(|_| world.enqueue(&["job", &at])));
    run_until_dead(&world, 5);
    world.run(&["dlq", "retry", &ids[0]]).ok();
    let file = world.data().join("dlq/dead-tasks-v1.jsonl");
    let before = std::fs::metadata(&file).unwrap().len();
    clock.set(YEARS_10);
    let deleted: Vec<&str> = ids[2..].iter().map(String::as_str).collect();
    clock.run(&world, &[&["dlq", "delete", "--yes"], &deleted[..]].concat()).ok();
    clock.run(&world, &["dlq", "retry", &ids[1], "--dry-run"]).ok();
    assert!(std::fs::metadata(&file).unwrap().len() < before / 2, "the file was not rewritten");
    for seconds in all_times() {
        clock.set(seconds);
        clock.run(&world, &["dlq", "retry", &ids[0]]).fails(5, "already retried");
        clock.run(&world, &["dlq", "retry", &ids[2]]).fails(5, "already deleted");
        assert_eq!(clock.run(&world, &["dlq", "list", "--json"]).ok().lines().len(), 1);
    }
}
