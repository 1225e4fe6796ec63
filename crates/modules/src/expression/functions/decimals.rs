//! Decimals with very different scales: casts that Arrow does not check, and comparisons beyond the
//! digits of any decimal type.
//!
//! Arrow skips the overflow check of a cast if the input digits plus the added digits fit the type,
//! but adds them in 8 bits: beyond 127 the sum is negative, and the multiplication wraps around.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal256Type, i256};
use datafusion_common::DataFusionError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::delegate::{named, of_rows};
use crate::expression::common_type::{decimal_size, plain};
use crate::expression::typed::Typed;

/// Digits added by one cast: with the 76 of the largest decimal, the sum fits 8 bits.
const STEP_DIGITS: i16 = 50;

/// Words of a magnitude at any scale: 76 digits at scale -76 are 228 digits next to scale 76.
const WORDS: usize = 12;

/// An intermediate type for casts that Arrow would not check. Values that fit the target type fit
/// it too.
pub(crate) fn between(from: &DataType, to: &DataType) -> Option<DataType> {
    if !from.is_decimal() || !to.is_decimal() {
        return None;
    }
    let ((digits, scale), (_, wanted)) = (decimal_size(from)?, decimal_size(to)?);
    let added = i16::from(wanted) - i16::from(scale);
    let is_checked = i16::from(digits) + added <= i16::from(i8::MAX);
    let scale = i8::try_from(i16::from(scale) + STEP_DIGITS).ok()?;
    (!is_checked).then_some(DataType::Decimal256(76, scale))
}

/// Converts two numbers without a common decimal type to bytes with the same order.
pub(crate) fn keyed(left: Typed, right: Typed) -> (Typed, Typed) {
    let scale = |of: &Typed| decimal_size(plain(&of.data_type)).map_or(0, |(_, scale)| scale);
    let scale = scale(&left).max(scale(&right));
    (key(left, scale), key(right, scale))
}

fn key(of: Typed, scale: i8) -> Typed {
    let Some((digits, own)) = decimal_size(plain(&of.data_type)) else { return of };
    let of = of.cast(&DataType::Decimal256(digits, own));
    let any = Signature::any(1, Volatility::Immutable);
    let key = Arc::new(ScalarUDF::new_from_impl(DecimalBytes { scale, any }));
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(key, vec![of.expr]));
    Typed::new(call, DataType::Binary, of.text)
}

/// The number at this scale as bytes: the sign, then the magnitude with the most significant byte
/// first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalBytes {
    scale: i8,
    any: Signature,
}

impl ScalarUDFImpl for DecimalBytes {
    named!(self => "key");

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        of_rows(&args.args[0], |array| keys(array, self.scale))
    }
}

fn keys(array: &ArrayRef, scale: i8) -> Result<ArrayRef, DataFusionError> {
    let own = decimal_size(array.data_type()).map_or(0, |(_, scale)| scale);
    let array = cast(array, &DataType::Decimal256(76, own))?;
    let array = array.as_primitive::<Decimal256Type>();
    let zeros = (i16::from(scale) - i16::from(own)).unsigned_abs();
    let mut keys = BinaryBuilder::with_capacity(array.len(), array.len() * (1 + 8 * WORDS));
    for value in array {
        keys.append_option(value.map(|value| ordered(value, zeros)));
    }
    Ok(Arc::new(keys.finish()))
}

/// `value` with `zeros` digits appended, as ordered bytes.
fn ordered(value: i256, zeros: u16) -> Vec<u8> {
    let is_negative = value.is_negative();
    let mut words = [0u64; WORDS];
    let bytes = value.wrapping_abs().to_le_bytes();
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let mut left = u32::from(zeros);
    while left > 0 {
        let step = left.min(19);
        times(&mut words, 10u64.pow(step));
        left -= step;
    }
    // The order of magnitudes is reversed for negative numbers.
    let words = words.iter().rev().map(|word| if is_negative { !word } else { *word });
    std::iter::once(u8::from(!is_negative)).chain(words.flat_map(u64::to_be_bytes)).collect()
}

fn times(words: &mut [u64; WORDS], by: u64) {
    let mut carried: u128 = 0;
    for word in words {
        let product = u128::from(*word) * u128::from(by) + carried;
        *word = product as u64;
        carried = product >> 64;
    }
}
