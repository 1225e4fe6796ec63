//! States of skewness, kurtosis and geometric means: the number of values, and the sums of their
//! first four powers, as in DuckDB.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use euphrates_flow::Result;

use super::state::AggregateState;
use crate::aggregate::functions::PowerStatistic;
use crate::decimal_floats::cast_nearest;

/// The columns of a state: the number of values, and four sums.
pub(super) const STATE_COLUMNS: usize = 5;

/// The sums of powers of all groups, from the power 0.
pub(crate) struct PowerState {
    sums: Vec<[f64; STATE_COLUMNS]>,
    statistic: PowerStatistic,
}

impl PowerState {
    /// No values, of which this will be made.
    pub(crate) fn new(statistic: PowerStatistic) -> PowerState {
        PowerState { sums: vec![], statistic }
    }
}

impl AggregateState for PowerState {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, [0.0; STATE_COLUMNS]);
    }

    fn add(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        let values = cast_nearest(values.expect("powers are of something"), &DataType::Float64)?;
        let is_log = self.statistic == PowerStatistic::GeometricMean;
        for (group, value) in groups.iter().zip(values.as_primitive::<Float64Type>()) {
            let Some(value) = value else { continue };
            let value = if is_log { value.ln() } else { value };
            let mut power = 1.0;
            for sum in &mut self.sums[*group as usize] {
                *sum += power;
                power *= value;
            }
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32]) -> Result<()> {
        for (power, column) in states.iter().enumerate() {
            let column = column.as_primitive::<Float64Type>();
            for (group, sum) in groups.iter().zip(column) {
                self.sums[*group as usize][power] += sum.unwrap_or(0.0);
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let sums = std::mem::take(&mut self.sums);
        let column = |power: usize| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(sums.iter().map(|sums| sums[power])))
        };
        Ok((0..STATE_COLUMNS).map(column).collect())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let sums = std::mem::take(&mut self.sums);
        let found = sums.iter().map(|sums| made(self.statistic, sums));
        Ok(Arc::new(found.collect::<Float64Array>()))
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.sums[..])
    }
}

/// `None` of too few values, or of values that do not vary.
fn made(statistic: PowerStatistic, sums: &[f64; STATE_COLUMNS]) -> Option<f64> {
    let [n, one, two, three, four] = *sums;
    let varies = |variance: f64| variance > 0.0;
    Some(match statistic {
        PowerStatistic::GeometricMean => (n > 0.0).then(|| (one / n).exp())?,
        PowerStatistic::Skewness => {
            let variance = two - one * one / n;
            if n <= 2.0 || !varies(variance) {
                return None;
            }
            let spread = (variance / n).powi(3).sqrt();
            let third = (three - 3.0 * two * one / n + 2.0 * one.powi(3) / n / n) / n;
            (n * (n - 1.0)).sqrt() / (n - 2.0) * third / spread
        }
        PowerStatistic::Kurtosis | PowerStatistic::KurtosisPop => {
            let is_sample = statistic == PowerStatistic::Kurtosis;
            let fourth = (four - 4.0 * three * one / n + 6.0 * two * one * one / n / n
                - 3.0 * one.powi(4) / n / n / n)
                / n;
            let variance = two / n - one * one / n / n;
            if n <= if is_sample { 3.0 } else { 1.0 } || !varies(variance) {
                return None;
            }
            let excess = fourth / (variance * variance);
            match is_sample {
                true => {
                    (n - 1.0) * ((n + 1.0) * excess - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0))
                }
                false => excess - 3.0,
            }
        }
    })
}
