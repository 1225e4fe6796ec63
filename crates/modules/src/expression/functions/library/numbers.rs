//! Functions of numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::Float64Type;

use super::row_functions::ArgumentKind::{Float, Integer};
use super::row_functions::{Computed, ResultKind, RowFunction, each, integer, wrong};

/// Names of units of bytes, each 1024 times the one before.
const BYTE_UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

pub(super) const FUNCTIONS: [RowFunction; 11] = [
    RowFunction {
        names: &["bit_count"],
        takes: &[Integer],
        optional: 0,
        returns: ResultKind::Integer,
        compute: |args| {
            let found = each(args, |row| Ok(Some(integer(args, 0, row).count_ones().into())))?;
            Ok(Arc::new(Int64Array::from(found)))
        },
    },
    RowFunction {
        names: &["bin"],
        takes: &[Integer],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            let found = each(args, |row| Ok(Some(format!("{:b}", integer(args, 0, row)))))?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["even"],
        takes: &[Float],
        optional: 0,
        returns: ResultKind::Float,
        compute: |args| {
            of_numbers(args, |number| {
                let away = number.abs().ceil();
                let even = if away % 2.0 == 0.0 { away } else { away + 1.0 };
                even.copysign(number)
            })
        },
    },
    RowFunction {
        names: &["round_even", "roundbankers"],
        takes: &[Float, Integer],
        optional: 1,
        returns: ResultKind::Float,
        compute: |args| {
            let numbers = args[0].as_primitive::<Float64Type>();
            let found = each(args, |row| {
                let digits = if args.len() == 2 { integer(args, 1, row) } else { 0 };
                let scale = 10_f64.powi(digits.clamp(-308, 308) as i32);
                let rounded = (numbers.value(row) * scale).round_ties_even() / scale;
                Ok(Some(if rounded.is_finite() { rounded } else { numbers.value(row) }))
            })?;
            Ok(Arc::new(Float64Array::from(found)))
        },
    },
    RowFunction {
        names: &["fmod"],
        takes: &[Float, Float],
        optional: 0,
        returns: ResultKind::Float,
        compute: |args| {
            let number = |at: usize, row: usize| args[at].as_primitive::<Float64Type>().value(row);
            let found = each(args, |row| {
                let (number, by) = (number(0, row), number(1, row));
                if by == 0.0 {
                    return wrong("division by zero".into());
                }
                // The rest has the sign of the divisor.
                let rest = number % by;
                let is_turned = rest != 0.0 && (rest < 0.0) != (by < 0.0);
                Ok(Some(if is_turned { rest + by } else { rest }))
            })?;
            Ok(Arc::new(Float64Array::from(found)))
        },
    },
    RowFunction {
        names: &["signbit"],
        takes: &[Float],
        optional: 0,
        returns: ResultKind::Boolean,
        compute: |args| {
            let numbers = args[0].as_primitive::<Float64Type>();
            let found = each(args, |row| Ok(Some(numbers.value(row).is_sign_negative())))?;
            Ok(Arc::new(BooleanArray::from(found)))
        },
    },
    RowFunction {
        names: &["gamma"],
        takes: &[Float],
        optional: 0,
        returns: ResultKind::Float,
        compute: |args| of_numbers(args, libm::tgamma),
    },
    RowFunction {
        names: &["lgamma"],
        takes: &[Float],
        optional: 0,
        returns: ResultKind::Float,
        compute: |args| of_numbers(args, libm::lgamma),
    },
    RowFunction {
        names: &["nextafter"],
        takes: &[Float, Float],
        optional: 0,
        returns: ResultKind::Float,
        compute: |args| {
            let number = |at: usize, row: usize| args[at].as_primitive::<Float64Type>().value(row);
            let found =
                each(args, |row| Ok(Some(libm::nextafter(number(0, row), number(1, row)))))?;
            Ok(Arc::new(Float64Array::from(found)))
        },
    },
    RowFunction {
        names: &["_nextafter_single"],
        takes: &[Float, Float],
        optional: 0,
        returns: ResultKind::Float,
        compute: |args| {
            let number =
                |at: usize, row: usize| args[at].as_primitive::<Float64Type>().value(row) as f32;
            let next = |row: usize| libm::nextafterf(number(0, row), number(1, row));
            let found = each(args, |row| Ok(Some(f64::from(next(row)))))?;
            Ok(Arc::new(Float64Array::from(found)))
        },
    },
    RowFunction {
        names: &["format_bytes", "formatreadablesize"],
        takes: &[Integer],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            let found = each(args, |row| Ok(Some(readable(integer(args, 0, row)))))?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
];

fn of_numbers(args: &[ArrayRef], of: impl Fn(f64) -> f64) -> Computed<ArrayRef> {
    let numbers = args[0].as_primitive::<Float64Type>();
    let found = each(args, |row| Ok(Some(of(numbers.value(row)))))?;
    Ok(Arc::new(Float64Array::from(found)))
}

/// A number of bytes with a unit, and one digit behind the point.
fn readable(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    match bytes {
        1 => return format!("{sign}1 byte"),
        0..1024 => return format!("{sign}{bytes} bytes"),
        _ => {}
    }
    let unit = (bytes.ilog2() / 10).min(5);
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    format!("{sign}{}.{} {}", tenths / 10, tenths % 10, BYTE_UNITS[unit as usize - 1])
}
