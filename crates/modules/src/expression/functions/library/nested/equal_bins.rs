//! `equi_width_bins(least, greatest, count, nice)`: boundaries of bins of one width; with `nice`,
//! round numbers, and then up to twice as many.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampMicrosecondType};

use super::super::row_functions::ArgumentKind::{Any, Integer};
use super::super::row_functions::{Computed, INSTANT, ResultKind, RowFunction, each, wrong};
use super::bins::{list_of, listed};

/// The most boundaries.
const BINS_MAX: i64 = 1_000_000;
/// Boundaries between integers are computed with three digits behind the point.
const PART: i128 = 1000;

pub(crate) const FUNCTIONS: [RowFunction; 1] = [RowFunction {
    names: &["equi_width_bins"],
    takes: &[Any, Any, Integer, Any],
    optional: 1,
    returns: ResultKind::Made(|types| Ok(list_of(&boundary_type(&types[0], &types[1])))),
    compute: equal_bins,
}];

/// The type of the boundaries between two values.
fn boundary_type(from: &DataType, to: &DataType) -> DataType {
    let is_day = |of: &DataType| matches!(of, DataType::Date32 | DataType::Date64);
    let is_instant = |of: &DataType| is_day(of) || matches!(of, DataType::Timestamp(..));
    match (from, to) {
        _ if is_day(from) && is_day(to) => DataType::Date32,
        _ if is_instant(from) && is_instant(to) => INSTANT,
        _ if from.is_integer() && to.is_integer() => DataType::Int64,
        _ => DataType::Float64,
    }
}

/// The upper boundaries of bins of one width, from the least value on up to the greatest.
fn equal_bins(args: &[ArrayRef]) -> Computed<ArrayRef> {
    let of = boundary_type(args[0].data_type(), args[1].data_type());
    let count = args[2].as_primitive::<Int64Type>();
    let is_nice = args.get(3).map(|nice| cast(nice, &DataType::Boolean)).transpose()?;
    let is_nice = |row: usize| is_nice.as_ref().is_some_and(|nice| nice.as_boolean().value(row));
    let number = |row: usize| match count.value(row) {
        count @ 1..=BINS_MAX => Ok(count),
        other => wrong(format!("equi_width_bins makes 1 to {BINS_MAX} bins, not {other}")),
    };
    match &of {
        DataType::Float64 => {
            let ends = [cast(&args[0], &of)?, cast(&args[1], &of)?];
            let [low, high] = [&ends[0], &ends[1]].map(|end| end.as_primitive::<Float64Type>());
            let found = each(args, |row| {
                bins_of_floats(low.value(row), high.value(row), number(row)?, is_nice(row))
                    .map(Some)
            })?;
            let items = Float64Array::from_iter_values(found.iter().flatten().flatten().copied());
            listed(Arc::new(items), &found)
        }
        DataType::Int64 => {
            let ends = [cast(&args[0], &of)?, cast(&args[1], &of)?];
            let [low, high] = [&ends[0], &ends[1]].map(|end| end.as_primitive::<Int64Type>());
            let found = each(args, |row| {
                bins_of_integers(low.value(row), high.value(row), number(row)?, is_nice(row))
                    .map(Some)
            })?;
            let items = Int64Array::from_iter_values(found.iter().flatten().flatten().copied());
            listed(Arc::new(items), &found)
        }
        _ => {
            let ends = [cast(&args[0], &INSTANT)?, cast(&args[1], &INSTANT)?];
            let [low, high] =
                [&ends[0], &ends[1]].map(|end| end.as_primitive::<TimestampMicrosecondType>());
            let found = each(args, |row| match is_nice(row) {
                true => wrong("equi_width_bins rounds no boundaries of times: write false".into()),
                false => instants(low.value(row), high.value(row), number(row)?).map(Some),
            })?;
            let items = found.iter().flatten().flatten().copied();
            let items: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(items));
            listed(cast(&items, &of)?, &found)
        }
    }
}

fn reversed<T>() -> Computed<T> {
    wrong("equi_width_bins: the least value is above the greatest".into())
}

fn instants(low: i64, high: i64, count: i64) -> Computed<Vec<i64>> {
    if low > high {
        return reversed();
    }
    let (from, to) = (i128::from(low), i128::from(high));
    let width = (to - from) / i128::from(count);
    let from_top = (0..i128::from(count)).map(|at| to - width * at);
    let mut bins: Vec<i64> =
        from_top.take_while(|bin| *bin > from || low == high).map(|bin| bin as i64).collect();
    if width == 0 {
        bins.truncate(1);
    }
    bins.reverse();
    Ok(bins)
}

fn bins_of_integers(low: i64, high: i64, count: i64, is_nice: bool) -> Computed<Vec<i64>> {
    if low > high {
        return reversed();
    }
    let (from, mut top) = (i128::from(low) * PART, i128::from(high) * PART);
    let (mut width, mut count) = ((top - from) / i128::from(count), count as usize);
    if is_nice {
        let round = nice_integer(width);
        if round != 0 && above(top, round) != from {
            (top, width) = (above(top, round), round);
        }
        count *= 2;
    }
    let mut bins: Vec<i64> = vec![];
    while top > from && bins.len() < count {
        let Ok(bin) = i64::try_from(top / PART) else {
            return wrong("overflow: a boundary of equi_width_bins is too large".into());
        };
        if bins.last() != Some(&bin) {
            bins.push(bin);
        }
        top -= width;
    }
    if bins.is_empty() {
        bins.push(high);
    }
    bins.reverse();
    Ok(bins)
}

/// The multiple of a number that is not below another.
fn above(number: i128, of: i128) -> i128 {
    (number + of - 1) / of * of
}

/// The multiple of two or of five times the power of ten below a width that is nearest to it.
fn nice_integer(width: i128) -> i128 {
    let power = if width > 1 { 10_i128.pow((width - 1).ilog10()) } else { 0 };
    let two = if power * 3 <= width { power * 10 } else { power * 2 };
    let five = if power * 2 <= width { power * 5 } else { power };
    if power == 0 {
        return width;
    }
    let [two, five] = [two, five].map(|of| (width + of / 2) / of * of);
    if (width - two).abs() < (width - five).abs() { two } else { five }
}

fn bins_of_floats(low: f64, high: f64, count: i64, is_nice: bool) -> Computed<Vec<f64>> {
    if !(low.is_finite() && high.is_finite()) {
        return wrong("equi_width_bins: a boundary is not finite".into());
    }
    if low > high {
        return reversed();
    }
    let (number, mut count) = (count as f64, count as usize);
    let span = high - low;
    let mut width = if span.is_finite() { span / number } else { high / number - low / number };
    let mut top = high;
    let digits = 10.0 / power_below(width);
    if is_nice && width > 0.0 {
        width = nice_float(width);
        top = rounded(high, width, f64::ceil);
        count *= 2;
    }
    let mut bins: Vec<f64> = vec![];
    while top > low && bins.len() < count {
        let bin = if is_nice { (top * digits).round() / digits } else { top };
        let is_new = bins.last() != Some(&bin);
        if is_new && bin <= low {
            break;
        }
        if is_new {
            bins.push(bin);
        }
        // A width that changes nothing would go on for ever.
        if top - width == top {
            break;
        }
        top -= width;
    }
    if bins.is_empty() {
        bins.push(high);
    }
    bins.reverse();
    Ok(bins)
}

/// The greatest power of ten that is below a number, or equal to it if it is less than one.
fn power_below(number: f64) -> f64 {
    let mut power = 1.0;
    if number < 1.0 {
        while power > number && power > f64::MIN_POSITIVE {
            power /= 10.0;
        }
        return power;
    }
    while power < number {
        power *= 10.0;
    }
    power / 10.0
}

fn nice_float(width: f64) -> f64 {
    let power = power_below(width);
    let two = if power * 3.0 <= width { power * 2.0 * 5.0 } else { power * 2.0 };
    let five = if power * 2.0 <= width { power * 5.0 } else { power };
    let [two, five] = [two, five].map(|of| rounded(width, of, f64::round));
    if (width - two).abs() < (width - five).abs() { two } else { five }
}

/// The multiple of a number to which another is rounded; the other itself if that is not finite.
fn rounded(number: f64, of: f64, round: fn(f64) -> f64) -> f64 {
    let found = round(number / of) * of;
    if found.is_finite() { found } else { number }
}
