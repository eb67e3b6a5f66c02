//! The components that the binary carries for the demo do what a fresh build of their source does.

use crate::world::{World, guest_file, repository};

#[test]
fn the_embedded_components_behave_like_those_built_from_source() {
    let world = World::new();
    let inputs: Vec<_> = std::fs::read_dir(repository().join("host/assets/demo"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "csv"))
        .collect();
    assert!(inputs.len() >= 4, "{inputs:?}");
    for name in ["csv-report-v1", "csv-report-v2"] {
        let embedded = repository().join(format!("host/assets/{name}.wasm"));
        let built = guest_file(name);
        for input in &inputs {
            let payload = format!("@{}", input.display());
            let one = world.run(&["run", embedded.to_str().unwrap(), "--payload", &payload]);
            let other = world.run(&["run", built.to_str().unwrap(), "--payload", &payload]);
            assert_eq!((one.code, one.text()), (other.code, other.text()), "{name} on {}", input.display());
            assert!(one.code == 0 || name == "csv-report-v1", "{name} on {}: {}", input.display(), one.stderr);
        }
    }
}
