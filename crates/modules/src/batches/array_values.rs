//! Converts arrays to their bytes, and bytes to arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, FixedSizeBinaryArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

/// The values of a fixed-width column, including those of null rows, as one buffer.
pub(crate) fn fixed_values(array: &ArrayRef, width: usize) -> Buffer {
    match array.as_any().downcast_ref::<FixedSizeBinaryArray>() {
        Some(binary) => binary.values().clone(),
        None => {
            let data = array.to_data();
            data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
        }
    }
}

/// A fixed-width column of these values.
pub(crate) fn fixed_array(
    data_type: &DataType,
    rows: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    match data_type {
        DataType::FixedSizeBinary(width) => {
            Arc::new(FixedSizeBinaryArray::new(*width, values, nulls))
        }
        _ => {
            let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values);
            make_array(data.nulls(nulls).build().expect("one buffer of the right length"))
        }
    }
}

/// A column of text or bytes with these offsets, of which the first is 0. Text must be valid UTF-8.
pub(crate) fn bytes_array(
    data_type: &DataType,
    ends: Vec<i32>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let rows = ends.len() - 1;
    let is_wide = matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary);
    let ends = match is_wide {
        true => Buffer::from_vec(ends.into_iter().map(i64::from).collect::<Vec<_>>()),
        false => Buffer::from_vec(ends),
    };
    let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls);
    let data = data.add_buffer(ends).add_buffer(values);
    // SAFETY: the offsets rise to the length of the values, and text is valid (see above).
    make_array(unsafe { data.build_unchecked() })
}
