//! Intervals: from numbers, between instants, and instants rounded down to multiples of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, Timelike};

use super::clock_text::time_of;
use super::row_functions::ArgumentKind::{Any, Float, Instant, Integer, Interval};
use super::row_functions::{Computed, INSTANT, ResultKind, RowFunction, each, integer, wrong};

const DAY_MICROSECONDS: i64 = 86_400_000_000;
/// Monday, 3 January 2000, in microseconds since 1970.
const MONDAY: i64 = 10_959 * DAY_MICROSECONDS;
/// Months from the year 0 to 2000.
const MONTHS_2000: i64 = 24_000;

const fn of_number(
    names: &'static [&'static str],
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Integer], optional: 0, returns: ResultKind::Interval, compute }
}

/// Of a number that may have a fraction.
const fn of_parts(
    names: &'static [&'static str],
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Float], optional: 0, returns: ResultKind::Interval, compute }
}

const fn part(
    names: &'static [&'static str],
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Interval], optional: 0, returns: ResultKind::Integer, compute }
}

pub(super) const FUNCTIONS: [RowFunction; 22] = [
    part(&["_months_of_interval"], |args| parts(args, |of| of.months.into())),
    part(&["_days_of_interval"], |args| parts(args, |of| of.days.into())),
    part(&["_micros_of_interval"], |args| parts(args, |of| of.nanoseconds / 1000)),
    RowFunction {
        names: &["_interval_of"],
        takes: &[Integer, Integer, Integer],
        optional: 0,
        returns: ResultKind::Interval,
        compute: |args| {
            let whole = |at: usize, row: usize| match i32::try_from(integer(args, at, row)) {
                Ok(number) => Ok(number),
                Err(_) => wrong("the sum of intervals is too large".into()),
            };
            let found = each(args, |row| {
                let Some(nanoseconds) = integer(args, 2, row).checked_mul(1000) else {
                    return wrong("the sum of intervals is too large".into());
                };
                Ok(Some(IntervalMonthDayNano::new(whole(0, row)?, whole(1, row)?, nanoseconds)))
            })?;
            let found: PrimitiveArray<IntervalMonthDayNanoType> = found.into_iter().collect();
            Ok(Arc::new(found))
        },
    },
    of_number(&["to_millennia"], |args| made(args, |n| months(n, 12_000))),
    of_number(&["to_centuries"], |args| made(args, |n| months(n, 1200))),
    of_number(&["to_decades"], |args| made(args, |n| months(n, 120))),
    of_number(&["to_years"], |args| made(args, |n| months(n, 12))),
    of_number(&["to_quarters"], |args| made(args, |n| months(n, 3))),
    of_number(&["to_months"], |args| made(args, |n| months(n, 1))),
    of_number(&["to_weeks"], |args| made(args, |n| days(n, 7))),
    of_number(&["to_days"], |args| made(args, |n| days(n, 1))),
    of_number(&["to_hours"], |args| made(args, |n| nanoseconds(n, 3_600_000_000_000))),
    of_number(&["to_minutes"], |args| made(args, |n| nanoseconds(n, 60_000_000_000))),
    of_parts(&["to_seconds"], |args| of_microseconds(args, 1e6)),
    of_parts(&["to_milliseconds"], |args| of_microseconds(args, 1e3)),
    of_number(&["to_microseconds"], |args| made(args, |n| nanoseconds(n, 1000))),
    RowFunction {
        names: &["age"],
        takes: &[Instant, Instant],
        optional: 0,
        returns: ResultKind::Interval,
        compute: |args| {
            let instant = |at: usize, row: usize| {
                time_of(args[at].as_primitive::<TimestampMicrosecondType>().value(row))
            };
            let found = each(args, |row| age(instant(0, row)?, instant(1, row)?).map(Some))?;
            let found: PrimitiveArray<IntervalMonthDayNanoType> = found.into_iter().collect();
            Ok(Arc::new(found))
        },
    },
    RowFunction {
        names: &["_interval_times"],
        takes: &[Interval, Any],
        optional: 0,
        returns: ResultKind::Interval,
        compute: |args| match args[1].data_type().is_integer() {
            true => made_of(args, times),
            false => scaled(args, false),
        },
    },
    RowFunction {
        names: &["_interval_over"],
        takes: &[Interval, Any],
        optional: 0,
        returns: ResultKind::Interval,
        compute: |args| scaled(args, true),
    },
    RowFunction {
        names: &["_instant_at"],
        takes: &[Instant, Any],
        optional: 0,
        returns: ResultKind::Instant,
        compute: |args| {
            let days = args[0].as_primitive::<TimestampMicrosecondType>();
            let clock = cast(&args[1], &DataType::Time64(TimeUnit::Microsecond))?;
            let clock = clock.as_primitive::<Time64MicrosecondType>();
            let found = each(args, |row| match days.value(row).checked_add(clock.value(row)) {
                Some(instant) => Ok(Some(instant)),
                None => wrong("overflow: there is no such instant".into()),
            })?;
            let found: PrimitiveArray<Int64Type> = found.into_iter().collect();
            Ok(Arc::new(found.reinterpret_cast::<TimestampMicrosecondType>()))
        },
    },
    RowFunction {
        names: &["time_bucket"],
        takes: &[Interval, Any, Any],
        optional: 1,
        returns: ResultKind::Made(|types| {
            Ok(match &types[1] {
                DataType::Date32 => DataType::Date32,
                DataType::Timestamp(_, zone) => {
                    DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
                }
                _ => INSTANT,
            })
        }),
        compute: buckets,
    },
];

/// Intervals of numbers of a unit, which has this number of microseconds.
/// A part of each interval.
fn parts(args: &[ArrayRef], of: fn(IntervalMonthDayNano) -> i64) -> Computed<ArrayRef> {
    let intervals = args[0].as_primitive::<IntervalMonthDayNanoType>().iter();
    Ok(Arc::new(intervals.map(|interval| interval.map(of)).collect::<PrimitiveArray<Int64Type>>()))
}

fn of_microseconds(args: &[ArrayRef], each_has: f64) -> Computed<ArrayRef> {
    let numbers = args[0].as_primitive::<Float64Type>();
    let found = each(args, |row| {
        let microseconds = (numbers.value(row) * each_has).round();
        match microseconds.abs() < i64::MAX as f64 / 1e3 {
            true => Ok(Some(IntervalMonthDayNano::new(0, 0, microseconds as i64 * 1000))),
            false => wrong("overflow: there is no such interval".into()),
        }
    })?;
    let found: PrimitiveArray<IntervalMonthDayNanoType> = found.into_iter().collect();
    Ok(Arc::new(found))
}

/// Intervals of an interval and an integer in each row.
fn made_of(
    args: &[ArrayRef],
    of: impl Fn(IntervalMonthDayNano, i64) -> Option<IntervalMonthDayNano>,
) -> Computed<ArrayRef> {
    let intervals = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let numbers = cast(&args[1], &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let found = each(args, |row| match of(intervals.value(row), numbers.value(row)) {
        Some(interval) if numbers.is_valid(row) => Ok(Some(interval)),
        _ => wrong("overflow: there is no such interval".into()),
    })?;
    let found: PrimitiveArray<IntervalMonthDayNanoType> = found.into_iter().collect();
    Ok(Arc::new(found))
}

fn times(of: IntervalMonthDayNano, by: i64) -> Option<IntervalMonthDayNano> {
    let part = |part: i32| i32::try_from(i64::from(part).checked_mul(by)?).ok();
    let nanoseconds = of.nanoseconds.checked_mul(by)?;
    Some(IntervalMonthDayNano::new(part(of.months)?, part(of.days)?, nanoseconds))
}

/// Intervals times or over floating point numbers, in microseconds. As in PostgreSQL, a part of a
/// month has 30 days, and a part of a day 24 hours.
fn scaled(args: &[ArrayRef], is_over: bool) -> Computed<ArrayRef> {
    let of = |part: f64, by: f64| if is_over { part / by } else { part * by };
    let intervals = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let numbers = cast(&args[1], &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    let rounded = |number: f64| (number * 1e6).round_ties_even() / 1e6;
    let found = each(args, |row| {
        let (interval, by) = (intervals.value(row), numbers.value(row));
        if is_over && by == 0.0 {
            return wrong("division by zero".into());
        }
        let (months, days) = (of(interval.months.into(), by), of(interval.days.into(), by));
        let more_days = rounded((months - months.trunc()) * 30.0);
        let seconds = days - days.trunc() + more_days - more_days.trunc();
        let seconds = rounded(seconds * 86_400.0);
        let whole = (seconds / 86_400.0).trunc();
        let days = days.trunc() + more_days.trunc() + whole;
        let microseconds = of(interval.nanoseconds as f64 / 1e3, by);
        let microseconds = (microseconds + (seconds - whole * 86_400.0) * 1e6).round_ties_even();
        let fits = months.abs() < f64::from(i32::MAX)
            && days.abs() < f64::from(i32::MAX)
            && microseconds.abs() < i64::MAX as f64 / 1e3;
        match fits {
            true => Ok(Some(IntervalMonthDayNano::new(
                months as i32,
                days as i32,
                microseconds as i64 * 1000,
            ))),
            false => wrong("overflow: there is no such interval".into()),
        }
    })?;
    let found: PrimitiveArray<IntervalMonthDayNanoType> = found.into_iter().collect();
    Ok(Arc::new(found))
}

fn made(args: &[ArrayRef], of: impl Fn(i64) -> Option<IntervalMonthDayNano>) -> Computed<ArrayRef> {
    let found = each(args, |row| match of(integer(args, 0, row)) {
        Some(interval) => Ok(Some(interval)),
        None => wrong("overflow: there is no such interval".into()),
    })?;
    let found: PrimitiveArray<IntervalMonthDayNanoType> = found.into_iter().collect();
    Ok(Arc::new(found))
}

fn months(number: i64, each: i64) -> Option<IntervalMonthDayNano> {
    let months = i32::try_from(number.checked_mul(each)?).ok()?;
    Some(IntervalMonthDayNano::new(months, 0, 0))
}

fn days(number: i64, each: i64) -> Option<IntervalMonthDayNano> {
    let days = i32::try_from(number.checked_mul(each)?).ok()?;
    Some(IntervalMonthDayNano::new(0, days, 0))
}

fn nanoseconds(number: i64, each: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(0, 0, number.checked_mul(each)?))
}

/// The months, days and time from an instant to another, as on a calendar.
fn age(to: NaiveDateTime, from: NaiveDateTime) -> Computed<IntervalMonthDayNano> {
    if to < from {
        let IntervalMonthDayNano { months, days, nanoseconds } = age(from, to)?;
        return Ok(IntervalMonthDayNano::new(-months, -days, -nanoseconds));
    }
    let mut months = (to.year() - from.year()) * 12 + to.month() as i32 - from.month() as i32;
    let mut days = to.day() as i32 - from.day() as i32;
    let of_day = |time: &NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
    };
    let mut nanoseconds = of_day(&to) - of_day(&from);
    if nanoseconds < 0 {
        nanoseconds += DAY_MICROSECONDS * 1000;
        days -= 1;
    }
    if days < 0 {
        // The days of the month in which the interval begins.
        days += days_of_month(from.date());
        months -= 1;
    }
    Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
}

fn days_of_month(day: NaiveDate) -> i32 {
    let first = day.with_day(1).unwrap_or(day);
    let next = first.checked_add_months(Months::new(1)).unwrap_or(first);
    next.signed_duration_since(first).num_days() as i32
}

/// Instants rounded down to a multiple of an interval from an origin: a Monday, or the first of
/// January 2000 for months; moved by an offset, or another instant. Those with a zone are rounded
/// in UTC.
fn buckets(args: &[ArrayRef]) -> Computed<ArrayRef> {
    let widths = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let zone = match args[1].data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let instants = cast(&args[1], &INSTANT)?;
    let instants = instants.as_primitive::<TimestampMicrosecondType>();
    let is_offset = matches!(args.get(2).map(|arg| arg.data_type()), Some(DataType::Interval(_)));
    let origins = match args.get(2) {
        Some(origins) if !is_offset => Some(cast(origins, &INSTANT)?),
        _ => None,
    };
    let offsets = args.get(2).filter(|_| is_offset);
    let offsets = match offsets {
        Some(offsets) => {
            Some(cast(offsets, &DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano))?)
        }
        None => None,
    };
    let found = each(args, |row| {
        let offset = match &offsets {
            Some(offsets) => {
                let offset = offsets.as_primitive::<IntervalMonthDayNanoType>().value(row);
                if offset.months != 0 {
                    return wrong("an offset of months is not supported".into());
                }
                microseconds_of(offset)
            }
            None => 0,
        };
        let origin = origins
            .as_ref()
            .map(|origins| origins.as_primitive::<TimestampMicrosecondType>().value(row));
        let instant = instants.value(row).wrapping_sub(offset);
        Ok(Some(bucket(widths.value(row), instant, origin)? + offset))
    })?;
    let found: PrimitiveArray<Int64Type> = found.into_iter().collect();
    let found = found.reinterpret_cast::<TimestampMicrosecondType>().with_timezone_opt(zone);
    match args[1].data_type() {
        DataType::Date32 => Ok(cast(&found, &DataType::Date32)?),
        _ => Ok(Arc::new(found)),
    }
}

fn microseconds_of(interval: IntervalMonthDayNano) -> i64 {
    i64::from(interval.days) * DAY_MICROSECONDS + interval.nanoseconds / 1000
}

fn bucket(width: IntervalMonthDayNano, instant: i64, origin: Option<i64>) -> Computed<i64> {
    let fixed = microseconds_of(width);
    match (width.months, fixed) {
        (0, 1..) => {
            let origin = origin.unwrap_or(MONDAY);
            let since = i128::from(instant) - i128::from(origin);
            Ok((i128::from(origin) + since.div_euclid(fixed.into()) * i128::from(fixed)) as i64)
        }
        (1.., 0) => {
            let month =
                |time: NaiveDateTime| i64::from(time.year()) * 12 + i64::from(time.month0());
            let origin = match origin {
                Some(origin) => month(time_of(origin)?),
                None => MONTHS_2000,
            };
            let width = i64::from(width.months);
            let start = origin + (month(time_of(instant)?) - origin).div_euclid(width) * width;
            let day = NaiveDate::from_ymd_opt(
                start.div_euclid(12) as i32,
                start.rem_euclid(12) as u32 + 1,
                1,
            );
            match day {
                Some(day) => Ok(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_micros()),
                None => wrong("overflow: there is no such bucket".into()),
            }
        }
        _ => wrong("a bucket is months, or days and time, and longer than nothing".into()),
    }
}
