//! Output columns that are unpacked from rows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, GenericByteViewArray, GenericByteViewBuilder,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use euphrates_device::buffer::{PooledBuffer, copy_freely, pool};
use euphrates_flow::Result;

use super::cell::{CellKind, length};
use crate::batches::array_values::{bytes_array, fixed_array};

/// A column under construction.
pub(crate) enum ColumnBuilder {
    Fixed { width: usize, out: PooledBuffer, at: usize },
    Boolean(BooleanBufferBuilder),
    Variable { ends: Vec<i32>, out: PooledBuffer },
}

impl ColumnBuilder {
    /// An empty column for this number of values, which have `bytes` together if their length
    /// varies.
    pub(crate) fn new(kind: CellKind, rows: usize, bytes: usize) -> Result<ColumnBuilder> {
        let fixed =
            |width| Ok(ColumnBuilder::Fixed { width, out: pool().take(rows * width)?, at: 0 });
        match kind {
            CellKind::Fixed { width } => fixed(width),
            CellKind::ShortDecimal => fixed(size_of::<i64>()),
            CellKind::Boolean => Ok(ColumnBuilder::Boolean(BooleanBufferBuilder::new(rows))),
            CellKind::Variable => {
                let mut ends = Vec::with_capacity(rows + 1);
                ends.push(0);
                Ok(ColumnBuilder::Variable { ends, out: pool().take(bytes)? })
            }
        }
    }

    /// Appends the values of these rows, whose cells begin at `cell_at`. `ats` holds the offset of
    /// the next variable-length value in each row.
    pub(crate) fn take(&mut self, cell_at: usize, starts: &[i32], bytes: &[u8], ats: &mut [usize]) {
        match self {
            ColumnBuilder::Fixed { width, out, at } => {
                let size = starts.len() * *width;
                let out = &mut out[*at..*at + size];
                *at += size;
                // Copies of constant width compile to a few moves.
                match *width {
                    1 => take::<1>(bytes, cell_at, starts, out),
                    2 => take::<2>(bytes, cell_at, starts, out),
                    4 => take::<4>(bytes, cell_at, starts, out),
                    8 => take::<8>(bytes, cell_at, starts, out),
                    16 => take::<16>(bytes, cell_at, starts, out),
                    width => {
                        for (start, out) in starts.iter().zip(out.chunks_exact_mut(width)) {
                            out.copy_from_slice(&bytes[*start as usize + cell_at..][..width]);
                        }
                    }
                }
            }
            ColumnBuilder::Boolean(out) => {
                starts.iter().for_each(|start| out.append(bytes[*start as usize + cell_at] != 0));
            }
            ColumnBuilder::Variable { ends, out } => {
                let mut end = *ends.last().expect("begins with 0") as usize;
                for (start, at) in starts.iter().zip(ats) {
                    let length = length(bytes, *start as usize + cell_at, at);
                    copy_freely(bytes, *at, out, end, length);
                    *at += length;
                    end += length;
                    ends.push(end as i32);
                }
            }
        }
    }

    pub(crate) fn finish(self, data_type: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
        match self {
            ColumnBuilder::Fixed { width, out, at } => {
                let rows = at / width;
                let values = match data_type {
                    DataType::Decimal128(..) if width == size_of::<i64>() => {
                        let short = out[..at].as_chunks().0.iter().copied().map(i64::from_le_bytes);
                        short.map(i128::from).collect::<Vec<_>>().into()
                    }
                    _ => out.into_arrow(),
                };
                fixed_array(data_type, rows, values, nulls)
            }
            ColumnBuilder::Boolean(mut out) => Arc::new(BooleanArray::new(out.finish(), nulls)),
            ColumnBuilder::Variable { ends, out } => {
                let bytes = out.into_arrow();
                match data_type {
                    DataType::Utf8View => Arc::new(views::<StringViewType>(&ends, bytes, nulls)),
                    DataType::BinaryView => Arc::new(views::<BinaryViewType>(&ends, bytes, nulls)),
                    _ => bytes_array(data_type, ends, bytes, nulls),
                }
            }
        }
    }
}

fn take<const WIDTH: usize>(bytes: &[u8], cell_at: usize, starts: &[i32], out: &mut [u8]) {
    for (start, out) in starts.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
        let at = *start as usize + cell_at;
        *out = bytes[at..at + WIDTH].try_into().expect("one width");
    }
}

fn views<T: ByteViewType>(
    ends: &[i32],
    bytes: Buffer,
    nulls: Option<NullBuffer>,
) -> GenericByteViewArray<T> {
    let mut builder = GenericByteViewBuilder::<T>::with_capacity(ends.len() - 1);
    let block = builder.append_block(bytes);
    for (row, ends) in ends.windows(2).enumerate() {
        match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => builder.append_null(),
            // SAFETY: the view lies within the block, and text was valid in its source.
            false => unsafe {
                builder.append_view_unchecked(block, ends[0] as u32, (ends[1] - ends[0]) as u32);
            },
        }
    }
    builder.finish()
}
