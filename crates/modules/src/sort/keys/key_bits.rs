//! Widths of keys that are packed into integers.

use arrow::datatypes::DataType;

/// Bits of a fixed-width key value; `None` for keys that need a row encoding.
pub(super) fn key_bits(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(bytes) => u32::try_from(*bytes).ok().map(|bytes| bytes * 8),
        DataType::Float16 | DataType::Interval(_) | DataType::Decimal256(..) => None,
        other => other.primitive_width().map(|bytes| bytes as u32 * 8),
    }
}

/// The lowest `bits` bits.
pub(super) fn mask(bits: u32) -> u128 {
    if bits == 128 { u128::MAX } else { (1 << bits) - 1 }
}
