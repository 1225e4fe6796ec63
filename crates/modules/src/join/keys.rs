//! Keys as hashes, and as bytes where a hash does not say it all.
//!
//! A key of at most eight bytes is its hash: mixing loses nothing, so equal hashes are equal keys.
//! Others are compared byte by byte when their hashes are equal: short ones packed side by side,
//! one text as it is, anything else in `arrow-row`'s format.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt64Array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use euphrates_flow::Result;

use super::plan::SidePlan;
use crate::equal::with_equal_bytes;
use crate::hashing::hash_rows;
use crate::sort::values::fixed_values;

/// Bytes of a packed key at most.
const PACKED_BYTES_MAX: usize = 16;
const HASH_BYTES: usize = size_of::<u64>();

/// How keys of one side are read.
#[derive(Clone)]
pub struct Keys {
    columns: Vec<(usize, DataType)>,
    form: Form,
}

#[derive(Clone)]
enum Form {
    /// One column that is its hash.
    One,
    /// Columns of these widths, packed into eight bytes which are their hash.
    Short(Vec<usize>),
    /// Columns of these widths, packed.
    Packed(Vec<usize>),
    /// One column of text or bytes.
    Bytes,
    /// Anything.
    Rows(Arc<RowConverter>),
}

/// Keys of a batch.
pub struct Encoded {
    /// Their hashes.
    pub hashes: Vec<u64>,
    /// What must be equal besides, if hashes do not say it all.
    pub checks: Option<BinaryArray>,
}

impl Keys {
    /// Of this side. Those of the other one come out alike.
    pub fn new(side: &SidePlan) -> Result<Keys> {
        let columns = side.keys.clone();
        let widths: Option<Vec<usize>> =
            columns.iter().map(|(_, data_type)| width(data_type)).collect();
        let form = match (columns.as_slice(), widths) {
            ([(_, DataType::Decimal128(digits, _))], _) if *digits <= 18 => Form::One,
            ([_], Some(widths)) if widths[0] <= HASH_BYTES => Form::One,
            (_, Some(widths)) if widths.iter().sum::<usize>() <= HASH_BYTES => Form::Short(widths),
            (_, Some(widths)) if widths.iter().sum::<usize>() <= PACKED_BYTES_MAX => {
                Form::Packed(widths)
            }
            ([(_, data_type)], _) if is_bytes(data_type) => Form::Bytes,
            _ => {
                let field = |(_, data_type): &(usize, DataType)| SortField::new(data_type.clone());
                Form::Rows(Arc::new(RowConverter::new(columns.iter().map(field).collect())?))
            }
        };
        Ok(Keys { columns, form })
    }

    /// Whether equal hashes are equal keys.
    pub fn are_hashes(&self) -> bool {
        matches!(self.form, Form::One | Form::Short(_))
    }

    /// The rows whose keys are null somewhere, which match nothing; and the others.
    pub fn part_nulls(&self, batch: RecordBatch) -> Result<(Option<RecordBatch>, RecordBatch)> {
        let nulls = self.columns.iter().fold(None, |nulls, (column, _)| {
            NullBuffer::union(nulls.as_ref(), batch.column(*column).logical_nulls().as_ref())
        });
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return Ok((None, batch));
        };
        let valid = nulls.into_inner();
        let without = filter_record_batch(&batch, &(!&valid).into())?;
        Ok((Some(without), filter_record_batch(&batch, &valid.into())?))
    }

    /// The keys of a batch, none of which is null.
    pub fn encode(&self, batch: &RecordBatch) -> Result<Encoded> {
        let column =
            |(column, data_type): &(usize, DataType)| plain(batch.column(*column), data_type);
        let columns: Vec<ArrayRef> = self.columns.iter().map(column).collect::<Result<_>>()?;
        let rows = batch.num_rows();
        Ok(match &self.form {
            Form::One => Encoded { hashes: hash_rows(&columns)?, checks: None },
            Form::Short(widths) => {
                let packed = pack(&columns, widths, HASH_BYTES, rows);
                let packed = packed.as_chunks().0.iter().copied().map(u64::from_le_bytes);
                let packed = UInt64Array::from_iter_values(packed);
                Encoded { hashes: hash_rows(&[Arc::new(packed)])?, checks: None }
            }
            Form::Packed(widths) => {
                let packed = pack(&columns, widths, PACKED_BYTES_MAX, rows);
                let ends = OffsetBuffer::from_repeated_length(PACKED_BYTES_MAX, rows);
                let checks = BinaryArray::new(ends, Buffer::from_vec(packed), None);
                Encoded { hashes: hash_rows(&columns)?, checks: Some(checks) }
            }
            Form::Bytes => {
                Encoded { hashes: hash_rows(&columns)?, checks: Some(bytes(&columns[0])?) }
            }
            Form::Rows(converter) => {
                let checks = converter.convert_columns(&columns)?.try_into_binary()?;
                Encoded { hashes: hash_rows(&columns)?, checks: Some(checks) }
            }
        })
    }
}

/// The bytes of a value, if all values of this type have as many and compare by them.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(_) | DataType::Float16 => None,
        other => other.primitive_width(),
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// A key column in the type keys are compared in, where equal values have equal bytes.
fn plain(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let column = match column.data_type() == data_type {
        true => column.clone(),
        false => cast(column, data_type)?,
    };
    Ok(with_equal_bytes(&column))
}

/// Text or bytes as they are compared. A cast of a slice of large ones would keep its place in the
/// whole column, which small offsets may not reach.
fn bytes(column: &ArrayRef) -> Result<BinaryArray> {
    let is_large = matches!(column.data_type(), DataType::LargeUtf8 | DataType::LargeBinary);
    if is_large {
        let large = cast(column, &DataType::LargeBinary)?;
        let large = large.as_binary::<i64>();
        return Ok(BinaryArray::from_iter_values((0..large.len()).map(|row| large.value(row))));
    }
    Ok(cast(column, &DataType::Binary)?.as_binary::<i32>().clone())
}

/// Values side by side; what is left of each place is zero.
fn pack(columns: &[ArrayRef], widths: &[usize], place: usize, rows: usize) -> Vec<u8> {
    let mut packed = vec![0; rows * place];
    let mut at = 0;
    for (column, width) in columns.iter().zip(widths) {
        let values = fixed_values(column, *width);
        for (out, value) in packed.chunks_exact_mut(place).zip(values.chunks_exact(*width)) {
            out[at..at + width].copy_from_slice(value);
        }
        at += width;
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::LargeBinaryArray;

    #[test]
    fn a_slice_of_more_text_than_small_offsets_reach_is_a_key() {
        // Never touched, these bytes are not there.
        let far = 1_usize << 31;
        let values = Buffer::from_vec(vec![0_u8; far + 16]);
        let ends = OffsetBuffer::from_lengths([far, 8, 8]);
        let whole: ArrayRef = Arc::new(LargeBinaryArray::new(ends, values, None));
        let own = bytes(&whole.slice(1, 2)).unwrap();
        assert_eq!(own, BinaryArray::from_iter_values([[0; 8], [0; 8]]));
    }
}
