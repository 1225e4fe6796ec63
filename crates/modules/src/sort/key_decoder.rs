//! Decodes column values from sort keys.
//!
//! An exact key holds the values of its columns, so they are decoded, not fetched from the row.

use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;

use super::key_bits::{key_bits, mask};

/// Decodes one column's values from exact keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyDecoder {
    shift: u32,
    /// The bits that differ between key and value.
    flip: u128,
    order: ByteOrder,
    /// The bit above the value tells nulls from values; this is its value for a null.
    null_bit: Option<u128>,
    pub(crate) width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    /// Most significant byte first, as fixed-size binaries compare.
    Big,
    /// Little endian, as integers in Arrow.
    Little,
}

impl KeyDecoder {
    /// A decoder for values of this type, `shift` bits up in a key. `nulls` is given if the column
    /// is nullable, and says whether nulls come first.
    pub(crate) fn new(
        data_type: &DataType,
        shift: u32,
        descending: bool,
        nulls: Option<bool>,
    ) -> Option<KeyDecoder> {
        use DataType::*;
        let bits = key_bits(data_type)?;
        let (order, sign) = match data_type {
            FixedSizeBinary(_) => (ByteOrder::Big, 0),
            Boolean | Float16 | Float32 | Float64 => return None,
            UInt8 | UInt16 | UInt32 | UInt64 => (ByteOrder::Little, 0),
            _ => (ByteOrder::Little, 1 << (bits - 1)),
        };
        let flip = sign ^ if descending { mask(bits) } else { 0 };
        let null_bit = nulls.map(|first| u128::from(!first));
        (bits > 0).then_some(KeyDecoder { shift, flip, order, null_bit, width: bits as usize / 8 })
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
        let null = self.null_bit?;
        let bit = self.shift + self.width as u32 * 8;
        let valid = BooleanBuffer::collect_bool(keys.len(), |row| (keys[row] >> bit) & 1 != null);
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }

    fn value(self, key: u128) -> u128 {
        (key >> self.shift) ^ self.flip
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
