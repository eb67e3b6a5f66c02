//! The power is cut, or an operation fails, at every operation of a deploy.

use super::*;
use wasmq_core::Pin;
use wasmq_wal::disk::{Fault, Survival};

/// A disk on which v1 of `resize` is current, and the number of its next operation.
fn with_v1() -> (SimDisk, Registry, u64) {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let next = disk.operations();
    (disk, registry, next)
}

/// What runs must be whole: the component of the current version is there and verifies.
fn current(disk: &SimDisk, what: &str) -> VersionNumber {
    let registry = on(disk);
    let tasks = registry.tasks().unwrap_or_else(|error| panic!("{what}: {error}"));
    let resolved = tasks.resolve(&name("resize"), &Pin::Current).unwrap();
    registry.load_component(&resolved.digest).unwrap_or_else(|error| panic!("{what}: {error}"));
    resolved.version
}

#[test]
fn after_a_power_cut_at_any_operation_the_old_or_the_new_version_is_current_and_whole() {
    let (whole, registry, first) = with_v1();
    deploy(&registry, "resize", b"two").unwrap();
    let last = whole.operations();
    for cut in first..=last {
        let (disk, registry, _) = with_v1();
        disk.cut_power_at(cut);
        let acknowledged = deploy(&registry, "resize", b"two").is_ok();
        assert_eq!(acknowledged, cut == last);
        for survival in Survival::ALL {
            for seed in 0..20 {
                let what = format!("cut {cut}, {survival:?}, seed {seed}");
                let after = disk.after_power_cut(survival, seed);
                let version = current(&after, &what);
                assert!(version == v(2) || (!acknowledged && version == v(1)), "{what}: {version}");
                assert_eq!(deploy(&on(&after), "resize", b"two").unwrap().number, v(2), "{what}");
                assert_eq!(current(&after.after_power_cut(Survival::Lost, 0), &what), v(2), "{what}: durable");
            }
        }
    }
}

#[test]
fn after_any_failed_operation_a_second_deploy_is_durable() {
    for fault in [Fault::Io, Fault::NoSpace, Fault::Short(2)] {
        for operation in 0.. {
            let (disk, registry, first) = with_v1();
            disk.fail_at(first + operation, fault);
            let done = deploy(&registry, "resize", b"two").is_ok();
            if disk.operations() <= first + operation {
                assert!(done, "every operation went through");
                break;
            }
            let what = format!("{fault:?} at {operation}");
            current(&disk, &what);
            assert_eq!(deploy(&registry, "resize", b"two").unwrap().number, v(2), "{what}");
            for survival in Survival::ALL {
                assert_eq!(current(&disk.after_power_cut(survival, 3), &what), v(2), "{what}, {survival:?}");
            }
        }
    }
}

#[test]
fn a_deploy_that_finds_what_a_killed_process_left_is_durable_although_it_changes_nothing() {
    let (other, registry, _) = with_v1();
    deploy(&registry, "resize", b"two").unwrap();
    let (disk, registry, _) = with_v1();
    let left = registry.component_path(&digest_of(b"two"));
    for (path, bytes) in [(left.to_str().unwrap(), b"two".to_vec()), (FILE, read(&other, FILE))] {
        // Killed between the rename and the sync of the directory.
        let temporary = format!("{path}.tmp");
        write(&disk, &temporary, &bytes);
        disk.open(Path::new(&temporary), OpenMode::Read).unwrap().sync_all().unwrap();
        disk.rename(Path::new(&temporary), Path::new(path)).unwrap();
    }
    assert!(deploy(&registry, "resize", b"two").unwrap().unchanged);
    assert_eq!(current(&disk.after_power_cut(Survival::Lost, 0), "killed"), v(2));
}

#[test]
fn a_full_disk_is_named_as_such_and_leaves_the_tasks_as_they_were() {
    let (disk, registry, _) = with_v1();
    disk.limit_space(Some(0));
    assert!(matches!(deploy(&registry, "resize", b"two"), Err(RegistryError::NoSpace { .. })));
    assert_eq!(current(&disk, "full"), v(1));
    disk.limit_space(None);
    assert_eq!(deploy(&registry, "resize", b"two").unwrap().number, v(2));
}

/// Names that hold what an interrupted deploy was writing.
fn leftovers(disk: &SimDisk) -> usize {
    let dirs = [DATA, "/data/components/sha256"].map(Path::new);
    let names = dirs.iter().flat_map(|dir| disk.list(dir).unwrap_or_default());
    names.filter(|entry| entry.name.to_string_lossy().contains(".tmp")).count()
}

#[test]
fn the_next_deploy_removes_what_an_interrupted_one_left() {
    let (whole, registry, first) = with_v1();
    deploy(&registry, "resize", b"two").unwrap();
    let mut found = 0;
    for cut in first..whole.operations() {
        let (disk, registry, _) = with_v1();
        disk.cut_power_at(cut);
        deploy(&registry, "resize", b"two").unwrap_err();
        let after = disk.after_power_cut(Survival::Kept, 0);
        found += leftovers(&after);
        deploy(&on(&after), "mail", b"three").unwrap();
        assert_eq!(leftovers(&after), 0, "cut {cut}");
    }
    assert!(found >= 4, "{found}: no cut left anything");
}

#[test]
fn files_that_only_look_like_leftovers_stay() {
    let (disk, registry, _) = with_v1();
    let mine = ["/data/notes.tmp-1-1", "/data/tasks-v1.json.tmp-draft", "/data/tasks-v2.json.tmp-1-1"];
    mine.iter().for_each(|path| write(&disk, path, b"mine"));
    deploy(&registry, "mail", b"three").unwrap();
    assert!(mine.iter().all(|path| read(&disk, path) == b"mine"));
}

#[test]
fn after_a_power_cut_at_any_operation_of_a_removal_every_version_that_is_there_is_whole() {
    let removal = |registry: &Registry| registry.remove_versions(&name("resize"), &[v(1)].into());
    for cut in 0.. {
        let (disk, registry, _) = with_v1();
        registry.store_symbols(b"symbols", &digest_of(b"one")).unwrap();
        deploy(&registry, "resize", b"two").unwrap();
        disk.cut_power_at(disk.operations() + cut);
        let acknowledged = removal(&registry).is_ok();
        for (survival, seed) in Survival::ALL.into_iter().flat_map(|survival| (0..20).map(move |seed| (survival, seed)))
        {
            let what = format!("cut {cut}, {survival:?}, seed {seed}");
            let after = on(&disk.after_power_cut(survival, seed));
            let task = after.tasks().unwrap().get(&name("resize")).cloned().unwrap();
            for version in &task.versions {
                after.load_component(&version.digest).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            assert!(!acknowledged || task.versions.len() == 1, "{what}");
            removal(&after).unwrap();
            assert_eq!(after.tasks().unwrap().get(&name("resize")).unwrap().versions.len(), 1, "{what}");
        }
        if acknowledged {
            assert!(cut > 6, "{cut}");
            break;
        }
    }
}
