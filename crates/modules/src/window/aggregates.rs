//! Aggregates over frames.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, UInt32Array, UInt64Array,
    make_comparator,
};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use euphrates_flow::{Error, Result};

use super::folds::{FoldedRows, fold_frames};
use super::syntax::WindowFunction;
use crate::canonical_floats::canonical_floats;
use crate::decimal_floats::{cast_nearest, mean};

/// The largest unscaled value of a decimal of 38 digits.
const DECIMAL_MAX: i128 = 10_i128.pow(38) - 1;

/// The type of a sum.
pub(crate) fn sum_type(values: &DataType) -> Result<DataType> {
    Ok(match values {
        unsigned if unsigned.is_unsigned_integer() => DataType::UInt64,
        signed if signed.is_integer() => DataType::Int64,
        float if float.is_floating() => DataType::Float64,
        DataType::Null => DataType::Int64,
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
        other => {
            let error = Error::usage(format!("a window has no sum of {other}"));
            return Err(error.remedy("convert it with CAST(… AS DOUBLE)"));
        }
    })
}

/// The number of rows of each frame, or of its values that are not null.
pub(crate) fn counts(values: Option<&ArrayRef>, frames: &[Range<usize>]) -> ArrayRef {
    let Some(nulls) = values.and_then(|values| values.logical_nulls()) else {
        return Arc::new(Int64Array::from_iter_values(frames.iter().map(|it| it.len() as i64)));
    };
    let before = valid_before(nulls.iter());
    let counts = frames.iter().map(|frame| before[frame.end] - before[frame.start]);
    Arc::new(Int64Array::from_iter_values(counts))
}

fn valid_before(valid: impl Iterator<Item = bool>) -> Vec<i64> {
    let mut before = vec![0];
    for is_valid in valid {
        before.push(before[before.len() - 1] + i64::from(is_valid));
    }
    before
}

/// The sum or the mean of the values of each frame, in the type that `sum_type` gives.
pub(crate) fn sums(
    values: &ArrayRef,
    frames: &[Range<usize>],
    partitions: &[Range<usize>],
    function: WindowFunction,
) -> Result<ArrayRef> {
    let counts = match function {
        WindowFunction::Avg => Some(counts(Some(values), frames)),
        _ => None,
    };
    sums_of(values, frames, &FoldedRows::All(partitions), counts.as_ref())
}

/// The sums of the folded rows of each frame, or their means, with the numbers of these.
pub(crate) fn sums_of(
    values: &ArrayRef,
    frames: &[Range<usize>],
    rows: &FoldedRows<'_>,
    counts: Option<&ArrayRef>,
) -> Result<ArrayRef> {
    let data_type = sum_type(values.data_type())?;
    let values = cast_nearest(values, &data_type)?;
    let is_mean = counts.is_some();
    let count = |row: usize| {
        let counts = counts.map(|counts| counts.as_primitive::<Int64Type>().value(row));
        counts.unwrap_or(1)
    };
    if let DataType::Float64 = data_type {
        let floats = values.as_primitive::<Float64Type>();
        let value = |row: usize| floats.is_valid(row).then(|| floats.value(row));
        let sums = rows.fold(frames, value, |a, b| a + b);
        let results =
            sums.into_iter().enumerate().map(|(row, sum)| sum.map(|sum| sum / count(row) as f64));
        return Ok(Arc::new(results.collect::<Float64Array>()));
    }
    let exact: Vec<Option<i128>> = match &data_type {
        DataType::Int64 => widened(values.as_primitive::<Int64Type>().iter()),
        DataType::UInt64 => widened(values.as_primitive::<UInt64Type>().iter()),
        _ => values.as_primitive::<Decimal128Type>().iter().collect(),
    };
    // A sum beyond 128 bits stays one.
    let value = |row: usize| exact[row].map(Some);
    let add = |a: Option<i128>, b: Option<i128>| a.zip(b).and_then(|(a, b)| a.checked_add(b));
    let sums = rows.fold(frames, value, add).into_iter();
    let sums = sums.map(|sum| sum.map(|sum| sum.ok_or_else(overflow)).transpose());
    let sums = sums.collect::<Result<Vec<Option<i128>>>>()?;
    if is_mean {
        let scale = if let DataType::Decimal128(_, scale) = data_type { scale } else { 0 };
        let means = sums.into_iter().enumerate();
        let means = means.map(|(row, sum)| sum.map(|sum| mean(sum, scale, count(row))));
        return Ok(Arc::new(means.collect::<Float64Array>()));
    }
    let fit = |sum: Option<i128>| sum.map(|sum| i64::try_from(sum).map_err(|_| overflow()));
    Ok(match data_type {
        DataType::Int64 => {
            let sums = sums.into_iter().map(|sum| fit(sum).transpose());
            Arc::new(sums.collect::<Result<Int64Array>>()?)
        }
        DataType::UInt64 => {
            let fit = |sum: i128| u64::try_from(sum).map_err(|_| overflow());
            let sums = sums.into_iter().map(|sum| sum.map(fit).transpose());
            Arc::new(sums.collect::<Result<UInt64Array>>()?)
        }
        other => {
            let is_large = |sum: &Option<i128>| sum.is_some_and(|sum| sum.abs() > DECIMAL_MAX);
            if sums.iter().any(is_large) {
                return Err(overflow());
            }
            Arc::new(Decimal128Array::from(sums).with_data_type(other))
        }
    })
}

fn widened<T: Into<i128>>(values: impl Iterator<Item = Option<T>>) -> Vec<Option<i128>> {
    values.map(|value| value.map(Into::into)).collect()
}

fn overflow() -> Error {
    Error::failed("a sum of a window is too large for its type").remedy("cast its values to double")
}

/// The least or the greatest value of each frame.
pub(crate) fn extremes(
    values: &ArrayRef,
    frames: &[Range<usize>],
    partitions: &[Range<usize>],
    function: WindowFunction,
) -> Result<ArrayRef> {
    let values = canonical_floats(values);
    let descending = function == WindowFunction::Max;
    // Nulls within lists and structs are the greatest values.
    let options = SortOptions { descending, nulls_first: descending };
    let compare = make_comparator(&values, &values, options)?;
    let value = |row: usize| values.is_valid(row).then_some(row as u32);
    let first = |a: u32, b: u32| if compare(b as usize, a as usize).is_lt() { b } else { a };
    let places = fold_frames(frames, partitions, value, first);
    Ok(take(&values, &UInt32Array::from(places), None)?)
}
