//! Comparisons of byte strings of which many are empty.
//!
//! An empty slice may have an address that is not mapped. A masked load of no bytes from there
//! takes processors with AVX-512 a hundred times as long as a comparison, so lengths come first.

use std::cmp::Ordering;

/// Whether both have the same bytes.
#[inline(always)]
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
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
        let all: [&[u8]; 5] = [b"", b"a", b"ab", b"b", b"\0"];
        for one in all {
            for other in all {
                assert_eq!(same(one, other), one == other);
                assert_eq!(order(one, other), one.cmp(other));
            }
        }
    }
}
