//! `round` and `trunc` of floating point numbers, for any number of digits, and `ceil` and `floor`
//! of decimals; and the rounding of explicit casts.
//!
//! DataFusion multiplies and divides by a power of ten, and either may leave the range of the type.
//! In that case the number keeps all its digits, or none. Its `ceil` keeps the scale of a decimal,
//! which has no room for the carry of 9.5; here the result has no digits behind the point.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimeUnit, i256,
};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::delegate::{described_by_plain, named, of_rows};
use super::materialize;
use crate::expression::common_type::{decimal_size, plain};
use crate::expression::typed::Typed;

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

/// Wraps `ceil` or `floor` so that a decimal becomes one without digits behind the point.
pub(crate) fn whole(plain: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let is_up = plain.name() == "ceil";
    Arc::new(ScalarUDF::new_from_impl(Whole { plain, is_up }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    plain: Arc<ScalarUDF>,
    is_up: bool,
}

/// The type of the whole numbers of decimals; `None` for types without digits behind a point.
fn whole_type(of: &DataType) -> Option<DataType> {
    match *of {
        DataType::Decimal32(digits, 1..) => Some(DataType::Decimal32(digits, 0)),
        DataType::Decimal64(digits, 1..) => Some(DataType::Decimal64(digits, 0)),
        DataType::Decimal128(digits, 1..) => Some(DataType::Decimal128(digits, 0)),
        DataType::Decimal256(digits, 1..) => Some(DataType::Decimal256(digits, 0)),
        _ => None,
    }
}

impl Whole {
    fn of(&self, array: &ArrayRef, to: &DataType) -> Result<ArrayRef, DataFusionError> {
        let (digits, scale) = decimal_size(array.data_type()).unwrap_or((0, 0));
        if let DataType::Decimal256(..) = to {
            let unit = i256::from_i128(10).wrapping_pow(scale.unsigned_abs().into());
            let array = array.as_primitive::<Decimal256Type>();
            let whole: PrimitiveArray<Decimal256Type> = array.unary(|number| {
                let (whole, rest) = (number.wrapping_div(unit), number.wrapping_rem(unit));
                match self.is_up {
                    true if rest > i256::ZERO => whole + i256::ONE,
                    false if rest < i256::ZERO => whole - i256::ONE,
                    _ => whole,
                }
            });
            return Ok(Arc::new(whole.with_data_type(to.clone())));
        }
        let wide = cast(array, &DataType::Decimal128(digits, scale))?;
        let unit = 10_i128.pow(scale.unsigned_abs().into());
        let whole: PrimitiveArray<Decimal128Type> =
            wide.as_primitive::<Decimal128Type>().unary(|number| match self.is_up {
                true => -(-number).div_euclid(unit),
                false => number.div_euclid(unit),
            });
        let whole: ArrayRef = Arc::new(whole.with_data_type(DataType::Decimal128(digits, 0)));
        Ok(cast(&whole, to)?)
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn aliases(&self) -> &[String] {
        self.plain.aliases()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>, DataFusionError> {
        self.plain.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.plain.documentation()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType, DataFusionError> {
        match types.first().and_then(whole_type) {
            Some(whole) => Ok(whole),
            None => self.plain.return_type(types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        match args.args.first().and_then(|of| whole_type(&of.data_type())) {
            Some(to) => of_rows(&args.args[0], |array| self.of(array, &to)),
            None => self.plain.invoke_with_args(args),
        }
    }
}

/// What an explicit cast to a type starts from: of numbers with a fraction the nearest whole one,
/// of instants the nearest one in the coarser unit, as in DuckDB. Halves go to the even number
/// from floating point numbers, and away from zero from decimals and instants.
pub(crate) fn nearest(of: Typed, to: &DataType) -> Typed {
    let from = plain(&of.data_type).clone();
    if let Some(whole) = whole_type(&from).filter(|_| to.is_integer()) {
        return of.cast(&whole);
    }
    let rounded = match (&from, to) {
        (DataType::Float16, to) if to.is_integer() => DataType::Float32,
        (from, to) if from.is_floating() && to.is_integer() => from.clone(),
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other, _)) if other < unit => {
            DataType::Timestamp(*other, zone.clone())
        }
        _ => return of,
    };
    let of = materialize::unpacked(of);
    let any = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::new_from_impl(Nearest { to: rounded.clone(), any }));
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of.expr]));
    Typed::new(call, rounded, of.text)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Nearest {
    to: DataType,
    any: Signature,
}

impl ScalarUDFImpl for Nearest {
    named!(self => "nearest");

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        of_rows(&args.args[0], |array| {
            let DataType::Timestamp(unit, _) = array.data_type() else {
                let numbers = cast(array, &self.to)?;
                return Ok(match numbers.data_type() {
                    DataType::Float32 => Arc::new(
                        numbers
                            .as_primitive::<Float32Type>()
                            .unary::<_, Float32Type>(f32::round_ties_even),
                    ),
                    _ => Arc::new(
                        numbers
                            .as_primitive::<Float64Type>()
                            .unary::<_, Float64Type>(f64::round_ties_even),
                    ),
                });
            };
            let DataType::Timestamp(coarser, _) = self.to else { return Ok(array.clone()) };
            let by = parts(*unit) / parts(coarser);
            let count = cast(array, &DataType::Int64)?;
            let rounded = count.as_primitive::<Int64Type>().unary::<_, Int64Type>(|count| {
                let (whole, rest) = (count / by, count % by);
                whole + if rest.abs() >= by - by / 2 { rest.signum() } else { 0 }
            });
            Ok(cast(&rounded, &self.to)?)
        })
    }
}

/// How many of the unit are a second.
fn parts(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
