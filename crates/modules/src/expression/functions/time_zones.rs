//! Converts between instants and the local times of a time zone.
//!
//! As in DuckDB, a local time that the zone skips is shifted by the length of the gap, and of two
//! equal local times the later is taken. Arrow fails for both. Its table of offsets ends with the
//! year 2099 and has no summer time from then on; a later year has the offsets of one before that
//! with the same days of the week.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::{cast, try_binary};
use arrow::datatypes::{
    ArrowTimestampType, DataType, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::error::ArrowError;
use arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion_common::DataFusionError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::delegate::{named, of_rows};
use crate::expression::typed::Typed;

/// First day that the table of offsets lacks (2100-01-01), in days since 1970.
const TABLE_END_DAYS: i64 = 47_482;

/// The last years of the table. 28 years without an omitted leap year have every combination of a
/// first day of the week and a leap day.
const TABLE_YEARS: Range<i64> = 2072..2100;

/// Whether a cast between these types assigns a time zone to local times.
pub(crate) fn places(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    matches!(from, Date32 | Date64 | Timestamp(_, None)) && matches!(to, Timestamp(_, Some(_)))
}

/// Whether a cast between these types takes the local times of instants in a time zone.
pub(crate) fn shows(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let is_local = matches!(to, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(_, None));
    matches!(from, Timestamp(_, Some(_))) && is_local
}

/// Converts local times to instants, or instants to local times: a cast to this type.
pub(crate) fn converted(of: Typed, to: &DataType) -> Typed {
    let any = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Converted { to: to.clone(), any }));
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of.expr]));
    Typed::new(call, to.clone(), of.text)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Converted {
    to: DataType,
    any: Signature,
}

impl Converted {
    fn convert(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self.to {
            DataType::Timestamp(_, Some(_)) => in_zone(array, &self.to),
            // A cast that drops the zone keeps the time of UTC.
            DataType::Timestamp(_, None) => strictly(&local(array)?, &self.to),
            _ if is_within_table(array)? => strictly(array, &self.to),
            _ => strictly(&local(array)?, &self.to),
        }
    }
}

impl ScalarUDFImpl for Converted {
    named!(self => "converted");

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        of_rows(&args.args[0], |array| Ok(self.convert(array)?))
    }
}

/// Converts local times to instants of this type.
pub(crate) fn in_zone(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let direct = cast(array, to);
    let (Ok(nulls), DataType::Timestamp(unit, Some(zone))) = (&direct, to) else { return direct };
    // The cast gives null where it fails.
    if nulls.null_count() == array.null_count() && is_within_table(nulls)? {
        return direct;
    }
    match unit {
        TimeUnit::Second => each::<TimestampSecondType>(array, zone),
        TimeUnit::Millisecond => each::<TimestampMillisecondType>(array, zone),
        TimeUnit::Microsecond => each::<TimestampMicrosecondType>(array, zone),
        TimeUnit::Nanosecond => each::<TimestampNanosecondType>(array, zone),
    }
}

fn each<T: ArrowTimestampType>(array: &ArrayRef, zone: &Arc<str>) -> Result<ArrayRef, ArrowError> {
    let tz: Tz = zone.parse()?;
    let local = strictly(array, &DataType::Timestamp(T::UNIT, None))?;
    let placed = local.as_primitive::<T>().try_unary::<_, T, _>(|local| {
        instant_of::<T>(local, tz)
            .ok_or_else(|| ArrowError::CastError(format!("there is no such time in {zone}")))
    });
    Ok(Arc::new(placed?.with_timezone(zone.clone())))
}

/// The local times of instants in a time zone; null where the calendar does not reach.
pub(crate) fn local(moments: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match moments.data_type() {
        DataType::Timestamp(unit, Some(zone)) => {
            let tz: Tz = zone.parse()?;
            Ok(match unit {
                TimeUnit::Second => local_of::<TimestampSecondType>(moments, tz),
                TimeUnit::Millisecond => local_of::<TimestampMillisecondType>(moments, tz),
                TimeUnit::Microsecond => local_of::<TimestampMicrosecondType>(moments, tz),
                TimeUnit::Nanosecond => local_of::<TimestampNanosecondType>(moments, tz),
            })
        }
        _ => Ok(moments.clone()),
    }
}

/// Moves the local times of instants by days. Of two equal local times it takes the one whose
/// offset the instant has, as DuckDB does.
pub(super) fn plus_days(
    moments: &ArrayRef,
    days: &PrimitiveArray<Int64Type>,
) -> Result<ArrayRef, ArrowError> {
    match moments.data_type() {
        DataType::Timestamp(unit, Some(zone)) => match unit {
            TimeUnit::Second => plus_days_of::<TimestampSecondType>(moments, days, zone),
            TimeUnit::Millisecond => plus_days_of::<TimestampMillisecondType>(moments, days, zone),
            TimeUnit::Microsecond => plus_days_of::<TimestampMicrosecondType>(moments, days, zone),
            TimeUnit::Nanosecond => plus_days_of::<TimestampNanosecondType>(moments, days, zone),
        },
        other => Err(ArrowError::CastError(format!("{other} has no time zone"))),
    }
}

fn plus_days_of<T: ArrowTimestampType>(
    moments: &ArrayRef,
    days: &PrimitiveArray<Int64Type>,
    zone: &Arc<str>,
) -> Result<ArrayRef, ArrowError> {
    let tz: Tz = zone.parse()?;
    let moved = |instant: i64, days: i64| {
        let shift = days.checked_mul(units_a_day(T::UNIT))?;
        let (moved, there) = (instant.checked_add(shift)?, local_at::<T>(instant, tz)?);
        let there = there.checked_add(shift)?;
        if local_at::<T>(moved, tz) == Some(there) {
            Some(moved)
        } else {
            instant_of::<T>(there, tz)
        }
    };
    let moved = try_binary(moments.as_primitive::<T>(), days, |instant, days| {
        moved(instant, days).ok_or_else(|| {
            ArrowError::ComputeError(format!("{days} days later there is no time in {zone}"))
        })
    });
    let moved: PrimitiveArray<T> = moved?;
    Ok(Arc::new(moved.with_timezone(zone.clone())))
}

fn local_of<T: ArrowTimestampType>(moments: &ArrayRef, tz: Tz) -> ArrayRef {
    let moments = moments.as_primitive::<T>();
    Arc::new(moments.unary_opt::<_, T>(|moment| local_at::<T>(moment, tz)))
}

/// The local time of an instant, in the same unit; `None` where the calendar does not reach.
fn local_at<T: ArrowTimestampType>(instant: i64, tz: Tz) -> Option<i64> {
    let day = units_a_day(T::UNIT);
    let shift = days_beyond_table(instant.div_euclid(day)) * day;
    let there = as_datetime_with_timezone::<T>(instant - shift, tz)?.naive_local();
    T::from_naive_datetime(there, None)?.checked_add(shift)
}

/// By how many days a day is later than its like in the table; 0 for a day within it.
fn days_beyond_table(days: i64) -> i64 {
    if days < TABLE_END_DAYS {
        return 0;
    }
    let year = year_of(days);
    let is_like =
        |one: &i64| is_leap(*one) == is_leap(year) && (first_day(year) - first_day(*one)) % 7 == 0;
    // The last such year: some rules in the table end before it does.
    let like = TABLE_YEARS.rev().find(is_like).expect("28 years have all combinations");
    first_day(year) - first_day(like)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The first day of a year from 1 on, in days since 1970.
fn first_day(year: i64) -> i64 {
    let before = year - 1;
    365 * before + before / 4 - before / 100 + before / 400 - 719_162
}

/// The year of a day after 1970.
fn year_of(days: i64) -> i64 {
    let about = 1969 + (i128::from(days) * 400 / 146_097) as i64;
    let later = (about..).find(|year| first_day(year + 1) > days);
    later.expect("years go on")
}

/// Whether the table of offsets has all of these instants; local times are taken as UTC.
pub(super) fn is_within_table(instants: &ArrayRef) -> Result<bool, ArrowError> {
    let DataType::Timestamp(unit, _) = instants.data_type() else { return Ok(true) };
    let end = TABLE_END_DAYS.saturating_mul(units_a_day(*unit));
    let numbers = cast(instants, &DataType::Int64)?;
    let latest = arrow::compute::max(numbers.as_primitive::<Int64Type>());
    // A local time of the day before may be an instant of the first day that it lacks.
    Ok(latest.is_none_or(|latest| latest < end - units_a_day(*unit)))
}

/// A cast that fails where a value cannot be cast.
fn strictly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    arrow::compute::cast_with_options(array, to, &options)
}

fn units_a_day(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 86_400,
        TimeUnit::Millisecond => 86_400_000,
        TimeUnit::Microsecond => 86_400_000_000,
        TimeUnit::Nanosecond => 86_400_000_000_000,
    }
}

/// The instant of a local time, in the same unit.
fn instant_of<T: ArrowTimestampType>(local: i64, tz: Tz) -> Option<i64> {
    let day = units_a_day(T::UNIT);
    let local_at = |instant: i64| local_at::<T>(instant, tz);
    // By the offset of the zone about a day before, or after.
    let by_offset_at = |instant: i64| local.checked_sub(local_at(instant)?.checked_sub(instant)?);
    let before = by_offset_at(local.checked_sub(day)?)?;
    let after = by_offset_at(local.checked_add(day)?)?;
    let exist = [before, after].into_iter().filter(|instant| local_at(*instant) == Some(local));
    Some(exist.max().unwrap_or(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, TimestampMicrosecondArray, TimestampSecondArray};

    const HOUR: i64 = 3600;

    fn hours_ahead(zone: &str, days: &[i64]) -> Vec<i64> {
        let noons = days.iter().map(|day| day * 86_400 + 12 * HOUR);
        let instants: ArrayRef =
            Arc::new(TimestampSecondArray::from_iter_values(noons).with_timezone(zone));
        let there = local(&instants).unwrap();
        let pairs = there.as_primitive::<TimestampSecondType>().values().iter();
        let both = pairs.zip(instants.as_primitive::<TimestampSecondType>().values());
        let back = in_zone(&there, instants.data_type()).unwrap();
        assert_eq!(&back, &instants);
        both.map(|(there, here)| (there - here) / HOUR).collect()
    }

    #[test]
    fn summer_time_goes_on_after_the_table_of_offsets_ends() {
        // 1 January and 1 July of 2099, 2100, 2101, 2400 and 5000.
        let days: Vec<i64> = [2099, 2100, 2101, 2400, 5000]
            .into_iter()
            .flat_map(|year| [first_day(year), first_day(year) + 181 + i64::from(is_leap(year))])
            .collect();
        assert_eq!(hours_ahead("Europe/Berlin", &days), [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(
            hours_ahead("Australia/Sydney", &days),
            [11, 10, 11, 10, 11, 10, 11, 10, 11, 10]
        );
        assert_eq!(hours_ahead("Asia/Tokyo", &days), [9; 10]);
    }

    #[test]
    fn clocks_change_on_the_last_sunday_of_march_of_any_year() {
        for (year, sunday) in [(2100, 28), (2103, 25), (2399, 28), (2400, 26)] {
            let march = first_day(year) + 58 + i64::from(is_leap(year));
            // An hour before the change, and at it.
            let change = (march + sunday) * 86_400 + HOUR;
            let instants = TimestampMicrosecondArray::from_iter_values(
                [change - HOUR, change].map(|seconds| seconds * 1_000_000),
            );
            let instants: ArrayRef = Arc::new(instants.with_timezone("Europe/Berlin"));
            let there = local(&instants).unwrap();
            let there = there.as_primitive::<TimestampMicrosecondType>();
            assert_eq!(there.value(1) - there.value(0), 2 * HOUR * 1_000_000, "{year}");
        }
    }

    #[test]
    fn years_are_found_by_their_days() {
        for year in [1970, 2000, 2099, 2100, 2400, 9999, 200_000] {
            assert_eq!(year_of(first_day(year)), year);
            assert_eq!(year_of(first_day(year + 1) - 1), year);
        }
        assert_eq!(first_day(1970), 0);
        assert_eq!(first_day(2100), TABLE_END_DAYS);
    }
}
