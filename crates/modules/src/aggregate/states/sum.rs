//! States of `sum` and `avg`: integers and decimals in 128 bits, floats in 64.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Float64Array};
use arrow::array::{Int64Array, PrimitiveArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal64Type, Decimal128Type, Float64Type, Int64Type, UInt64Type,
};
use euphrates_flow::{Error, Result};

use super::lanes::{self, Summand};
use super::state::SeenGroups;
use crate::decimal_floats::{cast_nearest, mean};

/// The largest value with 38 digits.
const DECIMAL_MAX: i128 = 10i128.pow(38) - 1;

/// The sums of all groups, for sums and means.
pub(crate) trait Sum: Send {
    /// Grows to `groups` groups.
    fn grow(&mut self, groups: usize);

    /// Adds values, or partial sums, to their groups.
    fn add(&mut self, values: &ArrayRef, groups: &[u32]) -> Result<()>;

    /// Takes the sums as a state column.
    fn take(&mut self) -> ArrayRef;

    /// Takes the sums in the output type.
    fn finish(&mut self, output: &DataType) -> Result<ArrayRef>;

    /// Takes the sums divided by these counts.
    fn means(&mut self, counts: &[i64]) -> ArrayRef;

    /// Bytes of the sums of all groups.
    fn bytes(&self) -> usize;
}

/// Sums of integers and decimals.
pub(crate) struct WideSum {
    sums: Vec<i128>,
    seen: SeenGroups,
    /// Whether a batch had values whose sum may have more than 64 bits.
    has_large: bool,
    /// The type of the state column.
    data_type: DataType,
    name: String,
}

impl WideSum {
    /// Sums for the value of this name.
    pub(crate) fn new(data_type: DataType, name: &str) -> WideSum {
        let (sums, seen) = (vec![], SeenGroups::default());
        WideSum { sums, seen, has_large: false, data_type, name: name.into() }
    }

    fn too_large(&self, output: &DataType) -> Error {
        let error = Error::failed(format!("the sum `{}` is too large for {output}", self.name));
        error.remedy(match output {
            DataType::Decimal128(..) => "cast what is summed to double",
            _ => "cast what is summed to decimal(38, 0) or double",
        })
    }
}

impl WideSum {
    /// Adds values to few groups; returns whether it has. Values that overflow are added elsewhere.
    fn add_in_lanes<T: ArrowPrimitiveType<Native: Summand>>(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[u32],
    ) -> bool {
        let count = self.sums.len();
        if values.null_count() > 0 || !lanes::pays(values.len(), count) {
            return false;
        }
        let Some(more) = self.sums_in_lanes(values.values(), groups) else { return false };
        let sums = self.sums.iter().zip(&more).map(|(sum, more)| sum.checked_add(*more));
        let Some(sums) = sums.collect::<Option<Vec<i128>>>() else { return false };
        self.sums = sums;
        self.seen.all(groups);
        true
    }

    fn sums_in_lanes<T: Summand>(&mut self, values: &[T], groups: &[u32]) -> Option<Vec<i128>> {
        let count = self.sums.len();
        let narrow = (!self.has_large).then(|| lanes::narrow_sums(values, groups, count)).flatten();
        if let Some(sums) = narrow {
            return Some(sums.into_iter().map(i128::from).collect());
        }
        self.has_large = true;
        lanes::wide_sums(values, groups, count)
    }
}

impl Sum for WideSum {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.seen.grow(groups);
    }

    fn add(&mut self, values: &ArrayRef, groups: &[u32]) -> Result<()> {
        let fits = match values.data_type() {
            DataType::UInt64 => add_all(
                values.as_primitive::<UInt64Type>(),
                groups,
                &mut self.seen,
                |group, value| {
                    self.sums[group] += i128::from(value);
                    true
                },
            ),
            DataType::Decimal64(..) => {
                let narrow = values.as_primitive::<Decimal64Type>();
                if self.add_in_lanes(narrow, groups) {
                    return Ok(());
                }
                add_all(narrow, groups, &mut self.seen, |group, value| {
                    let (sum, over) = self.sums[group].overflowing_add(value.into());
                    self.sums[group] = sum;
                    !over
                })
            }
            DataType::Decimal32(..) | DataType::Decimal128(..) => {
                let wide = match values.data_type() {
                    DataType::Decimal128(..) => values.clone(),
                    _ => cast(values, &self.data_type)?,
                };
                let wide = wide.as_primitive::<Decimal128Type>();
                if self.add_in_lanes(wide, groups) {
                    return Ok(());
                }
                add_all(wide, groups, &mut self.seen, |group, value| {
                    let (sum, over) = self.sums[group].overflowing_add(value);
                    self.sums[group] = sum;
                    !over
                })
            }
            _ => {
                let wide = cast(values, &DataType::Int64)?;
                let wide = wide.as_primitive::<Int64Type>();
                if self.add_in_lanes(wide, groups) {
                    return Ok(());
                }
                add_all(wide, groups, &mut self.seen, |group, value| {
                    self.sums[group] += i128::from(value);
                    true
                })
            }
        };
        if fits { Ok(()) } else { Err(self.too_large(&self.data_type)) }
    }

    fn take(&mut self) -> ArrayRef {
        let sums = Decimal128Array::new(std::mem::take(&mut self.sums).into(), self.seen.take());
        Arc::new(sums.with_data_type(self.data_type.clone()))
    }

    fn finish(&mut self, output: &DataType) -> Result<ArrayRef> {
        let (sums, nulls) = (std::mem::take(&mut self.sums), self.seen.take());
        Ok(match output {
            DataType::Int64 => {
                let narrow = narrow::<i64>(&sums).ok_or_else(|| self.too_large(output))?;
                Arc::new(Int64Array::new(narrow.into(), nulls))
            }
            DataType::UInt64 => {
                let narrow = narrow::<u64>(&sums).ok_or_else(|| self.too_large(output))?;
                Arc::new(UInt64Array::new(narrow.into(), nulls))
            }
            _ if sums.iter().any(|sum| !(-DECIMAL_MAX..=DECIMAL_MAX).contains(sum)) => {
                return Err(self.too_large(output));
            }
            _ => Arc::new(Decimal128Array::new(sums.into(), nulls).with_data_type(output.clone())),
        })
    }

    fn means(&mut self, counts: &[i64]) -> ArrayRef {
        let scale = match self.data_type {
            DataType::Decimal128(_, scale) => scale,
            _ => 0,
        };
        let sums = std::mem::take(&mut self.sums);
        let mean_of = |(sum, count): (&i128, &i64)| mean(*sum, scale, *count);
        let means: Vec<f64> = sums.iter().zip(counts).map(mean_of).collect();
        Arc::new(Float64Array::new(means.into(), self.seen.take()))
    }

    fn bytes(&self) -> usize {
        self.sums.len() * size_of::<i128>() + self.seen.bytes()
    }
}

/// The sums in a narrower type; `None` if one does not fit.
fn narrow<T: TryFrom<i128>>(sums: &[i128]) -> Option<Vec<T>> {
    sums.iter().map(|sum| T::try_from(*sum).ok()).collect()
}

/// Sums of floating point numbers.
#[derive(Default)]
pub(crate) struct FloatSum {
    sums: Vec<f64>,
    seen: SeenGroups,
}

impl Sum for FloatSum {
    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0.0);
        self.seen.grow(groups);
    }

    fn add(&mut self, values: &ArrayRef, groups: &[u32]) -> Result<()> {
        let wide = cast_nearest(values, &DataType::Float64)?;
        add_all(wide.as_primitive::<Float64Type>(), groups, &mut self.seen, |group, value| {
            self.sums[group] += value;
            true
        });
        Ok(())
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(Float64Array::new(std::mem::take(&mut self.sums).into(), self.seen.take()))
    }

    fn finish(&mut self, _: &DataType) -> Result<ArrayRef> {
        Ok(self.take())
    }

    fn means(&mut self, counts: &[i64]) -> ArrayRef {
        let sums = std::mem::take(&mut self.sums);
        let means: Vec<f64> =
            sums.iter().zip(counts).map(|(sum, count)| sum / *count as f64).collect();
        Arc::new(Float64Array::new(means.into(), self.seen.take()))
    }

    fn bytes(&self) -> usize {
        self.sums.len() * size_of::<f64>() + self.seen.bytes()
    }
}

/// Adds each value that is not null to its group; returns false if one overflowed.
#[inline(always)]
fn add_all<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    groups: &[u32],
    seen: &mut SeenGroups,
    mut add: impl FnMut(usize, T::Native) -> bool,
) -> bool {
    let mut fits = true;
    match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => {
            for (group, value) in groups.iter().zip(values.values().iter()) {
                fits &= add(*group as usize, *value);
            }
            seen.all(groups);
        }
        Some(nulls) => {
            for row in nulls.valid_indices() {
                fits &= add(groups[row] as usize, values.values()[row]);
            }
            seen.some(nulls.valid_indices().map(|row| groups[row]));
        }
    }
    fits
}
