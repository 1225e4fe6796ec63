//! Sort keys as integers: the bits of the key above the row id.
//!
//! Sorting moves 16-byte integers instead of records (NOW-Sort, 6.5; AlphaSort before it). A key
//! is *exact* if its columns have fixed widths and it leaves room for the row id: then comparing
//! integers compares keys. Of any other key, the first 96 bits of its row encoding are kept here,
//! and ties are resolved by the whole encoding.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, Rows, SortField};
use euphrates_flow::{Error, Result};

use super::key_bits::{key_bits, mask};
use super::key_decoder::KeyDecoder;
use super::owned_keys::OwnedKey;
use crate::canonical_floats::{canonical_floats, canonical32, canonical64};

/// Bits of a row id: the batch in the upper, the row within it in the lower 16.
const ID_BITS_MAX: u32 = 32;
/// With fewer bits, too few batches could be numbered.
const ID_BITS_MIN: u32 = 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyColumn {
    /// Position of the column in the schema.
    pub(crate) column: usize,
    pub(crate) descending: bool,
    /// Whether nulls come before everything else, in either direction.
    pub(crate) nulls_first: bool,
}

/// Encodes the key columns of batches as integers.
pub(crate) struct KeyEncoder {
    columns: Vec<KeyColumn>,
    id_bits: u32,
    /// Present if keys are not exact.
    converter: Option<RowConverter>,
    /// Bits of each column's values, if they have a fixed width.
    bits: Vec<Option<u32>>,
    nullable: Vec<bool>,
}

/// The keys of a batch, in its order.
pub(crate) struct EncodedKeys {
    /// Key bits above the row id.
    pub(crate) packed: Vec<u128>,
    /// The full row encodings, if keys are not exact.
    pub(crate) rows: Option<Rows>,
}

impl KeyEncoder {
    pub(crate) fn new(schema: &Schema, columns: Vec<KeyColumn>) -> Result<KeyEncoder> {
        let fields = || columns.iter().map(|key| schema.field(key.column));
        let nullable: Vec<bool> = fields().map(|field| field.is_nullable()).collect();
        let bits: Vec<_> = fields().map(|field| key_bits(field.data_type())).collect();
        let value_bits: Option<u32> = bits.iter().copied().sum();
        let null_bits = nullable.iter().filter(|nullable| **nullable).count() as u32;
        let exact = value_bits.map(|bits| bits + null_bits).filter(|b| *b + ID_BITS_MIN <= 128);
        let converter = match exact {
            Some(_) => None,
            None => Some(converter(schema, &columns)?),
        };
        let id_bits = exact.map_or(ID_BITS_MAX, |bits| (128 - bits).min(ID_BITS_MAX));
        Ok(KeyEncoder { columns, id_bits, converter, bits, nullable })
    }

    /// The maximum number of batches that row ids can number.
    pub(crate) fn batches_max(&self) -> usize {
        1 << (self.id_bits - 16)
    }

    /// Whether comparing integers compares keys.
    pub(crate) fn is_exact(&self) -> bool {
        self.converter.is_none()
    }

    /// The keys of a batch of at most 65536 rows, with number `number`.
    pub(crate) fn encode(&self, batch: &RecordBatch, number: usize) -> Result<EncodedKeys> {
        debug_assert!(batch.num_rows() <= 1 << 16);
        if number >= self.batches_max() {
            // A larger number would overflow into the key bits.
            let remedy = "give the flow more memory, or sort by fewer columns";
            return Err(Error::resource("a sort would hold too many batches").remedy(remedy));
        }
        let mut packed = vec![0u128; batch.num_rows()];
        let rows = match &self.converter {
            None => {
                for (key, nullable) in self.columns.iter().zip(&self.nullable) {
                    push_column(&mut packed, batch.column(key.column), key, *nullable)?;
                }
                None
            }
            Some(converter) => {
                let column = |key: &KeyColumn| canonical_floats(batch.column(key.column));
                let columns: Vec<ArrayRef> = self.columns.iter().map(column).collect();
                let rows = converter.convert_columns(&columns)?;
                packed.iter_mut().zip(rows.iter()).for_each(|(packed, row)| {
                    *packed = first_96_bits(row.data());
                });
                Some(rows)
            }
        };
        let base = (number as u128) << 16;
        for (row, packed) in packed.iter_mut().enumerate() {
            *packed = (*packed << self.id_bits) | base | row as u128;
        }
        Ok(EncodedKeys { packed, rows })
    }

    /// A decoder that reads a column's values from the keys, which avoids fetching the rows. Only
    /// for exact keys that are integers or fixed-width bytes.
    pub(crate) fn decoder(&self, schema: &Schema, column: usize) -> Option<KeyDecoder> {
        let position = self.columns.iter().position(|key| key.column == column)?;
        let below = self.bits[position + 1..].iter().zip(&self.nullable[position + 1..]);
        let below: Option<u32> = below.map(|(bits, null)| Some((*bits)? + u32::from(*null))).sum();
        let key = &self.columns[position];
        let nulls = self.nullable[position].then_some(key.nulls_first);
        let shift = below? + self.id_bits;
        let usable = self.is_exact().then(|| schema.field(column).data_type());
        usable.and_then(|data_type| KeyDecoder::new(data_type, shift, key.descending, nulls))
    }

    /// The range of a key, of `ranges` ranges of equal size that divide all possible keys of this
    /// type.
    pub(crate) fn range_of(&self, packed: u128, ranges: u32) -> u32 {
        let width = self.width();
        let bits = self.bits(packed);
        // The upper 64 bits of the key suffice.
        let first = if width > 64 { bits >> (width - 64) } else { bits << (64 - width) };
        ((first * u128::from(ranges)) >> 64) as u32
    }

    /// Bits of a key within the integer.
    fn width(&self) -> u32 {
        let nulls = self.nullable.iter().filter(|nullable| **nullable).count() as u32;
        let values = self.bits.iter().copied().sum::<Option<u32>>().unwrap_or(0) + nulls;
        if self.is_exact() { values } else { 128 - self.id_bits }
    }

    /// The row id: batch << 16 | row.
    pub(crate) fn id(&self, packed: u128) -> u32 {
        (packed & ((1 << self.id_bits) - 1)) as u32
    }

    /// The key bits without the row id.
    pub(crate) fn bits(&self, packed: u128) -> u128 {
        packed >> self.id_bits
    }

    /// The key with its row in batch `batch`.
    pub(crate) fn with_batch(&self, packed: u128, batch: usize) -> u128 {
        let row = u128::from(self.id(packed) & 0xffff);
        (self.bits(packed) << self.id_bits) | ((batch as u128) << 16) | row
    }

    /// The key with its batch number increased by `offset`.
    pub(crate) fn renumber(&self, packed: u128, offset: usize) -> u128 {
        packed + ((offset as u128) << 16)
    }

    /// Compares two keys without their row ids. `rows` returns the row encodings of a batch.
    pub(crate) fn compare<'a>(
        &self,
        (a, b): (u128, u128),
        rows: impl Fn(usize) -> &'a Rows,
    ) -> Ordering {
        let by_bits = self.bits(a).cmp(&self.bits(b));
        if self.is_exact() || by_bits != Ordering::Equal {
            return by_bits;
        }
        let whole = |packed: u128| {
            let id = self.id(packed);
            rows((id >> 16) as usize).row((id & 0xffff) as usize)
        };
        whole(a).cmp(&whole(b))
    }

    /// The full row encoding of a key; empty if keys are exact.
    pub(crate) fn whole<'a>(&self, packed: u128, rows: impl Fn(usize) -> &'a Rows) -> &'a [u8] {
        if self.is_exact() {
            return &[];
        }
        let id = self.id(packed);
        rows((id >> 16) as usize).row((id & 0xffff) as usize).data()
    }

    /// Compares a key with a kept one.
    pub(crate) fn compare_owned<'a>(
        &self,
        packed: u128,
        owned: &OwnedKey,
        rows: impl Fn(usize) -> &'a Rows,
    ) -> Ordering {
        let bits = self.bits(packed);
        if self.is_exact() || bits != owned.bits {
            return bits.cmp(&owned.bits);
        }
        owned.compare_whole(bits, self.whole(packed, rows))
    }
}

fn converter(schema: &Schema, columns: &[KeyColumn]) -> Result<RowConverter> {
    let fields = columns.iter().map(|key| {
        let options = arrow::compute::SortOptions {
            descending: key.descending,
            nulls_first: key.nulls_first,
        };
        SortField::new_with_options(schema.field(key.column).data_type().clone(), options)
    });
    RowConverter::new(fields.collect()).map_err(|error| {
        Error::usage(format!("cannot sort by this column: {error}"))
            .remedy("sort by a number, text, date or binary column")
    })
}

fn first_96_bits(key: &[u8]) -> u128 {
    let mut first = [0u8; 16];
    let length = key.len().min(12);
    first[4..4 + length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(first)
}

/// Appends a column's bits below the bits so far.
fn push_column(
    packed: &mut [u128],
    column: &ArrayRef,
    key: &KeyColumn,
    nullable: bool,
) -> Result<()> {
    let bits = key_bits(column.data_type()).expect("only exact keys come here");
    let nulls = nullable.then_some(KeyNulls { column, first: key.nulls_first });
    let flip = if key.descending { mask(bits) } else { 0 };
    macro_rules! numbers {
        ($type:ty, $normal:expr) => {{
            let values = column.as_primitive::<$type>().values();
            push_bits(packed, bits, flip, nulls, values.iter().map($normal))
        }};
    }
    match column.data_type() {
        DataType::Boolean => {
            let values: &BooleanArray = column.as_boolean();
            push_bits(packed, bits, flip, nulls, values.values().iter().map(u128::from));
        }
        DataType::FixedSizeBinary(_) => push_binary(packed, column, bits, flip, nulls),
        DataType::Int8 => numbers!(Int8Type, |v| u128::from(*v as u8 ^ 1 << 7)),
        DataType::Int16 => numbers!(Int16Type, |v| u128::from(*v as u16 ^ 1 << 15)),
        DataType::UInt8 => numbers!(UInt8Type, |v| u128::from(*v)),
        DataType::UInt16 => numbers!(UInt16Type, |v| u128::from(*v)),
        DataType::UInt32 => numbers!(UInt32Type, |v| u128::from(*v)),
        DataType::UInt64 => numbers!(UInt64Type, |v| u128::from(*v)),
        DataType::Float32 => numbers!(Float32Type, |v| {
            let bits = canonical32(*v).to_bits() as i32;
            u128::from((bits ^ (((bits >> 31) as u32) >> 1) as i32) as u32 ^ 1 << 31)
        }),
        DataType::Float64 => numbers!(Float64Type, |v| {
            let bits = canonical64(*v).to_bits() as i64;
            u128::from((bits ^ (((bits >> 63) as u64) >> 1) as i64) as u64 ^ 1 << 63)
        }),
        // Dates, times, timestamps, durations and small decimals are signed integers.
        _ if bits == 32 => {
            let whole = column.to_data();
            let values = &whole.buffers()[0].typed_data::<i32>()[whole.offset()..][..whole.len()];
            let normal = |v: &i32| u128::from(*v as u32 ^ 1 << 31);
            push_bits(packed, bits, flip, nulls, values.iter().map(normal));
        }
        _ if bits == 64 => {
            let whole = column.to_data();
            let values = &whole.buffers()[0].typed_data::<i64>()[whole.offset()..][..whole.len()];
            let normal = |v: &i64| u128::from(*v as u64 ^ 1 << 63);
            push_bits(packed, bits, flip, nulls, values.iter().map(normal));
        }
        other => return Err(Error::failed(format!("no sort key for columns of type {other}"))),
    }
    Ok(())
}

struct KeyNulls<'a> {
    column: &'a ArrayRef,
    first: bool,
}

fn push_bits(
    packed: &mut [u128],
    bits: u32,
    flip: u128,
    nulls: Option<KeyNulls>,
    values: impl Iterator<Item = u128>,
) {
    match nulls {
        None => packed.iter_mut().zip(values).for_each(|(packed, value)| {
            *packed = (*packed << bits) | (value ^ flip);
        }),
        Some(KeyNulls { column, first }) => {
            let (null, value_bit) = if first { (0, 1) } else { (1, 0) };
            for (row, (packed, value)) in packed.iter_mut().zip(values).enumerate() {
                let here = match column.is_null(row) {
                    true => null << bits,
                    false => (value_bit << bits) | (value ^ flip),
                };
                *packed = (*packed << (bits + 1)) | here;
            }
        }
    }
}

fn push_binary(
    packed: &mut [u128],
    column: &ArrayRef,
    bits: u32,
    flip: u128,
    nulls: Option<KeyNulls>,
) {
    let binary = column.as_fixed_size_binary();
    let width = binary.value_length() as usize;
    if width == 10 {
        let values = binary.value_data().chunks_exact(10).map(|value| {
            let high = u64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
            let low = u16::from_be_bytes(value[8..].try_into().expect("two bytes"));
            (u128::from(high) << 16) | u128::from(low)
        });
        return push_bits(packed, bits, flip, nulls, values);
    }
    let values = (0..binary.len()).map(|row| {
        binary.value(row).iter().fold(0u128, |bits, byte| (bits << 8) | u128::from(*byte))
    });
    push_bits(packed, bits, flip, nulls, values)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::Int64Array;

    #[test]
    fn too_many_batches_are_refused() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let key = KeyColumn { column: 0, descending: false, nulls_first: false };
        let encoder = KeyEncoder::new(&batch.schema(), vec![key]).unwrap();
        let last = encoder.batches_max() - 1;
        assert_eq!(encoder.encode(&batch, last).unwrap().packed.len(), 1);
        let error = encoder.encode(&batch, last + 1).err().unwrap();
        assert!(error.to_string().contains("too many batches"), "{error}");
    }
}
