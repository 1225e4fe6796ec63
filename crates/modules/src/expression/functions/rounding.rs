//! `round` and `trunc` of floating point numbers, for any number of digits.
//!
//! DataFusion multiplies and divides by a power of ten, and either may leave the range of the type.
//! In that case the number keeps all its digits, or none.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::delegate::{described_by_plain, of_rows};

/// More digits than any number has on either side of the point.
const DIGITS_MAX: i64 = 2000;

/// Wraps the function so that finite arguments give finite results.
pub(crate) fn finite(plain: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Finite { plain }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Finite {
    plain: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Finite {
    described_by_plain!();

    fn invoke_with_args(
        &self,
        mut args: ScalarFunctionArgs,
    ) -> Result<ColumnarValue, DataFusionError> {
        let (of, digits) = match args.args.as_slice() {
            [of, digits] if of.data_type().is_floating() => (of.clone(), within(digits)?),
            _ => return self.plain.invoke_with_args(args),
        };
        args.args[1] = digits.clone();
        let (rows, all_one) = (args.number_rows, is_one(&of) && is_one(&digits));
        let rounded = self.plain.invoke_with_args(args)?;
        let rows = if all_one { 1 } else { rows };
        let (of, rounded) = (of.to_array(rows)?, rounded.to_array(rows)?);
        let digits = cast(&digits.to_array(rows)?, &DataType::Int64)?;
        let digits = digits.as_primitive::<Int64Type>();
        let rounded = match of.data_type() {
            DataType::Float32 => kept::<Float32Type>(&of, &rounded, digits, f32::is_finite),
            DataType::Float64 => kept::<Float64Type>(&of, &rounded, digits, f64::is_finite),
            _ => rounded,
        };
        match all_one {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?)),
            false => Ok(ColumnarValue::Array(rounded)),
        }
    }
}

fn is_one(value: &ColumnarValue) -> bool {
    matches!(value, ColumnarValue::Scalar(_))
}

/// The number of digits, clamped so that the function does not truncate it to fewer bits.
fn within(digits: &ColumnarValue) -> Result<ColumnarValue, DataFusionError> {
    let clamp = |array: &ArrayRef| -> ArrayRef {
        match array.data_type() {
            DataType::Int64 => {
                let array = array.as_primitive::<Int64Type>();
                let clamped = array.unary::<_, Int64Type>(|x| x.clamp(-DIGITS_MAX, DIGITS_MAX));
                Arc::new(clamped)
            }
            DataType::Int32 => {
                let most = DIGITS_MAX as i32;
                let array = array.as_primitive::<Int32Type>();
                Arc::new(array.unary::<_, Int32Type>(|x| x.clamp(-most, most)))
            }
            _ => array.clone(),
        }
    };
    of_rows(digits, |array| Ok(clamp(array)))
}

/// Replaces infinite results by the number itself if digits behind the point are kept, else by
/// zero.
fn kept<T: ArrowPrimitiveType>(
    of: &ArrayRef,
    rounded: &ArrayRef,
    digits: &PrimitiveArray<Int64Type>,
    is_finite: fn(T::Native) -> bool,
) -> ArrayRef {
    let (of, results) = (of.as_primitive::<T>(), rounded.as_primitive::<T>());
    if results.values().iter().all(|result| is_finite(*result)) {
        return rounded.clone();
    }
    let kept = |row: usize| match (of.value(row), results.value(row)) {
        (_, result) if is_finite(result) => result,
        (x, _) if digits.value(row) > 0 || !is_finite(x) => x,
        _ => T::default_value(),
    };
    let values: Vec<T::Native> = (0..results.len()).map(kept).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), results.nulls().cloned()))
}
