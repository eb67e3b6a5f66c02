//! The dead letter queue from the outside: looking at it, retrying from it, deleting from it.

use serde_json::Value;

use crate::stories::{dead_count, dead_task, deploy_as, enqueue_batch, run_until_dead, run_until_done, world_of_dead};
use crate::world::{World, until};

fn ids_of(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["id"].as_str().unwrap()).collect()
}

#[test]
fn the_list_has_the_latest_first_and_says_when_there_are_more() {
    let (world, ids) = world_of_dead(3);
    let listed = world.dead();
    let mut found = ids_of(&listed);
    found.sort_unstable();
    assert_eq!(found, ids);
    let two = world.run(&["dlq", "list", "--limit", "2"]).ok();
    assert_eq!(two.text().lines().count(), 3, "a heading and two rows: {}", two.text());
    assert!(two.stderr.contains("2 of 3"), "{}", two.stderr);
    assert_eq!(world.run(&["dlq", "list", "--task", "job", "--json"]).ok().lines().len(), 3);
    deploy_as(&world, "other", "echo", &[]);
    assert!(world.run(&["dlq", "list", "--task", "other", "--json"]).ok().lines().is_empty());
}

#[test]
fn a_task_or_group_that_does_not_exist_is_not_taken_for_an_empty_one() {
    let (world, _) = world_of_dead(1);
    let group = world.run(&["dlq", "groups", "--json"]).ok().lines()[0]["group"].as_str().unwrap().to_owned();
    let other: String = group.chars().rev().collect();
    for command in [&["list"][..], &["dlq", "list"], &["dlq", "retry"], &["dlq", "delete"]] {
        world.run(&[command, &["--task", "jov"]].concat()).fails(3, "did you mean job");
    }
    for command in ["list", "retry", "delete"] {
        let ran = world.run(&["dlq", command, "--group", &other]).fails(3, &other);
        assert!(ran.stderr.contains("wasmq dlq groups"), "{}", ran.stderr);
    }
    world.run(&["dlq", "retry", "--group", &group]).ok();
    world.run(&["dlq", "retry", "--group", &group]).fails(3, &group);
    for command in ["retry", "delete"] {
        let ran = world.run(&["dlq", command, "--task", "job"]).ok();
        assert!(ran.text().is_empty() && ran.stderr.contains("nothing was done"), "{command}: {}", ran.stderr);
    }
}

#[test]
fn the_server_s_log_tells_what_died_and_where_to_look() {
    let world = World::new();
    deploy_as(&world, "job", "permanent", &[]);
    let ids = enqueue_batch(&world, "job", &["a".to_owned(), "b".to_owned()]);
    let server = world.serve(&["--workers", "1"]);
    until("they are dead", || dead_count(&world) == 2);
    let group = world.dead()[0]["group"].as_str().unwrap().to_owned();
    until("it is told", || server.log().contains("moved to the dead"));
    let log = server.log();
    let told = log.lines().find(|line| line.contains("moved to the dead")).unwrap();
    for part in ["job", "v1", "error.permanent", "another attempt cannot help", &group] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    assert!(ids.iter().any(|id| told.contains(id)), "{told}");
    server.stop();
}

#[test]
fn what_is_alike_is_one_group_that_can_be_listed_and_retried() {
    let (world, _) = world_of_dead(3);
    deploy_as(&world, "boom", "panics", &["--max-attempts", "1"]);
    enqueue_batch(&world, "boom", &["a".to_owned()]);
    run_until_dead(&world, 4);
    let groups = world.run(&["dlq", "groups", "--json"]).ok().lines();
    assert_eq!(groups.len(), 2, "{groups:?}");
    assert_eq!((groups[0]["count"].as_u64(), groups[0]["task"].as_str()), (Some(3), Some("job")));
    let group = groups[1]["group"].as_str().unwrap();
    assert_eq!(world.run(&["dlq", "list", "--group", group, "--json"]).ok().lines().len(), 1);
    world.run(&["dlq", "retry", "--group", groups[0]["group"].as_str().unwrap()]).ok();
    assert_eq!(dead_count(&world), 1);
    run_until_done(&world);
    assert_eq!(world.dead()[0]["task"], "boom");
}

#[test]
fn stats_count_by_task_and_verdict() {
    let (world, _) = world_of_dead(2);
    let stats = world.run(&["dlq", "stats", "--json"]).ok().json();
    assert_eq!(stats["total"], 2);
    assert_eq!(stats["by_task"]["job"], 2);
    assert_eq!(stats["by_verdict"]["error.permanent"], 2);
    assert_eq!(stats["damaged"], 0);
    let text = world.run(&["dlq", "stats"]).ok().text();
    assert!(text.contains("error.permanent") && text.contains("job"), "{text}");
}

#[test]
fn a_dead_task_is_shown_with_all_that_happened() {
    let (world, ids) = world_of_dead(1);
    let dead = dead_task(&world, &ids[0]);
    assert_eq!(dead["payload"]["text"], "payload 0");
    assert_eq!(dead["verdict"], "error.permanent");
    assert_eq!(dead["failure"]["problem"]["code"], "no-use");
    assert_eq!(dead["history"].as_array().unwrap().len(), 1);
    let text = world.run(&["dlq", "show", &ids[0]]).ok().text();
    for said in [ids[0].as_str(), "no-use", "error.permanent", "v1", "sha256:", "dlq retry"] {
        assert!(text.contains(said), "expected \"{said}\" in: {text}");
    }
    let payload = world.run(&["dlq", "show", &ids[0], "--payload"]).ok();
    assert_eq!(payload.stdout, b"payload 0");
}

#[test]
fn an_id_may_be_shortened_while_it_fits_only_one() {
    let (world, ids) = world_of_dead(2);
    let common = &ids[0][..8];
    assert_eq!(common, &ids[1][..8], "a batch shares the time in its ids");
    for command in ["show", "retry", "delete"] {
        let ran = world.run(&["dlq", command, common]).fails(4, common);
        assert!(ran.stderr.contains(&ids[0]) && ran.stderr.contains(&ids[1]), "{}", ran.stderr);
    }
    assert_eq!(dead_count(&world), 2);
    let shorter = &ids[1][..35];
    assert_ne!(shorter, &ids[0][..35]);
    let shown = world.run(&["dlq", "show", shorter, "--json"]).ok().json();
    assert_eq!(shown["id"], ids[1].as_str());
    world.run(&["dlq", "delete", shorter]).ok();
    assert_eq!(ids_of(&world.dead()), [ids[0].as_str()]);
}

#[test]
fn what_an_ambiguous_id_may_mean_is_listed_with_task_and_state() {
    let (world, ids) = world_of_dead(12);
    let common = &ids[0][..8];
    let refused = world.run(&["dlq", "show", common]).fails(4, "is the beginning of 12 ids");
    let rows: Vec<&str> = refused.stderr.lines().filter(|line| line.contains("job  dead, error.permanent")).collect();
    assert_eq!(rows.len(), 10, "{}", refused.stderr);
    let columns: Vec<_> = rows.iter().map(|row| row.find("job")).collect();
    assert!(columns.iter().all(|column| *column == columns[0]), "{}", refused.stderr);
    assert!(refused.stderr.trim_end().ends_with("… and 2 more"), "{}", refused.stderr);
    world.run(&["dlq", "retry", &ids[0], &ids[1]]).ok();
    let refused = world.run(&["show", common]).fails(4, "job  ready");
    assert!(refused.stderr.contains("dead, error.permanent"), "{}", refused.stderr);
}

#[test]
fn the_machinery_of_a_panic_is_one_line_unless_all_is_wanted() {
    let world = World::new();
    deploy_as(&world, "boom", "panics", &["--max-attempts", "1"]);
    let (end, _) = world.wait_for(&["boom", "x"]);
    let id = end["id"].as_str().unwrap();
    let frames = dead_task(&world, id)["failure"]["trap"]["frames"].as_array().unwrap().clone();
    let own = frames.iter().position(|frame| frame["function"] == "panics::handle").unwrap();
    assert!(own > 2, "{frames:?}");
    for command in [&["dlq", "show", id][..], &["show", id]] {
        let text = world.run(command).ok().text();
        let mut lines = text.lines().skip_while(|line| !line.starts_with("BACKTRACE")).skip(1);
        let first = lines.next().unwrap();
        assert!(first.trim_start().starts_with(&format!("{own}  panics::handle")), "{text}");
        assert!(text.contains(&format!("frames 0 to {} are", own - 1)), "{text}");
        assert!(!text.contains("panicking") && text.contains("--full shows them"), "{text}");
        let full = world.run(&[command, &["--full"]].concat()).ok().text();
        assert!(full.contains("   0  abort") && full.contains("core::panicking::panic_fmt"), "{full}");
    }
    let said =
        world.run(&["enqueue", "boom", "x", "--wait", "--max-attempts", "1"]).fails(21, "`wasmq dlq show --full`");
    assert!(!said.stderr.contains("rust_begin_unwind"), "{}", said.stderr);
}

#[test]
fn a_trap_without_words_is_listed_with_the_function_it_happened_in() {
    let world = World::new();
    deploy_as(&world, "silent", "trap-unreachable", &["--max-attempts", "1"]);
    let (end, _) = world.wait_for(&["silent", "x"]);
    let words = "wasm `unreachable` instruction executed";
    let said = format!("{words} in wasmq:task/handler@0.1.0#handle");
    for command in [&["dlq", "list"][..], &["dlq", "groups"], &["dlq", "show", end["id"].as_str().unwrap()]] {
        let text = world.run(command).ok().text();
        assert!(text.contains(&said), "{text}");
    }
    assert_eq!(world.dead()[0]["why"], words, "what is stored stays");
}

#[test]
fn an_id_that_nobody_knows_is_an_error_of_its_own() {
    let (world, _) = world_of_dead(1);
    let unknown = "01935d2c-7b3e-7cc0-98c4-dc0c0c07398f";
    for id in [unknown, "01935d2c"] {
        for command in ["show", "retry", "delete"] {
            world.run(&["dlq", command, id]).fails(3, id);
        }
    }
    for wrong in ["%", "*", "", "0193", "not-an-id"] {
        world.run(&["dlq", "delete", wrong, "--yes"]).fails(2, "");
    }
    world.run(&["dlq", "delete", "--yes"]).fails(2, "");
    world.run(&["dlq", "retry"]).fails(2, "");
    assert_eq!(dead_count(&world), 1);
}

#[test]
fn the_state_of_an_id_that_is_not_dead_any_more_is_told() {
    let (world, ids) = world_of_dead(3);
    world.run(&["dlq", "retry", &ids[0]]).ok();
    world.run(&["dlq", "retry", &ids[0]]).fails(5, &ids[0]);
    world.run(&["dlq", "delete", &ids[0]]).fails(5, &ids[0]);
    run_until_done(&world);
    world.run(&["dlq", "retry", &ids[0]]).fails(5, "retried");
    world.run(&["dlq", "delete", &ids[1]]).ok();
    world.run(&["dlq", "retry", &ids[1]]).fails(5, "deleted");
    world.run(&["dlq", "delete", &ids[1]]).fails(5, "deleted");
    let live = world.enqueue(&["job", "x", "--delay", "1h"]);
    for command in ["show", "retry", "delete"] {
        world.run(&["dlq", command, &live]).fails(5, "live");
    }
    assert_eq!(ids_of(&world.dead()), [ids[2].as_str()]);
    assert_eq!(world.live().len(), 1);
}

#[test]
fn some_of_several_is_told_apart_from_all_and_none() {
    let (world, ids) = world_of_dead(3);
    let unknown = "01935d2c-7b3e-7cc0-98c4-dc0c0c07398f";
    world.run(&["dlq", "retry", &ids[0], unknown]).fails(7, unknown);
    assert_eq!(dead_count(&world), 2);
    world.run(&["dlq", "delete", &ids[1], unknown, "--yes"]).fails(7, unknown);
    assert_eq!(ids_of(&world.dead()), [ids[2].as_str()]);
    world.run(&["dlq", "retry", &ids[2], &ids[2]]).ok();
    assert_eq!(dead_count(&world), 0);
}

#[test]
fn more_than_one_is_deleted_only_after_a_yes() {
    let (world, ids) = world_of_dead(4);
    world.run(&["dlq", "delete", &ids[0], &ids[1]]).fails(2, "2 dead tasks");
    world.run(&["dlq", "delete", "--task", "job"]).fails(2, "--yes");
    world.run(&["dlq", "delete", "--all"]).fails(2, "4 dead tasks");
    assert_eq!(dead_count(&world), 4);
    world.run(&["dlq", "delete", &ids[0]]).ok();
    world.run(&["dlq", "delete", &ids[1], &ids[2], "--yes"]).ok();
    assert_eq!(ids_of(&world.dead()), [ids[3].as_str()]);
    world.run(&["dlq", "delete", "--task", "other", "--yes"]).fails(3, "no task other");
    assert_eq!(dead_count(&world), 1);
    let all = world.run(&["dlq", "delete", "--all", "--yes"]).ok();
    assert!(all.text().contains("1 dead task"), "{}", all.text());
    assert_eq!(dead_count(&world), 0);
}

#[test]
fn a_task_that_nobody_knows_is_an_error_and_one_without_dead_tasks_is_none() {
    let world = World::new();
    world.deploy("echo", &[]);
    for command in ["retry", "delete"] {
        world.run(&["dlq", command, "--task", "ehco"]).fails(3, "did you mean echo");
        world.run(&["dlq", command, "--task", "echo"]).ok();
    }
    world.run(&["list", "--limit", "0"]).fails(2, "from 1");
}

#[test]
fn a_group_can_be_deleted() {
    let (world, _) = world_of_dead(3);
    let groups = world.run(&["dlq", "groups", "--json"]).ok().lines();
    let group = groups[0]["group"].as_str().unwrap();
    world.run(&["dlq", "delete", "--group", group, "--yes"]).ok();
    assert_eq!(dead_count(&world), 0);
}

/// Up to a server that fails to write dead tasks: the failure is kept where it was, and moved later.
#[test]
fn a_dead_letter_queue_that_cannot_be_written_loses_nothing() {
    let world = World::new();
    deploy_as(&world, "job", "permanent", &[]);
    let server = world.serve(&["--workers", "1"]);
    let obstacle = world.data().join("dlq/dead-tasks-v1.jsonl");
    let _ = std::fs::remove_file(&obstacle);
    std::fs::create_dir(&obstacle).unwrap();
    let id = world.enqueue(&["job", "x"]);
    until("it is given up", || world.live().iter().any(|live| live["phase"] == "exhausted"));
    assert_eq!(world.live()[0]["id"], id.as_str());
    assert_eq!(world.live()[0]["attempts"], 1);
    std::fs::remove_dir(&obstacle).unwrap();
    until("it is dead", || world.run(&["dlq", "list", "--json"]).text().contains(&id));
    world.until_done();
    let dead = dead_task(&world, &id);
    assert_eq!((dead["attempts"].as_u64(), dead["replays"].as_u64()), (Some(1), Some(0)));
    assert_eq!(dead["history"].as_array().unwrap().len(), 1, "it ran once");
    assert_eq!(world.dead().len(), 1);
    server.stop();
}

#[test]
fn whoever_looks_at_dead_tasks_is_told_that_some_could_not_be_read() {
    let (world, ids) = world_of_dead(3);
    let path = world.data().join("dlq/dead-tasks-v1.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let damaged: Vec<String> = text
        .lines()
        .map(|line| if line.contains(&ids[1]) { line.replacen('{', "#", 1) } else { line.to_owned() })
        .collect();
    std::fs::write(&path, damaged.join("\n") + "\n").unwrap();
    for arguments in [&["dlq", "list"][..], &["dlq", "groups"], &["dlq", "retry", "--all"]] {
        let ran = world.run(arguments).ok();
        assert!(ran.stderr.contains("1 damaged line of the dead letter queue"), "{}", ran.stderr);
    }
    let problems = world.status()["problems"].to_string();
    assert!(problems.contains("dead-tasks-v1.jsonl, line"), "{problems}");
}

/// More than one page of the queue: pages are bounded in bytes.
#[test]
fn a_list_is_complete_whatever_its_payloads_weigh() {
    let world = World::new();
    deploy_as(&world, "bad", "permanent", &[]);
    let payload = world.file("payload", &[b'x'; 1 << 20]);
    let at = format!("@{}", payload.display());
    let count = 40;
    (0..count).for_each(|_| drop(world.enqueue(&["bad", &at])));
    run_until_dead(&world, count);
    let listed = world.run(&["dlq", "list", "--json", "--limit", "1000"]).ok().lines();
    assert_eq!(listed.len() as u64, count);
}

#[test]
fn a_program_gets_the_whole_list_and_a_person_is_told_that_there_is_more() {
    let (world, ids) = world_of_dead(60);
    assert_eq!(world.run(&["dlq", "list", "--json"]).ok().lines().len(), ids.len());
    let ran = world.run(&["dlq", "list"]).ok();
    assert!(ran.stderr.contains("the latest 50 of 60"), "{}", ran.stderr);
    world.run(&["dlq", "retry", "--all"]).ok();
    assert_eq!(world.live().len(), ids.len());
}

#[test]
fn an_absent_directory_is_no_good_news() {
    let world = World::new();
    for arguments in [&["dlq", "list"][..], &["dlq", "groups"], &["dlq", "stats"], &["list"]] {
        let ran = world.run(&[arguments, &["--data", "elsewhere"]].concat()).ok();
        assert!(ran.stderr.contains("elsewhere does not exist"), "{}", ran.stderr);
    }
    assert!(!world.path("elsewhere").exists());
}
