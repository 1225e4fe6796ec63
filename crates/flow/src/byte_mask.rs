//! Bit masks of the bytes of a text that have some property, 64 at a time.
//!
//! A loop that stops at such bytes runs a different number of times for each field, which causes
//! branch mispredictions. Here all bytes of a block are compared without a branch.

/// Bytes of a block: one for each bit of its mask.
pub const BLOCK_BYTES: usize = u64::BITS as usize;

/// The mask of a block: bit *i* is set if `is` holds for byte *i*.
///
/// ```
/// use euphrates_flow::byte_mask;
///
/// let mut block = [b'.'; 64];
/// block[3] = b',';
/// assert_eq!(byte_mask(&block, |byte| byte == b','), 0b1000);
/// ```
#[inline]
pub fn byte_mask(block: &[u8; BLOCK_BYTES], is: impl Fn(u8) -> bool) -> u64 {
    let mut found = [0; BLOCK_BYTES];
    for (found, byte) in found.iter_mut().zip(block) {
        *found = u8::from(is(*byte));
    }
    let words = found.as_chunks().0.iter().enumerate();
    words.fold(0, |mask, (at, word)| mask | bits(*word) << (8 * at))
}

/// Eight bytes, each 0 or 1, as eight bits.
fn bits(bytes: [u8; 8]) -> u64 {
    // The product has byte *i* at bit 56 + *i*, and nothing is carried.
    u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56
}
