//! A blocked Bloom filter of hashes (Bloom, 1970; Putze, Sanders and Singler, 2007): a hash lies in
//! one block of half a cache line, and sets a bit in each of its words.
//!
//! High bits of a hash choose the block, as they choose the part of a hash table: the hashes of a
//! part lie in blocks of their own, which one thread fills while the part is in its cache.

use arrow::buffer::BooleanBuffer;

use crate::partitioning::hashing::part_of;

/// Bits of a hash that choose a bit of a word.
const WORD_BITS: u32 = u64::BITS.ilog2();

/// The bits of a block, 256 in all.
type BloomBlock = [u64; 4];

/// The blocks of the hashes that share some high bits.
pub(crate) struct BloomPart {
    blocks: Vec<BloomBlock>,
    used_bits: u32,
    bits: u32,
}

/// A filter that has every hash that was added, and few others.
pub(crate) struct BloomFilter {
    blocks: Vec<BloomBlock>,
    bits: u32,
}

impl BloomPart {
    /// The part of a filter of `blocks` blocks, a power of two, for the hashes that share
    /// `used_bits` high bits; empty.
    pub(crate) fn new(blocks: usize, used_bits: u32) -> BloomPart {
        let bits = blocks.ilog2().saturating_sub(used_bits);
        BloomPart { blocks: vec![[0; 4]; 1 << bits], used_bits, bits }
    }

    /// Adds a hash of this part.
    #[inline(always)]
    pub(crate) fn add(&mut self, hash: u64) {
        let block = &mut self.blocks[part_of(hash, self.used_bits, self.bits)];
        for (at, word) in block.iter_mut().enumerate() {
            *word |= 1 << bit(hash, at);
        }
    }
}

impl BloomFilter {
    /// The filter of these parts, in the order of their hashes.
    pub(crate) fn new(parts: Vec<BloomPart>) -> BloomFilter {
        let mut blocks = vec![];
        for part in parts {
            match blocks.is_empty() {
                true => blocks = part.blocks,
                false => blocks.extend(part.blocks),
            }
        }
        BloomFilter { bits: blocks.len().ilog2(), blocks }
    }

    /// Whether it may have each of these hashes.
    pub(crate) fn may_have(&self, hashes: &[u64]) -> BooleanBuffer {
        BooleanBuffer::collect_bool(hashes.len(), |row| {
            let hash = hashes[row];
            let block = &self.blocks[part_of(hash, 0, self.bits)];
            // Without branches, so that the processor has many blocks in flight.
            let bit_of = |at: usize| block[at] >> bit(hash, at);
            bit_of(0) & bit_of(1) & bit_of(2) & bit_of(3) & 1 == 1
        })
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.blocks.as_slice())
    }
}

/// The bit of a word that stands for a hash.
#[inline(always)]
fn bit(hash: u64, word: usize) -> u32 {
    (hash >> (word as u32 * WORD_BITS)) as u32 & (u64::BITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitioning::hashing::mix;
    use proptest::prelude::*;

    fn filter(hashes: &[u64], blocks: usize, bits: u32) -> BloomFilter {
        let mut parts: Vec<BloomPart> =
            (0..1 << bits).map(|_| BloomPart::new(blocks, bits)).collect();
        hashes.iter().for_each(|hash| parts[part_of(*hash, 0, bits)].add(*hash));
        BloomFilter::new(parts)
    }

    proptest! {
        #[test]
        fn every_added_hash_is_found_however_many_parts_there_are(
            hashes in prop::collection::vec(any::<u64>(), 0..300), bits in 0_u32..4,
        ) {
            let filter = filter(&hashes, 16, bits);
            prop_assert_eq!(filter.may_have(&hashes).count_set_bits(), hashes.len());
        }
    }

    #[test]
    fn few_other_hashes_are_found() {
        let keys: Vec<u64> = (0..100_000).map(mix).collect();
        let others: Vec<u64> = (100_000..200_000).map(mix).collect();
        // 8 and 16 bits for each key.
        for (bits, most) in [(8, 4000), (16, 500)] {
            let blocks: usize = 1 << 11;
            let keys = &keys[..blocks * 256 / bits];
            let found = filter(keys, blocks, 2).may_have(&others).count_set_bits();
            assert!(found < most, "{found} of {} by {bits} bits", others.len());
        }
    }

    #[test]
    fn empty_filter_has_nothing() {
        assert_eq!(filter(&[], 8, 0).may_have(&[0, u64::MAX, 77]).count_set_bits(), 0);
    }
}
