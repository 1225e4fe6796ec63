//! Internal functions that make comparison and arithmetic exact where Arrow's are not.
//!
//! Arrow compares floating point numbers by their bits, so zeros differ and a negative NaN is less
//! than all numbers; it compares times in one unit, which may not represent the other; and it
//! allows a decimal one digit more than its type. Here every NaN is equal to any other and larger
//! than all numbers, as in sorts, joins and groups.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, DecimalType,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, i256,
};
use datafusion_common::DataFusionError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::delegate::{named, of_rows};
use crate::canonical_floats::{canonical_floats, has_floats, with_one_nan};
use crate::decimal_floats::cast_nearest;
use crate::expression::common_type::plain;
use crate::expression::typed::Typed;

/// Nanoseconds in a day.
const DAY: i128 = 86_400 * 1_000_000_000;

/// Nanoseconds since 1970, or of a duration.
const INSTANT: DataType = DataType::Decimal128(38, 0);

/// Gives equal numbers equal bits.
pub(crate) fn canonical(of: Typed) -> Typed {
    match has_floats(&of.data_type) {
        true => applied(Exact::Canonical, of),
        false => of,
    }
}

/// The argument of a call of `canonical`.
pub(crate) fn canonical_of(call: &ScalarFunction) -> Option<&Expr> {
    let called = call.func.inner().downcast_ref::<ExactFunction>()?;
    call.args.first().filter(|_| called.function == Exact::Canonical)
}

/// The argument of a compiled call of `checked`.
pub(crate) fn checked_argument(call: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let call = call.downcast_ref::<ScalarFunctionExpr>()?;
    let called = call.fun().inner().downcast_ref::<ExactFunction>()?;
    call.args().first().filter(|_| called.function == Exact::Digits)
}

/// Gives every NaN the same bits; zeros keep their sign.
pub(crate) fn one_nan(of: Typed) -> Typed {
    match has_floats(&of.data_type) {
        true => applied(Exact::OneNan, of),
        false => of,
    }
}

/// Converts a date, timestamp, duration or interval to nanoseconds. Next to a timestamp with a time
/// zone, one without is local to that zone.
pub(crate) fn instant(of: Typed, other: &Typed) -> Typed {
    let zone = match plain(&other.data_type) {
        DataType::Timestamp(_, zone @ Some(_)) => zone.clone(),
        _ => None,
    };
    let own = plain(&of.data_type).clone();
    let local = match own {
        DataType::Timestamp(unit, None) => DataType::Timestamp(unit, zone.clone()),
        DataType::Date32 if zone.is_some() => DataType::Timestamp(TimeUnit::Second, zone.clone()),
        DataType::Date64 if zone.is_some() => DataType::Timestamp(TimeUnit::Millisecond, zone),
        own => own,
    };
    applied(Exact::Instant, of.cast(&local))
}

/// The date of a timestamp without a time zone.
pub(crate) fn day(of: Typed) -> Typed {
    applied(Exact::Day, of)
}

/// Fails for a decimal with more digits than its type has.
pub(crate) fn checked(of: Typed) -> Typed {
    match of.data_type {
        DataType::Decimal128(38, _) | DataType::Decimal256(76, _) => applied(Exact::Digits, of),
        _ => of,
    }
}

/// Converts a decimal to the nearest `double` or `real`.
pub(crate) fn nearest(of: Typed, to: &DataType) -> Typed {
    let function = if *to == DataType::Float32 { Exact::Single } else { Exact::Double };
    applied(function, of)
}

/// Converts a `double` to a `real`. One that is too large fails, or is null if `tries`.
pub(crate) fn narrowed(of: Typed, tries: bool) -> Typed {
    applied(if tries { Exact::NarrowOrNull } else { Exact::Narrow }, of)
}

fn applied(function: Exact, of: Typed) -> Typed {
    let data_type = function.data_type(&of.data_type);
    let call = ScalarFunction::new_udf(FUNCTIONS[function as usize].clone(), vec![of.expr]);
    Typed::new(Expr::ScalarFunction(call), data_type, of.text)
}

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 9]> = LazyLock::new(|| {
    use Exact::*;
    [Canonical, OneNan, Instant, Digits, Day, Double, Single, Narrow, NarrowOrNull]
        .map(|function| Arc::new(ScalarUDF::new_from_impl(ExactFunction { function, any: any() })))
});

fn any() -> Signature {
    Signature::any(1, Volatility::Immutable)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Exact {
    Canonical,
    OneNan,
    Instant,
    Digits,
    Day,
    Double,
    Single,
    Narrow,
    NarrowOrNull,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactFunction {
    function: Exact,
    any: Signature,
}

impl Exact {
    fn data_type(self, of: &DataType) -> DataType {
        match self {
            Exact::Instant => INSTANT,
            Exact::Day => DataType::Date32,
            Exact::Double => DataType::Float64,
            Exact::Single | Exact::Narrow | Exact::NarrowOrNull => DataType::Float32,
            _ => of.clone(),
        }
    }

    fn of(self, array: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
        match self {
            Exact::Canonical => Ok(canonical_floats(array)),
            Exact::OneNan => Ok(with_one_nan(array)),
            Exact::Instant => nanoseconds(array),
            Exact::Day => days(array),
            Exact::Double | Exact::Single => {
                let plain = cast(array, plain(array.data_type()))?;
                Ok(cast_nearest(&plain, &self.data_type(array.data_type()))?)
            }
            Exact::Digits => {
                digits(array)?;
                Ok(array.clone())
            }
            Exact::Narrow | Exact::NarrowOrNull => narrow(array, self == Exact::NarrowOrNull),
        }
    }
}

impl ScalarUDFImpl for ExactFunction {
    named!(self => match self.function {
        Exact::Canonical => "canonical",
        Exact::OneNan => "one_nan",
        Exact::Instant => "instant",
        Exact::Digits => "checked",
        Exact::Day => "day",
        Exact::Double => "double",
        Exact::Single => "single",
        Exact::Narrow | Exact::NarrowOrNull => "narrow",
    });

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(self.function.data_type(&arg_types[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        of_rows(&args.args[0], |array| self.function.of(array))
    }
}

fn nanoseconds(array: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    use DataType::*;
    let plain_type = plain(array.data_type()).clone();
    let array = &cast(array, &plain_type)?;
    Ok(match plain_type {
        Date32 => scaled::<Date32Type>(array, DAY),
        Date64 => scaled::<Date64Type>(array, 1_000_000),
        Timestamp(TimeUnit::Second, _) => scaled::<TimestampSecondType>(array, 1_000_000_000),
        Timestamp(TimeUnit::Millisecond, _) => scaled::<TimestampMillisecondType>(array, 1_000_000),
        Timestamp(TimeUnit::Microsecond, _) => scaled::<TimestampMicrosecondType>(array, 1000),
        Timestamp(TimeUnit::Nanosecond, _) => scaled::<TimestampNanosecondType>(array, 1),
        Duration(TimeUnit::Second) => scaled::<DurationSecondType>(array, 1_000_000_000),
        Duration(TimeUnit::Millisecond) => scaled::<DurationMillisecondType>(array, 1_000_000),
        Duration(TimeUnit::Microsecond) => scaled::<DurationMicrosecondType>(array, 1000),
        Duration(TimeUnit::Nanosecond) => scaled::<DurationNanosecondType>(array, 1),
        Interval(_) => {
            // As in PostgreSQL and DuckDB, a month counts as 30 days when intervals are compared.
            let array = cast(array, &Interval(IntervalUnit::MonthDayNano))?;
            let array = array.as_primitive::<IntervalMonthDayNanoType>();
            let lengths: PrimitiveArray<Decimal128Type> = array.unary(|x| {
                let days = i128::from(x.months) * 30 + i128::from(x.days);
                days * DAY + i128::from(x.nanoseconds)
            });
            Arc::new(lengths.with_data_type(INSTANT))
        }
        other => {
            let message = format!("{other} is no instant");
            return Err(DataFusionError::Execution(message));
        }
    })
}

fn days(array: &ArrayRef) -> Result<ArrayRef, DataFusionError> {
    let nanoseconds = nanoseconds(array)?;
    let nanoseconds = nanoseconds.as_primitive::<Decimal128Type>();
    let days = nanoseconds.try_unary::<_, Date32Type, DataFusionError>(|x| {
        i32::try_from(x.div_euclid(DAY))
            .map_err(|_| DataFusionError::Execution("overflow: there is no such date".into()))
    });
    Ok(Arc::new(days?))
}

/// The nearest single precision numbers; ones that are too large are null if `tries`.
fn narrow(array: &ArrayRef, tries: bool) -> Result<ArrayRef, DataFusionError> {
    let array = cast(array, &DataType::Float64)?;
    let array = array.as_primitive::<Float64Type>();
    let is_lost = |x: f64| x.is_finite() && (x as f32).is_infinite();
    if tries {
        let narrowed = |x: f64| (!is_lost(x)).then_some(x as f32);
        return Ok(Arc::new(array.unary_opt::<_, Float32Type>(narrowed)));
    }
    match array.iter().flatten().find(|x| is_lost(*x)) {
        None => Ok(Arc::new(array.unary::<_, Float32Type>(|x| x as f32))),
        Some(x) => Err(DataFusionError::Execution(format!("overflow: {x} is too large for real"))),
    }
}

fn scaled<T: ArrowPrimitiveType>(array: &ArrayRef, nanoseconds: i128) -> ArrayRef
where
    i128: From<T::Native>,
{
    let array = array.as_primitive::<T>();
    let scaled: PrimitiveArray<Decimal128Type> = array.unary(|x| i128::from(x) * nanoseconds);
    Arc::new(scaled.with_data_type(INSTANT))
}

fn digits(array: &ArrayRef) -> Result<(), DataFusionError> {
    let fits = match array.data_type() {
        DataType::Decimal128(digits, _) => {
            let most = 10i128.pow(u32::from(*digits)) - 1;
            within::<Decimal128Type>(array, |x| (-most..=most).contains(&x))
        }
        DataType::Decimal256(digits, _) => {
            let most = i256::from_i128(10).wrapping_pow(u32::from(*digits)) - i256::ONE;
            within::<Decimal256Type>(array, |x| x <= most && x >= -most)
        }
        _ => true,
    };
    match fits {
        true => Ok(()),
        false => Err(DataFusionError::Execution(format!(
            "overflow: the result has more digits than {} holds",
            array.data_type()
        ))),
    }
}

fn within<T: ArrowPrimitiveType + DecimalType>(
    array: &ArrayRef,
    fits: impl Fn(T::Native) -> bool,
) -> bool {
    let array = array.as_primitive::<T>();
    match array.null_count() {
        0 => array.values().iter().all(|x| fits(*x)),
        _ => array.iter().flatten().all(fits),
    }
}
