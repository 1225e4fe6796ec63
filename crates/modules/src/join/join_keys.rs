//! Join keys: hashes, and bytes to compare when hashes are equal.
//!
//! The hash of a numeric, date or time key of at most eight bytes is unique, because mixing is a
//! bijection. Other keys, text and binary of any length among them, are compared byte by byte when
//! their hashes are equal: short fixed-width ones packed side by side, a single text as it is,
//! anything else in `arrow-row`'s format.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt64Array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Int32Type};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use euphrates_flow::Result;

use super::plan::SidePlan;
use crate::batches::array_values::fixed_values;
use crate::canonical_floats::canonical_floats;
use crate::partitioning::hashing::hash_rows;

/// Maximum bytes of a packed key.
const PACKED_BYTES_MAX: usize = 16;
const HASH_BYTES: usize = size_of::<u64>();

/// Encodes the keys of one side.
#[derive(Clone)]
pub(crate) struct JoinKeyEncoder {
    columns: Vec<(usize, DataType)>,
    form: JoinKeyForm,
}

#[derive(Clone)]
enum JoinKeyForm {
    /// One column, whose hash is unique to its value.
    One,
    /// Columns of these widths, packed into eight bytes, whose hash is unique.
    Short(Vec<usize>),
    Packed(Vec<usize>),
    Bytes,
    Rows(Arc<RowConverter>),
}

/// The keys of rows, or of the values of a dictionary.
#[derive(Clone)]
pub(crate) struct Encoded {
    pub(crate) hashes: ScalarBuffer<u64>,
    /// The bytes to compare when hashes are equal; `None` if hashes are unique.
    pub(crate) checks: Option<BinaryArray>,
}

impl JoinKeyEncoder {
    /// The encoder of a side. Equal keys of both sides have equal encodings.
    pub(crate) fn new(side: &SidePlan) -> Result<JoinKeyEncoder> {
        JoinKeyEncoder::of_columns(side.keys.clone())
    }

    /// The encoder of one of the keys.
    pub(crate) fn of_key(&self, key: usize) -> Result<JoinKeyEncoder> {
        JoinKeyEncoder::of_columns(vec![self.columns[key].clone()])
    }

    fn of_columns(columns: Vec<(usize, DataType)>) -> Result<JoinKeyEncoder> {
        let widths: Option<Vec<usize>> =
            columns.iter().map(|(_, data_type)| width(data_type)).collect();
        let form = match (columns.as_slice(), widths) {
            ([(_, DataType::Decimal128(digits, _))], _) if *digits <= 18 => JoinKeyForm::One,
            ([_], Some(widths)) if widths[0] <= HASH_BYTES => JoinKeyForm::One,
            (_, Some(widths)) if widths.iter().sum::<usize>() <= HASH_BYTES => {
                JoinKeyForm::Short(widths)
            }
            (_, Some(widths)) if widths.iter().sum::<usize>() <= PACKED_BYTES_MAX => {
                JoinKeyForm::Packed(widths)
            }
            ([(_, data_type)], _) if is_bytes(data_type) => JoinKeyForm::Bytes,
            _ => {
                let field = |(_, data_type): &(usize, DataType)| SortField::new(data_type.clone());
                JoinKeyForm::Rows(Arc::new(RowConverter::new(columns.iter().map(field).collect())?))
            }
        };
        Ok(JoinKeyEncoder { columns, form })
    }

    /// Whether the key is one column whose values, of at most 64 bits, `unmix` gets back from
    /// hashes.
    pub(crate) fn is_one_number(&self) -> bool {
        matches!(self.form, JoinKeyForm::One)
    }

    /// Whether equal hashes imply equal keys.
    pub(crate) fn has_unique_hashes(&self) -> bool {
        matches!(self.form, JoinKeyForm::One | JoinKeyForm::Short(_))
    }

    /// Splits off the rows with a null key, which match nothing.
    pub(crate) fn split_nulls(
        &self,
        batch: RecordBatch,
    ) -> Result<(Option<RecordBatch>, RecordBatch)> {
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

    /// The key columns of a batch, as they are compared: equal values have equal bytes.
    pub(crate) fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let column =
            |(column, data_type): &(usize, DataType)| plain(batch.column(*column), data_type);
        self.columns.iter().map(column).collect()
    }

    /// The types in which key columns are compared.
    pub(crate) fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|(_, data_type)| data_type.clone()).collect()
    }

    /// The encoder of rows that have the key columns alone.
    pub(crate) fn of_keys_alone(&self) -> JoinKeyEncoder {
        let columns = self.types().into_iter().enumerate().collect();
        JoinKeyEncoder { columns, form: self.form.clone() }
    }

    /// The hashes that `encode` returns, of key columns as they are compared. Those of rows with a
    /// null key are any.
    pub(crate) fn hashes(&self, columns: &[ArrayRef]) -> Result<Vec<u64>> {
        let JoinKeyForm::Short(widths) = &self.form else { return hash_rows(columns) };
        let rows = columns.first().map_or(0, |column| column.len());
        let packed = pack(columns, widths, HASH_BYTES, rows);
        let packed = packed.as_chunks().0.iter().copied().map(u64::from_le_bytes);
        hash_rows(&[Arc::new(UInt64Array::from_iter_values(packed))])
    }

    /// The values and the codes of a single key column with a dictionary.
    pub(crate) fn dictionary<'a>(
        &self,
        batch: &'a RecordBatch,
    ) -> Option<(&'a ArrayRef, &'a ScalarBuffer<i32>)> {
        let [(column, _)] = &self.columns[..] else { return None };
        let dictionary = batch.column(*column).as_dictionary_opt::<Int32Type>()?;
        Some((dictionary.values(), dictionary.keys().values()))
    }

    /// Encodes the values of a single key column's dictionary. Keys of null values are any.
    pub(crate) fn encode_values(&self, values: &ArrayRef) -> Result<Encoded> {
        self.encode_columns(&self.columns_of_values(values)?, values.len())
    }

    /// The values of a single key column's dictionary, as they are compared.
    pub(crate) fn columns_of_values(&self, values: &ArrayRef) -> Result<[ArrayRef; 1]> {
        Ok([plain(values, &self.columns[0].1)?])
    }

    /// Encodes the keys of a batch, which must not be null.
    pub(crate) fn encode(&self, batch: &RecordBatch) -> Result<Encoded> {
        self.encode_columns(&self.columns(batch)?, batch.num_rows())
    }

    fn encode_columns(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded> {
        let hashes = self.hashes(columns)?.into();
        Ok(match &self.form {
            JoinKeyForm::One | JoinKeyForm::Short(_) => Encoded { hashes, checks: None },
            JoinKeyForm::Packed(widths) => {
                let packed = match widths.as_slice() {
                    [PACKED_BYTES_MAX] => fixed_values(&columns[0], PACKED_BYTES_MAX),
                    _ => Buffer::from_vec(pack(columns, widths, PACKED_BYTES_MAX, rows)),
                };
                let ends = OffsetBuffer::from_repeated_length(PACKED_BYTES_MAX, rows);
                let checks = BinaryArray::new(ends, packed, None);
                Encoded { hashes, checks: Some(checks) }
            }
            JoinKeyForm::Bytes => Encoded { hashes, checks: Some(bytes(&columns[0])?) },
            JoinKeyForm::Rows(converter) => {
                let checks = converter.convert_columns(columns)?.try_into_binary()?;
                Encoded { hashes, checks: Some(checks) }
            }
        })
    }
}

/// The bytes of a value, if all values of the type have the same number and compare by them.
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

/// A key column in the comparison type, in canonical form: equal values have equal bytes.
fn plain(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let column = match column.data_type() == data_type {
        true => column.clone(),
        false => cast(column, data_type)?,
    };
    Ok(canonical_floats(&column))
}

/// Text or bytes as small binary. A cast of a slice of a large array would keep its offsets, which
/// may exceed 32 bits.
fn bytes(column: &ArrayRef) -> Result<BinaryArray> {
    let is_large = matches!(column.data_type(), DataType::LargeUtf8 | DataType::LargeBinary);
    if is_large {
        let large = cast(column, &DataType::LargeBinary)?;
        let large = large.as_binary::<i64>();
        return Ok(BinaryArray::from_iter_values((0..large.len()).map(|row| large.value(row))));
    }
    Ok(cast(column, &DataType::Binary)?.as_binary::<i32>().clone())
}

/// Packs values side by side, padded with zeros to `stride` bytes.
fn pack(columns: &[ArrayRef], widths: &[usize], stride: usize, rows: usize) -> Vec<u8> {
    let mut packed = vec![0; rows * stride];
    let mut at = 0;
    for (column, width) in columns.iter().zip(widths) {
        let values = fixed_values(column, *width);
        for (out, value) in packed.chunks_exact_mut(stride).zip(values.chunks_exact(*width)) {
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
    fn slice_beyond_32_bit_offsets_is_a_key() {
        // Untouched pages are not allocated.
        let far = 1_usize << 31;
        let values = Buffer::from_vec(vec![0_u8; far + 16]);
        let ends = OffsetBuffer::from_lengths([far, 8, 8]);
        let whole: ArrayRef = Arc::new(LargeBinaryArray::new(ends, values, None));
        let own = bytes(&whole.slice(1, 2)).unwrap();
        assert_eq!(own, BinaryArray::from_iter_values([[0; 8], [0; 8]]));
    }
}
