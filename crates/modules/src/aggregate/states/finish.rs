//! What is made of the collected rows of each group.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StringArray, UInt32Array,
    make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, can_cast_types, cast, take};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, IntervalUnit, TimeUnit};
use euphrates_flow::{Error, Result};

use super::distribution;
use super::grouped_rows::{GroupedRows, around, between_instants, between_numbers};
use super::state::AggregateState;
use crate::aggregate::functions::Finish;
use crate::decimal_floats::cast_nearest;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

/// The type of the value in a collected row.
pub(super) fn value_type(row: &DataType) -> &DataType {
    match row {
        DataType::Struct(fields) => fields.first().map_or(row, |field| field.data_type()),
        other => other,
    }
}

impl Finish {
    /// Whether the values of a group must be sorted.
    pub(super) fn is_of_sorted_values(&self) -> bool {
        matches!(
            self,
            Finish::QuantileDisc { .. }
                | Finish::Quantiles { .. }
                | Finish::Mode
                | Finish::Entropy
                | Finish::Histogram
        )
    }

    /// The result for values of this type: the median of numbers and instants is between two of
    /// them, that of others is the lower one.
    pub(super) fn of_type(&self, row: &DataType) -> Finish {
        use DataType::{Duration, Interval};
        let value = value_type(row);
        let is_number = value.is_numeric() || value.is_null() || is_instant(value);
        match self {
            Finish::Median if is_number || matches!(value, Interval(_) | Duration(_)) => {
                Finish::Quantile(0.5)
            }
            Finish::Median => Finish::QuantileDisc { fraction: 0.5, descending: false },
            other => other.clone(),
        }
    }

    /// Whether a result holds the values of all rows.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Finish::List | Finish::Join(_))
    }

    /// Whether there is no such result of these rows.
    pub(super) fn rejects(&self, row: &DataType) -> bool {
        use DataType::*;
        let value = value_type(row);
        let is_text = matches!(value, Utf8 | LargeUtf8 | Utf8View | Null);
        match self {
            Finish::Quantile(_) | Finish::Quantiles { is_disc: false, .. } => {
                !is_quantified(value) && !is_instant(value)
            }
            Finish::MedianDistance => !is_quantified(value) && !is_instant(value),
            Finish::Join(_) => !is_text && !can_cast_types(value, &LargeUtf8),
            _ => false,
        }
    }

    /// The type of the result.
    pub(super) fn output(&self, row: &DataType) -> DataType {
        let value = value_type(row);
        match self {
            Finish::List => DataType::List(Arc::new(Field::new_list_field(value.clone(), true))),
            Finish::Join(_) => DataType::Utf8,
            Finish::Quantile(_) if is_instant(value) => instant(value),
            Finish::MedianDistance if is_instant(value) => INTERVAL,
            Finish::Quantile(_) | Finish::MedianDistance | Finish::Entropy => DataType::Float64,
            Finish::Quantiles { is_disc, .. } => {
                let of = match is_disc {
                    true => value.clone(),
                    false => Finish::Quantile(0.0).output(row),
                };
                DataType::List(Arc::new(Field::new_list_field(of, true)))
            }
            Finish::Histogram => distribution::histogram_type(value),
            Finish::QuantileDisc { .. }
            | Finish::Mode
            | Finish::FirstMode
            | Finish::Value
            | Finish::Only => value.clone(),
            Finish::Median => unreachable!("it is resolved by the type of the values"),
            Finish::Function(_) => unreachable!("the function has its own type"),
        }
    }

    /// The results of all groups; `name` is used in errors.
    ///
    /// `inner` is the state of the function of all values, if it is one.
    pub(super) fn of(
        &self,
        rows: GroupedRows,
        output: &DataType,
        name: &str,
        inner: Option<&mut Box<dyn AggregateState>>,
    ) -> Result<ArrayRef> {
        match self {
            Finish::List => lists(rows, output, name),
            Finish::Join(separator) => joined(&rows, separator),
            Finish::Median => unreachable!("it is resolved by the type of the values"),
            Finish::Quantile(fraction) => quantiles(&rows, *fraction, output),
            Finish::QuantileDisc { fraction, descending } => rows.chosen(|rows| {
                let below = whole_above(rows.len() as f64 * fraction).clamp(1, rows.len());
                match descending {
                    true => rows.end - below,
                    false => rows.start + below - 1,
                }
            }),
            Finish::Quantiles { fractions, is_disc, descending } => {
                let DataType::List(item) = output else { unreachable!("it makes lists") };
                let each = fractions.iter().map(|fraction| match is_disc {
                    true => Finish::QuantileDisc { fraction: *fraction, descending: *descending },
                    false if *descending => Finish::Quantile(1.0 - fraction),
                    false => Finish::Quantile(*fraction),
                });
                let again = || GroupedRows { rows: rows.rows.clone(), ends: rows.ends.clone() };
                let columns = each.map(|one| one.of(again(), item.data_type(), name, None));
                distribution::beside(&rows, &columns.collect::<Result<Vec<_>>>()?, item)
            }
            Finish::MedianDistance if *output == INTERVAL => {
                let values = rows.rows.column(0);
                let instants = match values.data_type() {
                    DataType::Time32(_) | DataType::Time64(_) => cast(values, &TIME)?,
                    _ => cast(values, &DataType::Timestamp(TimeUnit::Microsecond, None))?,
                };
                let instants = cast(&instants, &DataType::Int64)?;
                distribution::median_spans(&rows, instants.as_primitive::<Int64Type>().values())
            }
            Finish::MedianDistance => distribution::median_distances(&rows),
            Finish::Entropy => distribution::entropies(&rows),
            Finish::Histogram => distribution::histograms(&rows, output),
            Finish::Mode => modes(&rows),
            Finish::FirstMode => first_modes(&rows),
            Finish::Value => rows.chosen(|rows| rows.start),
            Finish::Only if rows.ranges().any(|rows| rows.len() > 1) => {
                let error = "a subquery in an expression has more than one row";
                Err(Error::usage(error).remedy("aggregate them, or add `limit 1`"))
            }
            Finish::Only => rows.chosen(|rows| rows.start),
            Finish::Function(_) => {
                let values = rows.rows.column(0);
                let state = inner.expect("there is a state of the function");
                state.grow(rows.ends.len());
                // A group without values has a null.
                let (mut groups, mut chosen) = (vec![], vec![]);
                for (group, rows) in rows.ranges().enumerate() {
                    let count = rows.len().max(1);
                    chosen.extend(rows.map(|row| Some(row as u32)));
                    groups.extend(std::iter::repeat_n(group as u32, count));
                    chosen.resize(groups.len(), None);
                }
                let values = take(values, &UInt32Array::from(chosen), None)?;
                state.add(Some(&values), &groups)?;
                state.finish()
            }
        }
    }
}

/// Whether quantiles of this type are numbers.
fn is_quantified(value: &DataType) -> bool {
    value.is_numeric() && !matches!(value, DataType::Decimal256(..)) || value.is_null()
}

fn is_instant(value: &DataType) -> bool {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    matches!(value, Date32 | Date64 | Timestamp(..) | Time32(_) | Time64(_))
}

/// The type of quantiles of instants, which holds all that lie between two of them.
fn instant(value: &DataType) -> DataType {
    match value {
        DataType::Date32 => DataType::Timestamp(TimeUnit::Second, None),
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
        other => other.clone(),
    }
}

/// The whole number that is not below a product, which may have been rounded up.
pub(crate) fn whole_above(product: f64) -> usize {
    let near = product.round();
    let is_whole = (product - near).abs() <= 1e-9 * near;
    (if is_whole { near } else { product.ceil() }) as usize
}

fn lists(rows: GroupedRows, output: &DataType, name: &str) -> Result<ArrayRef> {
    let DataType::List(item) = output else { unreachable!("it makes lists") };
    if i32::try_from(rows.rows.len()).is_err() {
        let error = Error::resource(format!("the lists of `{name}` are too long"));
        return Err(error.remedy("group by more columns"));
    }
    let lengths: Vec<usize> = rows.ranges().map(|rows| rows.len()).collect();
    let nulls: NullBuffer = lengths.iter().map(|length| *length > 0).collect();
    let offsets = OffsetBuffer::from_lengths(lengths);
    let values = rows.rows.column(0).clone();
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, Some(nulls))?))
}

fn joined(rows: &GroupedRows, separator: &str) -> Result<ArrayRef> {
    let values = cast(rows.rows.column(0), &DataType::LargeUtf8)?;
    let values = values.as_string::<i64>();
    let join = |rows: std::ops::Range<usize>| {
        let texts: Vec<&str> = rows.clone().map(|row| values.value(row)).collect();
        (!rows.is_empty()).then(|| texts.join(separator))
    };
    Ok(Arc::new(rows.ranges().map(join).collect::<StringArray>()))
}

/// The values that lie between others by these shares of their distance.
pub(crate) fn interpolated(
    low: &ArrayRef,
    high: &ArrayRef,
    shares: &[f64],
    output: &DataType,
) -> Result<ArrayRef> {
    if matches!(output, DataType::Timestamp(..) | DataType::Time64(_)) {
        let whole = |side: &ArrayRef| cast(&cast(side, output)?, &DataType::Int64);
        let (low, high) = (whole(low)?, whole(high)?);
        let pairs = low.as_primitive::<Int64Type>().iter().zip(high.as_primitive::<Int64Type>());
        let between = pairs.zip(shares).map(|((low, high), share)| {
            low.zip(high).map(|(low, high)| between_instants(low, high, *share))
        });
        let found: ArrayRef = Arc::new(between.collect::<Int64Array>());
        return Ok(cast(&found, output)?);
    }
    let wide = |side: &ArrayRef| cast_nearest(side, &DataType::Float64);
    let (low, high) = (wide(low)?, wide(high)?);
    let pairs = low.as_primitive::<Float64Type>().iter().zip(high.as_primitive::<Float64Type>());
    let between = pairs.zip(shares).map(|((low, high), share)| {
        low.zip(high).map(|(low, high)| between_numbers(low, high, *share))
    });
    Ok(Arc::new(between.collect::<Float64Array>()))
}

fn quantiles(rows: &GroupedRows, fraction: f64, output: &DataType) -> Result<ArrayRef> {
    let values = rows.rows.column(0);
    if matches!(output, DataType::Timestamp(..) | DataType::Time64(_)) {
        let values = cast(&cast(values, output)?, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>().values();
        let at = |rows: std::ops::Range<usize>| {
            let mut values = values[rows].to_vec();
            let (low, high, share) = around(&mut values, fraction, i64::cmp)?;
            Some(between_instants(low, high, share))
        };
        let found: ArrayRef = Arc::new(rows.ranges().map(at).collect::<Int64Array>());
        return Ok(cast(&found, output)?);
    }
    let values = cast_nearest(values, &DataType::Float64)?;
    let values = values.as_primitive::<Float64Type>().values();
    let at = |rows: std::ops::Range<usize>| {
        let mut values = values[rows].to_vec();
        let (low, high, share) = around(&mut values, fraction, f64::total_cmp)?;
        Some(between_numbers(low, high, share))
    };
    Ok(Arc::new(rows.ranges().map(at).collect::<Float64Array>()))
}

fn modes(rows: &GroupedRows) -> Result<ArrayRef> {
    let values = rows.rows.column(0);
    let compare = make_comparator(values, values, SortOptions::default())?;
    rows.chosen(|rows| {
        let (mut best, mut best_length, mut start) = (rows.start, 0, rows.start);
        for row in rows {
            if compare(start, row).is_ne() {
                start = row;
            }
            if row + 1 - start > best_length {
                (best, best_length) = (start, row + 1 - start);
            }
        }
        best
    })
}

/// Of the most frequent values of each group, the one that comes first.
fn first_modes(rows: &GroupedRows) -> Result<ArrayRef> {
    let values = rows.rows.column(0);
    let compare = make_comparator(values, values, SortOptions::default())?;
    rows.chosen(|rows| {
        let mut sorted: Vec<usize> = rows.clone().collect();
        sorted.sort_by(|one, other| compare(*one, *other));
        let runs = sorted.chunk_by(|one, other| compare(*one, *other).is_eq());
        // The sort is stable, so a run begins with its first row.
        let best = runs.max_by_key(|run| (run.len(), std::cmp::Reverse(run[0])));
        best.map_or(rows.start, |run| run[0])
    })
}
