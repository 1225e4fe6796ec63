//! The extent map of a file: which bytes of which chunk of the log are at which offset.
//!
//! Offsets without an extent are holes, which read as zeros.

use std::collections::BTreeMap;

/// Bytes of the log: a chunk, and an offset in its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataPlace {
    /// The number of the chunk.
    pub chunk: u64,
    /// The offset in its payload.
    pub at: u32,
}

/// A contiguous range of a file within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    pub bytes: u32,
    pub place: DataPlace,
}

/// A part of a range that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// Offset in the file.
    pub offset: u64,
    /// Length of the piece.
    pub bytes: u64,
    /// Where its bytes are; `None` for zeros.
    pub place: Option<DataPlace>,
}

/// The extents of a file by offset. They do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentMap(BTreeMap<u64, FileExtent>);

impl ExtentMap {
    pub fn iter(&self) -> impl Iterator<Item = (u64, FileExtent)> {
        self.0.iter().map(|(start, extent)| (*start, *extent))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds an extent where there is none.
    pub fn insert(&mut self, start: u64, bytes: u32, place: DataPlace) {
        if bytes > 0 {
            self.0.insert(start, FileExtent { bytes, place });
        }
    }

    /// Makes a range a hole. `freed` receives the chunks and how many of their bytes it had.
    pub fn cut(&mut self, start: u64, end: u64, freed: &mut dyn FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        let before = self.0.range(..start).next_back().map(|(at, extent)| (*at, *extent));
        if let Some((at, extent)) = before.filter(|(at, one)| at + u64::from(one.bytes) > start) {
            let (left, extent_end) = (start - at, at + u64::from(extent.bytes));
            self.insert(at, left as u32, extent.place);
            let cut_end = extent_end.min(end);
            freed(extent.place.chunk, cut_end - start);
            if extent_end > end {
                let at_end = extent.place.at + (end - at) as u32;
                let place = DataPlace { at: at_end, ..extent.place };
                self.insert(end, (extent_end - end) as u32, place);
            }
        }
        while let Some((at, extent)) = self.0.range(start..end).next().map(|(a, e)| (*a, *e)) {
            self.0.remove(&at);
            let extent_end = at + u64::from(extent.bytes);
            freed(extent.place.chunk, extent_end.min(end) - at);
            if extent_end > end {
                let place = DataPlace { at: extent.place.at + (end - at) as u32, ..extent.place };
                self.insert(end, (extent_end - end) as u32, place);
            }
        }
    }

    /// The pieces of a range, holes included.
    pub fn pieces(&self, offset: u64, bytes: u64) -> Vec<FilePiece> {
        let end = offset.saturating_add(bytes);
        let (mut at, mut pieces) = (offset, vec![]);
        let before = self.0.range(..offset).next_back();
        let reaching = before.filter(|(start, one)| *start + u64::from(one.bytes) > offset);
        for (start, extent) in reaching.into_iter().chain(self.0.range(offset..end)) {
            if *start > at {
                pieces.push(FilePiece { offset: at, bytes: start - at, place: None });
                at = *start;
            }
            let skipped = at - start;
            let count = (u64::from(extent.bytes) - skipped).min(end - at);
            let place = DataPlace { at: extent.place.at + skipped as u32, ..extent.place };
            pieces.push(FilePiece { offset: at, bytes: count, place: Some(place) });
            at += count;
        }
        if at < end {
            pieces.push(FilePiece { offset: at, bytes: end - at, place: None });
        }
        pieces
    }

    /// The bytes that are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.0.values().map(|extent| u64::from(extent.bytes)).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn extents_equal_an_array(
            steps in prop::collection::vec((0_u64..300, 0_u64..120, any::<bool>()), 1..60),
        ) {
            let mut map = ExtentMap::default();
            let mut array: Vec<Option<DataPlace>> = vec![None; 700];
            for (chunk, (start, count, is_hole)) in (0..).zip(steps) {
                let mut freed = 0;
                map.cut(start, start + count, &mut |_, bytes| freed += bytes);
                let range = start as usize..(start + count) as usize;
                let held = array[range.clone()].iter().flatten().count();
                prop_assert_eq!(freed, held as u64);
                array[range.clone()].fill(None);
                if !is_hole {
                    map.insert(start, count as u32, DataPlace { chunk, at: 7 });
                    for (at, one) in (7..).zip(&mut array[range]) {
                        *one = Some(DataPlace { chunk, at });
                    }
                }
                for from in [0, start, start + count / 2] {
                    let mut read = vec![];
                    for piece in map.pieces(from, 200) {
                        prop_assert_eq!(piece.offset, from + read.len() as u64);
                        read.extend((0..piece.bytes as u32).map(|n| piece.place.map(|place| {
                            DataPlace { at: place.at + n, ..place }
                        })));
                    }
                    prop_assert_eq!(read.len(), 200);
                    let there = &array[from as usize..from as usize + 200];
                    prop_assert_eq!(&read[..], there);
                }
            }
            let stored = array.iter().flatten().count() as u64;
            prop_assert_eq!(map.stored_bytes(), stored);
        }
    }
}
