//! Pieces of stripes that a writer of a session has not filled, in memory.
//!
//! Only the written bytes are kept, not the blocks around them: a writer of a strided view has
//! pieces in each stripe of the file.

use std::collections::BTreeMap;
use std::ops::Range;

use euphrates_flow::Result;

use super::ranges::Ranges;
use crate::catalog::FileEntry;
use crate::striped::dirty::{DirtyStripe, DirtyStripes};

/// The stripes with pieces, by number.
#[derive(Debug)]
pub(super) struct PartialStripes {
    stripes: BTreeMap<usize, PartialStripe>,
    clock: u64,
    bytes_max: usize,
    /// Bytes of all pieces; what was written twice counts twice.
    bytes: usize,
}

/// The pieces of one stripe.
#[derive(Debug, Default)]
pub(super) struct PartialStripe {
    /// Offsets in the stripe, in the order in which they were written.
    pieces: Vec<Range<usize>>,
    /// The pieces, one after the other.
    bytes: Vec<u8>,
    ranges: Ranges,
    changed: u64,
}

impl PartialStripes {
    /// Pieces with this many bytes.
    pub fn new(bytes_max: usize) -> PartialStripes {
        PartialStripes { stripes: BTreeMap::new(), clock: 0, bytes_max, bytes: 0 }
    }

    pub fn set_memory(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// All stripes but this number of those that were changed last, in ascending order.
    pub fn all_but_newest(&self, kept: usize) -> Vec<usize> {
        let changed = self.stripes.iter().map(|(stripe, partial)| (partial.changed, *stripe));
        let mut all: Vec<(u64, usize)> = changed.collect();
        all.sort_unstable();
        all.truncate(all.len().saturating_sub(kept));
        let mut stripes: Vec<usize> = all.into_iter().map(|(_, stripe)| stripe).collect();
        stripes.sort_unstable();
        stripes
    }

    /// Adds a piece at an offset in a stripe. Returns whether the stripe is full now.
    pub fn add(&mut self, stripe: usize, at: usize, from: &[u8], stripe_bytes: u64) -> bool {
        self.clock += 1;
        self.bytes += from.len();
        let partial = self.stripes.entry(stripe).or_default();
        partial.changed = self.clock;
        partial.bytes.extend_from_slice(from);
        match partial.pieces.last_mut().filter(|last| last.end == at) {
            Some(last) => last.end += from.len(),
            None => partial.pieces.push(at..at + from.len()),
        }
        partial.ranges.add(at as u64..(at + from.len()) as u64);
        partial.ranges.is(0..stripe_bytes)
    }

    pub fn take(&mut self, stripe: usize) -> Option<PartialStripe> {
        let taken = self.stripes.remove(&stripe)?;
        self.bytes -= taken.bytes.len();
        Some(taken)
    }

    /// The stripe that was not changed for longest, if there are too many bytes.
    pub fn surplus(&self) -> Option<usize> {
        if self.bytes <= self.bytes_max {
            return None;
        }
        self.stripes.iter().min_by_key(|(_, partial)| partial.changed).map(|(stripe, _)| *stripe)
    }

    pub fn first(&self) -> Option<usize> {
        self.stripes.keys().next().copied()
    }
}

impl PartialStripe {
    /// The stripe as it is written to disks, with zeros where nothing was written.
    pub fn assemble(&self, layout: &FileEntry) -> Result<DirtyStripe> {
        let mut one = DirtyStripes::new(usize::MAX);
        one.change(0, layout.data, layout.block_bytes as usize);
        let mut rest = &self.bytes[..];
        for piece in &self.pieces {
            let (now, later) = rest.split_at(piece.len());
            one.write(0, piece.start, now)?;
            rest = later;
        }
        Ok(one.take(0).expect("it has just been changed"))
    }

    /// Disjoint pieces and their bytes, one after the other.
    pub fn into_pieces(self, layout: &FileEntry) -> Result<(Vec<Range<usize>>, Vec<u8>)> {
        let ranges: Vec<Range<usize>> =
            self.ranges.iter().map(|range| range.start as usize..range.end as usize).collect();
        let distinct: usize = ranges.iter().map(Range::len).sum();
        if distinct == self.bytes.len() {
            return Ok((self.pieces, self.bytes));
        }
        let (stripe, mut bytes) = (self.assemble(layout)?, vec![0; distinct]);
        let mut rest = &mut bytes[..];
        for range in &ranges {
            let (now, later) = rest.split_at_mut(range.len());
            stripe.read(range.start, now);
            rest = later;
        }
        Ok((ranges, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAYOUT: FileEntry =
        FileEntry { data: 3, parity: 0, block_bytes: 10, bytes: 0, disks: vec![] };

    proptest! {
        #[test]
        fn pieces_are_what_was_written_last(
            writes in proptest::collection::vec((0usize..30, 1usize..12, any::<u8>()), 1..12),
        ) {
            let (mut partial, mut expected) = (PartialStripes::new(0), [None; 30]);
            let mut is_full = false;
            for (at, count, byte) in writes {
                let end = (at + count).min(30);
                is_full = partial.add(5, at, &vec![byte; end - at], 30);
                expected[at..end].fill(Some(byte));
            }
            prop_assert_eq!(is_full, expected.iter().all(Option::is_some));
            prop_assert_eq!((partial.first(), partial.surplus()), (Some(5), Some(5)));
            let taken = partial.take(5).unwrap();
            prop_assert_eq!((partial.bytes, partial.surplus()), (0, None));
            let mut stripe = [0; 30];
            taken.assemble(&LAYOUT).unwrap().read(0, &mut stripe);
            prop_assert_eq!(stripe, expected.map(|byte| byte.unwrap_or(0)));
            let (pieces, bytes) = taken.into_pieces(&LAYOUT).unwrap();
            let mut found = [None; 30];
            let offsets = pieces.into_iter().flatten();
            for (at, byte) in offsets.zip(bytes) {
                prop_assert_eq!(found[at].replace(byte), None, "disjoint");
            }
            prop_assert_eq!(found, expected);
        }
    }
}
