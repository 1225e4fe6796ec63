//! Values read off sort keys.
//!
//! A record's key travels with its place, so the columns it was made of need not be fetched.

use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;

use super::keys::{key_bits, mask};

/// Where in a key the value of a column is.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    shift: u32,
    /// The bits in which key and value differ.
    flip: u128,
    order: ByteOrder,
    /// Above the value, a bit is set that says whether it is one: what a null's bit is.
    null_bit: Option<u128>,
    /// Bytes of a value.
    pub width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    /// Of bytes that are compared from the first to the last.
    Big,
    /// Of integers in Arrow.
    Little,
}

impl Recovery {
    /// How to read values of this type `shift` bits up in a key. `nulls` is there if the column is
    /// nullable, and says whether they come first.
    pub fn new(
        data_type: &DataType,
        shift: u32,
        descending: bool,
        nulls: Option<bool>,
    ) -> Option<Recovery> {
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
        (bits > 0).then_some(Recovery { shift, flip, order, null_bit, width: bits as usize / 8 })
    }

    /// Writes the column's values for these keys; `out` holds `width` bytes for each.
    pub fn write(self, keys: &[u128], out: &mut [u8]) {
        // Widths known to the compiler become a few moves.
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

    /// Which of the values for these keys are null, if any.
    pub fn nulls(self, keys: &[u128]) -> Option<NullBuffer> {
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
