//! Converts local times to a time zone, including times that the zone skips or repeats.
//!
//! As in DuckDB, a skipped time is shifted by the length of the gap, and of two equal local times
//! the later is taken. Arrow fails for both.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::error::ArrowError;
use arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::expression::typed::Typed;

/// Whether a cast between these types assigns a time zone to local times.
pub(crate) fn places(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    matches!(from, Date32 | Date64 | Timestamp(_, None)) && matches!(to, Timestamp(_, Some(_)))
}

/// Converts local times to the time zone of this type.
pub(crate) fn placed(of: Typed, to: &DataType) -> Typed {
    let any = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Placed { to: to.clone(), any }));
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of.expr]));
    Typed::new(call, to.clone(), of.text)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Placed {
    to: DataType,
    any: Signature,
}

impl ScalarUDFImpl for Placed {
    fn name(&self) -> &str {
        "placed"
    }

    fn signature(&self) -> &Signature {
        &self.any
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        match &args.args[0] {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(in_zone(array, &self.to)?)),
            ColumnarValue::Scalar(scalar) => {
                let one = in_zone(&scalar.to_array()?, &self.to)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
        }
    }
}

/// Converts local times to instants of this type.
pub(crate) fn in_zone(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let direct = cast(array, to);
    let (Ok(nulls), DataType::Timestamp(unit, Some(zone))) = (&direct, to) else { return direct };
    // The cast gives null where it fails.
    if nulls.null_count() == array.null_count() {
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
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    let to = DataType::Timestamp(T::UNIT, None);
    let local = arrow::compute::cast_with_options(array, &to, &options)?;
    let placed = local.as_primitive::<T>().try_unary::<_, T, _>(|local| {
        place::<T>(local, tz)
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

fn local_of<T: ArrowTimestampType>(moments: &ArrayRef, tz: Tz) -> ArrayRef {
    let moments = moments.as_primitive::<T>();
    let local = moments.unary_opt::<_, T>(|moment| {
        let there = as_datetime_with_timezone::<T>(moment, tz)?.naive_local();
        T::from_naive_datetime(there, None)
    });
    Arc::new(local)
}

/// The instant of a local time, in the same unit.
fn place<T: ArrowTimestampType>(local: i64, tz: Tz) -> Option<i64> {
    let day = match T::UNIT {
        TimeUnit::Second => 86_400,
        TimeUnit::Millisecond => 86_400_000,
        TimeUnit::Microsecond => 86_400_000_000,
        TimeUnit::Nanosecond => 86_400_000_000_000,
    };
    let local_at = |instant: i64| {
        let there = as_datetime_with_timezone::<T>(instant, tz)?.naive_local();
        T::from_naive_datetime(there, None)
    };
    // By the offset of the zone about a day before, or after.
    let by_offset_at = |instant: i64| local.checked_sub(local_at(instant)?.checked_sub(instant)?);
    let before = by_offset_at(local.checked_sub(day)?)?;
    let after = by_offset_at(local.checked_add(day)?)?;
    let exist = [before, after].into_iter().filter(|instant| local_at(*instant) == Some(local));
    Some(exist.max().unwrap_or(before))
}
