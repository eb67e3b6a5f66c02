//! The file of the registry: any bytes are tasks or an error, tasks that were read can be changed and are
//! read back with the change, and a file that is no registry is never touched.

use std::path::Path;

use crate::input::{content, disk_with, share};
use crate::registry::{Registry, Tasks};

const FILE: &str = "/data/tasks-v1.json";

/// See the module.
pub fn run(bytes: &[u8]) {
    let disk = disk_with(FILE, bytes);
    let registry = Registry::open(share(&disk), Path::new("/data")).unwrap();
    let Ok(tasks) = registry.tasks() else {
        assert!(registry.remove(&"t".parse().unwrap()).is_err());
        assert_eq!(content(&disk, FILE).as_deref(), Some(bytes), "left alone");
        return;
    };
    let names: Vec<_> = tasks.iter().map(|task| task.name.clone()).collect();
    for task in tasks.iter() {
        let shown = format!("{task:?}");
        for version in &task.versions {
            let activated = registry.activate(&task.name, &version.number.to_string()).unwrap();
            assert_eq!(activated.number, version.number, "{shown}");
        }
    }
    if let Some(first) = names.first() {
        let removed = registry.remove(first).unwrap();
        assert_eq!(removed.name, *first);
        let again = Registry::open(share(&disk), Path::new("/data")).unwrap().tasks().unwrap();
        let versions = |tasks: &Tasks| tasks.iter().map(|task| (task.name.clone(), task.versions.clone())).collect();
        let (before, after): (Vec<_>, Vec<_>) = (versions(&tasks), versions(&again));
        assert_eq!(after, before[1..], "the others are there, their versions unchanged");
    }
}
