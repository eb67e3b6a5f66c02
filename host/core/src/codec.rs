//! The binary form of records: LEB128 integers, length-prefixed bytes. Nothing is self-describing;
//! a record's kind says what to expect.
//!
//! Invariants: decoding never panics and never allocates more than the input holds, whatever the
//! bytes are. Every value has one encoding that the encoder makes; the decoder refuses integers
//! that do not fit.

/// Appends values to a buffer.
#[derive(Debug)]
pub struct Encoder<'a>(pub &'a mut Vec<u8>);

/// Takes values from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a>(&'a [u8]);

/// Bytes that are not what the record's kind promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body ends in the middle of a value.
    #[error("the record ends in the middle of {0}")]
    Short(&'static str),
    /// A value outside its range.
    #[error("{0} has a value that no version of wasmq writes")]
    Invalid(&'static str),
}

impl Encoder<'_> {
    /// An unsigned integer in 7-bit groups, least significant first.
    pub fn uint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        #[allow(clippy::cast_possible_truncation)]
        self.0.push(value as u8);
    }

    /// One byte.
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Bytes of a length both sides know.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes with their length in front.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.uint(bytes.len() as u64);
        self.raw(bytes);
    }
}

impl<'a> Decoder<'a> {
    /// Starts at the front of a slice.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What has not been taken yet.
    #[must_use]
    pub const fn rest(self) -> &'a [u8] {
        self.0
    }

    /// One byte.
    ///
    /// # Errors
    /// When nothing is left.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        let (first, rest) = self.0.split_first().ok_or(DecodeError::Short(what))?;
        self.0 = rest;
        Ok(*first)
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// When it is cut off or does not fit 64 bits.
    pub fn uint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Invalid(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Invalid(what))
    }

    /// An unsigned integer of 32 bits.
    ///
    /// # Errors
    /// When it is cut off or does not fit.
    pub fn uint32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        u32::try_from(self.uint(what)?).map_err(|_| DecodeError::Invalid(what))
    }

    /// Bytes of a known length.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn raw(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Short(what))?;
        self.0 = rest;
        Ok(taken)
    }

    /// An array of a known length.
    ///
    /// # Errors
    /// When fewer bytes are left.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        self.raw(N, what)?.try_into().map_err(|_| DecodeError::Short(what))
    }

    /// Bytes with their length in front.
    ///
    /// # Errors
    /// When they are cut off.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(self.uint(what)?).map_err(|_| DecodeError::Invalid(what))?;
        self.raw(len, what)
    }

    /// Text with its length in front.
    ///
    /// # Errors
    /// When it is cut off or not UTF-8.
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_| DecodeError::Invalid(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_and_bytes_survive(value: u64, bytes: Vec<u8>) {
            let mut buffer = Vec::new();
            let mut encoder = Encoder(&mut buffer);
            encoder.uint(value);
            encoder.bytes(&bytes);
            let mut decoder = Decoder::new(&buffer);
            prop_assert_eq!(decoder.uint("value"), Ok(value));
            prop_assert_eq!(decoder.bytes("bytes"), Ok(&bytes[..]));
            prop_assert!(decoder.rest().is_empty());
        }

        #[test]
        fn any_bytes_decode_or_fail_without_a_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.uint("value").is_ok() && decoder.text("text").is_ok() {}
        }
    }
}
