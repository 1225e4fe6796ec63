//! The type in which values of two types are compared, or in which they come out of one expression.
//!
//! It holds every value of both: where one of them is a floating point number that is a double (a
//! decimal has no infinity, and its digits end), and a date or time takes the finer unit.
//! DataFusion has rules of its own, which prefer decimals to doubles and nanoseconds to everything;
//! they are asked only for what is not a number, a date or a time.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_expr::type_coercion::other::get_coerce_type_for_case_expression;
use euphrates_flow::{Error, Result};

use super::decimals;
use super::exact;
use super::literals::{exact_decimal, fit};
use super::typed::Typed;
use super::types::Family;

/// Digits of decimals of 32, 64, 128 and 256 bits.
const DIGITS_MAX: [u8; 4] = [9, 18, 38, 76];

/// The type without a dictionary or runs around it.
pub fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        other => other,
    }
}

/// The type that holds all numbers, dates, times or bytes of two types; `None` for other types, and
/// where there is no such type.
pub fn common(one: &DataType, other: &DataType) -> Option<DataType> {
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

/// The type that holds the numbers of all these types, whatever their order; `None` if that takes
/// more than the 76 digits of the largest decimal.
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
    let digits = u8::try_from(whole + i16::from(scale)).ok()?.max(1);
    let width = |one: &&DataType| match one {
        Decimal32(..) => 0,
        Decimal64(..) => 1,
        Decimal256(..) => 3,
        _ => 2,
    };
    let least = types.iter().map(width).max()?;
    Some(match (least..4).find(|width| digits <= DIGITS_MAX[*width])? {
        0 => Decimal32(digits, scale),
        1 => Decimal64(digits, scale),
        2 => Decimal128(digits, scale),
        _ => Decimal256(digits, scale),
    })
}

/// The digits before the point of the type that has most of them, and those behind it likewise.
fn digits_of_all(types: &[&DataType]) -> Option<(i16, i8)> {
    let sizes: Option<Vec<(u8, i8)>> = types.iter().map(|one| decimal_size(one)).collect();
    let sizes = sizes?;
    let whole = sizes.iter().map(|(digits, scale)| i16::from(*digits) - i16::from(*scale)).max()?;
    Some((whole, sizes.iter().map(|(_, scale)| *scale).max()?))
}

/// The integer type that holds those of all; a decimal where there is none.
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
        // A signed one beside one of 64 bits without a sign.
        _ => Decimal128(20, 0),
    }
}

/// Digits, and those of them behind the point, of a decimal, or of one that holds an integer.
pub fn decimal_size(data_type: &DataType) -> Option<(u8, i8)> {
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

/// Two expressions of one family in types in which their values can be compared; all of it exact.
pub fn compared(left: Typed, right: Typed) -> (Typed, Typed) {
    let (one, other) = (plain(&left.data_type), plain(&right.data_type));
    let same = left.data_type == right.data_type;
    let is_interval = |one: &DataType| matches!(one, DataType::Interval(_));
    let differ = is_instant(one) && is_instant(other) && one != other;
    if differ || Family::of(one) == Family::of(other) && (is_interval(one) || is_interval(other)) {
        return (exact::instant(left.clone(), &right), exact::instant(right, &left));
    }
    let exact = |one: &DataType| decimal_size(one).is_some();
    let (left, right) = match common(one, other) {
        None if exact(one) && exact(other) => return decimals::keyed(left, right),
        Some(common) if !same => (left.cast(&common), right.cast(&common)),
        _ => (left, right),
    };
    (exact::canonical(left), exact::canonical(right))
}

fn is_instant(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Date32 | Date64 | Timestamp(..) | Duration(_))
}

/// Expressions that one value is chosen from, in one type; an error names them.
pub fn unified(items: Vec<Typed>, what: &str) -> Result<Vec<Typed>> {
    let columns = items.iter().filter(|item| item.value().is_none());
    let columns: Vec<&DataType> = columns.map(|item| &item.data_type).collect();
    let of_columns = of_all(columns.iter().copied());
    let items: Vec<Typed> =
        items.into_iter().map(|item| beside(item, of_columns.as_ref())).collect();
    let types: Vec<DataType> = items.iter().map(|item| item.data_type.clone()).collect();
    let unified = of_all(types.iter()).or_else(|| match reads_text(&items) {
        false => get_coerce_type_for_case_expression(&types, None),
        true => None,
    });
    let Some(unified) = unified else {
        let all: Vec<_> = items.iter().map(Typed::described).collect();
        return Err(Error::usage(format!("{what} have no common type"))
            .remedy(format!("convert some of {} with CAST(… AS …)", all.join(", "))));
    };
    Ok(items.into_iter().map(|item| item.cast(&unified)).collect())
}

/// Whether a column of text would have to read as times, which most text does not.
fn reads_text(items: &[Typed]) -> bool {
    let is_text = |item: &Typed| item.family() == Family::Text && item.value().is_none();
    let is_time =
        |item: &Typed| matches!(item.family(), Family::Date | Family::Time | Family::Interval);
    items.iter().any(is_text) && items.iter().any(is_time)
}

/// The type of all, if they are of one family that has rules here, or the same.
fn of_all<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
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

/// The largest decimal with all digits behind the point: a value that does not fit it fails.
fn checked(types: &[&DataType]) -> Option<DataType> {
    let (_, scale) = digits_of_all(types)?;
    Some(DataType::Decimal256(DIGITS_MAX[3], scale))
}

/// A literal in the type of the columns beside it if that loses nothing; else, beside decimals, as
/// the decimal it was written as.
fn beside(item: Typed, columns: Option<&DataType>) -> Typed {
    let (Some(value), Some(columns)) = (item.value(), columns) else { return item };
    if value.is_null() || Family::of(&item.data_type) != Family::of(columns) {
        return item;
    }
    // Whoever writes 0.0 beside integers, or casts to a double, wants no integer.
    let columns_are = plain(columns);
    let is_cast = item.text.starts_with("CAST");
    if item.data_type.is_floating() && (is_cast || columns_are.is_integer()) {
        return item;
    }
    let decimal = || columns_are.is_decimal().then(|| exact_decimal(&item)).flatten();
    match fit(value, &item.text, columns_are).or_else(decimal) {
        Some(value) => Typed::literal(value, item.text),
        None => item,
    }
}

/// Two numbers in types that arithmetic takes; an integer without a sign and one with become
/// decimals where no integer holds both.
pub fn reckoned(left: Typed, right: Typed) -> (Typed, Typed) {
    let (left, right) = beside_each_other(left, right);
    let (one, other) = (plain(&left.data_type), plain(&right.data_type));
    if !one.is_decimal() && !other.is_decimal() || one.is_floating() || other.is_floating() {
        return match common(one, other) {
            Some(common) => (left.cast(&common), right.cast(&common)),
            None => (left, right),
        };
    }
    let is_large = |one: &DataType| matches!(one, DataType::Decimal256(..));
    let is_large = is_large(one) || is_large(other);
    let wide = |side: Typed| match decimal_size(plain(&side.data_type)) {
        Some((digits, scale)) if is_large => side.cast(&DataType::Decimal256(digits, scale)),
        Some((digits, scale)) => side.cast(&DataType::Decimal128(digits, scale)),
        None => side,
    };
    (wide(left), wide(right))
}

/// A literal beside a decimal is one; a positive whole one beside an integer without a sign has
/// none.
fn beside_each_other(left: Typed, right: Typed) -> (Typed, Typed) {
    let meet = |literal: &Typed, other: &Typed| -> Option<Typed> {
        let value = literal.value().filter(|_| other.value().is_none())?;
        let value = match plain(&other.data_type) {
            decimal if decimal.is_decimal() => exact_decimal(literal),
            DataType::UInt64 if literal.data_type.is_integer() => {
                fit(value, &literal.text, &DataType::UInt64)
            }
            _ => None,
        };
        Some(Typed::literal(value?, literal.text.clone()))
    };
    if let Some(left) = meet(&left, &right) {
        return (left, right);
    }
    let right = meet(&right, &left).unwrap_or(right);
    (left, right)
}
