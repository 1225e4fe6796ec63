//! The cells of a row: width and position of a value, by the type of its column.

use arrow::datatypes::DataType;

/// In place of a length: four bytes before the value hold it.
pub(crate) const LONG: u8 = u8::MAX;
pub(crate) const LONG_BYTES: usize = size_of::<u32>();
/// Maximum digits of decimals that fit eight bytes.
const SHORT_DECIMAL_DIGITS_MAX: u8 = 18;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    Fixed {
        width: usize,
    },
    /// A decimal in eight bytes.
    ShortDecimal,
    Boolean,
    Variable,
}

/// A validity bit of a row.
#[derive(Clone, Copy)]
pub(crate) struct Bit {
    pub(crate) byte: usize,
    pub(crate) mask: u8,
}

impl CellKind {
    pub(crate) fn of(data_type: &DataType) -> Option<CellKind> {
        use DataType::*;
        match data_type {
            Boolean => Some(CellKind::Boolean),
            Decimal128(digits, _) if *digits <= SHORT_DECIMAL_DIGITS_MAX => {
                Some(CellKind::ShortDecimal)
            }
            FixedSizeBinary(width) if *width > 0 => {
                Some(CellKind::Fixed { width: *width as usize })
            }
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => {
                Some(CellKind::Variable)
            }
            other => other.primitive_width().map(|width| CellKind::Fixed { width }),
        }
    }

    pub(crate) fn head_bytes(self) -> usize {
        match self {
            CellKind::Fixed { width } => width,
            CellKind::ShortDecimal => size_of::<i64>(),
            CellKind::Boolean | CellKind::Variable => 1,
        }
    }
}

/// The length of a value. `at` is the offset of the value; it is advanced past a long length.
#[inline(always)]
pub(crate) fn length(bytes: &[u8], length_at: usize, at: &mut usize) -> usize {
    match bytes[length_at] {
        LONG => {
            let length = bytes[*at..*at + LONG_BYTES].try_into().expect("four bytes");
            *at += LONG_BYTES;
            u32::from_le_bytes(length) as usize
        }
        short => short.into(),
    }
}
