//! `nested_key(x)`: bytes that compare as lists, structs and intervals do, so that rows can be
//! grouped and ordered by them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use arrow::row::{RowConverter, Rows, SortField};

use super::super::row_functions::ArgumentKind::Any;
use super::super::row_functions::{Computed, ResultKind, RowFunction, each};
use crate::canonical_floats::canonical_floats;

/// As `order by` sorts: a null within a list is greater than a value.
const NULLS_LAST: SortOptions = SortOptions { descending: false, nulls_first: false };
const DAY_NANOSECONDS: i128 = 86_400 * 1_000_000_000;

pub(crate) static FUNCTIONS: [RowFunction; 1] = [RowFunction {
    names: &["nested_key"],
    takes: &[Any],
    optional: 0,
    returns: ResultKind::Bytes,
    compute: |args| {
        if let DataType::Interval(_) = args[0].data_type() {
            let intervals = cast(&args[0], &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
            let keys = intervals.map(|interval| interval.map(interval_key));
            return Ok(Arc::new(keys.collect::<BinaryArray>()));
        }
        let rows = bytes_of(&args[0])?;
        let found = each(args, |row| Ok(Some(rows.row(row).data().to_vec())))?;
        let found: ArrayRef = Arc::new(found.into_iter().collect::<BinaryArray>());
        Ok(found)
    },
}];

/// Bytes that compare as the values of a column do.
pub(super) fn bytes_of(values: &ArrayRef) -> Computed<Rows> {
    let values = canonical_floats(values);
    let of = values.data_type().clone();
    let converter = RowConverter::new(vec![SortField::new_with_options(of, NULLS_LAST)])?;
    Ok(converter.convert_columns(&[values])?)
}

/// The nanoseconds of an interval, whose months have 30 days, as a number without a sign.
fn interval_key(interval: IntervalMonthDayNano) -> [u8; 16] {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    let nanoseconds = days * DAY_NANOSECONDS + i128::from(interval.nanoseconds);
    nanoseconds.wrapping_sub(i128::MIN).to_be_bytes()
}
