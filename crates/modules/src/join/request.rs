//! What a join's part in one process asks those in others for.

use std::ops::Range;

use super::plan::Side;
use crate::store::Slice;

/// Bits of a number in a request.
const BITS: u32 = 15;
const MASK: u64 = (1 << BITS) - 1;

/// Rows of a side: those of some parts, or a slice of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose rows.
    pub side: Side,
    /// Of which parts.
    pub parts: Range<usize>,
    /// Which of them.
    pub slice: Slice,
}

impl Request {
    /// All rows of a part.
    pub fn part(side: Side, part: usize) -> Request {
        Request { side, parts: part..part + 1, slice: Slice::WHOLE }
    }

    /// As a number, which is how it travels. Parts and slices are fewer than 2^15.
    pub fn number(&self) -> u64 {
        let numbers = [self.parts.start, self.parts.end, self.slice.number, self.slice.of];
        numbers.iter().fold(self.side as u64, |all, number| all << BITS | *number as u64)
    }

    /// What a number asks for.
    pub fn of(number: u64) -> Request {
        let at = |place: u32| (number >> (BITS * place) & MASK) as usize;
        Request {
            side: Side::of(number >> (BITS * 4)),
            parts: at(3)..at(2),
            slice: Slice { number: at(1), of: at(0).max(1) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_understood() {
        for side in [Side::Left, Side::Right] {
            for (parts, number, of) in [(0..1, 0, 1), (17..1024, 0, 1), (1023..1024, 511, 4000)] {
                let asked = Request { side, parts, slice: Slice { number, of } };
                assert_eq!(Request::of(asked.number()), asked);
            }
        }
    }
}
