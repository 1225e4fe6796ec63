//! Aggregation states over frames of any kind: states of rows, of pairs of them, of pairs of pairs
//! and so on, of which each frame merges a few (Leis et al., VLDB 2015).

use std::ops::Range;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use euphrates_flow::Result;

use crate::aggregate::states::{AggregateState, FunctionKind};

/// The states of a column, as columns for each level.
pub(crate) struct StateTree<'a> {
    kind: &'a FunctionKind,
    levels: Vec<Vec<ArrayRef>>,
}

impl StateTree<'_> {
    /// The states of all rows, which are of these values.
    pub(crate) fn new<'a>(
        kind: &'a FunctionKind,
        values: Option<&ArrayRef>,
        rows: usize,
    ) -> Result<StateTree<'a>> {
        let mut leaves = kind.start("a window");
        leaves.grow(rows);
        leaves.add(values, &(0..rows as u32).collect::<Vec<_>>())?;
        let mut levels = vec![leaves.take()?];
        let mut nodes = rows;
        while nodes > 1 {
            let parents: Vec<u32> = (0..nodes as u32).map(|node| node / 2).collect();
            nodes = nodes.div_ceil(2);
            let mut state = kind.start("a window");
            state.grow(nodes);
            state.merge(&levels[levels.len() - 1], &parents)?;
            levels.push(state.take()?);
        }
        Ok(StateTree { kind, levels })
    }

    /// The value of each frame, which has one or more pieces.
    pub(crate) fn of_frames<const N: usize>(
        &self,
        frames: &[[Range<usize>; N]],
    ) -> Result<ArrayRef> {
        let mut state = without_values(self.kind, "a window", frames.len())?;
        let mut open: Vec<[Range<usize>; N]> = frames.to_vec();
        for level in &self.levels {
            let (mut nodes, mut groups) = (vec![], vec![]);
            let pieces = open.iter_mut().enumerate();
            for (group, range) in
                pieces.flat_map(|(at, frame)| frame.iter_mut().map(move |it| (at, it)))
            {
                if range.start >= range.end {
                    continue;
                }
                if range.start % 2 == 1 {
                    nodes.push(range.start as u32);
                    groups.push(group as u32);
                    range.start += 1;
                }
                if range.end % 2 == 1 {
                    range.end -= 1;
                    if range.end >= range.start {
                        nodes.push(range.end as u32);
                        groups.push(group as u32);
                    }
                }
                *range = range.start / 2..range.end / 2;
            }
            if nodes.is_empty() {
                continue;
            }
            let nodes = UInt32Array::from(nodes);
            let states = level.iter().map(|states| take(states, &nodes, None));
            state.merge(&states.collect::<std::result::Result<Vec<_>, _>>()?, &groups)?;
        }
        state.finish()
    }
}

/// The state of a group for each frame, none of which has seen a value: frames may be without rows,
/// and a state takes groups that it is not told of for groups with values.
pub(crate) fn without_values(
    kind: &FunctionKind,
    name: &str,
    frames: usize,
) -> Result<Box<dyn AggregateState>> {
    let mut none = kind.start(name);
    none.grow(frames);
    let mut state = kind.start(name);
    state.grow(frames);
    state.merge(&none.take()?, &(0..frames as u32).collect::<Vec<_>>())?;
    Ok(state)
}
