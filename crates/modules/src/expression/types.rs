//! SQL type names, and the names of types in messages.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use euphrates_flow::{Error, Result};
use sqlparser::ast::{self, ArrayElemTypeDef, ExactNumberInfo, TimezoneInfo};

/// Maximum digits of a decimal in 128 bits.
const DECIMAL_DIGITS_MAX: u64 = 38;

/// The type of interval literals.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The Arrow type for a type name in SQL, or in Arrow's notation.
pub(crate) fn type_of(sql: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Sql;
    let found = match sql {
        Sql::Boolean | Sql::Bool => DataType::Boolean,
        Sql::TinyInt(_) => DataType::Int8,
        Sql::SmallInt(_) | Sql::Int2(_) | Sql::Int16 => DataType::Int16,
        Sql::Int(_) | Sql::Integer(_) | Sql::Int4(_) | Sql::Int32 => DataType::Int32,
        Sql::BigInt(_) | Sql::Int8(_) | Sql::Int64 => DataType::Int64,
        Sql::TinyIntUnsigned(_) | Sql::UTinyInt | Sql::UInt8 => DataType::UInt8,
        Sql::SmallIntUnsigned(_) | Sql::USmallInt | Sql::UInt16 => DataType::UInt16,
        Sql::IntUnsigned(_) | Sql::IntegerUnsigned(_) | Sql::UInt32 => DataType::UInt32,
        Sql::BigIntUnsigned(_) | Sql::UBigInt | Sql::UInt64 => DataType::UInt64,
        Sql::Float(_) | Sql::Real | Sql::Float4 | Sql::Float32 => DataType::Float32,
        Sql::Double(_) | Sql::DoublePrecision | Sql::Float8 | Sql::Float64 => DataType::Float64,
        Sql::HugeInt | Sql::UHugeInt => DataType::Decimal128(DECIMAL_DIGITS_MAX as u8, 0),
        Sql::Decimal(info) | Sql::Numeric(info) | Sql::Dec(info) => decimal(info)?,
        Sql::Char(_) | Sql::Character(_) | Sql::Varchar(_) | Sql::CharacterVarying(_) => {
            DataType::Utf8
        }
        Sql::Text | Sql::String(_) | Sql::Uuid => DataType::Utf8,
        Sql::Bytea | Sql::Binary(_) | Sql::Varbinary(_) | Sql::Blob(_) => DataType::Binary,
        Sql::Date | Sql::Date32 => DataType::Date32,
        Sql::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        Sql::Timestamp(digits, zone) => timestamp(*digits, zone)?,
        Sql::Datetime(digits) => timestamp(*digits, &TimezoneInfo::None)?,
        Sql::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        Sql::Array(
            ArrayElemTypeDef::AngleBracket(of) | ArrayElemTypeDef::SquareBracket(of, None),
        ) => DataType::List(Arc::new(Field::new_list_field(type_of(of)?, true))),
        other => return arrow_type(&other.to_string()),
    };
    Ok(found)
}

fn decimal(info: &ExactNumberInfo) -> Result<DataType> {
    let (digits, scale) = match *info {
        ExactNumberInfo::None => (DECIMAL_DIGITS_MAX, 10),
        ExactNumberInfo::Precision(digits) => (digits, 0),
        ExactNumberInfo::PrecisionAndScale(digits, scale) => (digits, scale),
    };
    if (1..=DECIMAL_DIGITS_MAX).contains(&digits) && (0..=digits as i64).contains(&scale) {
        return Ok(DataType::Decimal128(digits as u8, scale as i8));
    }
    Err(Error::usage(format!("DECIMAL({digits}, {scale}) is not possible"))
        .remedy("at most 38 digits, of which 0 or more are behind the point"))
}

fn timestamp(digits: Option<u64>, zone: &TimezoneInfo) -> Result<DataType> {
    let unit = match digits {
        Some(0) => TimeUnit::Second,
        Some(3) => TimeUnit::Millisecond,
        None | Some(6) => TimeUnit::Microsecond,
        Some(9) => TimeUnit::Nanosecond,
        Some(digits) => {
            return Err(Error::usage(format!("TIMESTAMP({digits}) is not possible"))
                .remedy("the digits of a second are 0, 3, 6 or 9"));
        }
    };
    let zone = match zone {
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => None,
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => Some("+00:00".into()),
    };
    Ok(DataType::Timestamp(unit, zone))
}

fn arrow_type(name: &str) -> Result<DataType> {
    name.parse().map_err(|_| {
        Error::usage(format!("no type named `{name}`")).remedy(
            "like BIGINT, INT, DOUBLE, REAL, DECIMAL(15, 2), BOOLEAN, TEXT, BYTEA, DATE, \
             TIMESTAMP, TIME or INTERVAL",
        )
    })
}

/// A family of types that can be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Only the value null.
    Null,
    /// Integers, decimals and floating point numbers.
    Number,
    Text,
    Boolean,
    /// Dates, and timestamps with or without a zone.
    Date,
    /// Times of day, without a date.
    Time,
    /// Intervals and durations of any unit.
    Interval,
    /// Binary values of fixed or any length.
    Bytes,
    /// Lists, structs, maps, and every other type.
    Nested,
}

impl Family {
    /// The family of a type.
    pub(crate) fn of(data_type: &DataType) -> Family {
        use DataType::*;
        match data_type {
            Null => Family::Null,
            Boolean => Family::Boolean,
            Utf8 | LargeUtf8 | Utf8View => Family::Text,
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Family::Bytes,
            Date32 | Date64 | Timestamp(..) => Family::Date,
            Time32(_) | Time64(_) => Family::Time,
            Interval(_) | Duration(_) => Family::Interval,
            Dictionary(_, values) => Family::of(values),
            RunEndEncoded(_, values) => Family::of(values.data_type()),
            other if other.is_numeric() => Family::Number,
            _ => Family::Nested,
        }
    }
}

/// The name of a type in messages.
pub(crate) fn in_words(data_type: &DataType) -> String {
    use DataType::*;
    match data_type {
        Null => "null".into(),
        Boolean => "true or false".into(),
        Utf8 | LargeUtf8 | Utf8View => "text".into(),
        Float16 | Float32 | Float64 => "a floating point number".into(),
        Decimal32(digits, scale)
        | Decimal64(digits, scale)
        | Decimal128(digits, scale)
        | Decimal256(digits, scale) => format!("a decimal({digits}, {scale})"),
        Date32 | Date64 => "a date".into(),
        Timestamp(..) => "a timestamp".into(),
        Time32(_) | Time64(_) => "a time of day".into(),
        Interval(_) | Duration(_) => "an interval".into(),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "bytes".into(),
        Dictionary(_, values) => in_words(values),
        other if other.is_integer() => "a whole number".into(),
        other => format!("of type {other}"),
    }
}
