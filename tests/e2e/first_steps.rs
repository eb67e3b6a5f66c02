//! The main job in one story: deploy, enqueue, fail, look, fix, retry.

use crate::world::{World, until};

#[test]
fn a_task_that_traps_is_dead_and_done_after_the_fix() {
    let world = World::new();
    let assets = crate::world::repository().join("host/assets");
    let (v1, v2) = (assets.join("csv-report-v1.wasm"), assets.join("csv-report-v2.wasm"));
    let csv = assets.join("demo/penguins-raw.csv");
    world.run(&["deploy", "csv", v1.to_str().unwrap()]).ok();
    let id = world.enqueue(&["csv", &format!("@{}", csv.display())]);
    let server = world.serve(&["--workers", "1"]);
    until("it is dead", || world.dead().len() == 1);
    let dead = &world.dead()[0];
    assert_eq!(dead["id"], id.as_str());
    assert_eq!(dead["verdict"], "trap.unreachable");
    world.run(&["deploy", "csv", v2.to_str().unwrap()]).ok();
    world.run(&["dlq", "retry", &id, "--component", "v2"]).ok();
    world.until_done();
    assert!(world.dead().is_empty());
    server.stop();
}
