//! Decodes column values from sort keys.
//!
//! An exact key holds the values of its columns, so they are decoded, not fetched from the row.

use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;

use super::key_bits::{key_bits, mask};
use super::key_layout::{ColumnCode, KeyColumn};

/// Decodes one column's values from exact keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyDecoder {
    shift: u32,
    /// The bits of the column's code.
    mask: u128,
    /// What is added to a code, modulo 2^128.
    offset: u128,
    /// The bits that differ between the sum and the value.
    flip: u128,
    order: ByteOrder,
    nulls: NullCode,
    pub(crate) width: usize,
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

impl KeyDecoder {
    /// A decoder for values of this type with these codes, `shift` bits up in a key. `None` if they
    /// are not decoded.
    pub(super) fn new(
        data_type: &DataType,
        code: &ColumnCode,
        shift: u32,
        key: &KeyColumn,
    ) -> Option<KeyDecoder> {
        use DataType::*;
        let bits = key_bits(data_type).filter(|bits| (8..=128).contains(bits))?;
        let (order, sign) = match data_type {
            FixedSizeBinary(_) => (ByteOrder::Big, 0),
            Boolean | Float16 | Float32 | Float64 => return None,
            UInt8 | UInt16 | UInt32 | UInt64 => (ByteOrder::Little, 0),
            _ => (ByteOrder::Little, 1 << (bits - 1)),
        };
        let (mask, offset, nulls) = match code {
            ColumnCode::Full { nullable: false, .. } => (mask(bits), 0, NullCode::Never),
            ColumnCode::Full { nullable: true, .. } => {
                (mask(bits), 0, NullCode::Bit(u128::from(!key.nulls_first)))
            }
            ColumnCode::Range { low, bits } => {
                let null = if key.nulls_first { 0 } else { mask(*bits) };
                (mask(*bits), low.get().wrapping_sub(2), NullCode::Code(null))
            }
            _ => return None,
        };
        let flip = sign ^ if key.descending { super::key_bits::mask(bits) } else { 0 };
        let width = bits as usize / 8;
        Some(KeyDecoder { shift, mask, offset, flip, order, nulls, width })
    }

    /// Writes the column's values for these keys; `out` has `width` bytes for each.
    pub(crate) fn write(self, keys: &[u128], out: &mut [u8]) {
        // Copies of constant width compile to a few moves.
        match (self.order, self.width) {
            (ByteOrder::Little, 4) => self.write_little::<4>(keys, out),
            (ByteOrder::Little, 8) => self.write_little::<8>(keys, out),
            (ByteOrder::Big, 10) => self.write_big::<10>(keys, out),
            (order, width) => {
                for (key, out) in keys.iter().zip(out.chunks_exact_mut(width)) {
                    let value = self.value(*key);
                    match order {
                        ByteOrder::Little => out.copy_from_slice(&value.to_le_bytes()[..width]),
                        ByteOrder::Big => out.copy_from_slice(&value.to_be_bytes()[16 - width..]),
                    }
                }
            }
        }
    }

    /// The null buffer of the values for these keys, if any is null.
    pub(crate) fn nulls(self, keys: &[u128]) -> Option<NullBuffer> {
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

    fn value(self, key: u128) -> u128 {
        ((key >> self.shift) & self.mask).wrapping_add(self.offset) ^ self.flip
    }

    fn write_little<const WIDTH: usize>(self, keys: &[u128], out: &mut [u8]) {
        for (key, out) in keys.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
            *out = self.value(*key).to_le_bytes()[..WIDTH].try_into().expect("one width");
        }
    }

    fn write_big<const WIDTH: usize>(self, keys: &[u128], out: &mut [u8]) {
        for (key, out) in keys.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
            *out = self.value(*key).to_be_bytes()[16 - WIDTH..].try_into().expect("one width");
        }
    }
}
