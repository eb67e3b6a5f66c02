//! Data directories in hostile places: read-only, somebody else's, a file, a link to nowhere, in parts on
//! other file systems, on a network. What cannot work is one line of cause and path with exit code 8, and
//! leaves everything as it was; what can be read is still shown.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::privileges::{Mount, STRANGER, as_stranger, has_injection, has_stranger, injected};
use crate::stories::{dead_count, ran, run_until_dead, run_until_done};
use crate::world::{Ran, World, guest_file, until};

/// The ids of a world that has a task, a dead task and a live invocation.
struct Ids {
    dead: String,
    live: String,
}

/// A data directory in which everything is to be found once.
fn furnished() -> (World, Ids) {
    let world = World::new();
    world.deploy("permanent", &[]);
    world.deploy("echo", &[]);
    let dead = world.enqueue(&["permanent", "payload"]);
    run_until_dead(&world, 1);
    let live = world.enqueue(&["echo", "later", "--delay", "1h"]);
    (world, Ids { dead, live })
}

fn component() -> String {
    guest_file("big-error").to_str().unwrap().to_owned()
}

/// Every command that writes, where there is something to write about.
fn writing<'a>(component: &'a str, ids: &'a Ids) -> Vec<Vec<&'a str>> {
    vec![
        vec!["serve", "--workers", "1"],
        vec!["enqueue", "echo", "x"],
        vec!["enqueue", "echo", "x", "--wait"],
        vec!["deploy", "sink", component],
        vec!["task", "activate", "echo", "v1"],
        vec!["task", "remove", "echo"],
        vec!["cancel", &ids.live],
        vec!["dlq", "retry", &ids.dead],
        vec!["dlq", "delete", &ids.dead, "--yes"],
    ]
}

/// Everything below a directory: paths, modes, owners, lengths and times of change.
fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let facts = entry.metadata().unwrap();
            found.push(format!(
                "{} {:o} {} {} {}",
                entry.path().display(),
                facts.mode(),
                facts.uid(),
                facts.len(),
                facts.mtime_nsec()
            ));
            if facts.is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// It was one line of cause and path with the code of a store that cannot be used, and a hint at most.
#[track_caller]
fn is_refused(ran: &Ran, path: &str, cause: &str) {
    assert_eq!(ran.code, 8, "{ran:?}");
    assert!(ran.text().is_empty(), "{ran:?}");
    let (errors, rest): (Vec<&str>, Vec<&str>) = ran.stderr.lines().partition(|line| line.starts_with("error:"));
    assert!(errors.len() == 1 && errors[0].contains(path) && errors[0].contains(cause), "{ran:?}");
    assert!(rest.iter().all(|line| line.contains("hint:")), "{ran:?}");
}

/// What is there is shown, whoever asks and however.
#[track_caller]
fn is_shown(run: impl Fn(&[&str]) -> Ran, ids: &Ids) {
    let ids_in = |arguments: &[&str]| -> Vec<String> {
        run(arguments).ok().lines().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids_in(&["list", "--json"]), [ids.live.as_str()]);
    assert_eq!(ids_in(&["dlq", "list", "--json"]), [ids.dead.as_str()]);
    assert_eq!(run(&["dlq", "show", &ids.dead, "--json"]).ok().json()["id"], ids.dead.as_str());
    assert_eq!(run(&["status", "--json"]).ok().json()["dead"], 1);
    assert_eq!(run(&["task", "list", "--json"]).ok().lines().len(), 2);
}

#[test]
fn a_path_that_is_no_directory_is_refused_by_every_command_and_not_touched() {
    let (world, ids) = furnished();
    let file = world.file("file", b"precious");
    symlink("nowhere", world.path("dangling")).unwrap();
    let component = component();
    let reading = ["status", "list", "dlq list", "task list"].map(|line| line.split(' ').collect());
    let commands = [writing(&component, &ids), reading.to_vec()].concat();
    for (path, cause) in [
        (file.clone(), "not a directory"),
        (file.join("below"), "Not a directory"),
        (world.path("dangling"), "it is a link to something that is not there"),
    ] {
        let path = path.to_str().unwrap();
        for arguments in &commands {
            is_refused(&world.run(&[&["--data", path], arguments.as_slice()].concat()), path, cause);
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    assert!(!world.path("nowhere").exists());
}

#[test]
fn on_a_read_only_file_system_writing_is_refused_and_reading_goes_on() {
    let (world, ids) = furnished();
    let component = component();
    let before = tree(&world.data());
    let Some(_mount) = Mount::read_only(&world.data(), &world.path("frozen")) else { return };
    let frozen = |arguments: &[&str]| world.run(&[&["--data", "frozen"], arguments].concat());
    for arguments in writing(&component, &ids) {
        is_refused(&frozen(&arguments), "frozen", "Read-only file system");
    }
    is_shown(frozen, &ids);
    for arguments in [vec!["serve"], vec!["deploy", "sink", &component]] {
        let absent = world.run(&[&["--data", "frozen/run/new"], arguments.as_slice()].concat());
        is_refused(&absent, "frozen/run/new", "Read-only file system");
    }
    assert_eq!(tree(&world.data()), before, "nothing was made, changed or left half made");
}

fn chown(path: &Path, user: &str, everything_below: bool) {
    let below: &[&str] = if everything_below { &["-R"] } else { &[] };
    assert!(Command::new("chown").args(below).arg(user).arg(path).status().unwrap().success());
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn in_a_directory_of_another_user_writing_is_refused_and_what_may_be_read_is_shown() {
    let (world, ids) = furnished();
    if !has_stranger(&world) {
        return;
    }
    let component = world.file("sink.wasm", &std::fs::read(component()).unwrap());
    let component = component.to_str().unwrap();
    let stranger = |arguments: &[&str]| ran(as_stranger(&world.command(arguments)).output().unwrap());
    let data = world.data();
    let path = data.to_str().unwrap();
    let before = tree(&data);
    for arguments in writing(component, &ids) {
        is_refused(&stranger(&arguments), path, "Permission denied");
    }
    is_shown(stranger, &ids);
    assert_eq!(tree(&data), before);
    chmod(&data, 0o700);
    for arguments in [vec!["status"], vec!["list"], vec!["dlq", "list"], vec!["task", "list"], vec!["serve"]] {
        is_refused(&stranger(&arguments), path, "Permission denied");
    }
}

#[test]
fn a_server_does_not_start_on_parts_that_it_may_not_write() {
    let (world, _) = furnished();
    if !has_stranger(&world) {
        return;
    }
    for part in ["journal", "dlq", "run", "dlq/dead-tasks-v1.jsonl", "dlq/dead-tasks.lock"] {
        chown(&world.data(), STRANGER, true);
        let part = world.data().join(part);
        chown(&part, "0", false);
        let before = tree(&world.data());
        let served = ran(as_stranger(&world.command(&["serve"])).output().unwrap());
        is_refused(&served, part.to_str().unwrap(), "Permission denied");
        assert_eq!(tree(&world.data()), before);
    }
}

#[test]
fn a_server_of_another_user_is_told_of_as_such() {
    let world = World::new();
    if !has_stranger(&world) {
        return;
    }
    world.deploy("echo", &[]);
    let server = world.serve(&["--workers", "1"]);
    chown(&world.data(), STRANGER, false);
    chown(&world.data().join("journal"), STRANGER, true);
    let stranger = |arguments: &[&str]| ran(as_stranger(&world.command(arguments)).output().unwrap());
    for arguments in [&["enqueue", "echo", "x"][..], &["enqueue", "echo", "x", "--wait"]] {
        let refused = stranger(arguments).fails(8, "a server there belongs to another user");
        assert!(refused.stderr.contains("run this as that user"), "{}", refused.stderr);
    }
    let status = stranger(&["status"]).ok();
    assert!(status.text().contains("cannot be asked") && !status.stderr.contains("no server runs"), "{status:?}");
    server.stop();
}

#[test]
fn a_log_of_another_user_is_told_of_and_taken_over_once_that_is_permitted() {
    let (world, _) = furnished();
    if !has_stranger(&world) {
        return;
    }
    let log_of_server = world.path("stranger.log");
    chown(&world.data(), STRANGER, true);
    let foreign = world.enqueue(&["echo", "as the superuser"]);
    let mut server = as_stranger(&world.command(&["serve", "--workers", "1"]))
        .stderr(std::fs::File::create(&log_of_server).unwrap())
        .spawn()
        .unwrap();
    let problems = || world.status()["problems"].to_string();
    until("the status tells of it", || problems().contains("a log cannot be taken over"));
    assert!(problems().contains(".lock: Permission denied"), "{}", problems());
    chown(&world.data(), STRANGER, true);
    until("it is run", || world.run(&["show", &foreign]).code == 3);
    until("the status is silent again", || !problems().contains("a log cannot be taken over"));
    let log = std::fs::read_to_string(log_of_server).unwrap();
    assert_eq!(log.matches("a log cannot be taken over").count(), 1, "{log}");
    crate::world::signal(server.id(), "TERM");
    assert!(server.wait().unwrap().success());
}

/// Deploys, enqueues, runs, buries, retries and deletes there.
fn everything_works(world: &World) {
    world.deploy("permanent", &[]);
    world.deploy("echo", &[]);
    let dead = world.enqueue(&["permanent", "payload"]);
    world.enqueue(&["echo", "hello"]);
    run_until_dead(world, 1);
    world.run(&["dlq", "retry", &dead]).ok();
    run_until_done(world);
    assert_eq!(dead_count(world), 1);
    world.run(&["dlq", "delete", &dead, "--yes"]).ok();
    assert_eq!(world.run(&["enqueue", "echo", "hello", "--wait"]).ok().text(), "hello");
}

#[test]
fn a_link_to_a_directory_is_as_good_as_the_directory_and_missing_parents_are_made() {
    let world = World::new();
    std::fs::create_dir(world.path("real")).unwrap();
    symlink("real", world.data()).unwrap();
    everything_works(&world);
    assert!(world.path("real/journal").is_dir() && world.data().is_symlink());
    world.run(&["--data", "a/b/c", "deploy", "sink", &component()]).ok();
    assert!(world.path("a/b/c/tasks-v1.json").is_file());
}

#[test]
fn the_directory_and_its_parts_may_be_on_file_systems_of_their_own() {
    for parts in [vec![""], vec!["journal"], vec!["dlq"], vec!["components"], vec!["journal", "dlq", "run", "cache"]] {
        let world = World::new();
        let mounts: Vec<_> = parts.iter().map(|part| Mount::memory(64 << 20, &world.data().join(part))).collect();
        if mounts.iter().any(Option::is_none) {
            return;
        }
        everything_works(&world);
    }
}

/// What statfs(2) finds: the file system of this type everywhere.
fn on_file_system(number: u32, command: &Command) -> Command {
    let bytes: String = u64::from(number).to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    injected(&format!("statfs:poke_exit=@arg2={bytes}"), Path::new("/dev/null"), command)
}

#[test]
fn on_a_network_file_system_writing_is_refused_and_reading_warns() {
    let (world, ids) = furnished();
    if !has_injection() {
        return;
    }
    let component = component();
    let before = tree(&world.data());
    for (number, name) in [(0x6969, "NFS"), (0xff53_4d42, "SMB"), (0x0102_1997, "9p")] {
        let there = |arguments: &[&str]| ran(on_file_system(number, &world.command(arguments)).output().unwrap());
        let path = world.data();
        for arguments in writing(&component, &ids) {
            let refused = there(&arguments);
            is_refused(&refused, path.to_str().unwrap(), &format!("is on {name}"));
            assert!(refused.stderr.contains("WASMQ_NETWORK_DISK=allow"), "{refused:?}");
        }
        is_shown(there, &ids);
        let warned = there(&["dlq", "list"]).ok().stderr;
        assert!(warned.starts_with("warning: ") && warned.contains(name) && warned.lines().count() == 1, "{warned}");
    }
    assert_eq!(tree(&world.data()), before);
}

#[test]
fn a_network_file_system_can_be_allowed() {
    let (world, _) = furnished();
    if !has_injection() {
        return;
    }
    let mut command = world.command(&["enqueue", "echo", "hello", "--wait"]);
    command.env("WASMQ_NETWORK_DISK", "allow");
    let allowed = ran(on_file_system(0x6969, &command).output().unwrap()).ok();
    assert!(allowed.text() == "hello" && !allowed.stderr.contains("NFS"), "{allowed:?}");
}

#[test]
fn a_fuse_file_system_is_warned_of() {
    let (world, ids) = furnished();
    if !has_injection() {
        return;
    }
    let there = |arguments: &[&str]| ran(on_file_system(0x6573_5546, &world.command(arguments)).output().unwrap());
    is_shown(there, &ids);
    for arguments in [["enqueue", "echo", "hello"].as_slice(), &["status"], &["dlq", "list"]] {
        let warned = there(arguments).ok().stderr;
        assert!(warned.contains("warning: ") && warned.contains("FUSE"), "{warned}");
    }
}
