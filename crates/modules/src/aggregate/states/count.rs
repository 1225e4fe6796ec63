//! The state of `count`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use euphrates_flow::Result;

use super::lanes::{LANE_GROUPS_MAX, LANES};
use super::state::AggregateState;

/// The number of rows, or of values, of each group.
#[derive(Default)]
pub(super) struct CountState(pub(super) Vec<i64>);

impl CountState {
    /// Counts rows of few groups: neighbouring rows in turn in several counts.
    fn count_in_lanes(&mut self, groups: &[u32]) {
        let mut lanes = [[0_i64; LANE_GROUPS_MAX]; LANES];
        let (of_lanes, last) = groups.as_chunks::<LANES>();
        for groups in of_lanes {
            for lane in 0..LANES {
                lanes[lane][groups[lane] as usize % LANE_GROUPS_MAX] += 1;
            }
        }
        last.iter().for_each(|group| self.0[*group as usize] += 1);
        for lane in &lanes {
            self.0.iter_mut().zip(lane).for_each(|(count, more)| *count += more);
        }
    }
}

impl AggregateState for CountState {
    fn grow(&mut self, groups: usize) {
        self.0.resize(groups, 0);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let nulls = values.and_then(|values| values.logical_nulls());
        if let [count] = &mut self.0[..] {
            *count += (groups.len() - nulls.map_or(0, |nulls| nulls.null_count())) as i64;
            return Ok(());
        }
        match nulls {
            Some(nulls) if nulls.null_count() > 0 => {
                let rows = groups.iter().zip(nulls.iter());
                rows.for_each(|(group, valid)| self.0[*group as usize] += i64::from(valid));
            }
            _ if self.0.len() <= LANE_GROUPS_MAX => self.count_in_lanes(groups),
            _ => groups.iter().for_each(|group| self.0[*group as usize] += 1),
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let counts = states[0].as_primitive::<Int64Type>();
        match counts.nulls() {
            Some(nulls) => nulls.valid_indices().for_each(|row| {
                self.0[groups[row] as usize] += counts.value(row);
            }),
            None => {
                let rows = groups.iter().zip(counts.values());
                rows.for_each(|(group, count)| self.0[*group as usize] += count);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.0))))
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<i64>()
    }
}
