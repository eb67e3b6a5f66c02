//! `wasmq dev` while others remove or rename what it works on: its store, its folder, what it watches.

use std::fs;

use crate::dev_project::{Dev, Project};
use crate::world::until;

const COPY: &str = "cp good.wasm out.wasm";

/// Rounds as a person sees them, after the first.
fn shown(project: &Project) -> Dev {
    let dev = Dev::start(project.command(&[]), project.world.path("stderr"));
    says(&dev, 1, "completed in");
    dev
}

/// Waits until something was said so many times.
#[track_caller]
fn says(dev: &Dev, times: usize, what: &str) {
    until(&format!("\"{what}\" is said {times} times"), || dev.said().matches(what).count() >= times);
}

/// A loss was told of in one sentence, and by nobody else.
#[track_caller]
fn told_once(dev: &Dev, what: &str) {
    let said = dev.said();
    assert_eq!(said.matches(what).count(), 1, "{said}");
    assert!(!said.contains("WARN") && !said.contains("error"), "{said}");
}

fn watch(project: &Project, names: &str) {
    let text = fs::read_to_string(project.path("task.toml")).unwrap();
    let kept: String = text.lines().filter(|line| !line.starts_with("watch")).map(|line| format!("{line}\n")).collect();
    project.write("task.toml", &format!("{kept}watch = {names}\n"));
}

#[test]
fn a_store_that_is_removed_is_made_anew_in_the_next_round() {
    let project = Project::new("echo", COPY);
    let dev = shown(&project);
    fs::remove_dir_all(project.path(".wasmq")).unwrap();
    project.write("sample.txt", "second");
    says(&dev, 2, "completed in");
    told_once(&dev, ".wasmq was removed, or a part of it; what is missing is made anew");
    says(&dev, 2, "deployed job v1");
    project.write("sample.txt", "third");
    says(&dev, 3, "completed in");
    told_once(&dev, "is made anew");
    project.on_store(&["store", "verify"]).ok();
}

#[test]
fn a_store_that_loses_a_part_is_made_whole() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    dev.ran("completed");
    for part in ["journal", "dlq", "run", "components", "cache", "."] {
        let lost = project.path(".wasmq").join(part);
        fs::remove_dir_all(lost.canonicalize().unwrap()).unwrap();
        project.write("sample.txt", part);
        assert_eq!(dev.ran("completed")["output"]["text"], part);
    }
    project.guest("panics");
    assert_eq!(dev.ran("trap.unreachable")["dead"], true);
    assert_eq!(project.on_store(&["dlq", "list", "--json"]).ok().lines().len(), 1);
}

#[test]
fn a_folder_that_is_renamed_away_is_told_of_once_and_gone_on_with_when_it_is_back() {
    let project = Project::new("echo", COPY);
    let (folder, away) = (project.folder().canonicalize().unwrap(), project.outside("away"));
    let dev = shown(&project);
    fs::rename(&folder, &away).unwrap();
    says(&dev, 1, &format!("{} is gone; waiting until it is back, Ctrl-C ends", folder.display()));
    fs::rename(&away, &folder).unwrap();
    says(&dev, 1, &format!("{} is back", folder.display()));
    project.write("src/main.txt", "two");
    says(&dev, 2, "completed in");
    told_once(&dev, "is gone");
}

#[test]
fn a_folder_that_is_removed_and_made_again_is_gone_on_with() {
    let project = Project::new("echo", COPY);
    let (folder, copy) = (project.folder().canonicalize().unwrap(), project.outside("copy"));
    fs::create_dir_all(copy.join("src")).unwrap();
    for name in ["task.toml", "good.wasm", "sample.txt", "src/main.txt"] {
        fs::copy(folder.join(name), copy.join(name)).unwrap();
    }
    let dev = shown(&project);
    // In one step, since of a folder that is removed bit by bit something else is gone first.
    fs::rename(&folder, project.outside("away")).unwrap();
    fs::remove_dir_all(project.outside("away")).unwrap();
    says(&dev, 1, "is gone; waiting until it is back");
    fs::rename(&copy, &folder).unwrap();
    says(&dev, 1, "is back");
    project.write("src/main.txt", "two");
    says(&dev, 2, "completed in");
    project.write("src/main.txt", "three");
    says(&dev, 3, "completed in");
    told_once(&dev, "is gone");
    told_once(&dev, "is made anew");
    assert!(folder.join(".wasmq/journal").is_dir(), "the store is where the folder is");
}

#[test]
fn a_watched_folder_that_is_gone_for_a_while_is_told_of_once() {
    let project = Project::new("echo", COPY);
    watch(&project, "[\"src\"]");
    let dev = shown(&project);
    fs::rename(project.path("src"), project.path("away")).unwrap();
    says(&dev, 1, "src, which `watch` in task.toml names, is gone; waiting until it is back, Ctrl-C ends");
    fs::rename(project.path("away"), project.path("src")).unwrap();
    says(&dev, 1, "src is back");
    project.write("src/main.txt", "two");
    says(&dev, 2, "completed in");
    fs::remove_dir_all(project.path("src")).unwrap();
    says(&dev, 2, "is gone");
    assert!(!dev.said().contains("WARN"), "{}", dev.said());
}

#[test]
fn a_folder_to_watch_that_is_not_there_is_waited_for_or_mended_in_the_project_file() {
    let project = Project::new("echo", COPY);
    let dev = project.dev(&[]);
    dev.ran("completed");
    watch(&project, "[\"srcs\"]");
    let failed = dev.round();
    assert_eq!((&failed["round"], &failed["error"]["code"]), (&2.into(), &"watch".into()), "{failed}");
    fs::create_dir(project.path("srcs")).unwrap();
    let ran = dev.ran("completed");
    assert!(ran["changed"].as_array().unwrap().contains(&"task.toml".into()), "{ran}");
    fs::remove_dir(project.path("srcs")).unwrap();
    assert_eq!(dev.round()["error"]["code"], "gone");
    watch(&project, "[\"src\"]");
    dev.ran("completed");
    project.write("src/main.txt", "two");
    assert_eq!(dev.ran("completed")["changed"], serde_json::json!(["src/main.txt"]));
}

#[test]
fn a_folder_that_is_back_before_anybody_looked_is_still_watched() {
    let project = Project::new("echo", COPY);
    fs::create_dir_all(project.path("src/deep")).unwrap();
    let dev = project.dev(&[]);
    dev.ran("completed");
    let (src, away) = (project.path("src"), project.path("away"));
    for n in 0..3 {
        fs::rename(&src, &away).unwrap();
        fs::rename(&away, &src).unwrap();
        is_seen(&project, &dev, "src/main.txt", &format!("renamed {n}"));
        fs::remove_dir(src.join("deep")).unwrap();
        fs::create_dir(src.join("deep")).unwrap();
        is_seen(&project, &dev, "src/deep/new.txt", &format!("made anew {n}"));
        fs::remove_file(src.join("deep/new.txt")).unwrap();
        assert_eq!(dev.ran("completed")["changed"][0], "src/deep/new.txt");
    }
}

/// Two changes, one after the other: the second comes when nothing else moves.
#[track_caller]
fn is_seen(project: &Project, dev: &Dev, name: &str, text: &str) {
    for text in [text, &text.to_uppercase()] {
        project.write(name, text);
        assert_eq!(dev.ran("completed")["changed"], serde_json::json!([name]));
    }
}
