//! Adds intervals to instants in a time zone, and subtracts them.
//!
//! Months and days move the local time, which then becomes an instant by the rules of
//! [`time_zones`](super::time_zones): the kernel of Arrow fails where the zone skips or repeats the
//! local time, and has no summer time after 2099. The rest of the interval moves the instant.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::compute::kernels::{numeric, zip};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType as Interval, IntervalUnit,
};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::time_zones::{in_zone, is_within_table, local};
use crate::expression::typed::Typed;

/// Whether these are an instant in a time zone and an interval.
pub(crate) fn applies(moment: &DataType, interval: &DataType) -> bool {
    matches!(moment, DataType::Timestamp(_, Some(_)))
        && *interval == DataType::Interval(IntervalUnit::MonthDayNano)
}

/// The instant plus or minus the interval.
pub(crate) fn moved(moment: Typed, op: Operator, interval: Typed, text: String) -> Typed {
    let (any, to) = (Signature::any(2, Volatility::Immutable), moment.data_type);
    let function =
        ScalarUDF::new_from_impl(Moved { to: to.clone(), is_minus: op == Operator::Minus, any });
    let arguments = vec![moment.expr, interval.expr];
    let call = ScalarFunction::new_udf(Arc::new(function), arguments);
    Typed::new(Expr::ScalarFunction(call), to, text)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moved {
    to: DataType,
    is_minus: bool,
    any: Signature,
}

impl ScalarUDFImpl for Moved {
    fn name(&self) -> &str {
        if self.is_minus { "minus_interval" } else { "plus_interval" }
    }

    fn signature(&self) -> &Signature {
        &self.any
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let of = |moments: &ArrayRef, intervals: &ArrayRef| {
            if self.is_minus {
                numeric::sub(moments, intervals)
            } else {
                numeric::add(moments, intervals)
            }
        };
        let (moments, intervals) = (&arrays[0], &arrays[1]);
        // Arrow's kernel is right where it does not fail, for as long as its table of offsets goes.
        if is_within_table(moments)?
            && let Ok(moved) = of(moments, intervals)
            && is_within_table(&moved)?
        {
            return Ok(ColumnarValue::Array(moved));
        }
        let intervals = intervals.as_primitive::<Interval>();
        let (calendar, exact) = split(intervals);
        let there = local(moments)?;
        if there.null_count() > moments.null_count() {
            let message = "a timestamp is outside the years that the calendar has";
            return Err(ArrowError::ComputeError(message.into()).into());
        }
        let by_calendar = in_zone(&of(&there, &calendar)?, &self.to)?;
        let moved = zip::zip(&moves_local_time(intervals), &by_calendar, moments)?;
        Ok(ColumnarValue::Array(of(&moved, &exact)?))
    }
}

/// The months and days of intervals, and the rest of them.
fn split(intervals: &PrimitiveArray<Interval>) -> (ArrayRef, ArrayRef) {
    let part = |of: fn(IntervalMonthDayNano) -> IntervalMonthDayNano| -> ArrayRef {
        Arc::new(intervals.unary::<_, Interval>(of))
    };
    (
        part(|one| IntervalMonthDayNano::new(one.months, one.days, 0)),
        part(|one| IntervalMonthDayNano::new(0, 0, one.nanoseconds)),
    )
}

/// Whether each interval has months or days. The others keep the instant: of two equal local times
/// the conversion back would take the later one.
fn moves_local_time(intervals: &PrimitiveArray<Interval>) -> BooleanArray {
    BooleanArray::from_unary(intervals, |one| one.months != 0 || one.days != 0)
}
