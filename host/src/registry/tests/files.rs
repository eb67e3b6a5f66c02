//! The file: damaged, newer, contradictory, and noticed when it changes.

use super::*;

const COPY: &str = "/data/tasks-v1.copy.json";

/// The text of the file as somebody leaves it who edits it: without its checksum, and no copy beside.
fn by_hand(disk: &SimDisk) -> String {
    let text = String::from_utf8(read(disk, FILE)).unwrap();
    disk.remove(Path::new(COPY)).unwrap();
    let (rest, _) = text.rsplit_once(",\n  \"crc\"").unwrap();
    format!("{rest}\n}}\n")
}

#[test]
fn without_a_file_there_are_no_tasks_and_reading_creates_nothing() {
    let (disk, registry) = new();
    assert_eq!(registry.tasks().unwrap().iter().len(), 0);
    assert_eq!(disk.operations(), 0);
}

#[test]
fn the_file_is_json_that_people_can_read() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let text = String::from_utf8(read(&disk, FILE)).unwrap();
    assert!(
        text.starts_with("{\n  \"format\": 1,\n  \"tasks\": {\n    \"resize\": {\n      \"current\": \"v1\","),
        "{text}"
    );
    assert!(text.ends_with("}\n"));
}

#[test]
fn a_file_of_another_format_is_refused_and_never_touched() {
    let (disk, registry) = new();
    let newer = br#"{ "format": 2, "things": [] }"#;
    write(&disk, FILE, newer);
    registry.store_component(b"one", &digest_of(b"one")).unwrap();
    for error in [
        registry.tasks().map(drop),
        deploy(&registry, "resize", b"one").map(drop),
        registry.remove(&name("a")).map(drop),
    ] {
        assert!(matches!(error, Err(RegistryError::OtherFormat { found: 2, known: 1, .. })));
    }
    assert_eq!(read(&disk, FILE), newer);
}

#[test]
fn a_file_name_of_another_format_is_refused_too() {
    let (disk, registry) = new();
    write(&disk, "/data/tasks-v2.json", b"{}");
    assert!(matches!(deploy(&registry, "resize", b"one"), Err(RegistryError::OtherFormat { found: 2, .. })));
    assert!(Registry::open(Arc::new(disk.clone()), Path::new(DATA)).is_err());
    assert!(disk.stat(Path::new(FILE)).unwrap().is_none());
}

#[test]
fn a_file_cut_at_any_byte_is_damage_with_a_place_and_never_no_tasks() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let whole = read(&disk, FILE);
    disk.remove(Path::new(COPY)).unwrap();
    for len in 0..whole.len() {
        write(&disk, FILE, &whole[..len]);
        let error = on(&disk).tasks().unwrap_err();
        let has_place = error.to_string().contains("/data/tasks-v1.json is damaged at line ");
        assert!(has_place || len >= whole.len() - 2, "{len}: {error}");
        assert!(error.is_damage(), "{len}: {error}");
        assert!(deploy(&on(&disk), "mail", b"one").is_err());
        assert_eq!(read(&disk, FILE), &whole[..len]);
    }
}

#[test]
fn contradictions_are_named_with_their_task() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    deploy(&registry, "resize", b"two").unwrap();
    let good = by_hand(&disk);
    for (from, to) in [("\"current\": \"v2\"", "\"current\": \"v7\""), ("\"number\": \"v2\"", "\"number\": \"v1\"")] {
        write(&disk, FILE, good.replace(from, to).as_bytes());
        let error = on(&disk).tasks().unwrap_err();
        assert!(matches!(error, RegistryError::Contradiction { .. }), "{to}: {error}");
        assert!(error.to_string().contains("about task resize"));
    }
    write(&disk, FILE, good.replace("\"current\"", "\"curent\"").as_bytes());
    assert!(
        matches!(on(&disk).tasks(), Err(RegistryError::Damaged { line: 5, .. })),
        "a slip of the finger has a place"
    );
    write(&disk, FILE, good.replace("\"max_attempts\": 3", "\"max_attempts\": 0").as_bytes());
    assert!(matches!(on(&disk).tasks(), Err(RegistryError::Damaged { .. })), "settings are checked");
}

#[test]
fn a_change_of_any_bit_is_noticed_and_reading_goes_on_with_the_copy() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let whole = read(&disk, FILE);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut wrong = whole.clone();
            wrong[at] ^= 1 << bit;
            write(&disk, FILE, &wrong);
            let registry = on(&disk);
            let error = registry.damage().unwrap_or_else(|| panic!("byte {at}, bit {bit} is not noticed"));
            // A flip in the number of the format reads as a newer file, which nothing goes on beside.
            let tasks = registry.tasks().map(|tasks| tasks.get(&name("resize")).is_some());
            let is_other = matches!(error, RegistryError::OtherFormat { .. });
            assert!(matches!(tasks, Ok(true)) != is_other, "byte {at}, bit {bit}: {error}");
            assert!(deploy(&registry, "mail", b"one").is_err(), "nothing is changed meanwhile");
            assert_eq!(read(&disk, FILE), wrong);
        }
    }
}

#[test]
fn without_the_file_the_copy_counts_and_the_next_deploy_makes_both() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    disk.remove(Path::new(FILE)).unwrap();
    let registry = on(&disk);
    assert!(matches!(registry.damage(), Some(RegistryError::Missing { .. })));
    assert!(registry.tasks().unwrap().get(&name("resize")).is_some());
    deploy(&registry, "resize", b"one").unwrap();
    assert_eq!(read(&disk, FILE), read(&disk, COPY));
    assert!(registry.damage().is_none());
}

#[test]
fn a_file_that_was_edited_by_hand_is_read_without_its_checksum() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let text = by_hand(&disk);
    write(&disk, FILE, text.replace("60000", "70000").as_bytes());
    assert!(on(&disk).damage().is_none());
    let tasks = on(&disk).tasks().unwrap();
    assert_eq!(tasks.get(&name("resize")).unwrap().versions[0].settings.timeout.0, 70_000);
}

#[test]
fn a_poller_sees_the_change_of_another_handle_once() {
    let (disk, registry) = new();
    let poller = on(&disk);
    let mut tasks = poller.tasks().unwrap();
    assert!(!poller.refresh_if_changed(&mut tasks).unwrap());
    deploy(&registry, "resize", b"one").unwrap();
    assert!(poller.refresh_if_changed(&mut tasks).unwrap());
    assert!(tasks.get(&name("resize")).is_some());
    assert!(!poller.refresh_if_changed(&mut tasks).unwrap());
}

#[test]
fn a_poller_keeps_its_snapshot_while_the_file_is_damaged() {
    let (disk, registry) = new();
    deploy(&registry, "resize", b"one").unwrap();
    let mut tasks = registry.tasks().unwrap();
    let good = read(&disk, FILE);
    disk.remove(Path::new(COPY)).unwrap();
    write(&disk, FILE, b"{");
    assert!(registry.refresh_if_changed(&mut tasks).is_err());
    assert!(registry.refresh_if_changed(&mut tasks).is_err(), "it says so as long as it is");
    assert!(tasks.get(&name("resize")).is_some());
    write(&disk, FILE, &good);
    assert!(registry.refresh_if_changed(&mut tasks).is_ok());
}
