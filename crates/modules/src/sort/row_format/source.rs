//! Input columns that are packed into rows.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, GenericByteArray,
    OffsetSizeTrait, StringViewArray,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{ByteArrayType, DataType};
use euphrates_flow::{Error, Result};

use super::cell::{Bit, CellKind, LONG, LONG_BYTES};
use crate::batches::array_values::fixed_values;

pub(crate) struct InputColumn<'a> {
    values: ColumnValues<'a>,
    nulls: Option<&'a NullBuffer>,
}

enum ColumnValues<'a> {
    Fixed { width: usize, values: Buffer },
    Boolean(&'a BooleanArray),
    Narrow(&'a [i32], &'a [u8]),
    Wide(&'a [i64], &'a [u8]),
    Text(&'a StringViewArray),
    Binary(&'a BinaryViewArray),
}

impl<'a> InputColumn<'a> {
    /// A column of this kind. Fails if a decimal has more digits than its type.
    pub(crate) fn new(kind: CellKind, array: &'a ArrayRef) -> Result<InputColumn<'a>> {
        let values = match (kind, array.data_type()) {
            (CellKind::Fixed { width }, _) => {
                ColumnValues::Fixed { width, values: fixed_values(array, width) }
            }
            (CellKind::ShortDecimal, _) => {
                let values = short_decimals(array.as_primitive())?;
                ColumnValues::Fixed { width: size_of::<i64>(), values }
            }
            (CellKind::Boolean, _) => ColumnValues::Boolean(array.as_boolean()),
            (_, DataType::Utf8) => narrow(array.as_string::<i32>()),
            (_, DataType::Binary) => narrow(array.as_binary::<i32>()),
            (_, DataType::LargeUtf8) => wide(array.as_string::<i64>()),
            (_, DataType::LargeBinary) => wide(array.as_binary::<i64>()),
            (_, DataType::Utf8View) => ColumnValues::Text(array.as_string_view()),
            _ => ColumnValues::Binary(array.as_binary_view()),
        };
        Ok(InputColumn { values, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) })
    }

    /// Adds the bytes of each variable-length value, including a long length.
    pub(crate) fn add_lengths(&self, lengths: &mut [usize]) {
        match &self.values {
            ColumnValues::Fixed { .. } | ColumnValues::Boolean(_) => {}
            ColumnValues::Narrow(offsets, _) => add_lengths(offsets, lengths),
            ColumnValues::Wide(offsets, _) => add_lengths(offsets, lengths),
            _ => {
                let lengths = lengths.iter_mut().enumerate();
                lengths.for_each(|(row, sum)| *sum += stored_bytes(self.bytes(row).2));
            }
        }
    }

    /// A variable-length value: its bytes, offset and length.
    #[inline(always)]
    pub(crate) fn bytes(&self, row: usize) -> (&'a [u8], usize, usize) {
        let whole = |value: &'a [u8]| (value, 0, value.len());
        match self.values {
            ColumnValues::Narrow(offsets, bytes) => {
                let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
                (bytes, from, to - from)
            }
            ColumnValues::Wide(offsets, bytes) => {
                let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
                (bytes, from, to - from)
            }
            ColumnValues::Text(views) => whole(views.value(row).as_bytes()),
            ColumnValues::Binary(views) => whole(views.value(row)),
            ColumnValues::Fixed { .. } | ColumnValues::Boolean(_) => (&[], 0, 0),
        }
    }

    /// Writes fixed-width values into rows, beginning with row `first`.
    pub(crate) fn put_fixed(&self, at: usize, first: usize, starts: &[i32], out: &mut [u8]) {
        match &self.values {
            ColumnValues::Fixed { width, values } => {
                let values = &values[first * width..][..starts.len() * width];
                // Copies of constant width compile to a few moves.
                match width {
                    1 => put::<1>(values, at, starts, out),
                    2 => put::<2>(values, at, starts, out),
                    4 => put::<4>(values, at, starts, out),
                    8 => put::<8>(values, at, starts, out),
                    16 => put::<16>(values, at, starts, out),
                    _ => {
                        for (start, value) in starts.iter().zip(values.chunks_exact(*width)) {
                            out[*start as usize + at..][..*width].copy_from_slice(value);
                        }
                    }
                }
            }
            ColumnValues::Boolean(values) => {
                for (row, start) in starts.iter().enumerate() {
                    out[*start as usize + at] = values.value(first + row).into();
                }
            }
            _ => {}
        }
    }

    /// Clears the bit of each row in which this column is null.
    pub(crate) fn put_nulls(&self, bit: Bit, first: usize, starts: &[i32], out: &mut [u8]) {
        let Some(nulls) = self.nulls else { return };
        for (row, start) in starts.iter().enumerate() {
            if nulls.is_null(first + row) {
                out[*start as usize + bit.byte] &= !bit.mask;
            }
        }
    }
}

fn narrow<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> ColumnValues<'_> {
    ColumnValues::Narrow(array.value_offsets(), array.value_data())
}

fn wide<T: ByteArrayType<Offset = i64>>(array: &GenericByteArray<T>) -> ColumnValues<'_> {
    ColumnValues::Wide(array.value_offsets(), array.value_data())
}

fn add_lengths<O: OffsetSizeTrait>(offsets: &[O], lengths: &mut [usize]) {
    for (pair, sum) in offsets.windows(2).zip(lengths) {
        *sum += stored_bytes(pair[1].as_usize() - pair[0].as_usize());
    }
}

fn stored_bytes(length: usize) -> usize {
    length + if length >= LONG.into() { LONG_BYTES } else { 0 }
}

/// The values as eight bytes each.
fn short_decimals(array: &Decimal128Array) -> Result<Buffer> {
    let is_short = |value: i128| i128::from(value as i64) == value;
    // Values beneath nulls may be anything.
    let long = || array.iter().flatten().find(|value| !is_short(*value));
    if !array.values().iter().all(|value| is_short(*value))
        && let Some(long) = long()
    {
        let data_type = array.data_type();
        return Err(Error::corrupt(format!("{long} has more digits than its type, {data_type}")));
    }
    Ok(Buffer::from_iter(array.values().iter().map(|value| *value as i64)))
}

fn put<const WIDTH: usize>(values: &[u8], at: usize, starts: &[i32], out: &mut [u8]) {
    for (start, value) in starts.iter().zip(values.as_chunks::<WIDTH>().0) {
        let begin = *start as usize + at;
        out[begin..begin + WIDTH].copy_from_slice(value);
    }
}
