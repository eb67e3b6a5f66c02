//! Torn tails and damage: what a reader makes of them, and what the next writer does.

use super::*;
use crate::dlq::types::DamageReason;

#[test]
fn a_last_line_that_was_cut_at_any_byte_costs_only_itself() {
    let (disk, dlq) = new();
    dlq.add(&many(0..2)).unwrap();
    let one = content(&disk).len();
    dlq.add(&[dead(2, 0)]).unwrap();
    let whole = content(&disk);
    for len in one..=whole.len() {
        let disk = SimDisk::new();
        overwrite(&disk, &whole[..len]);
        let expected_before = if len == whole.len() { ids([0, 1, 2]) } else { ids([0, 1]) };
        assert_eq!(ids_of(&on(&disk)), expected_before, "readers, cut at {len}");
        on(&disk).add(&[dead(3, 0)]).unwrap();
        let complete = len + 1 >= whole.len();
        let expected = if complete { ids([0, 1, 2, 3]) } else { ids([0, 1, 3]) };
        let dlq = on(&disk);
        assert_eq!(ids_of(&dlq), expected, "cut at {len}");
        assert_eq!(dlq.damage().unwrap(), [], "cut at {len}");
    }
}

#[test]
fn a_damaged_last_newline_does_not_cost_the_line() {
    let (disk, dlq) = new();
    dlq.add(&many(0..2)).unwrap();
    let mut bytes = content(&disk);
    *bytes.last_mut().unwrap() = b'J';
    overwrite(&disk, &bytes);
    on(&disk).add(&[dead(2, 0)]).unwrap();
    assert_eq!(ids_of(&on(&disk)), ids([0, 1, 2]));
}

#[test]
fn damage_at_any_byte_costs_only_its_line_and_is_reported_with_its_place() {
    let (disk, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    let whole = content(&disk);
    let lines: Vec<usize> = whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
    // The newline itself is another case: then the line behind it is found by its start.
    for at in lines[0]..lines[0] + lines[1] - 1 {
        let mut bytes = whole.clone();
        bytes[at] = if bytes[at] == b'!' { b'?' } else { b'!' };
        let disk = SimDisk::new();
        overwrite(&disk, &bytes);
        let dlq = on(&disk);
        assert_eq!(ids_of(&dlq), ids([0, 2]), "byte {at}");
        let damage = dlq.damage().unwrap();
        assert_eq!((damage[0].line, damage[0].offset), (2, lines[0] as u64));
        assert_eq!(damage[0].path, Path::new(FILE));
        assert_eq!(dlq.counts().unwrap().damaged, 1);
    }
}

#[test]
fn a_line_that_lost_the_newline_before_it_is_still_found() {
    let (disk, dlq) = new();
    dlq.add(&many(0..3)).unwrap();
    let mut bytes = content(&disk);
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    bytes[first - 40..=first].fill(0);
    overwrite(&disk, &bytes);
    let dlq = on(&disk);
    assert_eq!(ids_of(&dlq), ids([1, 2]));
    assert_eq!(dlq.damage().unwrap().len(), 1);
}

#[test]
fn garbage_of_any_kind_is_passed_over() {
    let (disk, dlq) = new();
    dlq.add(&many(0..2)).unwrap();
    let good = content(&disk);
    let deep = "[".repeat(100_000);
    let garbage: [&[u8]; 6] =
        [b"\0\0\0\0", b"{}", b"not json", b"\xff\xfe\x00", b"{\"crc\":\"00000000\",\"add\":{}}", deep.as_bytes()];
    for bad in garbage {
        let disk = SimDisk::new();
        overwrite(&disk, &[bad, b"\n", &good, bad, b"\n\n"].concat());
        let dlq = on(&disk);
        assert_eq!(ids_of(&dlq), ids([0, 1]));
        assert_eq!(dlq.damage().unwrap().len(), 2);
        dlq.add(&[dead(2, 0)]).unwrap();
        assert_eq!(ids_of(&on(&disk)), ids([0, 1, 2]));
    }
}

#[test]
fn an_operation_this_version_does_not_know_is_reported_as_such() {
    let disk = SimDisk::new();
    let mut line = b"                 {\"frozen\":{\"id\":1}}".to_vec();
    crate::dlq::line::seal(&mut line);
    line.push(b'\n');
    overwrite(&disk, &line);
    assert_eq!(on(&disk).damage().unwrap()[0].reason, DamageReason::UnknownOperation);
}

#[test]
fn a_file_that_shrank_or_changed_under_a_reader_is_read_anew() {
    let (disk, dlq) = new();
    dlq.add(&many(0..4)).unwrap();
    assert_eq!(all(&dlq).len(), 4);
    let whole = content(&disk);
    let half: usize = whole.split_inclusive(|byte| *byte == b'\n').take(2).map(<[u8]>::len).sum();
    overwrite(&disk, &whole[..half]);
    assert_eq!(ids_of(&dlq), ids([0, 1]));
    on(&disk).add(&many(10..30)).unwrap();
    assert_eq!(all(&dlq).len(), 22);
}
