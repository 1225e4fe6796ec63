//! Decimals at scales far apart: casts that Arrow does not check.
//!
//! Arrow takes a cast for one that cannot fail if the digits of its input and those it adds are no
//! more than the type has, and adds them up in 8 bits: beyond 127 the sum is negative, and the
//! multiplication wraps around.

use arrow::datatypes::DataType;

use super::common::decimal_size;

/// Digits that a cast adds at once: with the 76 of the largest decimal they fit 8 bits.
const STEP_DIGITS: i16 = 50;

/// The type that a decimal takes on its way to another, if Arrow would not check the direct cast.
/// What fits the last type fits all of them.
pub fn between(from: &DataType, to: &DataType) -> Option<DataType> {
    if !from.is_decimal() || !to.is_decimal() {
        return None;
    }
    let ((digits, scale), (_, wanted)) = (decimal_size(from)?, decimal_size(to)?);
    let added = i16::from(wanted) - i16::from(scale);
    let is_checked = i16::from(digits) + added <= i16::from(i8::MAX);
    let scale = i8::try_from(i16::from(scale) + STEP_DIGITS).ok()?;
    (!is_checked).then_some(DataType::Decimal256(76, scale))
}
