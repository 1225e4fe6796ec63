//! Sets of bytes as ranges.

use std::ops::Range;

/// Disjoint ranges in ascending order, none of which ends where the next begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range, which may overlap others.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end < range.start);
        let to = self.0.partition_point(|known| known.start <= range.end);
        let touched = &self.0[from..to.max(from)];
        let start = touched.first().map_or(range.start, |known| known.start.min(range.start));
        let end = touched.last().map_or(range.end, |known| known.end.max(range.end));
        self.0.splice(from..to.max(from), std::iter::once(start..end));
    }

    /// Whether they are this one range.
    pub fn is(&self, range: Range<u64>) -> bool {
        self.0 == [range]
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_those_of_a_set_of_numbers(
            added in proptest::collection::vec((0u64..40, 0u64..12), 0..12),
        ) {
            let (mut ranges, mut set) = (Ranges::default(), [false; 60]);
            for (start, count) in added {
                ranges.add(start..start + count);
                set[start as usize..(start + count) as usize].fill(true);
            }
            let all: Vec<Range<u64>> = ranges.iter().collect();
            prop_assert!(all.windows(2).all(|two| two[0].end < two[1].start));
            let members: Vec<u64> = all.into_iter().flatten().collect();
            let expected: Vec<u64> = (0..60).filter(|&at| set[at as usize]).collect();
            prop_assert_eq!(&members, &expected);
        }
    }
}
