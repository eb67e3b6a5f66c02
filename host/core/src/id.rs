//! Identities: the invocation id (UUIDv7, RFC 9562) and the component digest (SHA-256).
//!
//! Deliberately absent: the clock and the random bits that go into an id, and the hash function;
//! both come in as arguments.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

/// The length of an id as text, in bytes.
pub const TEXT_BYTES: usize = 36;

/// The id of an invocation: a UUIDv7. It never changes, over attempts and replays alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InvocationId(u128);

/// What is wrong with a text that should be an id or a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseIdError {
    /// Not 32 hex digits, with or without dashes in the usual places.
    #[error("\"{0}\" is not an invocation id: expected a UUID such as 01935d2c-7b3e-7cc0-98c4-dc0c0c07398f")]
    Invocation(String),
    /// Not `sha256:` and 64 hex digits.
    #[error("\"{0}\" is not a digest: expected sha256: and 64 hex digits")]
    Digest(String),
}

impl InvocationId {
    /// Builds a UUIDv7 from a time (48 bits of milliseconds) and random bits (74 of them are used).
    #[must_use]
    pub const fn new(at: Timestamp, random: u128) -> Self {
        let time = ((at.0 as u128) & 0xffff_ffff_ffff) << 80;
        let rand_a = (random >> 62) & 0xfff;
        let rand_b = random & 0x3fff_ffff_ffff_ffff;
        Self(time | (0x7 << 76) | (rand_a << 64) | (0b10 << 62) | rand_b)
    }

    /// The id of the `index`-th follow-up of an invocation. It depends on nothing else, so an
    /// attempt that is run again after a crash asks for the same follow-ups under the same ids.
    #[must_use]
    pub fn follow_up(self, replays: u32, index: u32) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u128 ^ self.0;
        for word in [u128::from(replays), u128::from(index), self.0 >> 64] {
            hash = (hash ^ word).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
            hash ^= hash >> 59;
        }
        Self::new(self.created_at(), hash)
    }

    /// The id as text in a buffer of the caller, for who has no time to allocate.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // The digits one by one.
    pub fn as_text(self, buffer: &mut [u8; TEXT_BYTES]) -> &str {
        let mut digits = (0..32).rev().map(|digit| (self.0 >> (4 * digit)) as u8 & 0xf);
        for (at, place) in buffer.iter_mut().enumerate() {
            *place = match at {
                8 | 13 | 18 | 23 => b'-',
                _ => match digits.next() {
                    Some(digit @ 0..10) => b'0' + digit,
                    digit => b'a' - 10 + digit.unwrap_or_default(),
                },
            };
        }
        std::str::from_utf8(buffer).unwrap_or_default()
    }

    /// The raw 128 bits.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// An id from its raw bits.
    #[must_use]
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The time inside the id.
    #[must_use]
    pub const fn created_at(self) -> Timestamp {
        #[allow(clippy::cast_possible_truncation)]
        Timestamp((self.0 >> 80) as u64)
    }
}

/// A map from invocation ids. Most bits of an id are random, so one multiplication spreads them; ids come
/// from whoever may write the data directory, not from strangers.
pub type IdMap<V> = HashMap<InvocationId, V, BuildHasherDefault<IdHasher>>;
/// A set of invocation ids, hashed as in [`IdMap`].
pub type IdSet = HashSet<InvocationId, BuildHasherDefault<IdHasher>>;

/// See [`IdMap`].
#[derive(Debug, Clone, Copy, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    }

    #[allow(clippy::cast_possible_truncation)]
    fn write_u128(&mut self, bits: u128) {
        let folded = (bits as u64) ^ ((bits >> 64) as u64).rotate_left(32);
        let spread = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'-'; TEXT_BYTES];
        f.write_str(self.as_text(&mut text))
    }
}

impl fmt::Debug for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for InvocationId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseIdError::Invocation(shorten(text));
        let plain = match text.len() {
            32 => text.to_owned(),
            36 if dashes_in_place(text) => text.replace('-', ""),
            _ => return Err(wrong()),
        };
        if plain.len() != 32 || !plain.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u128::from_str_radix(&plain, 16).map(Self).map_err(|_| wrong())
    }
}

fn dashes_in_place(text: &str) -> bool {
    let bytes = text.as_bytes();
    [8, 13, 18, 23].iter().all(|&at| bytes.get(at) == Some(&b'-'))
}

/// Keeps an error message readable when somebody passes a whole file as an id.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        short.push('…');
    }
    short
}

/// The identity of a component: the SHA-256 of its bytes, written `sha256:<64 hex>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// A digest from the 32 bytes of a SHA-256.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits without the `sha256:` in front; safe as a file name.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            text.push(hex_digit(byte >> 4));
            text.push(hex_digit(byte & 15));
            text
        })
    }

    /// The first 12 hex digits with `sha256:` in front, for tables.
    #[must_use]
    pub fn short(&self) -> String {
        format!("sha256:{}", self.hex().chars().take(12).collect::<String>())
    }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseIdError::Digest(shorten(text));
        let hex = text.strip_prefix("sha256:").ok_or_else(wrong)?;
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

macro_rules! serde_as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use serde_as_text;
serde_as_text!(InvocationId, Digest);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_version_7_and_the_rfc_variant_whatever_the_random_bits() {
        for random in [0, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let text = InvocationId::new(Timestamp(0x0193_5d2c_7b3e), random).to_string();
            assert_eq!(&text[14..15], "7");
            assert!("89ab".contains(&text[19..20]), "{text}");
            assert!(text.starts_with("01935d2c-7b3e-"));
        }
    }

    #[test]
    fn an_id_survives_its_text_form() {
        let id = InvocationId::new(Timestamp(1_700_000_000_000), 42);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.created_at(), Timestamp(1_700_000_000_000));
    }

    #[test]
    fn wildcards_empty_text_and_other_shapes_are_not_ids() {
        for text in ["", "%", "*", "0193", "+1935d2c7b3e7cc098c4dc0c0c07398f", "01935d2c-7b3e-7cc0-98c4-dc0c0c07398g"] {
            assert!(text.parse::<InvocationId>().is_err(), "{text}");
        }
    }

    #[test]
    fn follow_ups_of_one_attempt_have_stable_and_different_ids() {
        let parent = InvocationId::new(Timestamp(9), 1);
        assert_eq!(parent.follow_up(0, 1), parent.follow_up(0, 1));
        assert_ne!(parent.follow_up(0, 1), parent.follow_up(0, 2));
        assert_ne!(parent.follow_up(0, 1), parent.follow_up(1, 1));
    }

    #[test]
    fn ids_of_one_millisecond_spread_over_all_buckets() {
        use std::hash::BuildHasher as _;
        let build = BuildHasherDefault::<IdHasher>::default();
        let mut buckets = [0_u32; 256];
        for n in 0..25_600_u128 {
            let hash = build.hash_one(InvocationId::new(Timestamp(1_700_000_000_000), n));
            buckets[(hash & 255) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| *count < 300), "{buckets:?}");
    }

    #[test]
    fn a_digest_survives_its_text_form() {
        let digest = Digest::new([0xa5; 32]);
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert!("sha256:zz".parse::<Digest>().is_err());
    }
}
