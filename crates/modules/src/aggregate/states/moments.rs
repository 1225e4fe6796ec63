//! States of variances and standard deviations: the number of values, their mean, and the sum of
//! the squares of their distances from it (Welford, 1962; merged as by Chan et al., 1979).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use euphrates_flow::Result;

use super::state::AggregateState;
use crate::aggregate::functions::Spread;
use crate::decimal_floats::cast_nearest;

/// The moments of some values.
#[derive(Clone, Copy, Default)]
struct Moments {
    count: i64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn merge(&mut self, other: Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other;
            return;
        }
        let count = (self.count + other.count) as f64;
        let distance = other.mean - self.mean;
        self.squares +=
            other.squares + distance * distance * (self.count as f64 / count) * other.count as f64;
        self.mean += distance * (other.count as f64 / count);
        self.count += other.count;
    }

    /// `None` of too few values.
    fn spread(&self, spread: Spread) -> Option<f64> {
        let divisor = self.count - i64::from(spread.is_sample);
        let variance = (divisor > 0).then(|| self.squares / divisor as f64)?;
        let spread_of_values = if spread.is_root { variance.sqrt() } else { variance };
        Some(match spread.is_of_mean {
            true => spread_of_values / (self.count as f64).sqrt(),
            false => spread_of_values,
        })
    }
}

/// The moments of all groups.
pub(crate) struct SpreadState {
    moments: Vec<Moments>,
    spread: Spread,
}

impl SpreadState {
    pub(crate) fn new(spread: Spread) -> SpreadState {
        SpreadState { moments: vec![], spread }
    }
}

impl AggregateState for SpreadState {
    fn grow(&mut self, groups: usize) {
        self.moments.resize(groups, Moments::default());
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = values.expect("a variance is of something");
        let wide = cast_nearest(values, &DataType::Float64)?;
        let wide = wide.as_primitive::<Float64Type>();
        for (group, value) in groups.iter().zip(wide) {
            if let Some(value) = value {
                self.moments[*group as usize].add(value);
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let counts = states[0].as_primitive::<Int64Type>();
        let [means, squares] = [1, 2].map(|at| states[at].as_primitive::<Float64Type>());
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| counts.is_valid(*row)) {
            let (mean, squares) = (means.value(row), squares.value(row));
            let other = Moments { count: counts.value(row), mean, squares };
            self.moments[*group as usize].merge(other);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let moments = std::mem::take(&mut self.moments);
        let counts = Int64Array::from_iter_values(moments.iter().map(|one| one.count));
        let means = Float64Array::from_iter_values(moments.iter().map(|one| one.mean));
        let squares = Float64Array::from_iter_values(moments.iter().map(|one| one.squares));
        Ok(vec![Arc::new(counts), Arc::new(means), Arc::new(squares)])
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let moments = std::mem::take(&mut self.moments);
        let spreads = moments.iter().map(|one| one.spread(self.spread));
        Ok(Arc::new(spreads.collect::<Float64Array>()))
    }

    fn bytes(&self) -> usize {
        self.moments.len() * size_of::<Moments>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merged_moments_are_those_of_all_values(
            values in prop::collection::vec(-1e6..1e6_f64, 0..40),
            cut in 0..40_usize,
        ) {
            let of = |values: &[f64]| {
                let mut moments = Moments::default();
                values.iter().for_each(|value| moments.add(*value));
                moments
            };
            let (left, right) = values.split_at(cut.min(values.len()));
            let mut merged = of(left);
            merged.merge(of(right));
            let whole = of(&values);
            prop_assert_eq!(merged.count, whole.count);
            prop_assert!((merged.squares - whole.squares).abs() <= whole.squares * 1e-9);
        }
    }
}
