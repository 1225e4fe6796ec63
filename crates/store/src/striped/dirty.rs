//! The stripes that a writer has changed and not written.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::buffer::Buffer;
use euphrates_device::buffer::{PooledBuffer, pool};
use euphrates_flow::Result;

/// Memory for the changed stripes of a handle, at most. Threads that write strided views through
/// one handle are in many stripes at once, and each eviction writes a stripe once more.
pub(super) const DIRTY_BYTES_MAX: usize = 256 << 20;
/// Pieces of less than one in this many of the bytes of a stripe are kept apart from blocks.
const LOOSE_PART: usize = 2;
/// Such pieces of a stripe, at most.
const LOOSE_MAX: usize = 16 << 10;

/// The changed stripes, by number.
#[derive(Debug)]
pub(super) struct DirtyStripes {
    stripes: BTreeMap<usize, DirtyStripe>,
    /// Counts changes, to find the stripes that were not changed for longest.
    clock: u64,
    bytes_max: usize,
    /// Memory of the stripes.
    bytes: usize,
}

/// A changed stripe. Small pieces stay pieces while they are few: the writer of a strided view has
/// some in every block of many stripes. Then there are data blocks, of which those that were never
/// written are zeros.
#[derive(Debug)]
pub(super) struct DirtyStripe {
    loose: LoosePieces,
    blocks: Vec<Option<PooledBuffer>>,
    block_bytes: usize,
    /// Bytes of the file in it, from its beginning on; zeros lie behind.
    pub bytes: usize,
    /// Bytes that the program has written into it; what was written twice counts twice.
    pub filled: usize,
    changed: u64,
}

/// Pieces that are not in blocks, in the order in which they were written.
#[derive(Debug, Default)]
struct LoosePieces {
    ranges: Vec<Range<usize>>,
    bytes: Vec<u8>,
}

impl DirtyStripes {
    /// Stripes with this much memory.
    pub fn new(bytes_max: usize) -> DirtyStripes {
        DirtyStripes { stripes: BTreeMap::new(), clock: 0, bytes_max, bytes: 0 }
    }

    pub fn set_memory(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Memory of the stripes.
    pub fn memory(&self) -> usize {
        self.bytes
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
        let new = || DirtyStripe {
            loose: LoosePieces::default(),
            blocks: blocks(),
            block_bytes,
            bytes: 0,
            filled: 0,
            changed,
        };
        let entry = self.stripes.entry(stripe).or_insert_with(new);
        entry.changed = changed;
        entry
    }

    /// Writes bytes at an offset in a stripe, which was prepared by `change`.
    pub fn write(&mut self, stripe: usize, at: usize, from: &[u8]) -> Result<()> {
        let dirty = self.stripes.get_mut(&stripe).expect("it was prepared");
        self.bytes -= dirty.memory();
        let written = dirty.write(at, from);
        self.bytes += dirty.memory();
        written
    }

    /// As [`DirtyStripe::fill`], of a stripe that was prepared by `change`.
    pub fn fill(&mut self, stripe: usize, blocks: &[Buffer], bytes: usize) -> Result<()> {
        let dirty = self.stripes.get_mut(&stripe).expect("it was prepared");
        self.bytes -= dirty.memory();
        let filled = dirty.fill(blocks, bytes);
        self.bytes += dirty.memory();
        filled
    }

    /// Makes everything in a stripe from an offset on zero.
    pub fn cut(&mut self, stripe: usize, bytes: usize) {
        let dirty = self.stripes.get_mut(&stripe).expect("it was prepared");
        self.bytes -= dirty.memory();
        dirty.cut(bytes);
        self.bytes += dirty.memory();
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
        self.blocks.iter().flatten().count() * self.block_bytes + self.loose.bytes.len()
    }

    /// Writes bytes at an offset in the stripe.
    fn write(&mut self, at: usize, from: &[u8]) -> Result<()> {
        let is_dense = self.blocks.iter().any(Option::is_some);
        let loose_max = self.blocks.len() * self.block_bytes / LOOSE_PART;
        let is_small = self.loose.bytes.len() + from.len() < loose_max;
        let is_loose = !is_dense && is_small && self.loose.ranges.len() < LOOSE_MAX;
        self.bytes = self.bytes.max(at + from.len());
        self.filled += from.len();
        if is_loose {
            self.loose.add(at, from);
            return Ok(());
        }
        self.settle()?;
        self.write_blocks(at, from)
    }

    /// Moves loose pieces into blocks.
    fn settle(&mut self) -> Result<()> {
        let loose = std::mem::take(&mut self.loose);
        loose.pieces().try_for_each(|(at, piece)| self.write_blocks(at, piece))
    }

    fn write_blocks(&mut self, at: usize, from: &[u8]) -> Result<()> {
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
        Ok(())
    }

    /// Copies a range of the stripe.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        self.read_blocks(at, to);
        for (start, piece) in self.loose.pieces() {
            let (from, until) = (start.max(at), (start + piece.len()).min(at + to.len()));
            if from < until {
                to[from - at..until - at].copy_from_slice(&piece[from - start..until - start]);
            }
        }
    }

    fn read_blocks(&self, at: usize, to: &mut [u8]) {
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
    fn cut(&mut self, bytes: usize) {
        self.loose.cut(bytes);
        for (number, block) in self.blocks.iter_mut().enumerate() {
            let Some(block) = block else { continue };
            let start = (number * self.block_bytes).max(bytes) - number * self.block_bytes;
            block[start.min(self.block_bytes)..].fill(0);
        }
        self.bytes = self.bytes.min(bytes);
    }

    /// The data blocks to write. A short stripe, at the end of a file, has short blocks.
    pub fn into_blocks(mut self) -> Result<Vec<PooledBuffer>> {
        /// From this length on, blocks are written past the page cache, in whole pages.
        const PAGED_BYTES: usize = 256 << 10;
        const PAGE_BYTES: usize = 4096;
        self.settle()?;
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
            self.write_blocks(at, &block[..count])?;
            at += count;
        }
        (self.bytes, self.filled) = (bytes, 0);
        Ok(())
    }
}

impl LoosePieces {
    fn add(&mut self, at: usize, from: &[u8]) {
        self.bytes.extend_from_slice(from);
        match self.ranges.last_mut().filter(|last| last.end == at) {
            Some(last) => last.end += from.len(),
            None => self.ranges.push(at..at + from.len()),
        }
    }

    /// The offset and the bytes of each.
    fn pieces(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut rest = &self.bytes[..];
        self.ranges.iter().map(move |range| {
            let (now, later) = rest.split_at(range.len());
            rest = later;
            (range.start, now)
        })
    }

    /// Forgets what lies behind an offset.
    fn cut(&mut self, bytes: usize) {
        let old = std::mem::take(self);
        for (at, piece) in old.pieces().filter(|(at, _)| *at < bytes) {
            self.add(at, &piece[..piece.len().min(bytes - at)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!((stripes.bytes, stripes.surplus()), (9, None));
        stripes.truncate(2);
        assert_eq!(stripes.bytes, 1);
    }

    #[test]
    fn stripes_have_the_memory_of_what_was_written_until_it_is_half_of_them() {
        let mut stripes = DirtyStripes::new(0);
        stripes.change(7, 100, 10);
        assert_eq!((stripes.bytes, stripes.surplus()), (0, None));
        for at in 0..49 {
            stripes.write(7, 20 * at, &[1; 10]).unwrap();
        }
        assert_eq!((stripes.bytes, stripes.surplus()), (490, Some(7)));
        stripes.write(7, 980, &[1; 10]).unwrap();
        assert_eq!(stripes.bytes, 500, "in blocks, each of which was written");
        stripes.write(7, 980, &[1; 10]).unwrap();
        assert_eq!(stripes.bytes, 500);
    }

    proptest! {
        #[test]
        fn stripe_is_a_plain_array(
            acts in proptest::collection::vec((0usize..30, 0usize..12, any::<u8>()), 1..20),
        ) {
            let (mut stripes, mut expected, mut end) = (DirtyStripes::new(0), [0u8; 30], 0);
            stripes.change(1, 3, 10);
            for (at, count, byte) in acts {
                if byte < 40 {
                    stripes.cut(1, at);
                    expected[at..].fill(0);
                    end = end.min(at);
                    continue;
                }
                let until = (at + count).min(30);
                stripes.write(1, at, &vec![byte; until - at]).unwrap();
                expected[at..until].fill(byte);
                end = end.max(until);
                let mut read = [7; 25];
                stripes.get(1).unwrap().read(3, &mut read);
                prop_assert_eq!(&read[..], &expected[3..28]);
            }
            let taken = stripes.take(1).unwrap();
            prop_assert_eq!((taken.bytes, stripes.bytes), (end, 0));
            let blocks = taken.into_blocks().unwrap();
            let all: Vec<u8> = blocks.iter().flat_map(|block| block.iter().copied()).collect();
            prop_assert_eq!(&all[..end], &expected[..end]);
        }
    }
}
