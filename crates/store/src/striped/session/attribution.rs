//! The sender of each byte of a stripe that several writers fill.

use std::collections::BTreeMap;
use std::ops::Range;

const RANGE_BYTES: usize = size_of::<(u64, (u64, u32))>();

/// Disjoint ranges, each with its sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Attribution {
    /// End and sender by the beginning.
    ranges: BTreeMap<u64, (u64, u32)>,
    bytes: u64,
}

impl Attribution {
    /// Memory that a range more takes, at most: it may cut another one in two.
    pub const RANGE_BYTES_MAX: usize = 2 * RANGE_BYTES;

    /// Assigns a range to a sender. Returns the other senders that had bytes of it, each with the
    /// first of these, which are not theirs any more.
    pub fn assign(&mut self, range: Range<u64>, sender: u32) -> Vec<(u32, u64)> {
        let mut before = vec![];
        if range.is_empty() {
            return before;
        }
        let first = self.ranges.range(..range.start).next_back();
        let from = first.filter(|(_, (end, _))| *end > range.start).map_or(range.start, |it| *it.0);
        let met: Vec<u64> = self.ranges.range(from..range.end).map(|(start, _)| *start).collect();
        for start in met {
            let (end, other) = self.ranges.remove(&start).expect("it was found");
            let common = start.max(range.start)..end.min(range.end);
            self.bytes -= common.end - common.start;
            if start < common.start {
                self.ranges.insert(start, (common.start, other));
            }
            if end > common.end {
                self.ranges.insert(common.end, (end, other));
            }
            if other != sender && before.iter().all(|(known, _)| *known != other) {
                before.push((other, common.start));
            }
        }
        self.bytes += range.end - range.start;
        self.insert(range, sender);
        before
    }

    /// Inserts a range that no other meets. It is joined with those of its sender that touch it.
    fn insert(&mut self, range: Range<u64>, sender: u32) {
        let Range { mut start, mut end } = range;
        if let Some((&before, &(touches, of))) = self.ranges.range(..start).next_back()
            && (touches, of) == (start, sender)
        {
            start = before;
        }
        if let Some(&(after, of)) = self.ranges.get(&end)
            && of == sender
        {
            self.ranges.remove(&end);
            end = after;
        }
        self.ranges.insert(start, (end, sender));
    }

    /// Bytes that have a sender.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn ranges(&self) -> impl Iterator<Item = (Range<u64>, u32)> {
        self.ranges.iter().map(|(&start, &(end, sender))| (start..end, sender))
    }

    /// Memory of the ranges.
    pub fn memory(&self) -> usize {
        self.ranges.len() * RANGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_has_its_last_sender_and_the_others_are_named(
            acts in proptest::collection::vec((0u64..40, 0u64..12, 0u32..4), 0..20),
        ) {
            let (mut ranges, mut model) = (Attribution::default(), [None; 60]);
            for (start, count, sender) in acts {
                let range = start..start + count;
                let mut expected = vec![];
                for at in range.clone() {
                    let other: Option<u32> = model[at as usize].replace(sender);
                    let is_new = |other: &u32| {
                        *other != sender && expected.iter().all(|(known, _)| known != other)
                    };
                    if let Some(other) = other.filter(is_new) {
                        expected.push((other, at));
                    }
                }
                prop_assert_eq!(ranges.assign(range, sender), expected);
            }
            let found: Vec<(Range<u64>, u32)> = ranges.ranges().collect();
            let touching = |two: &[(Range<u64>, u32)]| {
                two[0].0.end > two[1].0.start
                    || (two[0].0.end == two[1].0.start && two[0].1 == two[1].1)
            };
            prop_assert!(!found.windows(2).any(touching), "{:?}", found);
            let mut all = [None; 60];
            for (range, sender) in found {
                range.for_each(|at| all[at as usize] = Some(sender));
            }
            prop_assert_eq!(all, model);
            prop_assert_eq!(ranges.bytes(), model.iter().flatten().count() as u64);
        }
    }
}
