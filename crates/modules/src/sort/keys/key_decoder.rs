//! Decodes column values from sort keys.
//!
//! An exact key holds the values of its columns, so they are decoded, not fetched from the row.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use euphrates_device::buffer::pool;
use euphrates_flow::Result;

use super::key_bits::{key_bits, mask};
use super::key_layout::{ColumnCode, KeyColumn, word_bits};
use super::text_decoder::KeyTextDecoder;
use crate::batches::array_values::fixed_array;

/// Decodes one column's values from exact keys.
#[derive(Clone, Debug)]
pub(crate) enum KeyDecoder {
    Fixed(FixedDecoder),
    Texts(KeyTextDecoder),
}

impl KeyDecoder {
    /// A decoder for values of this type with these codes, `shift` bits up in a key. `None` if they
    /// are not decoded: floats, whose zeros and NaNs have one code, and values of which the key has
    /// a prefix only.
    pub(super) fn new(
        data_type: &DataType,
        code: &ColumnCode,
        shift: u32,
        key: &KeyColumn,
    ) -> Option<KeyDecoder> {
        match code {
            ColumnCode::Words(_) | ColumnCode::Text { .. } => {
                KeyTextDecoder::new(data_type, code, shift, key).map(KeyDecoder::Texts)
            }
            _ => FixedDecoder::new(data_type, code, shift, key).map(KeyDecoder::Fixed),
        }
    }

    /// The bytes of the longest value, if the type has variable length.
    pub(crate) fn longest(&self) -> usize {
        match self {
            KeyDecoder::Fixed(_) => 0,
            KeyDecoder::Texts(texts) => texts.longest(),
        }
    }

    /// The values of these keys, none of which is tied.
    pub(crate) fn decode(&self, data_type: &DataType, keys: &[u128]) -> Result<ArrayRef> {
        match self {
            KeyDecoder::Fixed(decoder) => {
                let mut out = pool().take(keys.len() * decoder.width)?;
                decoder.write(keys, &mut out);
                Ok(fixed_array(data_type, keys.len(), out.into_arrow(), decoder.nulls(keys)))
            }
            KeyDecoder::Texts(texts) => texts.decode(data_type, keys),
        }
    }
}

/// Decodes values of fixed width.
#[derive(Clone, Debug)]
pub(crate) struct FixedDecoder {
    shift: u32,
    /// The bits of the column's code.
    mask: u128,
    values: CodedValues,
    /// The bits that differ between what `values` has and the value.
    flip: u128,
    order: ByteOrder,
    nulls: NullCode,
    width: usize,
}

/// What codes stand for.
#[derive(Clone, Debug)]
enum CodedValues {
    /// The sum of a code and this, modulo 2^128.
    Offset(u128),
    /// The number at half the code, of which the first has the code 2.
    Numbers(Arc<[u128]>),
}

/// The codes of nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NullCode {
    /// There are no nulls.
    Never,
    /// Those with this bit above the value.
    Bit(u128),
    /// This one.
    Code(u128),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    /// Most significant byte first, as fixed-size binaries compare.
    Big,
    /// Little endian, as integers in Arrow.
    Little,
}

impl FixedDecoder {
    fn new(data_type: &DataType, code: &ColumnCode, shift: u32, key: &KeyColumn) -> Option<Self> {
        use DataType::*;
        let bits = key_bits(data_type).filter(|bits| (8..=128).contains(bits))?;
        let (order, sign) = match data_type {
            FixedSizeBinary(_) => (ByteOrder::Big, 0),
            Boolean | Float16 | Float32 | Float64 => return None,
            UInt8 | UInt16 | UInt32 | UInt64 => (ByteOrder::Little, 0),
            _ => (ByteOrder::Little, 1 << (bits - 1)),
        };
        let (code_bits, values, nulls) = match code {
            ColumnCode::Full { nullable: false, .. } => {
                (bits, CodedValues::Offset(0), NullCode::Never)
            }
            ColumnCode::Full { nullable: true, .. } => {
                (bits, CodedValues::Offset(0), NullCode::Bit(u128::from(!key.nulls_first)))
            }
            ColumnCode::Range { low, bits } => {
                let null = if key.nulls_first { 0 } else { mask(*bits) };
                (*bits, CodedValues::Offset(low.get().wrapping_sub(2)), NullCode::Code(null))
            }
            ColumnCode::Numbers(numbers) => {
                let null = if key.nulls_first { 0 } else { 2 * numbers.len() as u128 + 2 };
                let values = numbers.iter().map(|number| number.get()).collect();
                (word_bits(numbers.len()), CodedValues::Numbers(values), NullCode::Code(null))
            }
            _ => return None,
        };
        let flip = sign ^ if key.descending { mask(bits) } else { 0 };
        let (mask, width) = (mask(code_bits), bits as usize / 8);
        Some(FixedDecoder { shift, mask, values, flip, order, nulls, width })
    }

    /// Writes the column's values for these keys; `out` has `width` bytes for each.
    fn write(&self, keys: &[u128], out: &mut [u8]) {
        let code = |key: u128| (key >> self.shift) & self.mask;
        match &self.values {
            CodedValues::Offset(offset) => {
                self.write_values(keys, out, |key| code(key).wrapping_add(*offset) ^ self.flip);
            }
            CodedValues::Numbers(numbers) => self.write_values(keys, out, |key| {
                // The code of a null has no number.
                let number = numbers.get((code(key) as usize / 2).wrapping_sub(1));
                number.map_or(0, |number| number ^ self.flip)
            }),
        }
    }

    fn write_values(&self, keys: &[u128], out: &mut [u8], value: impl Fn(u128) -> u128) {
        // Copies of constant width compile to a few moves.
        match (self.order, self.width) {
            (ByteOrder::Little, 4) => write_little::<4>(keys, out, value),
            (ByteOrder::Little, 8) => write_little::<8>(keys, out, value),
            (ByteOrder::Big, 10) => write_big::<10>(keys, out, value),
            (order, width) => {
                for (key, out) in keys.iter().zip(out.chunks_exact_mut(width)) {
                    let value = value(*key);
                    match order {
                        ByteOrder::Little => out.copy_from_slice(&value.to_le_bytes()[..width]),
                        ByteOrder::Big => out.copy_from_slice(&value.to_be_bytes()[16 - width..]),
                    }
                }
            }
        }
    }

    /// The null buffer of the values for these keys, if any is null.
    fn nulls(&self, keys: &[u128]) -> Option<NullBuffer> {
        let code = |row: usize| keys[row] >> self.shift;
        let width_bits = self.width as u32 * 8;
        let valid = match self.nulls {
            NullCode::Never => return None,
            NullCode::Bit(null) => {
                BooleanBuffer::collect_bool(keys.len(), |row| (code(row) >> width_bits) & 1 != null)
            }
            NullCode::Code(null) => {
                BooleanBuffer::collect_bool(keys.len(), |row| code(row) & self.mask != null)
            }
        };
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }
}

fn write_little<const WIDTH: usize>(keys: &[u128], out: &mut [u8], value: impl Fn(u128) -> u128) {
    for (key, out) in keys.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
        *out = value(*key).to_le_bytes()[..WIDTH].try_into().expect("one width");
    }
}

fn write_big<const WIDTH: usize>(keys: &[u128], out: &mut [u8], value: impl Fn(u128) -> u128) {
    for (key, out) in keys.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
        *out = value(*key).to_be_bytes()[16 - WIDTH..].try_into().expect("one width");
    }
}
