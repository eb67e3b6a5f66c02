//! Content that breaks others: every byte comes back, every line stays one line.

use proptest::prelude::*;

use super::*;

fn hostile(texts: &str, payload: &[u8]) -> DeadTask {
    let mut dead = dead(1, 0);
    dead.payload = Bytes(payload.to_vec());
    dead.failure.problem =
        Problem { code: texts.into(), message: texts.into(), details: Some(texts.into()), message_bytes: None };
    dead.failure.stderr.bytes = Bytes(payload.to_vec());
    dead.failure.log = vec![texts.to_owned()];
    dead.fingerprint = texts.to_owned();
    dead.worker = texts.to_owned();
    dead.metadata = vec![(texts.to_owned(), texts.to_owned())];
    dead
}

fn comes_back(entry: &DeadTask) -> Vec<u8> {
    let (disk, dlq) = new();
    dlq.add(&[dead(0, 0), entry.clone(), dead(2, 0)]).unwrap();
    assert_eq!(all(&on(&disk)), [dead(0, 0), entry.clone(), dead(2, 0)]);
    dlq.compact(NOW).unwrap();
    assert_eq!(all(&on(&disk))[1], *entry);
    assert_eq!(dlq.groups().unwrap().len(), 2);
    content(&disk)
}

#[test]
fn control_sequences_line_ends_and_bytes_that_are_no_text_come_back_and_cannot_act() {
    let text = "nul\0 esc\x1b[2J\x1b]0;pwn\x07 cr\r lf\n nel\u{85} csi\u{9b}31m ls\u{2028} ps\u{2029} rlo\u{202e} del\x7f 🦀 {\"crc\":\"00000000\",\"add\":{}} \\ \"";
    let file = comes_back(&hostile(text, b"\xff\xfe\0\x80\n{\"crc\":\""));
    let file = String::from_utf8(file).unwrap();
    let risky = |character: char| {
        (character.is_control() && character != '\n') || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202e}')
    };
    assert_eq!(file.chars().find(|character| risky(*character)), None);
    assert_eq!(file.matches("{\"crc\":\"").count(), file.lines().count());
}

#[test]
fn fields_of_ten_mebibytes_come_back() {
    let bytes = 10 * 1024 * 1024;
    let mut entry = hostile("small", b"small");
    entry.failure.problem.message = "é\u{2028}x".repeat(bytes / 6);
    entry.payload.0 = vec![0xff; bytes];
    let (disk, dlq) = new();
    dlq.add(&[entry.clone(), dead(2, 0)]).unwrap();
    assert!(all(&on(&disk)) == [entry, dead(2, 0)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_and_any_bytes_come_back(text in "\\PC*|(?s:.{0,40})", payload: Vec<u8>) {
        comes_back(&hostile(&text, &payload));
    }

    #[test]
    fn any_bytes_as_a_file_are_read_without_a_panic_and_the_next_add_is_found(bytes: Vec<u8>) {
        let disk = SimDisk::new();
        overwrite(&disk, &bytes);
        let dlq = on(&disk);
        dlq.add(&[dead(0, 0)]).unwrap();
        prop_assert_eq!(ids_of(&on(&disk)), ids([0]));
    }
}
