//! Comparisons of byte strings of which many are empty.
//!
//! An empty slice may have an address that is not mapped. A masked load of no bytes from there
//! takes processors with AVX-512 a hundred times as long as a comparison, so lengths come first.

use std::cmp::Ordering;

/// Whether both have the same bytes. Short ones are compared by their first and last words, which
/// overlap: a call takes longer.
#[inline(always)]
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    match one.len() {
        bytes if bytes != other.len() => false,
        0 => true,
        1..4 => {
            let ends = |of: &[u8]| [of[0], of[of.len() / 2], of[of.len() - 1]];
            ends(one) == ends(other)
        }
        4..8 => ends::<4>(one) == ends(other),
        8..=16 => ends::<8>(one) == ends(other),
        _ => one == other,
    }
}

/// The first and the last bytes.
#[inline(always)]
fn ends<const BYTES: usize>(of: &[u8]) -> Option<([u8; BYTES], [u8; BYTES])> {
    Some((*of.first_chunk()?, *of.last_chunk()?))
}

/// The bytes that a string of each length up to 16 has, in a number of 16 bytes.
const MASKS: [u128; 17] = {
    let (mut masks, mut length) = ([0; 17], 1);
    while length < masks.len() {
        masks[length] = u128::MAX >> (128 - 8 * length);
        length += 1;
    }
    masks
};

/// The string of this length at a place, with zeros behind it; `None` if it is longer than 16
/// bytes, or closer to the end, so that it cannot be read with what follows it.
#[inline(always)]
pub(crate) fn short_string(bytes: &[u8], at: usize, length: usize) -> Option<u128> {
    let (mask, chunk) = (MASKS.get(length)?, bytes.get(at..)?.first_chunk()?);
    Some(u128::from_le_bytes(*chunk) & mask)
}

/// Whether strings of one length, each at a place among others, have the same bytes.
#[inline(always)]
pub(crate) fn same_within((one, at): (&[u8], usize), other: (&[u8], usize), length: usize) -> bool {
    match (short_string(one, at, length), short_string(other.0, other.1, length)) {
        (Some(one), Some(other)) => one == other,
        _ => same(&one[at..at + length], &other.0[other.1..other.1 + length]),
    }
}

/// Their order by bytes.
#[inline(always)]
pub(crate) fn order(one: &[u8], other: &[u8]) -> Ordering {
    match one.is_empty() || other.is_empty() {
        true => one.len().cmp(&other.len()),
        false => one.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_those_of_slices() {
        // Of each length up to 20, and one with each of its bytes changed.
        let whole: Vec<Vec<u8>> = (0..=20).map(|bytes| (1..=bytes).collect()).collect();
        let changed = whole.iter().flat_map(|of| {
            (0..of.len()).map(|at| {
                let mut other = of.clone();
                other[at] ^= 0x80;
                other
            })
        });
        let all: Vec<Vec<u8>> = whole.iter().cloned().chain(changed).collect();
        for one in &all {
            for other in &all {
                assert_eq!(same(one, other), one == other, "{one:?} {other:?}");
                assert_eq!(order(one, other), one.cmp(other));
            }
        }
    }

    #[test]
    fn strings_among_others_are_compared_by_their_own_bytes() {
        let (one, other): (Vec<u8>, Vec<u8>) = ((0..60).collect(), (1..61).collect());
        for length in 0..30 {
            for at in 0..30 {
                // Those of `other` begin one value later.
                assert!(same_within((&one, at + 1), (&other, at), length), "{at} {length}");
                assert_eq!(same_within((&one, at), (&other, at), length), length == 0);
            }
        }
        assert_eq!(short_string(b"0123456789abcdefg", 1, 2), Some(0x3231));
        assert_eq!(short_string(b"0123456789abcdefg", 2, 2), None, "fewer than 16 follow");
        assert_eq!(short_string(&one, 0, 17), None);
    }
}
