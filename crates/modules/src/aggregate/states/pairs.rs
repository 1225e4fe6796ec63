//! States of covariances, correlations and regressions: the moments of pairs of numbers (Chan et
//! al., 1979). Pairs with a null are left out.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use euphrates_flow::Result;

use super::state::AggregateState;
use crate::aggregate::functions::PairStatistic;
use crate::decimal_floats::cast_nearest;

/// The number of columns of a state.
pub(super) const STATE_COLUMNS: usize = 6;

/// The moments of some pairs.
#[derive(Clone, Copy, Default)]
struct PairMoments {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    /// Sums of the products of distances from the means.
    xx: f64,
    yy: f64,
    xy: f64,
}

impl PairMoments {
    fn add(&mut self, y: f64, x: f64) {
        self.count += 1.0;
        let (from_x, from_y) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += from_x / self.count;
        self.mean_y += from_y / self.count;
        self.xx += from_x * (x - self.mean_x);
        self.yy += from_y * (y - self.mean_y);
        self.xy += from_x * (y - self.mean_y);
    }

    fn merge(&mut self, other: PairMoments) {
        if self.count == 0.0 {
            *self = other;
            return;
        }
        let count = self.count + other.count;
        let (apart_x, apart_y) = (other.mean_x - self.mean_x, other.mean_y - self.mean_y);
        let weight = self.count / count * other.count;
        self.xx += other.xx + apart_x * apart_x * weight;
        self.yy += other.yy + apart_y * apart_y * weight;
        self.xy += other.xy + apart_x * apart_y * weight;
        self.mean_x += apart_x * (other.count / count);
        self.mean_y += apart_y * (other.count / count);
        self.count = count;
    }

    /// The statistic; `None` of too few pairs.
    fn statistic(&self, statistic: PairStatistic) -> Option<f64> {
        let PairMoments { count, mean_x, mean_y, xx, yy, xy } = *self;
        let some = |value: f64, pairs: f64| (count >= pairs).then_some(value);
        let varies = |value: f64, sum: f64| (count >= 1.0 && sum > 0.0).then_some(value);
        match statistic {
            PairStatistic::CovarPop => some(xy / count, 1.0),
            PairStatistic::CovarSamp => some(xy / (count - 1.0), 2.0),
            PairStatistic::Corr => varies(xy / (xx.sqrt() * yy.sqrt()), xx.min(yy)),
            PairStatistic::Slope => varies(xy / xx, xx),
            PairStatistic::Intercept => varies(mean_y - xy / xx * mean_x, xx),
            PairStatistic::R2 if yy == 0.0 => varies(1.0, xx),
            PairStatistic::R2 => varies(xy / xx * (xy / yy), xx),
            PairStatistic::Count => Some(count),
            PairStatistic::AvgX => some(mean_x, 1.0),
            PairStatistic::AvgY => some(mean_y, 1.0),
            PairStatistic::Sxx => some(xx, 1.0),
            PairStatistic::Syy => some(yy, 1.0),
            PairStatistic::Sxy => some(xy, 1.0),
        }
    }
}

/// The moments of all groups.
pub(crate) struct PairState {
    moments: Vec<PairMoments>,
    statistic: PairStatistic,
}

impl PairState {
    pub(crate) fn new(statistic: PairStatistic) -> PairState {
        PairState { moments: vec![], statistic }
    }
}

impl AggregateState for PairState {
    fn grow(&mut self, groups: usize) {
        self.moments.resize(groups, PairMoments::default());
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let pairs = values.expect("a covariance is of something").as_struct();
        let number = |at: usize| cast_nearest(pairs.column(at), &DataType::Float64);
        let (y, x) = (number(0)?, number(1)?);
        let pairs = y.as_primitive::<Float64Type>().iter().zip(x.as_primitive::<Float64Type>());
        for (group, pair) in groups.iter().zip(pairs) {
            if let (Some(y), Some(x)) = pair {
                self.moments[*group as usize].add(y, x);
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let columns: Vec<&Float64Array> =
            states.iter().map(|column| column.as_primitive::<Float64Type>()).collect();
        let is_some = |row: usize| columns[0].is_valid(row) && columns[0].value(row) > 0.0;
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| is_some(*row)) {
            let value = |at: usize| columns[at].value(row);
            self.moments[*group as usize].merge(PairMoments {
                count: value(0),
                mean_x: value(1),
                mean_y: value(2),
                xx: value(3),
                yy: value(4),
                xy: value(5),
            });
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let moments = std::mem::take(&mut self.moments);
        let column = |of: fn(&PairMoments) -> f64| {
            Arc::new(Float64Array::from_iter_values(moments.iter().map(of))) as ArrayRef
        };
        let columns: [fn(&PairMoments) -> f64; STATE_COLUMNS] =
            [|m| m.count, |m| m.mean_x, |m| m.mean_y, |m| m.xx, |m| m.yy, |m| m.xy];
        Ok(columns.into_iter().map(column).collect())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let moments = std::mem::take(&mut self.moments);
        let results = moments.iter().map(|one| one.statistic(self.statistic));
        let results: Float64Array = results.collect();
        match self.statistic {
            PairStatistic::Count => Ok(arrow::compute::cast(&results, &DataType::Int64)?),
            _ => Ok(Arc::new(results)),
        }
    }

    fn bytes(&self) -> usize {
        self.moments.len() * size_of::<PairMoments>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merged_moments_are_those_of_all_pairs(
            pairs in prop::collection::vec((-1e3..1e3_f64, -1e3..1e3_f64), 0..40),
            cut in 0..40_usize,
        ) {
            let of = |pairs: &[(f64, f64)]| {
                let mut moments = PairMoments::default();
                pairs.iter().for_each(|(y, x)| moments.add(*y, *x));
                moments
            };
            let (left, right) = pairs.split_at(cut.min(pairs.len()));
            let (mut merged, whole) = (of(left), of(&pairs));
            merged.merge(of(right));
            prop_assert_eq!(merged.count, whole.count);
            let scale = (whole.xx * whole.yy).sqrt();
            prop_assert!((merged.xy - whole.xy).abs() <= 1e-9 * scale);
            prop_assert!((merged.xx - whole.xx).abs() <= 1e-9 * whole.xx);
        }
    }
}
