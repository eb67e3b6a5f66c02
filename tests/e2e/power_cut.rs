//! A power cut, as a real file system leaves it: a disk image that holds the data directory is copied in full
//! flight, and the copy is mounted, which replays the journal of the file system, and gone on with.
//!
//! Everything that writes is stopped while the image is copied, so the copy is one moment; nothing is synced
//! for it. What the file system had not written by then is missing, as after a cut.
//!
//! Every invocation here dies for good and is put back again and again, so each one that was acknowledged
//! must be live or dead in the copy: whatever is missing was lost.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use crate::privileges::{Mount, skipped};
use crate::stories::{kill, run_until_dead};
use crate::world::{World, guest_file, signal, until};

const IMAGE_BYTES: u64 = 192 << 20;
/// How many times the power is cut, with syncs before every acknowledgement and without.
const CUTS: usize = 4;
const LAZY_CUTS: usize = 2;
/// How many are enqueued by one process.
const LINES: usize = 40;
/// What was acknowledged longer ago than this must be there with `--fsync interval`: many times what it
/// promises, so that a slow machine breaks nothing.
const LONG_AGO: Duration = Duration::from_secs(2);

/// A world whose data directory is an ext4 file system in a file.
struct Image {
    _disk: Mount,
    _pool: Mount,
    world: World,
}

impl Image {
    /// `None`, and a word about it, where there are no loop devices.
    fn new() -> Option<Self> {
        let world = World::new();
        let pool = Mount::memory(4 * IMAGE_BYTES, &world.path("pool"))?;
        let image = world.path("pool/image");
        std::fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-J", "size=8", "-E", options]).arg(&image).output();
        if !made.as_ref().is_ok_and(|output| output.status.success()) {
            skipped("no ext4 file system can be made here", &made);
            return None;
        }
        // The file system commits when it is asked to, and not on its own while it is copied.
        let disk = Mount::new(&["-o", "loop,commit=300", image.to_str().unwrap()], &world.data())?;
        Some(Self { _disk: disk, _pool: pool, world })
    }

    /// Stops everything, copies the image, and lets everything go on. Returns the copy.
    fn cut(&self, number: usize) -> PathBuf {
        let copy = self.world.path(&format!("pool/copy-{number}"));
        let stopped = Stopped::all(&self.world);
        let copied = Command::new("cp").arg("--sparse=always").arg(self.world.path("pool/image")).arg(&copy).status();
        drop(stopped);
        assert!(copied.unwrap().success());
        copy
    }
}

/// The processes that work in the folder of the world.
fn processes(world: &World) -> Vec<u32> {
    let folder = world.path(".").canonicalize().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder)).collect()
}

/// Whether each thread of a process stands still, or the process is gone.
fn stands_still(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let mut states = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    states.all(|stat| [") T", ") Z", ") X"].iter().any(|state| stat.contains(state)))
}

/// Processes that stand still until this is dropped.
struct Stopped(Vec<u32>);

impl Stopped {
    /// Stops all of them, also in the middle of a sync, and waits until they stand still.
    fn all(world: &World) -> Self {
        let stopped = Self(processes(world));
        stopped.send("STOP");
        until("everything stands still", || stopped.0.iter().all(|pid| stands_still(*pid)));
        stopped
    }

    /// Some may have ended meanwhile.
    fn send(&self, name: &str) {
        for pid in &self.0 {
            let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).output().unwrap();
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.send("CONT");
    }
}

/// What the load has been told so far.
#[derive(Default)]
struct Told {
    ids: Mutex<Vec<(String, Instant)>>,
    versions: Mutex<u64>,
    /// Held for reading while a process is started, for writing while the power is cut.
    gate: RwLock<()>,
    over: AtomicBool,
}

impl Told {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn ids(&self) -> BTreeSet<String> {
        self.ids.lock().unwrap().iter().map(|(id, _)| id.clone()).collect()
    }

    fn long_ago(&self) -> BTreeSet<String> {
        let ids = self.ids.lock().unwrap();
        ids.iter().filter(|(_, at)| at.elapsed() > LONG_AGO).map(|(id, _)| id.clone()).collect()
    }
}

/// Ends the load, also when a test fails.
struct Over<'a>(&'a Told);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

fn enqueue_over_and_over(world: &World, told: &Told) {
    let lines: String = (0..LINES).map(|n| format!("payload {n}\n")).collect();
    let file = world.file("lines", lines.as_bytes());
    while !told.is_over() {
        let mut command = world.command(&["enqueue", "sink", "--batch", file.to_str().unwrap()]);
        let gate = told.gate.read().unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        drop(gate);
        for id in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            told.ids.lock().unwrap().push((id, Instant::now()));
        }
        child.wait().unwrap();
    }
}

fn retry_over_and_over(world: &World, told: &Told) {
    while !told.is_over() {
        let mut command = world.command(&["dlq", "retry", "--task", "sink"]);
        let gate = told.gate.read().unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        drop(gate);
        child.wait().unwrap();
    }
}

fn deploy_over_and_over(world: &World, told: &Told) {
    let file = guest_file("permanent");
    for seconds in 10.. {
        if told.is_over() {
            return;
        }
        let timeout = format!("{seconds}s");
        let mut command = world.command(&["deploy", "other", file.to_str().unwrap(), "--timeout", &timeout]);
        let gate = told.gate.read().unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        drop(gate);
        *told.versions.lock().unwrap() += u64::from(child.wait().unwrap().success());
    }
}

/// One moment of a server under load.
struct Moment {
    copy: PathBuf,
    acknowledged: BTreeSet<String>,
    long_ago: BTreeSet<String>,
    versions: u64,
}

/// Cuts the power of a server under load several times.
fn cut_under_load(image: &Image, fsync: &str, cuts: usize, patience: Duration) -> Vec<Moment> {
    let world = &image.world;
    world.deploy_as("sink", &guest_file("permanent"), &["--max-attempts", "1000"]);
    let server = world.serve(&["--workers", "2", "--fsync", fsync]);
    let told = &Told::default();
    std::thread::scope(|scope| {
        let over = Over(told);
        let load: [fn(&World, &Told); 4] =
            [enqueue_over_and_over, enqueue_over_and_over, retry_over_and_over, deploy_over_and_over];
        load.into_iter().for_each(|load| _ = scope.spawn(move || load(world, told)));
        let mut moments = Vec::new();
        for number in 0..cuts {
            let (since, before) = (Instant::now(), told.ids().len());
            until("more is acknowledged", || told.ids().len() > before + LINES && since.elapsed() >= patience);
            let gate = told.gate.write().unwrap();
            let (acknowledged, long_ago) = (told.ids(), told.long_ago());
            let versions = *told.versions.lock().unwrap();
            moments.push(Moment { copy: image.cut(number), acknowledged, long_ago, versions });
            drop(gate);
        }
        drop(over);
        server.stop();
        moments
    })
}

/// What is there when the power is back.
struct Back<'a> {
    world: &'a World,
    _mount: Mount,
}

impl<'a> Back<'a> {
    fn on(world: &'a World, copy: &Path) -> Self {
        let mount = Mount::new(&["-o", "loop", copy.to_str().unwrap()], &world.path("back")).unwrap();
        Self { world, _mount: mount }
    }

    /// The ids that a command lists.
    fn ids(&self, arguments: &[&str]) -> Vec<String> {
        let listed = self.world.run(&[&["--data", "back"], arguments, &["--json", "--limit", "1000000"]].concat());
        listed.ok().lines().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Live and dead, each once.
    fn all(&self) -> BTreeSet<String> {
        let ids = [self.ids(&["list"]), self.ids(&["dlq", "list"])];
        ids.iter().for_each(|ids| assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "twice"));
        ids.into_iter().flatten().collect()
    }

    fn versions(&self) -> u64 {
        let shown = self.world.run(&["--data", "back", "task", "show", "other", "--json"]);
        if shown.code == 3 { 0 } else { shown.ok().json()["versions"].as_array().unwrap().len() as u64 }
    }

    /// Serves until nothing is live.
    fn run_until_done(&self) {
        let mut command = self.world.command(&["--data", "back", "serve", "--workers", "1"]);
        let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("nothing is live", || self.ids(&["list"]).is_empty());
        signal(server.id(), "TERM");
        assert!(server.wait().unwrap().success());
    }
}

#[test]
fn after_a_power_cut_everything_acknowledged_is_live_or_dead() {
    let Some(image) = Image::new() else { return };
    for moment in cut_under_load(&image, "always", CUTS, Duration::ZERO) {
        let back = Back::on(&image.world, &moment.copy);
        image.world.run(&["--data", "back", "status"]).ok();
        let all = back.all();
        let lost: Vec<_> = moment.acknowledged.difference(&all).collect();
        assert!(lost.is_empty(), "of {} acknowledged {} are lost: {lost:?}", moment.acknowledged.len(), lost.len());
        assert!(back.versions() >= moment.versions, "a deploy was lost");
        back.run_until_done();
        let dead: BTreeSet<String> = back.ids(&["dlq", "list"]).into_iter().collect();
        assert!(dead.is_superset(&moment.acknowledged));
        println!("{} acknowledged, none lost; {} found", moment.acknowledged.len(), all.len());
    }
}

#[test]
fn after_a_power_cut_a_server_that_synced_late_or_never_goes_on_with_what_is_there() {
    for (fsync, patience) in [("interval", LONG_AGO), ("never", Duration::ZERO)] {
        let Some(image) = Image::new() else { return };
        for moment in cut_under_load(&image, fsync, LAZY_CUTS, patience) {
            let back = Back::on(&image.world, &moment.copy);
            image.world.run(&["--data", "back", "status"]).ok();
            let all = back.all();
            if fsync == "interval" {
                let lost: Vec<_> = moment.long_ago.difference(&all).collect();
                assert!(lost.is_empty(), "{} acknowledged long ago are lost", lost.len());
            }
            back.run_until_done();
            assert!(back.ids(&["dlq", "list"]).into_iter().collect::<BTreeSet<_>>().is_superset(&all));
            let missing = moment.acknowledged.difference(&all).count();
            println!("{fsync}: {} acknowledged, {missing} of them missing", moment.acknowledged.len());
        }
    }
}

/// The files of all logs of a world.
fn log_files(world: &World) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(world.data().join("journal")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wal-"))).collect()
}

fn copy_to(files: &[PathBuf], dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    files.iter().for_each(|file| _ = std::fs::copy(file, dir.join(file.file_name().unwrap())).unwrap());
}

/// What a cut can leave: a death that is in the dead letter queue and whose end is missing in its log, and a
/// replay of it in another log.
#[test]
fn an_old_death_that_is_buried_again_does_not_end_its_replay() {
    let world = World::new();
    world.deploy("permanent", &[]);
    let id = world.enqueue(&["permanent", "payload"]);
    let journal = world.data().join("journal");
    // Nobody can write dead tasks while this is locked.
    let queue = std::fs::File::create(world.data().join("dlq/dead-tasks.lock")).unwrap();
    queue.lock().unwrap();
    let mut server = world.serve(&["--workers", "1"]);
    world.until_phase(&id, "exhausted");
    let workers = world.workers();
    server.signal("KILL");
    server.ended();
    workers.into_iter().for_each(kill);
    until("its worker is gone", || processes(&world).is_empty());
    copy_to(&log_files(&world), &world.path("old"));
    queue.unlock().unwrap();
    run_until_dead(&world, 1);
    log_files(&world).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    world.run(&["dlq", "retry", &id]).ok();
    let replay = log_files(&world);
    copy_to(&replay, &world.path("replay"));
    replay.iter().for_each(|file| std::fs::remove_file(file).unwrap());

    queue.lock().unwrap();
    let files = |dir: &str| -> Vec<PathBuf> {
        std::fs::read_dir(world.path(dir)).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    copy_to(&files("old"), &journal);
    let server = world.serve(&["--workers", "1"]);
    until("it was taken over", || world.status()["free_logs"] == 0 && world.live().len() == 1);
    copy_to(&files("replay"), &journal);
    // With its log in hand the worker waits for the dead letter queue, and the undertaker waits too.
    let lock = replay.iter().find(|file| file.extension().is_some_and(|ending| ending == "lock")).unwrap();
    until("the replay is being taken over", || std::fs::File::open(lock).unwrap().try_lock().is_err());
    queue.unlock().unwrap();
    until("nothing is live", || world.live().is_empty());
    server.stop();
    assert_eq!(world.dead_task(&id)["replays"], 1, "the replay died its own death");
}
