//! The stripes that a writer has changed and not written.

use std::collections::BTreeMap;

use arrow::buffer::Buffer;
use euphrates_device::buffer::{PooledBuffer, pool};
use euphrates_flow::Result;

/// Memory for the changed stripes of a handle, at most. Threads that write strided views through
/// one handle are in many stripes at once, and each eviction writes a stripe once more.
pub(super) const DIRTY_BYTES_MAX: usize = 256 << 20;

/// The changed stripes, by number.
#[derive(Debug)]
pub(super) struct DirtyStripes {
    stripes: BTreeMap<usize, DirtyStripe>,
    /// Counts changes, to find the stripes that were not changed for longest.
    clock: u64,
    bytes_max: usize,
    /// Memory of the stripes: blocks of which no byte was written have none.
    bytes: usize,
}

/// A changed stripe: its data blocks, of which those that were never written are zeros.
#[derive(Debug)]
pub(super) struct DirtyStripe {
    blocks: Vec<Option<PooledBuffer>>,
    block_bytes: usize,
    /// Bytes of the file in it, from its beginning on; zeros lie behind.
    pub bytes: usize,
    /// Bytes that the program has written into it; what was written twice counts twice.
    pub filled: usize,
    changed: u64,
}

impl DirtyStripes {
    /// Stripes with this much memory.
    pub fn new(bytes_max: usize) -> DirtyStripes {
        DirtyStripes { stripes: BTreeMap::new(), clock: 0, bytes_max, bytes: 0 }
    }

    pub fn set_memory(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    pub fn has(&self, stripe: usize) -> bool {
        self.stripes.contains_key(&stripe)
    }

    pub fn get(&self, stripe: usize) -> Option<&DirtyStripe> {
        self.stripes.get(&stripe)
    }

    /// The stripe, which is about to change; an empty one if it was not changed before.
    pub fn change(&mut self, stripe: usize, data: usize, block_bytes: usize) -> &mut DirtyStripe {
        self.clock += 1;
        let changed = self.clock;
        let blocks = || (0..data).map(|_| None).collect();
        let new = || DirtyStripe { blocks: blocks(), block_bytes, bytes: 0, filled: 0, changed };
        let entry = self.stripes.entry(stripe).or_insert_with(new);
        entry.changed = changed;
        entry
    }

    /// Writes bytes at an offset in a stripe, which was prepared by `change`.
    pub fn write(&mut self, stripe: usize, at: usize, from: &[u8]) -> Result<()> {
        let dirty = self.stripes.get_mut(&stripe).expect("it was prepared");
        let before = dirty.memory();
        let written = dirty.write(at, from);
        self.bytes += dirty.memory() - before;
        written
    }

    /// As [`DirtyStripe::fill`], of a stripe that was prepared by `change`.
    pub fn fill(&mut self, stripe: usize, blocks: &[Buffer], bytes: usize) -> Result<()> {
        let dirty = self.stripes.get_mut(&stripe).expect("it was prepared");
        let before = dirty.memory();
        let filled = dirty.fill(blocks, bytes);
        self.bytes += dirty.memory() - before;
        filled
    }

    pub fn take(&mut self, stripe: usize) -> Option<DirtyStripe> {
        let taken = self.stripes.remove(&stripe)?;
        self.bytes -= taken.memory();
        Some(taken)
    }

    /// The stripe to write next, if they have too much memory. Of the half that was not changed for
    /// longest, it is the fullest: least of it is left to be written again.
    pub fn surplus(&self) -> Option<usize> {
        if self.bytes <= self.bytes_max {
            return None;
        }
        let facts =
            |(&stripe, dirty): (&usize, &DirtyStripe)| (dirty.changed, dirty.filled, stripe);
        let mut all: Vec<(u64, usize, usize)> = self.stripes.iter().map(facts).collect();
        let half = all.len().saturating_sub(1) / 2;
        all.select_nth_unstable(half);
        let fullest = all[..=half].iter().max_by_key(|(changed, filled, _)| (*filled, !changed));
        fullest.map(|(.., stripe)| *stripe)
    }

    pub fn first(&self) -> Option<usize> {
        self.stripes.keys().next().copied()
    }

    /// Forgets the stripes from this one on.
    pub fn truncate(&mut self, stripes: usize) {
        let cut = self.stripes.split_off(&stripes);
        self.bytes -= cut.values().map(DirtyStripe::memory).sum::<usize>();
    }
}

impl DirtyStripe {
    fn memory(&self) -> usize {
        self.blocks.iter().flatten().count() * self.block_bytes
    }

    /// Writes bytes at an offset in the stripe.
    fn write(&mut self, at: usize, from: &[u8]) -> Result<()> {
        let (mut offset, mut rest) = (at, from);
        while !rest.is_empty() {
            let within = offset % self.block_bytes;
            let count = (self.block_bytes - within).min(rest.len());
            let (now, later) = rest.split_at(count);
            let slot = &mut self.blocks[offset / self.block_bytes];
            let block = match slot {
                Some(block) => block,
                None => {
                    let mut new = pool().take(self.block_bytes)?;
                    new[..within].fill(0);
                    new[within + count..].fill(0);
                    slot.insert(new)
                }
            };
            block[within..within + count].copy_from_slice(now);
            (offset, rest) = (offset + count, later);
        }
        self.bytes = self.bytes.max(at + from.len());
        self.filled += from.len();
        Ok(())
    }

    /// Copies a range of the stripe.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        let (mut at, mut to) = (at, to);
        while !to.is_empty() {
            let within = at % self.block_bytes;
            let count = (self.block_bytes - within).min(to.len());
            let (now, rest) = to.split_at_mut(count);
            match self.blocks.get(at / self.block_bytes).and_then(Option::as_ref) {
                Some(block) => now.copy_from_slice(&block[within..within + count]),
                None => now.fill(0),
            }
            (at, to) = (at + count, rest);
        }
    }

    /// Makes everything from an offset on zero.
    pub fn cut(&mut self, bytes: usize) {
        for (number, block) in self.blocks.iter_mut().enumerate() {
            let Some(block) = block else { continue };
            let start = (number * self.block_bytes).max(bytes) - number * self.block_bytes;
            block[start.min(self.block_bytes)..].fill(0);
        }
        self.bytes = self.bytes.min(bytes);
    }

    /// The data blocks to write. A short stripe, at the end of a file, has short blocks.
    pub fn into_blocks(self) -> Result<Vec<PooledBuffer>> {
        /// From this length on, blocks are written past the page cache, in whole pages.
        const PAGED_BYTES: usize = 256 << 10;
        const PAGE_BYTES: usize = 4096;
        let data = self.blocks.len();
        let each = self.bytes.div_ceil(data).max(1);
        let each = if each < PAGED_BYTES { each } else { each.next_multiple_of(PAGE_BYTES) };
        let zeros = |bytes| -> Result<PooledBuffer> {
            let mut block = pool().take(bytes)?;
            block.fill(0);
            Ok(block)
        };
        if each >= self.block_bytes {
            let block_bytes = self.block_bytes;
            let block = |slot: Option<PooledBuffer>| slot.map_or_else(|| zeros(block_bytes), Ok);
            return self.blocks.into_iter().map(block).collect();
        }
        let block = |number: usize| {
            let mut block = zeros(each)?;
            let start = (number * each).min(self.bytes);
            let end = (start + each).min(self.bytes);
            self.read(start, &mut block[..end - start]);
            Ok(block)
        };
        (0..data).map(block).collect()
    }

    /// Fills an empty stripe with the data blocks that were written before. The file has `bytes`
    /// bytes in them. They do not count as written: the stripe would be full after its first
    /// change, and every small change would write a whole stripe.
    fn fill(&mut self, blocks: &[Buffer], bytes: usize) -> Result<()> {
        let mut at = 0;
        for block in blocks {
            let count = block.len().min(bytes - at);
            self.write(at, &block[..count])?;
            at += count;
        }
        (self.bytes, self.filled) = (bytes, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stripe_has_short_blocks_and_keeps_its_bytes() {
        for bytes in [1usize, 2, 3, 7, 9, 29, 30] {
            let content: Vec<u8> = (1..=bytes as u8).collect();
            let mut stripes = DirtyStripes::new(DIRTY_BYTES_MAX);
            stripes.change(0, 3, 10);
            stripes.write(0, 0, &content).unwrap();
            let blocks = stripes.take(0).unwrap().into_blocks().unwrap();
            assert!(blocks.iter().all(|block| block.len() == bytes.div_ceil(3)), "{bytes}");
            let all = blocks.iter().flat_map(|block| block.iter().copied()).take(bytes);
            assert_eq!(all.collect::<Vec<u8>>(), content);
        }
    }

    #[test]
    fn stripe_that_was_read_again_is_full_when_all_of_it_is_written_again() {
        let mut stripes = DirtyStripes::new(DIRTY_BYTES_MAX);
        let stripe = stripes.change(0, 2, 10);
        stripe.fill(&[Buffer::from(vec![1; 10]), Buffer::from(vec![2; 10])], 20).unwrap();
        assert_eq!((stripe.bytes, stripe.filled), (20, 0));
        stripe.write(3, &[9; 4]).unwrap();
        assert_eq!((stripe.bytes, stripe.filled), (20, 4));
    }

    #[test]
    fn cut_stripe_is_zero_behind_the_cut() {
        let mut stripes = DirtyStripes::new(DIRTY_BYTES_MAX);
        let stripe = stripes.change(0, 3, 10);
        stripe.write(5, &[7; 20]).unwrap();
        stripe.cut(12);
        stripe.write(14, &[9]).unwrap();
        let mut all = [1; 30];
        stripe.read(0, &mut all);
        let expected = [&[0; 5][..], &[7; 7], &[0; 2], &[9], &[0; 15]].concat();
        assert_eq!((&all[..], stripe.bytes), (&expected[..], 15));
    }
    #[test]
    fn surplus_is_the_fullest_stripe_of_the_older_half() {
        let mut stripes = DirtyStripes::new(12);
        for (stripe, bytes) in [(0, 1), (1, 3), (2, 2), (3, 4)] {
            assert_eq!(stripes.surplus(), None);
            stripes.change(stripe, 1, 4);
            stripes.write(stripe, 0, &[9; 4][..bytes]).unwrap();
        }
        assert_eq!(stripes.surplus(), Some(1));
        stripes.take(1).unwrap();
        assert_eq!((stripes.bytes, stripes.surplus()), (12, None));
        stripes.truncate(2);
        assert_eq!(stripes.bytes, 4);
    }

    #[test]
    fn stripes_have_the_memory_of_their_blocks_with_written_bytes() {
        let mut stripes = DirtyStripes::new(0);
        stripes.change(7, 100, 10);
        assert_eq!((stripes.bytes, stripes.surplus()), (0, None));
        stripes.write(7, 5, &[1; 10]).unwrap();
        stripes.write(7, 5, &[1; 10]).unwrap();
        assert_eq!((stripes.bytes, stripes.surplus()), (20, Some(7)));
    }
}
