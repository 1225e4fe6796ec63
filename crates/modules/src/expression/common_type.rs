//! The common type of two types: the one in which their values are compared, or in which they are
//! alternatives of one result.
//!
//! It holds every value of both where such a type exists. If one of them is a floating point type,
//! it is Float32 if that holds all values, else Float64, which rounds large integers and decimals
//! (a decimal has no infinity, and limited digits). If no decimal has enough digits, it is the
//! largest, and a value that does not fit fails at run time. For dates and times it has the finer
//! unit. DataFusion's own rules prefer decimals to doubles and nanoseconds to everything; they
//! apply only to other types.

use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, TimeUnit};
use euphrates_formats::type_unification::narrowest_decimal;

use super::types::Family;

/// The value type of dictionaries and run-end encoded types.
pub(crate) fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        other => other,
    }
}

/// The type that holds all numbers, dates, times or bytes of two types; `None` for other types, or
/// if there is none.
pub(crate) fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::*;
    let (one, other) = (plain(one), plain(other));
    match (one, other) {
        (Null, some) | (some, Null) => Some(some.clone()),
        (one, other) if one == other => Some(one.clone()),
        (one, other) if one.is_numeric() && other.is_numeric() => numbers(&[one, other]),
        (Date32, Date64) | (Date64, Date32) => Some(Date64),
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => {
            Some(Timestamp(*unit, zone.clone()))
        }
        (Date64, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date64) => {
            Some(Timestamp(*unit.max(&TimeUnit::Millisecond), zone.clone()))
        }
        (Timestamp(unit, zone), Timestamp(same, other)) => {
            Some(Timestamp(*unit.max(same), zone.clone().or_else(|| other.clone())))
        }
        (FixedSizeBinary(_), bytes @ (Binary | LargeBinary | BinaryView))
        | (bytes @ (Binary | LargeBinary | BinaryView), FixedSizeBinary(_)) => Some(bytes.clone()),
        (FixedSizeBinary(_), FixedSizeBinary(_)) => Some(Binary),
        (Binary, LargeBinary) | (LargeBinary, Binary) => Some(LargeBinary),
        (Duration(unit), Duration(other)) => Some(Duration(*unit.max(other))),
        _ => Some(time(*unit_of_day(one)?.max(unit_of_day(other)?))),
    }
}

fn unit_of_day(data_type: &DataType) -> Option<&TimeUnit> {
    match data_type {
        DataType::Time32(unit) | DataType::Time64(unit) => Some(unit),
        _ => None,
    }
}

fn time(unit: TimeUnit) -> DataType {
    match unit {
        TimeUnit::Second | TimeUnit::Millisecond => DataType::Time32(unit),
        TimeUnit::Microsecond | TimeUnit::Nanosecond => DataType::Time64(unit),
    }
}

/// The type that holds the numbers of all these types, in any order; `None` if it needs more than
/// the 76 digits of the largest decimal.
fn numbers(types: &[&DataType]) -> Option<DataType> {
    use DataType::*;
    if types.iter().any(|one| one.is_floating()) {
        let holds =
            |one: &DataType| matches!(one, Float32 | Float16 | Int8 | Int16 | UInt8 | UInt16);
        return Some(if types.iter().all(|one| holds(one)) { Float32 } else { Float64 });
    }
    if types.iter().all(|one| one.is_integer()) {
        return Some(integers(types));
    }
    let (whole, scale) = digits_of_all(types)?;
    let width = |one: &&DataType| match one {
        Decimal32(..) => 0,
        Decimal64(..) => 1,
        Decimal256(..) => 3,
        _ => 2,
    };
    narrowest_decimal(types.iter().map(width).max()?, whole, scale)
}

/// The maximum number of digits before the point, and of those behind it.
fn digits_of_all(types: &[&DataType]) -> Option<(i16, i8)> {
    let sizes: Option<Vec<(u8, i8)>> = types.iter().map(|one| decimal_size(one)).collect();
    let sizes = sizes?;
    let whole = sizes.iter().map(|(digits, scale)| i16::from(*digits) - i16::from(*scale)).max()?;
    Some((whole, sizes.iter().map(|(_, scale)| *scale).max()?))
}

/// The integer type that holds all values; a decimal where there is none.
fn integers(types: &[&DataType]) -> DataType {
    use DataType::*;
    let is_signed = types.iter().any(|one| one.is_signed_integer());
    let bits = |one: &DataType| one.primitive_width().unwrap_or(8) * 8;
    let needed = |one: &&DataType| match is_signed && one.is_unsigned_integer() {
        true => bits(one) * 2,
        false => bits(one),
    };
    match (types.iter().map(needed).max().unwrap_or(64), is_signed) {
        (8, true) => Int8,
        (16, true) => Int16,
        (32, true) => Int32,
        (64, true) => Int64,
        (8, false) => UInt8,
        (16, false) => UInt16,
        (32, false) => UInt32,
        (64, false) => UInt64,
        // A signed integer next to an unsigned one of 64 bits.
        _ => Decimal128(20, 0),
    }
}

/// Digits and scale of a decimal, or of the decimal that holds an integer type.
pub(crate) fn decimal_size(data_type: &DataType) -> Option<(u8, i8)> {
    use DataType::*;
    Some(match data_type {
        Int8 | UInt8 => (3, 0),
        Int16 | UInt16 => (5, 0),
        Int32 | UInt32 => (10, 0),
        Int64 => (19, 0),
        UInt64 => (20, 0),
        Decimal32(digits, scale)
        | Decimal64(digits, scale)
        | Decimal128(digits, scale)
        | Decimal256(digits, scale) => (*digits, *scale),
        _ => return None,
    })
}

/// The common type of all, if they are equal or of one family with rules here.
pub(crate) fn of_all<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let mut known = types.filter(|one| **one != DataType::Null);
    let first = known.clone().next()?;
    if known.clone().all(|one| one == first) {
        return Some(first.clone());
    }
    let family = Family::of(first);
    if !known.clone().all(|one| Family::of(one) == family) {
        return None;
    }
    if family == Family::Number {
        let all: Vec<&DataType> = known.map(plain).collect();
        return numbers(&all).or_else(|| checked(&all));
    }
    known.try_fold(first.clone(), |one, other| common(&one, other))
}

/// The largest decimal with the maximum scale. A value that does not fit fails at run time.
fn checked(types: &[&DataType]) -> Option<DataType> {
    let (_, scale) = digits_of_all(types)?;
    Some(DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))
}
