//! Deploying, activating, removing, choosing.

use super::*;
use crate::registry::Unresolved;
use wasmq_core::Pin;
use wasmq_core::settings::RawSettings;

#[test]
fn versions_count_up_and_the_latest_deploy_is_current() {
    let (disk, registry) = new();
    for (number, bytes) in (1..).zip([b"one", b"two", b"six"]) {
        let deployed = deploy(&registry, "resize", bytes).unwrap();
        assert_eq!((deployed.number, deployed.unchanged, deployed.current), (v(number), false, Some(v(number))));
    }
    let tasks = on(&disk).tasks().unwrap();
    let task = tasks.get(&name("resize")).unwrap();
    assert_eq!((task.current, task.versions.len(), task.versions[1].size_bytes), (Some(v(3)), 3, 3));
    let resolved = tasks.resolve(&name("resize"), &Pin::Current).unwrap();
    assert_eq!((resolved.version, resolved.digest), (v(3), digest_of(b"six")));
}

#[test]
fn the_same_component_with_the_same_settings_is_no_new_version() {
    let (_, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    deploy(&registry, "resize", b"two").unwrap();
    let again = registry.deploy(&name("resize"), version(b"one"), false, NOW).unwrap();
    assert_eq!((again.number, again.unchanged, again.current), (v(1), true, Some(v(2))));
    let back = deploy(&registry, "resize", b"one").unwrap();
    assert_eq!((back.number, back.unchanged, back.current_before, back.current), (v(1), true, Some(v(2)), Some(v(1))));
    let settings = RawSettings { max_attempts: Some(7), ..RawSettings::default() }.check().unwrap();
    let other = NewVersion { settings, ..version(b"one") };
    assert_eq!(
        registry.deploy(&name("resize"), other, true, NOW).unwrap().number,
        v(3),
        "other settings are another version"
    );
}

#[test]
fn a_label_belongs_to_one_version_and_moves() {
    let (_, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let labelled = |bytes: &[u8]| NewVersion { label: Some("hotfix".parse().unwrap()), ..version(bytes) };
    registry.deploy(&name("resize"), labelled(b"one"), false, NOW).unwrap();
    assert_eq!(registry.choose(&name("resize"), "hotfix").unwrap().number, v(1));
    registry.store_component(b"two", &digest_of(b"two")).unwrap();
    registry.deploy(&name("resize"), labelled(b"two"), false, NOW).unwrap();
    let task = registry.tasks().unwrap().get(&name("resize")).cloned().unwrap();
    assert_eq!((task.versions[0].label.clone(), task.choose("hotfix").unwrap().number), (None, v(2)));
    assert_eq!(task.current, Some(v(1)), "it was not activated");
}

#[test]
fn a_component_that_was_not_stored_cannot_be_deployed() {
    let (disk, registry) = new();
    let error = registry.deploy(&name("resize"), version(b"one"), true, NOW).unwrap_err();
    assert!(matches!(error, RegistryError::ComponentMissing { .. }), "{error}");
    assert_eq!(on(&disk).tasks().unwrap().iter().len(), 0);
}

#[test]
fn numbers_of_a_removed_task_are_not_given_out_again() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    deploy(&registry, "resize", b"two").unwrap();
    assert_eq!(registry.remove(&name("resize")).unwrap().versions.len(), 2);
    assert!(registry.tasks().unwrap().get(&name("resize")).is_none());
    assert_eq!(registry.load_component(&digest_of(b"one")).unwrap(), b"one", "components stay");
    assert_eq!(deploy(&on(&disk), "resize", b"one").unwrap().number, v(3));
    registry.remove(&name("resize")).unwrap();
    assert_eq!(deploy(&registry, "resize", b"one").unwrap().number, v(4));
}

#[test]
fn a_version_is_chosen_by_current_number_label_or_digest() {
    let (_, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let labelled = NewVersion { label: Some("hotfix".parse().unwrap()), ..version(b"one") };
    registry.deploy(&name("resize"), labelled, true, NOW).unwrap();
    deploy(&registry, "resize", b"two").unwrap();
    let chosen = |text: &str| registry.choose(&name("resize"), text).map(|version| version.number);
    let hex = digest_of(b"one").hex();
    assert_eq!(chosen("current").unwrap(), v(2));
    assert_eq!(chosen("v1").unwrap(), v(1));
    assert_eq!(chosen("hotfix").unwrap(), v(1));
    assert_eq!(chosen(&format!("sha256:{hex}")).unwrap(), v(1));
    assert_eq!(chosen(&format!("sha256:{}", hex[..12].to_uppercase())).unwrap(), v(1));
    for (text, message) in [
        ("v9", "task resize has no version v9; it has v1, v2"),
        ("beta", "no version of task resize has the label \"beta\"; it has v1 (hotfix), v2"),
        ("sha256:000000000000", "no version of task resize has component sha256:000000000000; it has v1, v2"),
    ] {
        assert_eq!(chosen(text).unwrap_err().to_string(), message);
    }
    for text in ["", "sha256:", "sha256:0000", "sha256:%", "V1", "../x", "original", "\u{1b}[2J"] {
        let error = chosen(text).unwrap_err();
        assert!(matches!(error, RegistryError::Unresolved(Unresolved::NotAChoice { .. })), "{text:?}: {error}");
        assert!(!error.to_string().contains('\u{1b}'));
    }
}

#[test]
fn several_components_with_one_beginning_are_told_apart_from_one_component_in_two_versions() {
    let (_, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let settings = RawSettings { max_attempts: Some(7), ..RawSettings::default() }.check().unwrap();
    registry.deploy(&name("resize"), NewVersion { settings, ..version(b"one") }, true, NOW).unwrap();
    let mut task = registry.tasks().unwrap().get(&name("resize")).cloned().unwrap();
    let text = format!("sha256:{}", &digest_of(b"one").hex()[..12]);
    assert_eq!(task.choose(&text).unwrap().number, v(2), "the latest of one component");
    let mut alike = *digest_of(b"one").as_bytes();
    alike[31] ^= 1;
    task.versions[1].digest = Digest::new(alike);
    assert!(matches!(task.choose(&text), Err(Unresolved::SeveralDigests { versions, .. }) if versions == [v(1), v(2)]));
}

#[test]
fn what_cannot_be_resolved_says_what_there_is() {
    let (_, registry) = new();
    registry.store_component(b"one", &digest_of(b"one")).unwrap();
    registry.deploy(&name("resize"), version(b"one"), false, NOW).unwrap();
    let tasks = registry.tasks().unwrap();
    let error = |task: &str, pin: Pin| tasks.resolve(&name(task), &pin).unwrap_err();
    assert_eq!(error("resise", Pin::Current).to_string(), "no task resise is deployed; did you mean resize?");
    assert_eq!(error("mail", Pin::Current).to_string(), "no task mail is deployed; deploy it first");
    assert!(matches!(error("resize", Pin::Current), Unresolved::NoCurrent { .. }));
    assert!(matches!(error("resize", Pin::Version(v(2))), Unresolved::NoVersion { .. }));
    assert!(matches!(error("resize", Pin::Digest(digest_of(b"x").into())), Unresolved::NoDigest { .. }));
    assert_eq!(tasks.resolve(&name("resize"), &Pin::Version(v(1))).unwrap().version, v(1));
    assert_eq!(tasks.resolve(&name("resize"), &Pin::Digest(digest_of(b"one").into())).unwrap().version, v(1));
}

#[test]
fn activating_changes_what_is_current_and_nothing_when_it_cannot() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    deploy(&registry, "resize", b"two").unwrap();
    let activated = registry.activate(&name("resize"), "v1").unwrap();
    assert_eq!((activated.number, activated.before), (v(1), Some(v(2))));
    let before = read(&disk, FILE);
    assert!(registry.activate(&name("resize"), "v7").is_err());
    assert!(registry.activate(&name("mail"), "v1").is_err());
    assert!(registry.remove(&name("mail")).is_err());
    assert_eq!(read(&disk, FILE), before);
}

#[test]
fn handles_that_deploy_at_once_get_a_number_each() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Registry::open(Arc::new(wasmq_wal::disk::RealDisk), dir.path()).unwrap();
    let mut numbers: Vec<u32> = std::thread::scope(|scope| {
        let one = |thread: u8| {
            let registry = open();
            let bytes = |round: u8| vec![thread, round];
            (0..5).map(|round| deploy(&registry, "resize", &bytes(round)).unwrap().number.get()).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || one(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    assert_eq!(open().tasks().unwrap().get(&name("resize")).unwrap().versions.len(), 20);
}

#[test]
fn versions_are_removed_with_the_components_that_no_other_version_has() {
    let (disk, registry) = new();
    for (task, bytes) in [("resize", b"one"), ("resize", b"two"), ("mail", b"two"), ("resize", b"six")] {
        deploy(&registry, task, bytes).unwrap();
    }
    registry.store_symbols(b"symbols", &digest_of(b"one")).unwrap();
    let all = [v(1), v(2), v(3), v(7)].into();
    let removed = registry.remove_versions(&name("resize"), &all).unwrap();
    assert_eq!(removed.iter().map(|version| version.number).collect::<Vec<_>>(), [v(1), v(2)], "the last one stays");
    let registry = on(&disk.after_power_cut(wasmq_wal::disk::Survival::Lost, 0));
    assert_eq!(registry.components().unwrap().len(), 2);
    assert!(registry.load_component(&digest_of(b"two")).is_ok(), "mail has it");
    assert_eq!(registry.with_symbols().unwrap(), []);
    assert_eq!(deploy(&registry, "resize", b"one").unwrap().number, v(4), "no number comes twice");
    assert!(registry.remove_versions(&name("paint"), &all).is_err());
}

#[test]
fn the_current_version_and_the_latest_one_are_not_removed() {
    let (_, registry) = new();
    for bytes in [b"one", b"two", b"six"] {
        deploy(&registry, "resize", bytes).unwrap();
    }
    registry.activate(&name("resize"), "v1").unwrap();
    let removed = registry.remove_versions(&name("resize"), &[v(1), v(2), v(3)].into()).unwrap();
    assert_eq!(removed.iter().map(|version| version.number).collect::<Vec<_>>(), [v(2)]);
    assert_eq!(registry.tasks().unwrap().get(&name("resize")).unwrap().current, Some(v(1)));
}
