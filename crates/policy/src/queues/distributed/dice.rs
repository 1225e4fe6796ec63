//! A generator of random numbers from one random seed per call.

/// The generator: SplitMix64 (Steele et al., OOPSLA '14).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub u64);

impl Dice {
    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 32).wrapping_mul(u64::from(n)) >> 32) as u32
    }
}
