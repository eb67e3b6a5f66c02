//! The bytes of headers, as `FORMAT.md` describes them: encoding, decoding, checksums.
//!
//! Deliberately absent: files. A header read from disk becomes a value only after its CRC matched.

use crate::name::WalId;

/// The format version that this crate writes, and the newest one that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of the header of a segment; the first record begins here.
pub const SEGMENT_HEADER_BYTES: u64 = 64;
/// Bytes of the header of a record.
pub const RECORD_HEADER_BYTES: u64 = 13;
/// The longest body that a record may have, in bytes: 256 MiB.
pub const MAX_BODY_BYTES: u32 = 256 << 20;

/// [`SEGMENT_HEADER_BYTES`] as a length of arrays.
pub(crate) const SEGMENT_HEADER: usize = 64;
/// [`RECORD_HEADER_BYTES`] as a length of arrays.
pub(crate) const RECORD_HEADER: usize = 13;
const MAGIC: [u8; 8] = *b"WASMQWAL";
/// The part of the segment header that says whose it is.
const IDENTITY: usize = 32;
/// The part that its CRC covers.
const COVERED: usize = 60;

/// What the checksums of all records of one segment start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn new(id: WalId, sequence: u32) -> Self {
        Self(crc32c::crc32c(&identity(id, sequence)))
    }
}

fn identity(id: WalId, sequence: u32) -> [u8; IDENTITY] {
    let mut bytes = [0; IDENTITY];
    let fields =
        MAGIC.into_iter().chain(FORMAT_VERSION.to_le_bytes()).chain(*id.as_bytes()).chain(sequence.to_le_bytes());
    bytes.iter_mut().zip(fields).for_each(|(target, byte)| *target = byte);
    bytes
}

/// The header of a segment. `previous_bytes` is the sealed length of the one before, 0 if unknown.
pub(crate) fn encode_segment_header(id: WalId, sequence: u32, previous_bytes: u64) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    let fields = identity(id, sequence).into_iter().chain(previous_bytes.to_le_bytes());
    header.iter_mut().zip(fields).for_each(|(target, byte)| *target = byte);
    let (covered, crc) = header.split_at_mut(COVERED);
    crc.copy_from_slice(&crc32c::crc32c(covered).to_le_bytes());
    header
}

/// What the first bytes of a segment turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentHeader {
    Valid {
        previous_bytes: u64,
    },
    /// Written by a newer version.
    Newer {
        version: u32,
    },
    /// A correct header of another log or sequence.
    Misplaced,
    /// Not valid, but what a crash can leave while the header is written: zeros in place of some bytes.
    Unfinished,
    Invalid,
}

pub(crate) fn decode_segment_header(bytes: &[u8], id: WalId, sequence: u32) -> SegmentHeader {
    let Some(header) = bytes.first_chunk::<SEGMENT_HEADER>() else {
        return unfinished_or_invalid(bytes, id, sequence);
    };
    let (covered, crc) = header.split_at(COVERED);
    if !covered.starts_with(&MAGIC) || u32_at(crc, 0) != Some(crc32c::crc32c(covered)) {
        return unfinished_or_invalid(bytes, id, sequence);
    }
    match (u32_at(header, MAGIC.len()), u64_at(header, IDENTITY)) {
        (Some(FORMAT_VERSION), Some(previous_bytes)) => {
            if header.starts_with(&identity(id, sequence)) {
                SegmentHeader::Valid { previous_bytes }
            } else {
                SegmentHeader::Misplaced
            }
        }
        (Some(version), _) if version > FORMAT_VERSION => SegmentHeader::Newer { version },
        _ => SegmentHeader::Invalid,
    }
}

fn unfinished_or_invalid(bytes: &[u8], id: WalId, sequence: u32) -> SegmentHeader {
    let mut pairs = bytes.iter().zip(identity(id, sequence));
    if pairs.all(|(&found, written)| found == 0 || found == written) {
        SegmentHeader::Unfinished
    } else {
        SegmentHeader::Invalid
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// The header of a record whose own CRC was right: its length can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) len: u32,
    pub(crate) kind: u8,
    body_crc: u32,
}

impl RecordHeader {
    /// For a body that is given in parts of `len` bytes together.
    pub(crate) fn new(seed: Seed, kind: u8, len: u32, parts: &[&[u8]]) -> Self {
        let body_crc = parts.iter().fold(seed.0, |crc, part| crc32c::crc32c_append(crc, part));
        Self { len, kind, body_crc }
    }

    pub(crate) fn encode(&self, seed: Seed, offset: u64) -> [u8; RECORD_HEADER] {
        let [a, b, c, d] = self.len.to_le_bytes();
        let [e, f, g, h] = self.body_crc.to_le_bytes();
        let fields = [a, b, c, d, self.kind, e, f, g, h];
        let [i, j, k, l] = header_crc(seed, offset, fields).to_le_bytes();
        [a, b, c, d, self.kind, e, f, g, h, i, j, k, l]
    }

    /// `None` unless the bytes are a header that was written at exactly this offset of this segment.
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER], seed: Seed, offset: u64) -> Option<Self> {
        let [a, b, c, d, kind, e, f, g, h, i, j, k, l] = *bytes;
        let len = u32::from_le_bytes([a, b, c, d]);
        // The cheap tests come first: a search runs this at every byte of damage.
        if kind == 0 || len > MAX_BODY_BYTES {
            return None;
        }
        let crc = header_crc(seed, offset, [a, b, c, d, kind, e, f, g, h]);
        let body_crc = u32::from_le_bytes([e, f, g, h]);
        (crc == u32::from_le_bytes([i, j, k, l])).then_some(Self { len, kind, body_crc })
    }

    pub(crate) fn matches(&self, seed: Seed, body: &[u8]) -> bool {
        body.len() as u64 == u64::from(self.len) && crc32c::crc32c_append(seed.0, body) == self.body_crc
    }

    /// Bytes of header and body.
    pub(crate) fn record_bytes(&self) -> u64 {
        RECORD_HEADER_BYTES + u64::from(self.len)
    }
}

fn header_crc(seed: Seed, offset: u64, fields: [u8; 9]) -> u32 {
    let mut bytes = [0; 17];
    let (at, rest) = bytes.split_at_mut(8);
    at.copy_from_slice(&offset.to_le_bytes());
    rest.copy_from_slice(&fields);
    crc32c::crc32c_append(seed.0, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: WalId = WalId::from_bytes([7; 16]);

    #[test]
    fn a_record_header_is_valid_only_at_its_offset_in_its_segment() {
        let seed = Seed::new(ID, 1);
        let header = RecordHeader::new(seed, 3, 5, &[b"he", b"llo"]);
        let bytes = header.encode(seed, 64);
        let read = RecordHeader::decode(&bytes, seed, 64).unwrap();
        assert!(read.matches(seed, b"hello"));
        assert!(!read.matches(seed, b"hellO"));
        assert_eq!(RecordHeader::decode(&bytes, seed, 65), None);
        assert_eq!(RecordHeader::decode(&bytes, Seed::new(ID, 2), 64), None);
        let other = Seed::new(WalId::from_bytes([8; 16]), 1);
        assert_eq!(RecordHeader::decode(&bytes, other, 64), None);
    }

    #[test]
    fn every_flipped_bit_of_a_record_header_is_noticed() {
        let seed = Seed::new(ID, 1);
        let bytes = RecordHeader::new(seed, 1, 0, &[]).encode(seed, 64);
        for bit in 0..RECORD_HEADER * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHeader::decode(&flipped, seed, 64), None, "bit {bit}");
        }
    }

    #[test]
    fn a_segment_header_of_a_newer_version_is_newer_only_with_a_correct_crc() {
        let mut header = encode_segment_header(ID, 1, 9);
        let valid = SegmentHeader::Valid { previous_bytes: 9 };
        assert_eq!(decode_segment_header(&header, ID, 1), valid);
        assert_eq!(decode_segment_header(&header, ID, 2), SegmentHeader::Misplaced);
        header[8] = 2;
        assert_eq!(decode_segment_header(&header, ID, 1), SegmentHeader::Invalid);
        assert_eq!(decode_segment_header(b"hello", ID, 1), SegmentHeader::Invalid);
        assert_eq!(decode_segment_header(b"WASM\0\0", ID, 1), SegmentHeader::Unfinished);
        let crc = crc32c::crc32c(&header[..COVERED]).to_le_bytes();
        header[COVERED..].copy_from_slice(&crc);
        let newer = SegmentHeader::Newer { version: 2 };
        assert_eq!(decode_segment_header(&header, ID, 1), newer);
    }
}
