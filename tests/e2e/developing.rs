//! `wasmq dev`: rounds of build, deploy and run, on real files that change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::dev_project::{Dev, Project};
use crate::privileges::skipped;
use crate::stories::ran;
use crate::world::{is_alive, signal, until};

const COPY: &str = "cp good.wasm out.wasm";

/// A build that tells its number and waits until it may go on.
fn waiting_build(project: &Project) -> (String, PathBuf, PathBuf) {
    let (pids, go) = (project.outside("pids"), project.outside("go"));
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.02; done", go.display());
    (format!("echo $$ >> '{}'; {wait}; {COPY}", pids.display()), pids, go)
}

fn pids_in(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

#[track_caller]
fn pids_until(file: &Path, count: usize) -> Vec<u32> {
    until(&format!("{count} builds have started"), || pids_in(file).len() >= count);
    pids_in(file)
}

#[test]
fn a_change_is_built_deployed_and_run() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    let first = dev.ran("completed");
    assert_eq!(
        (&first["round"], &first["deployed"]["version"], &first["output"]["text"]),
        (&1.into(), &"v1".into(), &"hello".into())
    );
    assert_eq!(first["changed"], Value::Array(Vec::new()));
    project.guest("facts");
    let second = dev.ran("completed");
    assert_eq!((&second["round"], &second["deployed"]["version"]), (&2.into(), &"v2".into()));
    assert_eq!((&second["changed"][0], &second["deployed"]["unchanged"]), (&"good.wasm".into(), &false.into()));
    assert!(second["output"]["text"].as_str().unwrap().contains("\"payload_bytes\": 5"), "{second}");
    assert!(second["usage"]["memory_peak_bytes"].as_u64().unwrap() > 0, "{second}");
    project.write("sample.txt", "hello again");
    let third = dev.ran("completed");
    assert_eq!((&third["deployed"]["version"], &third["deployed"]["unchanged"]), (&"v2".into(), &true.into()));
    assert!(third["output"]["text"].as_str().unwrap().contains("\"payload_bytes\": 11"), "{third}");
    assert!(!project.world.data().exists(), "the store that the environment names is left alone");
    assert!(project.on_store(&["list", "--json"]).ok().stdout.is_empty());
}

#[test]
fn a_failing_build_is_shown_and_the_next_change_repairs_it() {
    let project = Project::new("echo", "echo 'error[E0001]: expected `;`' >&2; exit 3");
    let dev = project.dev(&[]);
    let failed = dev.round();
    assert_eq!((&failed["ended"], &failed["error"]["code"]), (&"failed".into(), &"build".into()), "{failed}");
    assert_eq!(failed["error"]["message"], "the build failed with code 3");
    assert_eq!(dev.said(), "error[E0001]: expected `;`\n", "the compiler's own words and nothing else");
    project.build(COPY);
    assert_eq!(dev.ran("completed")["changed"][0], "task.toml");
    project.build("no-such-compiler --version");
    assert_eq!(dev.round()["error"]["message"], "the build failed with code 127");
    assert!(dev.said().contains("no-such-compiler"), "{}", dev.said());
}

#[test]
fn a_person_sees_the_build_the_failure_and_what_to_do() {
    let project = Project::new("panics", &format!("echo compiling; {COPY}"));
    let mut command = project.command(&[]);
    command.stdout(Stdio::null());
    let mut dev = Dev::start(command, project.world.path("stderr"));
    until("the task failed", || dev.said().contains("waiting for the next change"));
    let said = dev.said();
    for part in [
        "round 1",
        "compiling",
        "deployed job v1",
        "trap.unreachable in ",
        " of memory",
        "asked to panic: hello",
        "BACKTRACE",
        "panics::handle",
        "wasmq --data .wasmq dlq list",
    ] {
        assert!(said.contains(part), "expected \"{part}\" in: {said}");
    }
    project.build("exit 9");
    until("the build failed", || dev.said().contains("the build failed with code 9; waiting for the next change"));
    assert!(dev.said().contains("round 2  task.toml changed"), "{}", dev.said());
    let dead = project.on_store(&["dlq", "list", "--json"]).ok().lines();
    assert_eq!((dead.len(), &dead[0]["attempts"]), (1, &1.into()), "one attempt and no more");
    signal(dev.child.id(), "INT");
    assert_eq!(dev.ended(), 0);
}

#[test]
fn what_a_task_logs_and_says_is_shown_also_when_it_completes() {
    let project = Project::new("log-progress", COPY);
    let round = project.once(&["--json"]).ok().json();
    let log = round["said"]["log"].as_array().unwrap();
    assert!(!log.is_empty(), "{round}");
    let said = project.once(&[]).ok().stderr;
    assert!(said.contains("LOG") && said.contains("PROGRESS 5/5 record 5"), "{said}");
}

#[test]
fn a_change_during_a_build_starts_it_anew() {
    let project = Project::new("echo", "");
    let (build, pids, go) = waiting_build(&project);
    project.build(&build);
    let dev = project.dev(&[]);
    let first = pids_until(&pids, 1)[0];
    project.write("src/main.txt", "two");
    let overtaken = dev.round();
    assert_eq!((&overtaken["round"], &overtaken["ended"]), (&1.into(), &"restarted".into()), "{overtaken}");
    assert!(!is_alive(first), "the first build is gone before the second starts");
    pids_until(&pids, 2);
    fs::write(go, "").unwrap();
    let second = dev.ran("completed");
    assert_eq!((&second["round"], &second["changed"][0]), (&2.into(), &"src/main.txt".into()));
    assert_eq!(pids_in(&pids).len(), 2);
}

#[test]
fn a_change_during_an_attempt_stops_it() {
    let project = Project::new("spin", COPY);
    let dev = project.dev(&[]);
    until("it runs", || project.on_store(&["list", "--json"]).lines().iter().any(|one| one["phase"] == "running"));
    project.guest("echo");
    assert_eq!(dev.round()["ended"], "restarted");
    assert_eq!(dev.ran("completed")["round"], 2);
    until("nothing is live", || project.on_store(&["list", "--json"]).ok().stdout.is_empty());
    assert!(project.on_store(&["dlq", "list", "--json"]).ok().stdout.is_empty(), "it was nobody's failure");
}

/// The next round is for this change and for nothing else.
#[track_caller]
fn next_is_for_a_new_payload(project: &Project, dev: &Dev, last: &Value) {
    project.write("sample.txt", "something else");
    let next = dev.ran("completed");
    assert_eq!(next["changed"], Value::from(vec!["sample.txt"]), "{next}");
    assert_eq!(next["round"].as_u64().unwrap(), last["round"].as_u64().unwrap() + 1);
}

#[test]
fn what_changes_no_content_starts_no_round() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    let first = dev.ran("completed");
    project.write("src/main.txt", "one");
    project.write("src/main.txt~", "a copy of an editor");
    project.write(".hidden", "x");
    fs::create_dir_all(project.path("target/debug")).unwrap();
    project.write("target/debug/x", "x");
    project.write("out.wasm", "somebody else writes the component");
    next_is_for_a_new_payload(&project, &dev, &first);
}

/// Waits until a change of the payload is followed by its own round and by no other, three times in a row.
#[track_caller]
fn settles(project: &Project, dev: &Dev, mut last: Value) {
    let mut calm = 0;
    for n in 0..20 {
        project.write("sample.txt", &format!("payload {n}"));
        let mut next = dev.round();
        while !next["changed"].as_array().unwrap().contains(&"sample.txt".into()) {
            next = dev.round();
        }
        let alone = next["changed"] == Value::from(vec!["sample.txt"]) && next["ended"] == "ran";
        let at_once = next["round"].as_u64().unwrap() == last["round"].as_u64().unwrap() + 1;
        calm = if alone && at_once { calm + 1 } else { 0 };
        if calm == 3 {
            return;
        }
        last = next;
    }
    panic!("it goes on by itself: {last}");
}

#[test]
fn what_the_build_writes_starts_no_endless_loop() {
    let project = Project::new("echo", &format!("mkdir -p gen; tr a-z A-Z < src/main.txt > gen/main.txt; {COPY}"));
    let dev = project.dev(&[]);
    let first = dev.round();
    settles(&project, &dev, first);
}

#[test]
fn a_build_that_always_writes_something_new_comes_to_rest() {
    let project = Project::new("echo", &format!("{COPY}; date +%s%N > stamp"));
    let dev = project.dev(&[]);
    let mut round = dev.round();
    // Five times it could have been somebody who saves it.
    while round["round"] != 6 {
        assert_ne!(round["error"]["code"], "build", "{round}");
        round = dev.round();
        assert_eq!(round["changed"], Value::from(vec!["stamp"]), "{round}");
    }
    assert_eq!(round["verdict"], "completed");
    settles(&project, &dev, round);
}

#[test]
fn an_editor_that_saves_by_renaming_is_seen() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    dev.ran("completed");
    for n in 2..4 {
        project.write("src/.main.swp", &format!("text {n}"));
        fs::rename(project.path("src/main.txt"), project.path("src/main.txt~")).unwrap();
        fs::rename(project.path("src/.main.swp"), project.path("src/main.txt")).unwrap();
        let round = dev.ran("completed");
        assert_eq!((&round["round"], &round["changed"]), (&n.into(), &vec!["src/main.txt"].into()));
    }
}

#[test]
fn a_folder_that_is_new_or_made_anew_is_watched() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    dev.ran("completed");
    fs::create_dir_all(project.path("lib/deep")).unwrap();
    project.write("lib/deep/a.txt", "a");
    assert_eq!(dev.ran("completed")["changed"][0], "lib/deep/a.txt");
    fs::remove_dir_all(project.path("lib")).unwrap();
    assert_eq!(dev.ran("completed")["changed"][0], "lib/deep/a.txt");
    fs::create_dir_all(project.path("lib/deep")).unwrap();
    project.write("lib/deep/a.txt", "b");
    assert_eq!(dev.ran("completed")["changed"][0], "lib/deep/a.txt");
    project.write("lib/deep/a.txt", "c");
    assert_eq!(dev.ran("completed")["round"], 5);
}

#[test]
fn only_what_the_project_names_is_watched() {
    let project = Project::new("echo", COPY);
    let text = fs::read_to_string(project.path("task.toml")).unwrap();
    project.write("task.toml", &format!("{text}watch = [\"src\"]\n"));
    let dev = project.dev(&[]);
    let first = dev.ran("completed");
    project.write("notes.txt", "x");
    project.guest("facts");
    next_is_for_a_new_payload(&project, &dev, &first);
    project.write("src/main.txt", "two");
    assert_eq!(dev.ran("completed")["changed"][0], "src/main.txt");
}

#[test]
fn one_round_leaves_with_how_it_ended() {
    for (guest, payload, code) in
        [("echo", "x", 0), ("panics", "x", 21), ("permanent", "x", 20), ("command-exit-code", "7", 22)]
    {
        let project = Project::new(guest, COPY);
        let told = project.once(&["--payload", payload, "--json"]);
        assert_eq!(told.code, code, "{guest}: {}", told.stderr);
        assert_eq!(told.json()["ended"], "ran");
    }
    let project = Project::new("spin", COPY);
    project.once(&["--timeout", "200ms"]).fails(23, "timeout");
    project.build("exit 4");
    project.once(&[]).fails(1, "error: the build failed with code 4");
    project.build("true");
    fs::remove_file(project.path("out.wasm")).unwrap();
    let missing = project.folder().canonicalize().unwrap().join("out.wasm");
    project.once(&[]).fails(1, &format!("the build succeeded, but {} is not there", missing.display()));
    project.build("echo text > out.wasm");
    project.once(&[]).fails(6, "not WebAssembly");
    let told = project.once(&["--json"]);
    assert_eq!((&told.json()["ended"], &told.json()["error"]["code"]), (&"failed".into(), &"component-refused".into()));
}

#[test]
fn the_payload_may_be_given() {
    let project = Project::new("echo", COPY);
    assert_eq!(project.once(&["--payload", "other"]).ok().text(), "other");
    fs::write(project.outside("payload"), b"\xff\0").unwrap();
    let argument = format!("@{}", project.outside("payload").display());
    assert_eq!(project.once(&["--payload", &argument]).ok().stdout, b"\xff\0");
    project.once(&["--payload", "-"]).fails(2, "cannot come from stdin");
    project.once(&["--payload", "@no-such"]).fails(2, "no-such");
    let dev = project.dev(&["--payload", &argument]);
    dev.ran("completed");
    fs::write(project.outside("payload"), "new").unwrap();
    assert_eq!(dev.ran("completed")["output"]["text"], "new");
}

#[test]
fn the_limit_of_the_payload_can_be_raised() {
    let project = Project::new("facts", COPY);
    project.write("sample.txt", &"x".repeat(2 << 20));
    project.once(&[]).fails(2, "raise the limit with --payload-limit");
    let ran = project.once(&["--payload-limit", "2MiB"]).ok();
    assert!(ran.text().contains("\"payload_bytes\": 2097152"), "{}", ran.text());
    project.once(&["--payload-limit", "3"]).fails(2, "the limit of a payload is 3 bytes");
}

#[test]
fn a_folder_in_the_place_of_the_component_or_the_payload_is_told_as_one() {
    let project = Project::new("echo", COPY);
    let good = fs::read_to_string(project.path("task.toml")).unwrap();
    let src = project.folder().canonicalize().unwrap().join("src").display().to_string();
    project.write("task.toml", &good.replace("\"out.wasm\"", "\"src\""));
    project.once(&[]).fails(1, &format!("the build succeeded, but {src} is a folder"));
    project.once(&[]).fails(1, "must name the .wasm file itself");
    project.write("task.toml", &good.replace("\"sample.txt\"", "\"src\""));
    project.once(&[]).fails(2, &format!("cannot read the payload {src}: is a directory"));
    project.once(&[]).fails(2, "it is a folder; `payload` in task.toml must name a file");
    project.write("task.toml", &good.replace("\"sample.txt\"", "\"no-such.txt\""));
    project.once(&[]).fails(2, "`payload` in task.toml must name a file that can be read");
    project.write("task.toml", &good.replace("\"out.wasm\"", "\"pipe\""));
    assert!(Command::new("mkfifo").arg(project.path("pipe")).status().unwrap().success());
    project.once(&[]).fails(1, "pipe is no file");
}

#[test]
fn a_file_in_the_place_of_the_folder_is_told_what_to_do_with_it() {
    let project = Project::new("echo", COPY);
    for (file, says) in [
        ("good.wasm", "good.wasm is a file, but `wasmq dev` takes a folder with a task.toml"),
        ("good.wasm", "`wasmq run good.wasm` runs a component once; `wasmq new NAME` makes a folder"),
        ("task.toml", "say `wasmq dev .`"),
        ("sample.txt", "`wasmq new NAME` makes a folder with a new task"),
    ] {
        ran(project.command(&[file]).output().unwrap()).fails(2, says);
    }
}

#[test]
fn a_project_that_is_wrong_is_told_with_file_line_and_key() {
    let project = Project::new("echo", COPY);
    let good = fs::read_to_string(project.path("task.toml")).unwrap();
    for (text, says) in [
        (good.replace("build =", "biuld ="), "task.toml, line 2: there is no key \"biuld\""),
        (good.replace("build =", "biuld ="), "did you mean build?"),
        (good.replace("\"job\"", "\"No Name\""), "task.toml, line 1: task is \"No Name\", but"),
        (good.replace("component =", "#"), "task.toml: the key component is missing"),
        (format!("{good}watch = [\"srcs\"]\n"), "srcs"),
    ] {
        project.write("task.toml", &text);
        ran(project.command(&[]).output().unwrap()).fails(2, says);
    }
    fs::remove_file(project.path("task.toml")).unwrap();
    ran(project.command(&[]).output().unwrap()).fails(2, "there is no");
    ran(project.command(&["no-such-folder"]).output().unwrap()).fails(2, "no-such-folder");
    assert!(!project.path(".wasmq").exists());
}

#[test]
fn a_project_that_goes_wrong_meanwhile_waits_for_its_repair() {
    let project = Project::new("echo", COPY);
    let good = fs::read_to_string(project.path("task.toml")).unwrap();
    let dev = project.dev(&[]);
    dev.ran("completed");
    project.write("task.toml", "task = ");
    let failed = dev.round();
    assert_eq!((&failed["ended"], &failed["error"]["code"]), (&"failed".into(), &"project".into()), "{failed}");
    project.write("task.toml", &good.replace("job", "other"));
    let repaired = dev.ran("completed");
    assert_eq!((&repaired["deployed"]["task"], &repaired["round"]), (&"other".into(), &3.into()));
}

#[test]
fn an_end_during_a_build_leaves_nothing_running() {
    for name in ["INT", "TERM"] {
        let project = Project::new("echo", "");
        let (pids, stuck) = (project.outside("pids"), "trap '' INT TERM; sleep 600 & echo $!");
        project.build(&format!("echo $$ >> '{0}'; {stuck} >> '{0}'; wait; sleep 600", pids.display()));
        let mut dev = project.dev(&[]);
        let started = pids_until(&pids, 2);
        signal(dev.child.id(), name);
        assert_eq!(dev.ended(), 0, "{}", dev.said());
        until("no process of the build is left", || !started.iter().any(|pid| is_alive(*pid)));
    }
}

#[test]
fn an_end_during_an_attempt_leaves_nothing_live() {
    let project = Project::new("spin", COPY);
    let mut dev = project.dev(&[]);
    until("it runs", || project.on_store(&["list", "--json"]).lines().iter().any(|one| one["phase"] == "running"));
    signal(dev.child.id(), "INT");
    assert_eq!(dev.ended(), 0, "{}", dev.said());
    assert!(project.on_store(&["list", "--json"]).ok().stdout.is_empty());
    let mut once = project.command(&["--once"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("it runs", || project.on_store(&["list", "--json"]).lines().iter().any(|one| one["phase"] == "running"));
    signal(once.id(), "TERM");
    assert_eq!(once.wait().unwrap().code(), Some(1), "there is no verdict to leave with");
}

#[test]
fn a_reader_that_goes_away_ends_it_and_its_build() {
    let project = Project::new("echo", COPY);
    let mut command = project.command(&["--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let mut code = None;
    until("it ends", || {
        code = child.try_wait().unwrap().and_then(|status| status.code());
        code.is_some()
    });
    assert_eq!(code, Some(0));
}

#[test]
fn a_server_on_the_store_runs_the_rounds() {
    let project = Project::new("echo", COPY);
    let store = project.path(".wasmq");
    let mut command = project.world.command(&["serve", "--workers", "1", "--data", store.to_str().unwrap()]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it serves", || {
        let status = project.on_store(&["status", "--json"]);
        status.code == 0 && status.json()["servers"][0]["workers"][0]["alive"] == true
    });
    let dev = project.dev(&[]);
    assert_eq!(dev.ran("completed")["output"]["text"], "hello");
    project.guest("panics");
    assert_eq!(dev.ran("trap.unreachable")["dead"], true);
    project.guest("spin");
    until("it runs", || project.on_store(&["list", "--json"]).lines().iter().any(|one| one["phase"] == "running"));
    project.guest("echo");
    assert_eq!(dev.round()["ended"], "restarted");
    assert_eq!(dev.ran("completed")["deployed"]["version"], "v1", "the same bytes are the same version");
    signal(server.id(), "TERM");
    assert!(server.wait().unwrap().success());
}

/// Runs one round with a terminal as stdout and stderr, and returns what came to it.
fn on_terminal(project: &Project, payload: &[u8]) -> Vec<u8> {
    fs::write(project.path("sample.txt"), payload).unwrap();
    let wasmq = project.command(&[]).get_program().to_owned();
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{} dev --once", wasmq.to_str().unwrap()), "/dev/null"]);
    script.current_dir(project.folder()).stdin(Stdio::null()).env_remove("NO_COLOR").env("TERM", "xterm");
    script.output().unwrap().stdout
}

#[test]
fn a_terminal_gets_colours_of_the_build_and_no_controls_of_the_task() {
    let project = Project::new("echo", &format!("test -t 1 && test -t 2 && printf '\\033[31mred\\033[0m\\n'; {COPY}"));
    let seen = on_terminal(&project, b"before \x1b[2J after\n");
    let text = String::from_utf8_lossy(&seen);
    assert!(text.contains("\x1b[31mred\x1b[0m"), "the build writes to the terminal itself: {text}");
    assert!(text.contains("before \\u{1b}[2J after") && !text.contains("\x1b[2J"), "{text}");
    let seen = on_terminal(&project, &[0xff; 5000]);
    let text = String::from_utf8_lossy(&seen);
    assert!(text.contains("4.9 KiB, binary") && text.len() < 2000, "{text}");
}

#[test]
fn where_the_system_watches_no_more_it_looks_by_itself() {
    let limit = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$0\" \"$@\"";
    let allowed = Command::new("unshare").args(["-Ur", "sh", "-c", limit, "true"]).output();
    if !allowed.is_ok_and(|ran| ran.status.success()) {
        skipped("watching beyond the limit of inotify", &"it cannot be lowered here without user namespaces");
        return;
    }
    let project = Project::new("echo", COPY);
    let wasmq = project.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", limit]).arg(wasmq.get_program()).arg("dev").current_dir(project.folder());
    let mut dev = Dev::start(command, project.world.path("stderr"));
    until("the first round is over", || dev.said().contains("waiting for the next change"));
    assert!(dev.said().contains("fs.inotify.max_user_watches"), "{}", dev.said());
    project.guest("facts");
    until("the change is found", || dev.said().contains("deployed job v2"));
    signal(dev.child.id(), "INT");
    assert_eq!(dev.ended(), 0);
}
