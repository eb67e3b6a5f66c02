//! Seeded pseudo-random numbers (SplitMix64, by Steele, Lea and Flood), so that a crash can be repeated.

/// A generator; the same seed gives the same numbers.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `limit`, both included.
    pub(super) fn up_to(&mut self, limit: usize) -> usize {
        let span = (limit as u64).saturating_add(1);
        usize::try_from(self.next() % span).unwrap_or(0)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
