//! Which columns are decoded here: those without nesting, of the common types.

use arrow::datatypes::DataType;
use parquet::basic::{Encoding, Type};
use parquet::file::metadata::ColumnChunkMetaData;

/// The form of a column's values in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatLayout {
    /// Truth values of one bit.
    Bits,
    /// Numbers of four bytes, the lowest first.
    Four,
    /// Numbers of eight bytes, the lowest first.
    Eight,
    /// The same, of decimals, which have sixteen bytes in arrays.
    EightOfDecimals,
    /// Strings of this many bytes.
    Fixed(usize),
    /// Strings of any length.
    Strings,
}

impl FlatLayout {
    /// The layout of a column chunk that is decoded to an Arrow type; `None` if the crate decodes
    /// it.
    pub fn of(column: &ColumnChunkMetaData, data_type: &DataType) -> Option<FlatLayout> {
        let descr = column.column_descr();
        let is_flat = descr.max_rep_level() == 0
            && descr.max_def_level() <= 1
            && descr.path().parts().len() == 1;
        (is_flat && column.encodings().all(is_known)).then_some(())?;
        layout(data_type, descr.physical_type(), descr.type_length())
    }
}

/// Whether pages, or levels, of this encoding are decoded here.
#[expect(deprecated, reason = "old files have bit-packed levels")]
fn is_known(encoding: Encoding) -> bool {
    use Encoding::*;
    matches!(encoding, PLAIN | RLE | BIT_PACKED | RLE_DICTIONARY | PLAIN_DICTIONARY)
}

fn layout(data_type: &DataType, physical: Type, width: i32) -> Option<FlatLayout> {
    use DataType::*;
    match (data_type, physical) {
        (Boolean, Type::BOOLEAN) => Some(FlatLayout::Bits),
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32, Type::INT32) => Some(FlatLayout::Four),
        (Date32 | Time32(_) | Decimal128(..), Type::INT32) => Some(FlatLayout::Four),
        (Float32, Type::FLOAT) => Some(FlatLayout::Four),
        (Int64 | UInt64 | Time64(_) | Timestamp(..), Type::INT64) => Some(FlatLayout::Eight),
        (Decimal128(..), Type::INT64) => Some(FlatLayout::EightOfDecimals),
        (Float64, Type::DOUBLE) => Some(FlatLayout::Eight),
        (FixedSizeBinary(own), Type::FIXED_LEN_BYTE_ARRAY) if *own == width && width > 0 => {
            Some(FlatLayout::Fixed(width as usize))
        }
        (Decimal128(..), Type::FIXED_LEN_BYTE_ARRAY) if (1..=16).contains(&width) => {
            Some(FlatLayout::Fixed(width as usize))
        }
        (Dictionary(codes, values), _) if **codes == Int32 => {
            layout(values, physical, width).filter(|of| *of != FlatLayout::Bits)
        }
        (string, Type::BYTE_ARRAY) => is_string(string).then_some(FlatLayout::Strings),
        _ => None,
    }
}

fn is_string(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}
