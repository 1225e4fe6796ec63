//! `date_part` and `date_trunc` of all dates and timestamps there are.
//!
//! DataFusion's own look at nanoseconds, or at calendars that end in the year 262143. Years repeat
//! after 400, weeks and all, so what lies far away is asked of the same day near by.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::{cast, kernels::numeric::add};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimeUnit};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::around::described_by_plain;

/// Days of 400 years.
const CYCLE_DAYS: i64 = 146_097;
const CYCLE_YEARS: i64 = 400;
const DAY_SECONDS: i64 = 86_400;

/// From 1800 to 2199: nanoseconds hold these years.
const NEAR_DAYS: i64 = -62_091;

/// The function, around DataFusion's own of the same name.
pub fn of_all_years(plain: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
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
        let numbers = cast(array, &whole(array.data_type()))?;
        let numbers = cast(&numbers, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let cycle = CYCLE_DAYS * day;
        let cycles: Int64Array =
            numbers.unary(|x| (x.saturating_sub(NEAR_DAYS * day)).div_euclid(cycle));
        if cycles.iter().flatten().all(|cycles| cycles == 0) {
            return near(array.clone());
        }
        let moved = |by: i64| -> Int64Array { cycles.unary(|cycles| cycles * by) };
        let here: Int64Array = arrow::compute::binary(numbers, &moved(cycle), |x, by| x - by)?;
        let here = cast(&cast(&here, &whole(array.data_type()))?, array.data_type())?;
        let near = near(here)?;
        match (self.plain.name(), part) {
            ("date_trunc", _) => back(&near, &moved(cycle)),
            (_, "year" | "years" | "isoyear") => back(&near, &moved(CYCLE_YEARS)),
            (_, "epoch") => back(&near, &moved(CYCLE_DAYS * DAY_SECONDS)),
            _ => Ok(near),
        }
    }
}

impl Calendar {
    /// DataFusion gives null for what nanoseconds do not reach.
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

/// How many units of this type make a day, if its values are far from the nearest now and then.
fn units_a_day(data_type: &DataType) -> Option<i64> {
    Some(match data_type {
        DataType::Date32 => 1,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => DAY_SECONDS * 1000,
        DataType::Timestamp(TimeUnit::Second, _) => DAY_SECONDS,
        DataType::Timestamp(TimeUnit::Microsecond, _) => DAY_SECONDS * 1_000_000,
        _ => return None,
    })
}

/// The integers a type's values are.
fn whole(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Date32 => DataType::Int32,
        _ => DataType::Int64,
    }
}

/// The values moved by as much, in their type.
fn back(array: &ArrayRef, by: &Int64Array) -> Result<ArrayRef, DataFusionError> {
    let moved = match array.data_type() {
        DataType::Float64 => {
            let by = by.unary::<_, Float64Type>(|by| by as f64);
            return Ok(add(array, &by)?);
        }
        DataType::Int32 => {
            let years = array.as_primitive::<Int32Type>();
            Int64Array::from_iter(years.iter().zip(by).map(|(x, by)| Some(i64::from(x?) + by?)))
        }
        _ => {
            let numbers = cast(array, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            arrow::compute::try_binary(numbers, by, |x, by| {
                x.checked_add(by).ok_or_else(|| {
                    arrow::error::ArrowError::ArithmeticOverflow("overflow: out of range".into())
                })
            })?
        }
    };
    let strict = arrow::compute::CastOptions { safe: false, ..Default::default() };
    Ok(arrow::compute::cast_with_options(&moved, array.data_type(), &strict)?)
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
        Ok(match of {
            ColumnarValue::Array(_) => ColumnarValue::Array(found),
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)
            }
        })
    }
}
