//! Instants from numbers and to numbers, and the whole units between two of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use chrono::{Datelike, NaiveDate};

use super::clock_text::time_of;
use super::row_functions::ArgumentKind::{Any, Float, Instant, Integer, Text};
use super::row_functions::{
    Computed, INSTANT, ResultKind, RowFunction, each, integer, text, wrong,
};
use crate::expression::functions::time_zones::local;

const SECOND: i64 = 1_000_000;

fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

pub(super) const FUNCTIONS: [RowFunction; 9] = [
    RowFunction {
        names: &["local_time"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Instant,
        compute: |args| Ok(arrow::compute::cast(&local(&args[0])?, &INSTANT)?),
    },
    RowFunction {
        names: &["epoch_us"],
        // Not an instant without its zone, which is a local time.
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let instants = arrow::compute::cast(&args[0], &INSTANT)?;
            let instants = instants.as_primitive::<TimestampMicrosecondType>();
            Ok(Arc::new(instants.reinterpret_cast::<Int64Type>()))
        },
    },
    RowFunction {
        names: &["epoch_ns"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let nano = DataType::Timestamp(TimeUnit::Nanosecond, None);
            // An instant that has no number of nanoseconds is an error, not null.
            let options = CastOptions { safe: false, ..Default::default() };
            let whole = cast_with_options(&args[0], &nano, &options)?;
            Ok(arrow::compute::cast(&whole, &DataType::Int64)?)
        },
    },
    RowFunction {
        names: &["nanosecond"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let per_second = match args[0].data_type() {
                DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
                    per_second(unit)
                }
                DataType::Date64 => 1_000,
                _ => 0,
            };
            let counts = match args[0].data_type() {
                DataType::Time32(_) => {
                    let narrow = arrow::compute::cast(&args[0], &DataType::Int32)?;
                    arrow::compute::cast(&narrow, &DataType::Int64)?
                }
                _ => arrow::compute::cast(&args[0], &DataType::Int64)?,
            };
            // A date has none.
            let of_minute = |count: i64| match per_second {
                0 => 0,
                _ => count.rem_euclid(60 * per_second) * (1_000_000_000 / per_second),
            };
            Ok(Arc::new(counts.as_primitive::<Int64Type>().unary::<_, Int64Type>(of_minute)))
        },
    },
    RowFunction {
        names: &["instant_of_ms"],
        takes: &[Integer],
        optional: 0,
        returns: ResultKind::Instant,
        compute: |args| instants(args, |row| scaled(integer(args, 0, row), 1000)),
    },
    RowFunction {
        names: &["instant_of_us"],
        takes: &[Integer],
        optional: 0,
        returns: ResultKind::Instant,
        compute: |args| instants(args, |row| Ok(integer(args, 0, row))),
    },
    RowFunction {
        names: &["make_timestamp"],
        takes: &[Integer, Integer, Integer, Integer, Integer, Float],
        optional: 0,
        returns: ResultKind::Instant,
        compute: |args| {
            instants(args, |row| {
                let part = |at: usize| u32::try_from(integer(args, at, row)).ok();
                let year = i32::try_from(integer(args, 0, row)).ok();
                let day = year.zip(part(1)).zip(part(2));
                let day = day.and_then(|((y, m), d)| NaiveDate::from_ymd_opt(y, m, d));
                let Some(day) = day else { return wrong("there is no such date".into()) };
                let midnight = day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_micros();
                Ok(midnight + of_day(args, 3, row)?)
            })
        },
    },
    RowFunction {
        names: &["make_time"],
        takes: &[Integer, Integer, Float],
        optional: 0,
        returns: ResultKind::Time,
        compute: |args| {
            let found = each(args, |row| of_day(args, 0, row).map(Some))?;
            let found: PrimitiveArray<Int64Type> = found.into_iter().collect();
            Ok(Arc::new(found.reinterpret_cast::<Time64MicrosecondType>()))
        },
    },
    RowFunction {
        names: &["date_sub", "datesub"],
        takes: &[Text, Instant, Instant],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let instant = |at: usize, row: usize| {
                args[at].as_primitive::<TimestampMicrosecondType>().value(row)
            };
            let found = each(args, |row| {
                whole_units(text(args, 0).value(row), instant(1, row), instant(2, row)).map(Some)
            })?;
            Ok(Arc::new(Int64Array::from(found)))
        },
    },
];

fn instants(args: &[ArrayRef], of: impl Fn(usize) -> Computed<i64>) -> Computed<ArrayRef> {
    let found = each(args, |row| of(row).map(Some))?;
    let found: PrimitiveArray<Int64Type> = found.into_iter().collect();
    let found = found.reinterpret_cast::<TimestampMicrosecondType>();
    Ok(Arc::new(found.with_data_type(INSTANT)))
}

fn scaled(number: i64, by: i64) -> Computed<i64> {
    match number.checked_mul(by) {
        Some(scaled) => Ok(scaled),
        None => wrong("overflow: there is no such instant".into()),
    }
}

/// Microseconds of the day: hours, minutes, and seconds with a fraction.
fn of_day(args: &[ArrayRef], at: usize, row: usize) -> Computed<i64> {
    let (hours, minutes) = (integer(args, at, row), integer(args, at + 1, row));
    let seconds = args[at + 2].as_primitive::<Float64Type>().value(row);
    let fits = (0..24).contains(&hours) && (0..60).contains(&minutes);
    match fits && (0.0..60.0).contains(&seconds) {
        true => Ok((hours * 3600 + minutes * 60) * SECOND + (seconds * 1e6).round() as i64),
        false => wrong("there is no such time of a day".into()),
    }
}

/// How many whole units lie between two instants.
fn whole_units(unit: &str, from: i64, to: i64) -> Computed<i64> {
    let unit = unit.to_lowercase();
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    let microseconds = match unit {
        "microsecond" | "u" => 1,
        "millisecond" | "m" => 1000,
        "second" => SECOND,
        "minute" => 60 * SECOND,
        "hour" => 3600 * SECOND,
        "day" => 86_400 * SECOND,
        "week" => 7 * 86_400 * SECOND,
        _ => {
            let months = match unit {
                "month" => 1,
                "quarter" => 3,
                "year" => 12,
                "decade" => 120,
                "century" => 1200,
                "millennium" | "millennia" => 12_000,
                other => return wrong(format!("`{other}` is no unit of time")),
            };
            return Ok(whole_months(from, to)? / months);
        }
    };
    match to.checked_sub(from) {
        Some(apart) => Ok(apart / microseconds),
        None => wrong("overflow: the instants are too far apart".into()),
    }
}

/// A month has passed on the same day of the next one, or on its last day if it has no such day.
fn whole_months(from: i64, to: i64) -> Computed<i64> {
    if from > to {
        return Ok(-whole_months(to, from)?);
    }
    let (from, to) = (time_of(from)?, time_of(to)?);
    let months =
        i64::from(to.year() - from.year()) * 12 + i64::from(to.month()) - i64::from(from.month());
    let is_last = to.date().succ_opt().is_none_or(|next| next.month() != to.month());
    let day = if is_last && from.day() > to.day() { to.day() } else { from.day() };
    Ok(months - i64::from((to.day(), to.time()) < (day, from.time())))
}
