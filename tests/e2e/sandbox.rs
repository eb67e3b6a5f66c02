//! What a task sees of the world: nothing that was not given to it, and only what stays the same.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::world::World;

/// Deploys a guest and returns its output as JSON, and the id.
#[track_caller]
fn output(guest: &str, payload: &str) -> (Value, String) {
    let world = World::new();
    world.deploy(guest, &[]);
    let (end, code) = world.wait_for(&[guest, payload]);
    assert_eq!(code, 0, "{end}");
    (serde_json::from_str(end["output"]["text"].as_str().unwrap()).unwrap(), end["id"].as_str().unwrap().to_owned())
}

#[test]
fn a_task_has_no_environment_and_no_arguments() {
    let (seen, _) = output("env", "x");
    assert_eq!(seen, json!({ "arguments": [], "variables": {} }));
}

#[test]
fn a_task_reaches_no_file() {
    let (seen, _) = output("files", "");
    let tries = seen.as_object().unwrap();
    assert_eq!(tries.len(), 4);
    assert!(tries.values().all(|outcome| outcome.get("error").is_some()), "{seen}");
    assert!(!std::path::Path::new("/tmp/wasmq-escape").exists());
}

#[test]
fn a_task_reaches_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (seen, _) = output("network", &port);
    assert_eq!((&seen["connected"], &seen["error"]), (&json!(false), &json!("access-denied")));
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody has connected");
}

#[test]
fn a_task_knows_the_facts_of_its_invocation() {
    let (facts, id) = output("facts", "four");
    assert_eq!(facts["id"], id.as_str());
    assert_eq!((&facts["task"], &facts["payload_bytes"]), (&json!("facts"), &json!(4)));
    assert_eq!((&facts["attempt"], &facts["replays"], &facts["max_attempts"]), (&json!(1), &json!(0), &json!(3)));
    assert_eq!(facts["metadata"], json!({}));
}

#[test]
fn insecure_random_bytes_differ_between_invocations() {
    let world = World::new();
    world.deploy("insecure-random", &[]);
    let seen: Vec<Value> = (0..3)
        .map(|_| {
            serde_json::from_str(world.wait_for(&["insecure-random"]).0["output"]["text"].as_str().unwrap()).unwrap()
        })
        .collect();
    for part in ["seed", "bytes", "number"] {
        assert!(
            seen[0][part] != seen[1][part] && seen[1][part] != seen[2][part] && seen[0][part] != seen[2][part],
            "{part}"
        );
    }
}

#[test]
fn a_hash_map_has_all_its_keys_in_an_order_of_the_invocation() {
    let world = World::new();
    world.deploy("hash-map", &[]);
    let orders: Vec<String> =
        (0..3).map(|_| world.wait_for(&["hash-map"]).0["output"]["text"].as_str().unwrap().to_owned()).collect();
    for order in &orders {
        let mut keys: Vec<u32> = order.split(' ').map(|key| key.parse().unwrap()).collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..16).collect::<Vec<_>>());
    }
    assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");
}

/// Leaves with a code from 100 to 163 that comes from insecure random bytes.
const EXIT_BY_CHANCE: &str = r#"(component
  (import "wasi:random/insecure@0.2.0" (instance $random (export "get-insecure-random-u64" (func (result u64)))))
  (import "wasi:cli/exit@0.2.6" (instance $exit (export "exit-with-code" (func (param "status-code" u8)))))
  (core func $number (canon lower (func $random "get-insecure-random-u64")))
  (core func $leave (canon lower (func $exit "exit-with-code")))
  (core module $m
    (import "host" "number" (func $number (result i64)))
    (import "host" "leave" (func $leave (param i32)))
    (func (export "run") (result i32)
      (call $leave (i32.add (i32.const 100) (i32.and (i32.wrap_i64 (call $number)) (i32.const 63))))
      (i32.const 0)))
  (core instance $i (instantiate $m
    (with "host" (instance (export "number" (func $number)) (export "leave" (func $leave))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $r)))"#;

#[test]
fn insecure_random_bytes_are_the_same_in_every_attempt_and_after_a_replay() {
    let world = World::new();
    let file = world.file("chance.wasm", &wat::parse_str(EXIT_BY_CHANCE).unwrap());
    world.deploy_as("chance", &file, &["--max-attempts", "5", "--backoff", "fixed:20ms", "--jitter", "0"]);
    let (end, code) = world.wait_for(&["chance"]);
    assert_eq!((code, &end["attempts"]), (22, &json!(5)), "{end}");
    let id = end["id"].as_str().unwrap();
    let verdicts = || {
        let dead = world.dead_task(id);
        dead["history"].as_array().unwrap().iter().map(|attempt| attempt["verdict"].clone()).collect::<Vec<_>>()
    };
    let first = verdicts();
    assert!(first.iter().all(|verdict| *verdict == first[0]), "{first:?}");
    world.run(&["dlq", "retry", id]).ok();
    let server = world.serve(&["--workers", "1"]);
    world.until_done();
    assert_eq!(world.dead_task(id)["replays"], 1);
    assert!(verdicts().iter().all(|verdict| *verdict == first[0]), "{:?} after {first:?}", verdicts());
    server.stop();
}
