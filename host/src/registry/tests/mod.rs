//! The behaviour of the registry, on the simulated disk and on a real one.

mod crashes;
mod deploying;
mod files;
mod storing;

use std::path::Path;
use std::sync::Arc;

use wasmq_core::{Digest, Settings, TaskName, Timestamp, VersionNumber};
use wasmq_wal::disk::{Disk, OpenMode, SimDisk};

use super::{Deployed, NewVersion, Registry, RegistryError, digest_of};

const DATA: &str = "/data";
const FILE: &str = "/data/tasks-v1.json";
const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn on(disk: &SimDisk) -> Registry {
    Registry::open(Arc::new(disk.clone()), Path::new(DATA)).unwrap()
}

fn new() -> (SimDisk, Registry) {
    let disk = SimDisk::new();
    let registry = on(&disk);
    (disk, registry)
}

fn name(text: &str) -> TaskName {
    text.parse().unwrap()
}

fn v(number: u32) -> VersionNumber {
    format!("v{number}").parse().unwrap()
}

/// A new version of the component with these bytes.
fn version(bytes: &[u8]) -> NewVersion {
    NewVersion {
        digest: digest_of(bytes),
        settings: Settings::default(),
        label: None,
        shape: "task".to_owned(),
        module: None,
    }
}

/// Stores and deploys a component, and makes it current.
fn deploy(registry: &Registry, task: &str, bytes: &[u8]) -> Result<Deployed, RegistryError> {
    let digest: Digest = digest_of(bytes);
    registry.store_component(bytes, &digest)?;
    registry.deploy(&name(task), version(bytes), true, NOW)
}

fn write(disk: &SimDisk, path: &str, bytes: &[u8]) {
    disk.create_dir_all(Path::new(DATA)).unwrap();
    let file = disk.open(Path::new(path), OpenMode::Create).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
    disk.open(Path::new(path), OpenMode::Read).unwrap().read_all().unwrap()
}
