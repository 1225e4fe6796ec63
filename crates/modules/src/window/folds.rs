//! Combines the values of each frame: step by step where frames grow, else by a segment tree (Leis
//! et al., VLDB 2015).

use std::ops::Range;

/// The rows of a frame that are combined.
pub(crate) enum FoldedRows<'a> {
    /// All; these are the partitions, and there is a frame for each row.
    All(&'a [Range<usize>]),
    /// Those whose value does not come again in the frame. For each row, the one before it that has
    /// the same value.
    Distinct(&'a [Option<usize>]),
}

impl FoldedRows<'_> {
    /// The values of each frame combined; `None` if there are none. `join` is associative.
    pub(crate) fn fold<T: Copy>(
        &self,
        frames: &[Range<usize>],
        value: impl Fn(usize) -> Option<T>,
        join: impl Fn(T, T) -> T,
    ) -> Vec<Option<T>> {
        match self {
            FoldedRows::All(partitions) => fold_frames(frames, partitions, value, join),
            FoldedRows::Distinct(before) => fold_distinct(frames, before, value, join),
        }
    }
}

/// Combines each value of a frame once, where it comes last: a value leaves its place in the tree
/// when it comes again, so frames are visited by their ends.
fn fold_distinct<T: Copy>(
    frames: &[Range<usize>],
    before: &[Option<usize>],
    value: impl Fn(usize) -> Option<T>,
    join: impl Fn(T, T) -> T,
) -> Vec<Option<T>> {
    let both = |a: Option<T>, b: Option<T>| match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, None) | (None, one) => one,
    };
    let mut by_end: Vec<usize> = (0..frames.len()).collect();
    by_end.sort_unstable_by_key(|at| frames[*at].end);
    let mut tree = SegmentTree::new(before.len(), |_| None, &both);
    let mut folded = vec![None; frames.len()];
    let mut added = 0;
    for at in by_end {
        let frame = &frames[at];
        for row in added..frame.end {
            if let Some(before) = before[row] {
                tree.set(before, None, &both);
            }
            tree.set(row, value(row), &both);
        }
        added = added.max(frame.end);
        folded[at] = tree.fold(frame.clone(), &both);
    }
    folded
}

/// For each row, the values of its frame combined; `None` if there are none. `join` is associative.
pub(crate) fn fold_frames<T: Copy>(
    frames: &[Range<usize>],
    partitions: &[Range<usize>],
    value: impl Fn(usize) -> Option<T>,
    join: impl Fn(T, T) -> T,
) -> Vec<Option<T>> {
    let mut folded = Vec::with_capacity(frames.len());
    let both = |a: Option<T>, b: Option<T>| match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, None) | (None, one) => one,
    };
    for whole in partitions {
        let inside = &frames[whole.clone()];
        let grows = inside.windows(2).all(|pair| {
            pair[0].start == pair[1].start && pair[0].end <= pair[1].end || pair[0] == pair[1]
        });
        if grows {
            let mut sum = None;
            let mut end = inside.first().map_or(0, |frame| frame.start);
            for frame in inside {
                for row in end..frame.end {
                    sum = both(sum, value(row));
                }
                end = end.max(frame.end);
                folded.push(sum);
            }
            continue;
        }
        let tree = SegmentTree::new(whole.len(), |at| value(whole.start + at), &both);
        let offset = whole.start;
        let ask = |frame: &Range<usize>| tree.fold(frame.start - offset..frame.end - offset, &both);
        folded.extend(inside.iter().map(ask));
    }
    folded
}

/// Like `fold_frames`, for any frames within these rows.
pub(crate) fn fold_any<T: Copy>(
    frames: &[Range<usize>],
    rows: &Range<usize>,
    value: impl Fn(usize) -> Option<T>,
    join: impl Fn(T, T) -> T,
) -> Vec<Option<T>> {
    let both = |a: Option<T>, b: Option<T>| match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, None) | (None, one) => one,
    };
    let tree = SegmentTree::new(rows.len(), |at| value(rows.start + at), &both);
    let ask =
        |frame: &Range<usize>| tree.fold(frame.start - rows.start..frame.end - rows.start, &both);
    frames.iter().map(ask).collect()
}

/// Values, and their combinations by pairs, pairs of pairs and so on: leaves are at `len..`.
struct SegmentTree<T> {
    nodes: Vec<Option<T>>,
    len: usize,
}

impl<T: Copy> SegmentTree<T> {
    fn new(
        rows: usize,
        value: impl Fn(usize) -> Option<T>,
        both: &impl Fn(Option<T>, Option<T>) -> Option<T>,
    ) -> SegmentTree<T> {
        // With a power of two, the left child is before the right one on every level.
        let len = rows.next_power_of_two();
        let mut nodes = vec![None; 2 * len];
        for (row, node) in nodes[len..len + rows].iter_mut().enumerate() {
            *node = value(row);
        }
        for at in (1..len).rev() {
            nodes[at] = both(nodes[2 * at], nodes[2 * at + 1]);
        }
        SegmentTree { nodes, len }
    }

    fn set(
        &mut self,
        row: usize,
        value: Option<T>,
        both: &impl Fn(Option<T>, Option<T>) -> Option<T>,
    ) {
        let mut at = self.len + row;
        self.nodes[at] = value;
        while at > 1 {
            at /= 2;
            self.nodes[at] = both(self.nodes[2 * at], self.nodes[2 * at + 1]);
        }
    }

    fn fold(
        &self,
        range: Range<usize>,
        both: &impl Fn(Option<T>, Option<T>) -> Option<T>,
    ) -> Option<T> {
        let (mut left, mut right) = (range.start + self.len, range.end + self.len);
        let (mut before, mut after) = (None, None);
        while left < right {
            if left % 2 == 1 {
                before = both(before, self.nodes[left]);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                after = both(self.nodes[right], after);
            }
            left /= 2;
            right /= 2;
        }
        both(before, after)
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn distinct_values_are_combined_once(
            values in prop::collection::vec(0..6_usize, 1..30),
            bounds in prop::collection::vec((0..30_usize, 0..30_usize), 1..30),
        ) {
            let previous = |row: usize| (0..row).rev().find(|at| values[*at] == values[row]);
            let before: Vec<Option<usize>> = (0..values.len()).map(previous).collect();
            let frame = |(start, end): &(usize, usize)| {
                let start = *start.min(&values.len());
                start..(*end).clamp(start, values.len())
            };
            let frames: Vec<Range<usize>> = bounds.iter().map(frame).collect();
            let rows = FoldedRows::Distinct(&before);
            let found = rows.fold(&frames, |row| Some(values[row]), |a, b| a + b);
            let alone = |frame: &Range<usize>| {
                let distinct: std::collections::HashSet<_> = values[frame.clone()].iter().collect();
                distinct.into_iter().copied().reduce(|a, b| a + b)
            };
            prop_assert_eq!(found, frames.iter().map(alone).collect::<Vec<_>>());
        }

        #[test]
        fn folds_are_those_of_every_frame_alone(
            values in prop::collection::vec(prop::option::of(0..100_i64), 1..40),
            offsets in prop::collection::vec((0..40_usize, 0..40_usize), 40),
            grows in any::<bool>(),
        ) {
            let rows = values.len();
            let frame = |row: usize| match grows {
                true => 0..row + 1,
                false => {
                    let start = offsets[row].0.min(rows);
                    start..offsets[row].1.clamp(start, rows)
                }
            };
            let frames: Vec<Range<usize>> = (0..rows).map(frame).collect();
            let found = fold_frames(&frames, from_ref(&(0..rows)), |row| values[row], |a, b| a + b);
            let alone = |frame: &Range<usize>| {
                values[frame.clone()].iter().flatten().copied().reduce(|a, b| a + b)
            };
            prop_assert_eq!(found, frames.iter().map(alone).collect::<Vec<_>>());
        }
    }
}
