//! Converts decimals to the nearest floating point numbers.
//!
//! Arrow divides the digits by a power of ten. Both are rounded beyond 2^53, and then the last bit
//! of the quotient is wrong.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DecimalType, Float32Type, Float64Type,
};
use arrow::error::ArrowError;

/// Integers up to this are exact doubles, as are powers of ten up to 10^22.
const EXACT_MAX: u64 = 1 << 53;
const EXACT_SCALE_MAX: i8 = 22;

/// Casts like Arrow, but rounds decimals to the nearest number.
pub(crate) fn cast_nearest(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::*;
    macro_rules! nearest {
        ($type:ty, $scale:expr) => {{
            let array = array.as_primitive::<$type>();
            match to {
                Float32 => Ok(Arc::new(all::<$type, Float32Type>(array, |x| parsed(x, *$scale)))),
                _ => Ok(Arc::new(all::<$type, Float64Type>(array, |x| nearest(x, *$scale)))),
            }
        }};
    }
    match (array.data_type(), to) {
        (Decimal32(_, scale), Float32 | Float64) => nearest!(Decimal32Type, scale),
        (Decimal64(_, scale), Float32 | Float64) => nearest!(Decimal64Type, scale),
        (Decimal128(_, scale), Float32 | Float64) => nearest!(Decimal128Type, scale),
        (Decimal256(_, scale), Float32 | Float64) => nearest!(Decimal256Type, scale),
        _ => cast(array, to),
    }
}

fn all<T: DecimalType, F: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    nearest: impl Fn(T::Native) -> F::Native,
) -> PrimitiveArray<F> {
    array.unary(nearest)
}

/// The double nearest to a decimal.
pub(crate) fn nearest<V: ArrowNativeType + Display>(digits: V, scale: i8) -> f64 {
    let small = digits.to_i64().filter(|digits| digits.unsigned_abs() <= EXACT_MAX);
    match small {
        // Exact operands: only the division rounds.
        Some(digits) if (0..=EXACT_SCALE_MAX).contains(&scale) => {
            digits as f64 / 10f64.powi(scale.into())
        }
        _ => parsed(digits, scale),
    }
}

/// The mean of decimals with this sum. Rounded once if the divisor fits 64 bits, else twice.
pub(crate) fn mean(sum: i128, scale: i8, count: i64) -> f64 {
    let divisor = u32::try_from(scale).ok().and_then(|scale| 10u64.checked_pow(scale));
    let count_bits = u64::try_from(count).ok();
    match divisor.zip(count_bits).and_then(|(power, count)| power.checked_mul(count)) {
        Some(divisor @ 1..) => quotient(sum, divisor),
        _ => nearest(sum, scale) / count as f64,
    }
}

/// The double nearest to the quotient.
fn quotient(of: i128, divisor: u64) -> f64 {
    let magnitude = of.unsigned_abs();
    let shift = magnitude.leading_zeros().min(127);
    let (shifted, divisor) = (magnitude << shift, u128::from(divisor));
    // The quotient has at least 64 bits; its last bit records a remainder, which decides a tie.
    let digits = (shifted / divisor) | u128::from(shifted % divisor != 0);
    let quotient = digits as f64 / 2f64.powi(shift as i32);
    if of < 0 { -quotient } else { quotient }
}

/// Parses the decimal as text, which rounds once for any number of digits.
fn parsed<V: Display, F: FromStr>(digits: V, scale: i8) -> F {
    let text = format!("{digits}e{}", -i32::from(scale));
    text.parse().unwrap_or_else(|_| unreachable!("{text} is a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, Decimal128Array, Decimal256Array};
    use arrow::datatypes::i256;

    #[test]
    fn a_decimal_becomes_the_nearest_number() {
        let digits = [9_007_199_254_740_993, -123_456_789_012_345_678, 10i128.pow(38) - 1, 1, 0];
        for scale in [-3, 0, 3, 22, 23, 38] {
            let array = Decimal128Array::from_iter_values(digits)
                .with_data_type(DataType::Decimal128(38, scale));
            let wide = digits.map(|digits| Some(i256::from_i128(digits)));
            let wide =
                Decimal256Array::from_iter(wide).with_data_type(DataType::Decimal256(76, scale));
            let arrays: [ArrayRef; 2] = [Arc::new(array), Arc::new(wide)];
            for array in arrays {
                let doubles = cast_nearest(&array, &DataType::Float64).unwrap();
                let floats = cast_nearest(&array, &DataType::Float32).unwrap();
                for (row, digits) in digits.iter().enumerate() {
                    let text = format!("{digits}e{}", -i32::from(scale));
                    let double: f64 = text.parse().unwrap();
                    let float: f32 = text.parse().unwrap();
                    assert_eq!(doubles.as_primitive::<Float64Type>().value(row), double, "{text}");
                    assert_eq!(floats.as_primitive::<Float32Type>().value(row), float, "{text}");
                }
            }
        }
    }

    #[test]
    fn means_are_rounded_once() {
        let large = 9_007_199_254_740_993;
        for (sum, scale, count, expected) in [
            (large, 0, 1, 9_007_199_254_740_992.0),
            (3 * large, 0, 3, 9_007_199_254_740_992.0),
            // Rounding the sum first would make this a tie.
            (3 * large + 1, 0, 3, 9_007_199_254_740_994.0),
            (-3 * large - 1, 0, 3, -9_007_199_254_740_994.0),
            (i128::from(u64::MAX) * 7, 0, 7, 18_446_744_073_709_551_615.0),
            (1, 0, 3, 1.0 / 3.0),
            (0, 2, 3, 0.0),
            (25, 1, 1, 2.5),
            (i128::from(i64::MIN), 0, i64::MAX, -1.0),
            (10i128.pow(37), 37, 2, 0.5),
            (1, -2, 8, 12.5),
        ] {
            assert_eq!(mean(sum, scale, count), expected, "{sum}e-{scale} / {count}");
        }
    }

    #[test]
    fn nulls_stay_nulls() {
        let array = Decimal128Array::from(vec![None, Some(15)]);
        let array: ArrayRef = Arc::new(array.with_precision_and_scale(10, 1).unwrap());
        let doubles = cast_nearest(&array, &DataType::Float64).unwrap();
        assert!(doubles.is_null(0));
        assert_eq!(doubles.as_primitive::<Float64Type>().value(1), 1.5);
    }
}
