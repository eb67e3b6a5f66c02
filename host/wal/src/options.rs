//! Sizes that a writer may choose. Readers need none of them.

/// How a log writes. Start from [`Options::default`] or [`Options::short_lived`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// A segment is sealed when the next record would make it longer than this, in bytes.
    pub segment_bytes: u64,
    /// The active segment is extended ahead with zeros by at least this many bytes, so that syncs change no
    /// size. One that is longer already is extended by its length, up to 4 MiB.
    pub extend_bytes: u64,
    /// The write buffer is flushed by itself when it has this many bytes.
    pub buffer_bytes: usize,
}

impl Default for Options {
    /// Segments of 64 MiB, extended by 4 MiB, a buffer of 1 MiB.
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, extend_bytes: 4 << 20, buffer_bytes: 1 << 20 }
    }
}

impl Options {
    /// For a writer of a few records: extended by 16 KiB, so that little is written for nothing.
    #[must_use]
    pub fn short_lived() -> Self {
        Self { extend_bytes: 16 << 10, ..Self::default() }
    }
}
