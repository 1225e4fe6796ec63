//! Requests for rows of a join that other processes hold.

use std::ops::Range;

use super::plan::JoinSide;
use crate::partitioning::spill_store::PartitionSlice;

/// Bits of each number in a request.
const BITS: u32 = 15;
const MASK: u64 = (1 << BITS) - 1;

/// A request for rows of a side: all rows of some parts, or a slice of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowRequest {
    pub(crate) side: JoinSide,
    pub(crate) parts: Range<usize>,
    pub(crate) slice: PartitionSlice,
}

impl RowRequest {
    /// A request for all rows of a part.
    pub(crate) fn part(side: JoinSide, part: usize) -> RowRequest {
        RowRequest { side, parts: part..part + 1, slice: PartitionSlice::WHOLE }
    }

    /// Encodes the request. Parts and slices are fewer than 2^15.
    pub(crate) fn number(&self) -> u64 {
        let numbers = [self.parts.start, self.parts.end, self.slice.number, self.slice.of];
        numbers.iter().fold(self.side as u64, |all, number| all << BITS | *number as u64)
    }

    /// Decodes the number of an exchange request.
    pub(crate) fn of(number: u64) -> RowRequest {
        let at = |digit: u32| (number >> (BITS * digit) & MASK) as usize;
        RowRequest {
            side: JoinSide::of(number >> (BITS * 4)),
            parts: at(3)..at(2),
            slice: PartitionSlice { number: at(1), of: at(0).max(1) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_roundtrip() {
        for side in [JoinSide::Left, JoinSide::Right] {
            for (parts, number, of) in [(0..1, 0, 1), (17..1024, 0, 1), (1023..1024, 511, 4000)] {
                let asked = RowRequest { side, parts, slice: PartitionSlice { number, of } };
                assert_eq!(RowRequest::of(asked.number()), asked);
            }
        }
    }
}
