//! What a scan hands out and what it tells at its end.

use crate::durable::RecordRef;
use std::fmt;
use std::path::PathBuf;

/// One valid record.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// What kind of record; the log does not interpret it.
    pub kind: u8,
    /// The body, CRC verified. Borrowed from the buffer of the scan.
    pub body: &'a [u8],
    /// Where it lies.
    pub at: RecordRef,
}

/// Bytes at the end of the last segment that are no complete record: a write that a crash cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub path: PathBuf,
    /// Where the last valid record ends.
    pub offset: u64,
    /// How many bytes follow, without trailing zeros.
    pub bytes: u64,
}

/// Bytes that should be records and are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The segment.
    pub path: PathBuf,
    /// First damaged byte.
    pub offset: u64,
    /// How many bytes could not be read as records.
    pub bytes: u64,
    /// What is wrong.
    pub reason: DamageReason,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, bytes, reason } = self;
        write!(f, "{}, offset {offset}, {bytes} bytes: {reason}", path.display())
    }
}

/// What is wrong with damaged bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageReason {
    /// The header of the segment is not valid. Its records are read all the same.
    Header,
    /// The header is valid but belongs to another log or sequence: the file was renamed or copied.
    Misplaced,
    /// No valid record begins here.
    RecordHeader,
    /// The header of a record is valid, its body is not.
    Body,
    /// Zeros where records must be.
    Zeros,
    /// The segment is shorter than it was when it was sealed.
    Shortened,
    /// There is no such segment, but older and newer ones.
    Missing,
    /// A directory or something else lies in place of the segment.
    NotAFile,
    /// The record is whole, but who reads the log cannot make anything of its content.
    Content(String),
    /// The operating system cannot read it.
    Unreadable(String),
}

impl DamageReason {
    /// Whether there are bytes that can be set aside.
    #[must_use]
    pub const fn has_bytes(&self) -> bool {
        !matches!(self, Self::Shortened | Self::Missing | Self::NotAFile)
    }
}

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "the header of the segment is damaged",
            Self::Misplaced => "the segment belongs to another log or has another sequence",
            Self::RecordHeader => "no valid record begins there",
            Self::Body => "the checksum of the body does not match",
            Self::Zeros => "zeros where records must be",
            Self::Shortened => "the segment is shorter than when it was sealed",
            Self::Missing => "the segment is missing",
            Self::NotAFile => "something that is not a file lies in its place",
            Self::Content(what) => return f.write_str(what),
            Self::Unreadable(error) => return write!(f, "it cannot be read: {error}"),
        })
    }
}

/// What a scan found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// Valid records that were visited.
    pub records: u64,
    /// Bytes of these records, with their headers.
    pub bytes: u64,
    /// The torn tail, if there is one.
    pub torn: Option<Torn>,
    /// Everything that could not be read, in order.
    pub damaged: Vec<Damage>,
    /// Segments that were listed and gone when they were to be read: their owner had dropped them. What
    /// lived in them was visited in newer segments, unless the whole log was deleted meanwhile.
    pub vanished: Vec<u32>,
    /// The visitor asked to stop; the rest was not looked at.
    pub stopped: bool,
}
