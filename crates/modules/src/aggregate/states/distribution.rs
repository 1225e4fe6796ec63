//! Results of how the values of a group are spread: histograms, entropies, distances from the
//! median.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray,
    MapArray, StructArray, UInt32Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, interleave, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, IntervalMonthDayNano};
use euphrates_flow::Result;

use super::grouped_rows::{GroupedRows, around, between_instants, between_numbers};
use crate::decimal_floats::cast_nearest;

const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// A map from values to how often they come.
pub(super) fn histogram_type(value: &DataType) -> DataType {
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry(value)), false)), false)
}

fn entry(value: &DataType) -> Fields {
    let key = Field::new("key", value.clone(), false);
    vec![key, Field::new("value", DataType::Int64, true)].into()
}

/// The first row of each value of a group, which is sorted, and how often it comes.
fn counts(rows: &GroupedRows) -> Result<Vec<Vec<(usize, i64)>>> {
    let values = rows.rows.column(0);
    let compare = make_comparator(values, values, SortOptions::default())?;
    let of = |range: Range<usize>| {
        let mut counts: Vec<(usize, i64)> = vec![];
        for row in range {
            match counts.last_mut() {
                Some((first, count)) if compare(*first, row).is_eq() => *count += 1,
                _ => counts.push((row, 1)),
            }
        }
        counts
    };
    Ok(rows.ranges().map(of).collect())
}

pub(super) fn histograms(rows: &GroupedRows, output: &DataType) -> Result<ArrayRef> {
    let DataType::Map(field, _) = output else { unreachable!("it makes maps") };
    let counts = counts(rows)?;
    let lengths: Vec<usize> = counts.iter().map(Vec::len).collect();
    let nulls: NullBuffer = lengths.iter().map(|length| *length > 0).collect();
    let all = || counts.iter().flatten();
    let first = UInt32Array::from_iter_values(all().map(|(row, _)| *row as u32));
    let values = rows.rows.column(0);
    let keys = take(values, &first, None)?;
    let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(all().map(|(_, count)| *count)));
    let entries = StructArray::try_new(entry(values.data_type()), vec![keys, counts], None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, Some(nulls), false)?))
}

/// The information of a value in bits; 0 of no values, as in DuckDB.
pub(super) fn entropies(rows: &GroupedRows) -> Result<ArrayRef> {
    let of = |counts: Vec<(usize, i64)>| {
        let all: i64 = counts.iter().map(|(_, count)| count).sum();
        let share = |(_, count): &(usize, i64)| *count as f64 / all as f64;
        let bits = counts.iter().map(share).map(|share| -share * share.log2()).sum::<f64>();
        // Not minus zero.
        bits + 0.0
    };
    Ok(Arc::new(Float64Array::from_iter_values(counts(rows)?.into_iter().map(of))))
}

/// The median of the distances of the values from their median.
pub(super) fn median_distances(rows: &GroupedRows) -> Result<ArrayRef> {
    let values = cast_nearest(rows.rows.column(0), &DataType::Float64)?;
    let values = values.as_primitive::<Float64Type>().values();
    let median = |values: &mut [f64]| {
        let (low, high, share) = around(values, 0.5, f64::total_cmp)?;
        Some(between_numbers(low, high, share))
    };
    let of = |range: Range<usize>| {
        let mut values = values[range].to_vec();
        let middle = median(&mut values)?;
        values.iter_mut().for_each(|value| *value = (*value - middle).abs());
        median(&mut values)
    };
    Ok(Arc::new(rows.ranges().map(of).collect::<Float64Array>()))
}

/// The median of the distances of instants, in microseconds, from their median, as intervals of
/// days and parts of them.
pub(super) fn median_spans(rows: &GroupedRows, instants: &[i64]) -> Result<ArrayRef> {
    let median = |values: &mut [i64]| {
        let (low, high, share) = around(values, 0.5, i64::cmp)?;
        Some(between_instants(low, high, share))
    };
    let of = |range: Range<usize>| {
        let mut values = instants[range].to_vec();
        let middle = median(&mut values)?;
        values.iter_mut().for_each(|value| *value = value.saturating_sub(middle).saturating_abs());
        let distance = median(&mut values)?;
        let days = i32::try_from(distance / DAY_MICROSECONDS).ok()?;
        Some(IntervalMonthDayNano::new(0, days, distance % DAY_MICROSECONDS * 1000))
    };
    Ok(Arc::new(rows.ranges().map(of).collect::<IntervalMonthDayNanoArray>()))
}

/// The values of several columns of each group as a list, null for groups without rows.
pub(super) fn beside(
    rows: &GroupedRows,
    columns: &[ArrayRef],
    item: &FieldRef,
) -> Result<ArrayRef> {
    let places: Vec<(usize, usize)> = (0..rows.ends.len())
        .flat_map(|group| (0..columns.len()).map(move |column| (column, group)))
        .collect();
    let columns_of: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let values = match columns.is_empty() {
        true => arrow::array::new_empty_array(item.data_type()),
        false => interleave(&columns_of, &places)?,
    };
    let offsets = OffsetBuffer::from_lengths(vec![columns.len(); rows.ends.len()]);
    let nulls: NullBuffer = rows.ranges().map(|range| !range.is_empty()).collect();
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, Some(nulls))?))
}
