//! `date_part`, `date_trunc` and `date_bin` over the whole range of dates and timestamps.
//!
//! DataFusion computes in nanoseconds, or in calendars that end in the year 262143. The calendar
//! repeats every 400 years, including weekdays, so dates far away are shifted by multiples of that.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::delegate::described_by_plain;
use super::time_zones;

/// Days in 400 years.
const CYCLE_DAYS: i64 = 146_097;
const CYCLE_YEARS: i64 = 400;
const DAY_SECONDS: i64 = 86_400;

/// First day of the years 1700 to 2099, which fit nanoseconds and the table of time zones.
const NEAR_DAYS: i64 = -98_615;

/// Wraps DataFusion's function of the same name.
pub(crate) fn of_all_years(plain: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Calendar { plain }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Calendar {
    plain: Arc<ScalarUDF>,
}

impl Calendar {
    fn near(
        &self,
        part: &str,
        array: &ArrayRef,
        near: &dyn Fn(ArrayRef) -> Result<ArrayRef, DataFusionError>,
    ) -> Result<ArrayRef, DataFusionError> {
        let Some(day) = units_a_day(array.data_type()) else { return near(array.clone()) };
        // Epochs count from 1970 in any year.
        if part == "epoch" {
            return near(array.clone());
        }
        let numbers = cast(&cast(array, &whole(array.data_type()))?, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let cycle = i128::from(CYCLE_DAYS) * i128::from(day);
        let cycles: Int64Array = numbers.unary(|x| {
            let since = i128::from(x) - i128::from(NEAR_DAYS) * i128::from(day);
            since.div_euclid(cycle) as i64
        });
        if cycles.iter().flatten().all(|cycles| cycles == 0) {
            return near(array.clone());
        }
        let here: Int64Array = arrow::compute::binary(numbers, &cycles, |x, cycles| {
            (i128::from(x) - i128::from(cycles) * cycle) as i64
        })?;
        let here = cast(&cast(&here, &whole(array.data_type()))?, array.data_type())?;
        let found = near(here)?;
        let found = match (self.plain.name(), part) {
            ("date_trunc", _) => back(&found, &cycles, cycle),
            (_, "year" | "isoyear") => back(&found, &cycles, i128::from(CYCLE_YEARS)),
            _ => Ok(found),
        }?;
        match array.data_type() {
            DataType::Timestamp(_, Some(_)) => self.in_zone(part, array, (&cycles, found), near),
            _ => Ok(found),
        }
    }

    /// For timestamps with a time zone, whose offset differs 400 years away: replaces `found` by
    /// the result for the local time, as far as the calendar reaches.
    fn in_zone(
        &self,
        part: &str,
        array: &ArrayRef,
        (cycles, found): (&Int64Array, ArrayRef),
        near: &dyn Fn(ArrayRef) -> Result<ArrayRef, DataFusionError>,
    ) -> Result<ArrayRef, DataFusionError> {
        let local = time_zones::local(array)?;
        let mut far = self.near(part, &local, near)?;
        if far.data_type() != found.data_type() {
            far = time_zones::in_zone(&far, found.data_type())?;
        }
        let is_far: BooleanArray = (0..array.len())
            .map(|row| Some(local.is_valid(row) && cycles.is_valid(row) && cycles.value(row) != 0))
            .collect();
        Ok(zip(&is_far, &far, &found)?)
    }
}

impl Calendar {
    /// Fails where DataFusion returns null because nanoseconds cannot represent the result.
    fn binned(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let rows = args.number_rows;
        let known: Vec<ArrayRef> =
            args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<_, _>>()?;
        let binned = self.plain.invoke_with_args(args)?;
        let found = binned.to_array(rows)?;
        let is_lost = |row| found.is_null(row) && known.iter().all(|arg| arg.is_valid(row));
        match (0..rows).any(is_lost) {
            false => Ok(binned),
            true => Err(DataFusionError::Execution(
                "overflow: date_bin reaches from the year 1677 to 2262".into(),
            )),
        }
    }
}

/// Units of a day, if values of this type can be far from the present.
fn units_a_day(data_type: &DataType) -> Option<i64> {
    Some(match data_type {
        DataType::Date32 => 1,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => DAY_SECONDS * 1000,
        DataType::Timestamp(TimeUnit::Second, _) => DAY_SECONDS,
        DataType::Timestamp(TimeUnit::Microsecond, _) => DAY_SECONDS * 1_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => DAY_SECONDS * 1_000_000_000,
        _ => return None,
    })
}

/// The integer type that represents values of this type.
fn whole(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Date32 => DataType::Int32,
        _ => DataType::Int64,
    }
}

/// Shifts the values back by `cycles` times `by`, in their type.
fn back(array: &ArrayRef, cycles: &Int64Array, by: i128) -> Result<ArrayRef, DataFusionError> {
    let is_year = *array.data_type() == DataType::Int32;
    let reach = if is_year { i128::from(i32::MAX) } else { i128::from(i64::MAX) };
    let numbers = cast(array, &DataType::Int64)?;
    let moved: Int64Array =
        arrow::compute::try_binary(numbers.as_primitive::<Int64Type>(), cycles, |x, cycles| {
            let moved = i128::from(x) + i128::from(cycles) * by;
            match (-reach - 1..=reach).contains(&moved) {
                true => Ok(moved as i64),
                false => Err(ArrowError::ArithmeticOverflow(
                    "overflow: what comes out is out of the range of its type".into(),
                )),
            }
        })?;
    Ok(cast(&moved, array.data_type())?)
}

/// Fails if a truncated timestamp has wrapped around to after the original.
fn not_after(truncated: &ArrayRef, of: &ArrayRef) -> Result<(), DataFusionError> {
    if !matches!(of.data_type(), DataType::Timestamp(..)) {
        return Ok(());
    }
    let (truncated, of) = (cast(truncated, &DataType::Int64)?, cast(of, &DataType::Int64)?);
    let mut pairs =
        truncated.as_primitive::<Int64Type>().iter().zip(of.as_primitive::<Int64Type>());
    let wraps =
        |(truncated, of)| matches!((truncated, of), (Some(1..), Some(of)) if of < i64::MIN / 2);
    match pairs.any(wraps) {
        false => Ok(()),
        true => Err(DataFusionError::Execution(
            "overflow: what comes out is out of the range of its type".into(),
        )),
    }
}

impl ScalarUDFImpl for Calendar {
    described_by_plain!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        if self.plain.name() == "date_bin" {
            return self.binned(args);
        }
        let part = match args.args.as_slice() {
            [ColumnarValue::Scalar(part), _] => part.try_as_str().flatten().map(str::to_lowercase),
            _ => None,
        };
        let (Some(part), Some(of)) = (part, args.args.get(1)) else {
            return self.plain.invoke_with_args(args);
        };
        let array = of.to_array(1)?;
        let found = self.near(&part, &array, &|array| {
            let rows = array.len();
            let near = vec![args.args[0].clone(), ColumnarValue::Array(array)];
            let near = ScalarFunctionArgs { args: near, number_rows: rows, ..args.clone() };
            self.plain.invoke_with_args(near)?.into_array(rows)
        })?;
        if self.plain.name() == "date_trunc" {
            not_after(&found, &array)?;
        }
        Ok(match of {
            ColumnarValue::Array(_) => ColumnarValue::Array(found),
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)
            }
        })
    }
}
