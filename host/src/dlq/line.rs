//! One line of the file: the checksum in front, the operation behind it (`FORMAT.md`, "A line").
//!
//! Invariants: a line that is written has no byte 0x0a but its last and the text `{"crc":"` nowhere
//! but at its start; reading never panics whatever the bytes are.
//!
//! Deliberately absent: files and offsets.

use std::borrow::Cow;
use std::io;

use serde::{Deserialize, Serialize};
use wasmq_core::{DeadTask, InvocationId};

use super::head::Head;
use super::types::{DamageReason, RemovalReason};

/// The longest line, newline excluded, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 512 * 1024 * 1024;
/// The most ids of one line.
pub(super) const MAX_IDS_PER_LINE: usize = 10_000;
/// The length of the part that the checksum does not cover, in bytes.
pub(super) const HEAD_BYTES: usize = 18;
const START: &[u8] = b"{\"crc\":\"";

/// An id and how often it had been replayed.
pub(super) type IdPair = (InvocationId, u32);

/// An operation to write.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Write<'a> {
    Head { next: u64 },
    Retry { wal: &'a str, at: u64, ids: &'a [IdPair] },
    Removed { ids: &'a [IdPair], reason: RemovalReason, at: u64 },
}

#[derive(Serialize)]
struct WriteAdd<'a> {
    seq: u64,
    add: &'a DeadTask,
}

#[derive(Deserialize)]
pub(super) struct Retry<'a> {
    #[serde(borrow)]
    pub(super) wal: Cow<'a, str>,
    pub(super) at: u64,
    pub(super) ids: Vec<IdPair>,
}

#[derive(Deserialize)]
pub(super) struct Removed {
    pub(super) ids: Vec<IdPair>,
    pub(super) reason: RemovalReason,
    pub(super) at: u64,
}

#[derive(Deserialize)]
pub(super) struct FileHead {
    pub(super) next: u64,
}

/// Everything a line without a dead task may hold; `Op` is the checked form.
#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    retry: Option<Retry<'a>>,
    removed: Option<Removed>,
    head: Option<FileHead>,
}

/// An operation that was read.
pub(super) enum Op<'a> {
    Head(FileHead),
    Add(u64, Head<'a>),
    Deleted(u64, Head<'a>),
    Retry(Retry<'a>),
    Removed(Removed),
}

/// The part of a line that the checksum covers, if the checksum is right.
pub(super) fn verify(line: &[u8]) -> Result<&[u8], DamageReason> {
    let (head, body) = line.split_at_checked(HEAD_BYTES).ok_or(DamageReason::NotALine)?;
    let digits = head.strip_prefix(START).and_then(|rest| rest.strip_suffix(b"\",")).ok_or(DamageReason::NotALine)?;
    let text = std::str::from_utf8(digits).map_err(|_| DamageReason::NotALine)?;
    let expected = u32::from_str_radix(text, 16).map_err(|_| DamageReason::NotALine)?;
    if crc32c::crc32c(body) == expected { Ok(body) } else { Err(DamageReason::Checksum) }
}

/// Checks and reads a line without its newline.
pub(super) fn parse(line: &[u8]) -> Result<Op<'_>, DamageReason> {
    let body = verify(line)?;
    if let Some((seq, is_add, dead)) = split_entry(body) {
        let head = Head::read(dead).ok_or(DamageReason::Content)?;
        return Ok(if is_add { Op::Add(seq, head) } else { Op::Deleted(seq, head) });
    }
    let raw: Raw<'_> = serde_json::from_slice(line).map_err(|_| DamageReason::Content)?;
    match raw {
        Raw { retry: Some(retry), .. } => Ok(Op::Retry(retry)),
        Raw { removed: Some(removed), .. } => Ok(Op::Removed(removed)),
        Raw { head: Some(head), .. } => Ok(Op::Head(head)),
        _ => Err(DamageReason::UnknownOperation),
    }
}

/// Takes `"seq":S,"add":` or `"seq":S,"del":` off the checked part of a line: S, whether it is an
/// `add`, and what follows.
fn split_entry(body: &[u8]) -> Option<(u64, bool, &[u8])> {
    let rest = body.strip_prefix(b"\"seq\":")?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = rest.split_at_checked(digits)?;
    let seq = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let add = rest.strip_prefix(b",\"add\":").map(|dead| (seq, true, dead));
    add.or_else(|| rest.strip_prefix(b",\"del\":").map(|dead| (seq, false, dead)))
}

/// Whether the checked part of a line is an `add`.
pub(super) fn is_add(body: &[u8]) -> bool {
    split_entry(body).is_some_and(|(_, is_add, _)| is_add)
}

/// The whole dead task of an `add` line without its newline; `None` when it was deleted in place.
pub(super) fn parse_dead_task(line: &[u8]) -> Result<Option<DeadTask>, DamageReason> {
    #[derive(Deserialize)]
    struct Whole {
        add: Option<DeadTask>,
    }
    verify(line)?;
    let whole: Whole = serde_json::from_slice(line).map_err(|_| DamageReason::Content)?;
    Ok(whole.add)
}

/// Where the next line may begin inside a damaged one.
pub(super) fn next_start(line: &[u8]) -> Option<usize> {
    let rest = line.get(1..)?;
    rest.windows(START.len()).position(|window| window == START).map(|at| at + 1)
}

/// Appends an operation as a line with its newline; at most [`MAX_IDS_PER_LINE`] ids.
pub(super) fn push(out: &mut Vec<u8>, operation: &Write<'_>) -> io::Result<()> {
    push_sealed(out, operation)
}

/// Appends the ids of an operation as lines, as many to each as fit.
pub(super) fn push_in_parts<'a>(
    out: &mut Vec<u8>,
    ids: &'a [IdPair],
    operation: impl Fn(&'a [IdPair]) -> Write<'a>,
) -> io::Result<()> {
    ids.chunks(MAX_IDS_PER_LINE).try_for_each(|part| push(out, &operation(part)))
}

/// Appends an `add` line with its newline.
pub(super) fn push_add(out: &mut Vec<u8>, seq: u64, dead: &DeadTask) -> io::Result<()> {
    push_sealed(out, &WriteAdd { seq, add: dead })
}

/// Fails only if a type cannot be written as JSON at all, which no type here does.
fn push_sealed(out: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    let from = out.len();
    // The brace that opens the object is written over by the last byte of the head: `{` becomes `,`.
    out.resize(from + HEAD_BYTES - 1, b' ');
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Careful);
    value.serialize(&mut serializer)?;
    seal(out.get_mut(from..).unwrap_or_default());
    out.push(b'\n');
    Ok(())
}

/// Writes the head of a line whose body is complete.
pub(super) fn seal(line: &mut [u8]) {
    if let Some((head, body)) = line.split_at_mut_checked(HEAD_BYTES) {
        let text = format!("{{\"crc\":\"{:08x}\",", crc32c::crc32c(body));
        head.copy_from_slice(text.as_bytes());
    }
}

/// Makes an `add` line without its newline a `del` line of the same length. Returns how many bytes
/// from the front have changed; `None` when it is no `add` line.
pub(super) fn mark_deleted(line: &mut [u8]) -> Option<usize> {
    if !matches!(parse(line), Ok(Op::Add(..))) {
        return None;
    }
    let key = b"\"add\":";
    // The sequence number in front of it holds no quote, so the first match is the field.
    let at = line.windows(key.len()).position(|window| window == key)?;
    line.get_mut(at..at + key.len())?.copy_from_slice(b"\"del\":");
    seal(line);
    Some(at + key.len())
}

/// Compact JSON that also escapes what ends a line for some tool or moves a terminal.
struct Careful;

impl serde_json::ser::Formatter for Careful {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.is_ascii() && !fragment.as_bytes().contains(&0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut plain = 0;
        for (at, character) in fragment.char_indices().filter(|(_, character)| is_risky(*character)) {
            writer.write_all(fragment.as_bytes().get(plain..at).unwrap_or_default())?;
            write!(writer, "\\u{:04x}", u32::from(character))?;
            plain = at + character.len_utf8();
        }
        writer.write_all(fragment.as_bytes().get(plain..).unwrap_or_default())
    }
}

/// Control characters, line and paragraph separators, bidirectional controls; all below U+10000.
const fn is_risky(character: char) -> bool {
    matches!(character, '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(reason: RemovalReason) -> Vec<u8> {
        let ids = [(InvocationId::from_u128(7), 2)];
        let mut out = b"before".to_vec();
        push(&mut out, &Write::Removed { ids: &ids, reason, at: 5 }).unwrap();
        out.split_off(6)
    }

    #[test]
    fn a_line_has_its_checksum_in_front_and_verifies_from_its_raw_bytes() {
        let line = removed(RemovalReason::Retried);
        let text = String::from_utf8(line.clone()).unwrap();
        assert!(text.ends_with(
            "\",\"removed\":{\"ids\":[[\"00000000-0000-0000-0000-000000000007\",2]],\"reason\":\"retried\",\"at\":5}}\n"
        ));
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!(verify(line).unwrap(), &line[HEAD_BYTES..]);
        assert!(serde_json::from_slice::<serde_json::Value>(line).unwrap()["removed"].is_object());
    }

    #[test]
    fn a_change_of_any_bit_is_noticed() {
        let line = removed(RemovalReason::Deleted);
        let line = line.strip_suffix(b"\n").unwrap();
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut wrong = line.to_vec();
                wrong[at] ^= 1 << bit;
                // The case of a hex digit of the checksum itself does not matter.
                assert!(parse(&wrong).is_err() || wrong.eq_ignore_ascii_case(line), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn an_operation_of_a_newer_version_is_told_from_damage() {
        let mut line = b"                 {\"frozen\":{}}".to_vec();
        seal(&mut line);
        assert!(matches!(parse(&line), Err(DamageReason::UnknownOperation)));
    }
}
