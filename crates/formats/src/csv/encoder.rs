//! Encodes batches as CSV, value by value straight into the chunk.
//!
//! Only texts can need quotes in an ordinary dialect, and few columns have a text that does; so the
//! texts of a batch are searched together, and a column without special bytes is copied.

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use euphrates_flow::{Error, Result};

use crate::csv::dialect::Dialect;
use crate::values::digits::{write_decimal, write_signed, write_unsigned};
use crate::values::iso8601::{write_date, write_moment};
use crate::values::printing::{PrintFormat, printed};

/// The characters of integers, decimals, dates and timestamps.
const CLOCK_BYTES: &[u8] = b"0123456789+-.:T";
/// The characters of floats, infinity and NaN included.
const FLOAT_BYTES: &[u8] = b"0123456789+-.eifnaN";
const BOOLEAN_BYTES: &[u8] = b"truefals";

/// The byte order mark, encoded.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Bytes that are searched for special ones at once.
const SEARCHED_BYTES: usize = 4 << 10;

/// A short text is copied with this many bytes, which is a few instructions.
const SHORT_BYTES: usize = 16;

/// Appends the field of a row, which is not null.
type WriteField<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<()> + 'a>;

struct Column<'a> {
    nulls: Option<&'a NullBuffer>,
    write: WriteField<'a>,
}

/// Appends the rows of a batch, a record each; fails if a type has no text form.
pub fn append(batch: &RecordBatch, dialect: &Dialect, bytes: &mut Vec<u8>) -> Result<()> {
    let batch = &printed(batch, PrintFormat::Csv)?;
    let columns = batch.columns().iter().enumerate().map(|(at, array)| {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Column { nulls, write: field_writer(array, at == 0, dialect)? })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    for row in 0..batch.num_rows() {
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                bytes.push(dialect.delimiter);
            }
            match column.nulls {
                Some(nulls) if nulls.is_null(row) => bytes.extend_from_slice(null(dialect)),
                _ => (column.write)(row, bytes)?,
            }
        }
        bytes.push(b'\n');
    }
    Ok(())
}

/// Writes a record of texts.
pub fn write_record<'a>(
    fields: impl Iterator<Item = &'a str>,
    dialect: &Dialect,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            bytes.push(dialect.delimiter);
        }
        write_field(field.as_bytes(), at == 0, dialect, bytes)?;
    }
    bytes.push(b'\n');
    Ok(())
}

fn null(dialect: &Dialect) -> &[u8] {
    dialect.nulls[0].as_bytes()
}

fn field_writer<'a>(
    array: &'a ArrayRef,
    is_first: bool,
    dialect: &'a Dialect,
) -> Result<WriteField<'a>> {
    use DataType::*;
    macro_rules! numbers {
        ($type:ty, $alphabet:expr, |$value:ident, $out:ident| $write:expr) => {{
            let values = array.as_primitive::<$type>().values();
            values_writer($alphabet, dialect, move |row, $out| {
                let $value = values[row];
                $write
            })
        }};
    }
    Ok(match array.data_type() {
        Int8 => numbers!(Int8Type, CLOCK_BYTES, |value, out| write_signed(value.into(), out)),
        Int16 => numbers!(Int16Type, CLOCK_BYTES, |value, out| write_signed(value.into(), out)),
        Int32 => numbers!(Int32Type, CLOCK_BYTES, |value, out| write_signed(value.into(), out)),
        Int64 => numbers!(Int64Type, CLOCK_BYTES, |value, out| write_signed(value, out)),
        UInt8 => numbers!(UInt8Type, CLOCK_BYTES, |value, out| write_unsigned(value.into(), out)),
        UInt16 => numbers!(UInt16Type, CLOCK_BYTES, |value, out| write_unsigned(value.into(), out)),
        UInt32 => numbers!(UInt32Type, CLOCK_BYTES, |value, out| write_unsigned(value.into(), out)),
        UInt64 => numbers!(UInt64Type, CLOCK_BYTES, |value, out| write_unsigned(value, out)),
        Float32 => numbers!(Float32Type, FLOAT_BYTES, |value, out| write_float(value, out)),
        Float64 => numbers!(Float64Type, FLOAT_BYTES, |value, out| write_float(value, out)),
        Decimal32(_, scale) => {
            numbers!(Decimal32Type, CLOCK_BYTES, |value, out| write_decimal(value, *scale, out))
        }
        Decimal64(_, scale) => {
            numbers!(Decimal64Type, CLOCK_BYTES, |value, out| write_decimal(value, *scale, out))
        }
        Decimal128(_, scale) => {
            numbers!(Decimal128Type, CLOCK_BYTES, |value, out| write_decimal(value, *scale, out))
        }
        Decimal256(_, scale) => {
            numbers!(Decimal256Type, CLOCK_BYTES, |value, out| write_decimal(value, *scale, out))
        }
        Date32 => numbers!(Date32Type, CLOCK_BYTES, |value, out| write_date(value.into(), out)),
        Timestamp(unit, None) => {
            let values = timestamps(array);
            let write =
                move |row: usize, out: &mut Vec<u8>| write_moment(values[row], *unit, 0, out);
            values_writer(CLOCK_BYTES, dialect, write)
        }
        Boolean => {
            let values = array.as_boolean().values();
            values_writer(BOOLEAN_BYTES, dialect, move |row, out| {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" })
            })
        }
        Utf8 => texts_writer(array.as_string::<i32>(), is_first, dialect),
        LargeUtf8 => texts_writer(array.as_string::<i64>(), is_first, dialect),
        _ => {
            let options = FormatOptions::default().with_display_error(false);
            let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
            Box::new(move |row, out| {
                let text = formatter.value(row).try_to_string()?;
                write_field(text.as_bytes(), is_first, dialect, out)
            })
        }
    })
}

fn timestamps(array: &ArrayRef) -> &[i64] {
    use TimeUnit::*;
    match array.data_type() {
        DataType::Timestamp(Second, _) => array.as_primitive::<TimestampSecondType>().values(),
        DataType::Timestamp(Millisecond, _) => {
            array.as_primitive::<TimestampMillisecondType>().values()
        }
        DataType::Timestamp(Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().values()
        }
        _ => array.as_primitive::<TimestampNanosecondType>().values(),
    }
}

fn write_float(value: impl ryu::Float, out: &mut Vec<u8>) {
    out.extend_from_slice(ryu::Buffer::new().format(value).as_bytes());
}

/// Writes values of a type whose texts consist of an alphabet and are never empty.
fn values_writer<'a>(
    alphabet: &[u8],
    dialect: &'a Dialect,
    write: impl Fn(usize, &mut Vec<u8>) + 'a,
) -> WriteField<'a> {
    let is_in = |byte: u8| alphabet.contains(&byte);
    let may_be_null = !null(dialect).is_empty() && null(dialect).iter().all(|byte| is_in(*byte));
    if !may_be_null && !alphabet.iter().any(|byte| dialect.is_special(*byte)) {
        return Box::new(move |row, out| {
            write(row, out);
            Ok(())
        });
    }
    Box::new(move |row, out| {
        let mut text = vec![];
        write(row, &mut text);
        write_field(&text, false, dialect, out)
    })
}

fn texts_writer<'a, O: OffsetSizeTrait>(
    array: &'a GenericStringArray<O>,
    is_first: bool,
    dialect: &'a Dialect,
) -> WriteField<'a> {
    let (offsets, data) = (array.value_offsets(), array.value_data());
    let (begin, end) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
    let has_special = has_special(&data[begin..end], dialect);
    let null = null(dialect);
    Box::new(move |row, out| {
        let (begin, end) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
        let text = &data[begin..end];
        if has_special || text.is_empty() || text == null || (is_first && text.starts_with(MARK)) {
            return write_field(text, is_first, dialect, out);
        }
        match data.get(begin..begin + SHORT_BYTES) {
            Some(more) if text.len() <= SHORT_BYTES => {
                let end = out.len() + text.len();
                out.extend_from_slice(more);
                out.truncate(end);
            }
            _ => out.extend_from_slice(text),
        }
        Ok(())
    })
}

fn has_special(bytes: &[u8], dialect: &Dialect) -> bool {
    let special = dialect.special_bytes();
    let is_special = |byte: u8| special.iter().fold(false, |is, one| is | (byte == *one));
    // Without an exit at each byte, many are compared at once.
    let has_some = |bytes: &[u8]| bytes.iter().fold(false, |is, byte| is | is_special(*byte));
    bytes.chunks(SEARCHED_BYTES).any(has_some)
}

/// Writes a field that is not null. A text that is empty, or would be read as a null, is quoted.
fn write_field(field: &[u8], is_first: bool, dialect: &Dialect, bytes: &mut Vec<u8>) -> Result<()> {
    // At the beginning of the file, a reader would take this field for a byte order mark.
    let is_marked = is_first && field.starts_with(MARK);
    let is_plain = !is_marked && !has_special(field, dialect);
    match dialect.quote {
        _ if is_plain && !field.is_empty() && field != null(dialect) => {
            bytes.extend_from_slice(field)
        }
        Some(quote) => write_quoted(field, quote, dialect.escape, bytes),
        None => write_unquoted(field, is_marked, dialect, bytes)?,
    }
    Ok(())
}

fn write_quoted(field: &[u8], quote: u8, escape: Option<u8>, bytes: &mut Vec<u8>) {
    bytes.push(quote);
    for &byte in field {
        if byte == quote || Some(byte) == escape {
            bytes.push(escape.unwrap_or(quote));
        }
        bytes.push(byte);
    }
    bytes.push(quote);
}

/// Writes a field in a dialect without quotes: special bytes are escaped, and an empty text is
/// written as nothing.
fn write_unquoted(
    field: &[u8],
    is_marked: bool,
    dialect: &Dialect,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let wrong = |what: String| {
        let remedy = "leave out `quote`, or use other characters for delimiter and null";
        Err(Error::failed(format!("{what} cannot be written without quotes")).remedy(remedy))
    };
    if !field.is_empty() && field == null(dialect) {
        return wrong(format!("the text {:?}, which stands for nulls,", dialect.nulls[0]));
    }
    match dialect.escape {
        Some(escape) if is_marked => bytes.push(escape),
        None if is_marked => {
            return wrong("a byte order mark at the beginning of the first column".into());
        }
        _ => {}
    }
    for &byte in field {
        match dialect.escape {
            Some(escape) if dialect.is_special(byte) => bytes.push(escape),
            None if dialect.is_special(byte) => {
                return wrong(format!("a text with {:?}", char::from(byte)));
            }
            _ => {}
        }
        bytes.push(byte);
    }
    Ok(())
}
