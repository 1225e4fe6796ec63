//! Adds intervals to instants in a time zone, and subtracts them.
//!
//! Months move the local time, then days do, and the rest of the interval moves the instant. A
//! local time becomes an instant by the rules of [`time_zones`](super::time_zones): the kernel of
//! Arrow fails where the zone skips or repeats it, and has no summer time after 2099.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::kernels::{numeric, zip};
use arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType as Interval, IntervalUnit,
};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::time_zones::{in_zone, is_within_table, local, plus_days};
use crate::expression::typed::Typed;

/// Whether these are an instant in a time zone and an interval.
pub(crate) fn applies(moment: &DataType, interval: &DataType) -> bool {
    matches!(moment, DataType::Timestamp(_, Some(_)))
        && *interval == DataType::Interval(IntervalUnit::MonthDayNano)
}

/// The instant plus or minus the interval.
pub(crate) fn moved(moment: Typed, op: Operator, interval: Typed, text: String) -> Typed {
    let (any, to) = (Signature::any(2, Volatility::Immutable), moment.data_type);
    let function = ScalarUDF::new_from_impl(MovedTime {
        to: to.clone(),
        is_minus: op == Operator::Minus,
        any,
    });
    let arguments = vec![moment.expr, interval.expr];
    let call = ScalarFunction::new_udf(Arc::new(function), arguments);
    Typed::new(Expr::ScalarFunction(call), to, text)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MovedTime {
    to: DataType,
    is_minus: bool,
    any: Signature,
}

impl ScalarUDFImpl for MovedTime {
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
        let part = |of: fn(IntervalMonthDayNano) -> IntervalMonthDayNano| -> ArrayRef {
            Arc::new(intervals.unary::<_, Interval>(of))
        };
        let there = local(moments)?;
        if there.null_count() > moments.null_count() {
            let message = "a timestamp is outside the years that the calendar has";
            return Err(ArrowError::ComputeError(message.into()).into());
        }
        let months = part(|one| IntervalMonthDayNano::new(one.months, 0, 0));
        let by_months = in_zone(&of(&there, &months)?, &self.to)?;
        // The others keep the instant: of two equal local times the conversion takes the later.
        let has_months = BooleanArray::from_unary(intervals, |one| one.months != 0);
        let moved = zip::zip(&has_months, &by_months, moments)?;
        let sign = if self.is_minus { -1 } else { 1 };
        let days = intervals.unary::<_, Int64Type>(|one| sign * i64::from(one.days));
        let moved = plus_days(&moved, &days)?;
        let exact = part(|one| IntervalMonthDayNano::new(0, 0, one.nanoseconds));
        Ok(ColumnarValue::Array(of(&moved, &exact)?))
    }
}
