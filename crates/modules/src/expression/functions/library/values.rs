//! Functions of values of any type: their types and their JSON; and numbers in other bases.

use std::sync::Arc;

use arrow::array::{Array, BinaryArray, StringArray};
use arrow::datatypes::{DataType, TimeUnit};

use super::row_functions::ArgumentKind::{Any, Integer, Text};
use super::row_functions::{Computed, ResultKind, RowFunction, each, integer, text, wrong};
use crate::expression::common_type::plain;
use crate::expression::functions::text_casts::json_of;

/// The most digits to which `to_base` fills up.
const DIGITS_MAX: i64 = 64;

pub(super) const FUNCTIONS: [RowFunction; 4] = [
    RowFunction {
        names: &["to_json", "row_to_json", "array_to_json", "json_quote"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| json_of(&args[0]),
    },
    RowFunction {
        names: &["typeof"],
        takes: &[Any],
        optional: 0,
        returns: ResultKind::Text,
        compute: |args| {
            let name = type_name(args[0].data_type());
            Ok(Arc::new(StringArray::from(vec![name; args[0].len()])))
        },
    },
    RowFunction {
        names: &["to_base"],
        takes: &[Integer, Integer, Integer],
        optional: 1,
        returns: ResultKind::Text,
        compute: |args| {
            let found = each(args, |row| {
                let (number, base) = (integer(args, 0, row), integer(args, 1, row));
                let digits = if args.len() == 3 { integer(args, 2, row) } else { 0 };
                match (number, base, digits) {
                    (0.., 2..=36, 0..=DIGITS_MAX) => {
                        Ok(Some(in_base(number as u64, base as u64, digits as usize)))
                    }
                    _ => wrong(format!(
                        "to_base takes a number that is not negative, a base from 2 to 36 and up \
                         to {DIGITS_MAX} digits, not {number}, {base} and {digits}"
                    )),
                }
            })?;
            Ok(Arc::new(StringArray::from(found)))
        },
    },
    RowFunction {
        names: &["unbin", "from_binary"],
        takes: &[Text],
        optional: 0,
        returns: ResultKind::Bytes,
        compute: |args| {
            let found = each(args, |row| bytes_of_bits(text(args, 0).value(row)).map(Some))?;
            Ok(Arc::new(found.into_iter().collect::<BinaryArray>()))
        },
    },
];

/// The name of a type in SQL, as DuckDB writes it.
fn type_name(of: &DataType) -> String {
    use DataType::*;
    match plain(of) {
        Null => "\"NULL\"".into(),
        Boolean => "BOOLEAN".into(),
        Int8 => "TINYINT".into(),
        Int16 => "SMALLINT".into(),
        Int32 => "INTEGER".into(),
        Int64 => "BIGINT".into(),
        UInt8 => "UTINYINT".into(),
        UInt16 => "USMALLINT".into(),
        UInt32 => "UINTEGER".into(),
        UInt64 => "UBIGINT".into(),
        Float16 | Float32 => "FLOAT".into(),
        Float64 => "DOUBLE".into(),
        Decimal32(digits, scale)
        | Decimal64(digits, scale)
        | Decimal128(digits, scale)
        | Decimal256(digits, scale) => format!("DECIMAL({digits},{scale})"),
        Utf8 | LargeUtf8 | Utf8View => "VARCHAR".into(),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "BLOB".into(),
        Date32 | Date64 => "DATE".into(),
        Time32(_) | Time64(_) => "TIME".into(),
        Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".into(),
        Timestamp(TimeUnit::Second, None) => "TIMESTAMP_S".into(),
        Timestamp(TimeUnit::Millisecond, None) => "TIMESTAMP_MS".into(),
        Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP".into(),
        Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS".into(),
        Interval(_) | Duration(_) => "INTERVAL".into(),
        List(item) | LargeList(item) => format!("{}[]", type_name(item.data_type())),
        FixedSizeList(item, size) => format!("{}[{size}]", type_name(item.data_type())),
        Struct(fields) => {
            let named =
                fields.iter().map(|it| format!("\"{}\" {}", it.name(), type_name(it.data_type())));
            format!("STRUCT({})", named.collect::<Vec<_>>().join(", "))
        }
        Map(entry, _) => match entry.data_type() {
            Struct(fields) => {
                let types: Vec<_> = fields.iter().map(|it| type_name(it.data_type())).collect();
                format!("MAP({})", types.join(", "))
            }
            other => format!("MAP({other})"),
        },
        other => other.to_string(),
    }
}

/// A number in a base of up to 36, with zeros before it up to this number of digits.
fn in_base(mut number: u64, base: u64, digits: usize) -> String {
    let mut found = vec![];
    while number > 0 || found.is_empty() {
        let digit = char::from_digit((number % base) as u32, 36).unwrap_or('0');
        found.push(digit.to_ascii_uppercase());
        number /= base;
    }
    found.resize(found.len().max(digits), '0');
    found.into_iter().rev().collect()
}

/// Bytes of their bits, of which the first byte may have fewer.
fn bytes_of_bits(bits: &str) -> Computed<Vec<u8>> {
    if let Some(wrong_bit) = bits.chars().find(|bit| !matches!(bit, '0' | '1')) {
        return wrong(format!("`{wrong_bit}` is no bit"));
    }
    let bytes = bits.as_bytes().rchunks(8);
    let byte = |bits: &[u8]| bits.iter().fold(0_u8, |byte, bit| byte << 1 | (bit - b'0'));
    Ok(bytes.rev().map(byte).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_a_base() {
        assert_eq!(in_base(0, 2, 0), "0");
        assert_eq!(in_base(255, 16, 6), "0000FF");
        assert_eq!(in_base(35, 36, 0), "Z");
    }

    #[test]
    fn first_byte_may_have_fewer_bits() {
        assert_eq!(bytes_of_bits("000000001").unwrap(), [0, 1]);
        assert!(bytes_of_bits("").unwrap().is_empty());
        assert!(bytes_of_bits("12").is_err());
    }
}
