//! Columns that are filled from rows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, GenericByteViewArray, GenericByteViewBuilder,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use euphrates_flow::Result;
use euphrates_io::buffer::{PooledBuffer, pool};

use super::{Cell, Kind, LENGTH_BYTES, copy};
use crate::sort::values::{bytes_array, fixed_array};

/// A column in the making.
pub enum Target {
    Fixed { width: usize, out: PooledBuffer, at: usize },
    Boolean(BooleanBufferBuilder),
    Variable { ends: Vec<i32>, out: PooledBuffer },
}

impl Target {
    /// An empty column for the values these rows have in this cell.
    pub fn new(cell: &Cell, starts: &[i32], bytes: &[u8]) -> Result<Target> {
        Ok(match cell.kind {
            Kind::Fixed { width } => {
                Target::Fixed { width, out: pool().take(starts.len() * width)?, at: 0 }
            }
            Kind::Boolean => Target::Boolean(BooleanBufferBuilder::new(starts.len())),
            Kind::Variable => {
                let lengths = starts.iter().map(|start| length(bytes, *start as usize + cell.at));
                let out = pool().take(lengths.sum())?;
                let mut ends = Vec::with_capacity(starts.len() + 1);
                ends.push(0);
                Target::Variable { ends, out }
            }
        })
    }

    /// Takes the values at this place of these rows. `ats` says where in each row the next value of
    /// variable length begins.
    pub fn take(&mut self, place: usize, starts: &[i32], bytes: &[u8], ats: &mut [usize]) {
        match self {
            Target::Fixed { width, out, at } => {
                let size = starts.len() * *width;
                let out = &mut out[*at..*at + size];
                *at += size;
                // Widths known to the compiler become a few moves.
                match *width {
                    1 => take::<1>(bytes, place, starts, out),
                    2 => take::<2>(bytes, place, starts, out),
                    4 => take::<4>(bytes, place, starts, out),
                    8 => take::<8>(bytes, place, starts, out),
                    16 => take::<16>(bytes, place, starts, out),
                    width => {
                        for (start, out) in starts.iter().zip(out.chunks_exact_mut(width)) {
                            out.copy_from_slice(&bytes[*start as usize + place..][..width]);
                        }
                    }
                }
            }
            Target::Boolean(out) => {
                starts.iter().for_each(|start| out.append(bytes[*start as usize + place] != 0));
            }
            Target::Variable { ends, out } => {
                let mut end = *ends.last().expect("begins with 0") as usize;
                for (start, at) in starts.iter().zip(ats) {
                    let length = length(bytes, *start as usize + place);
                    copy(bytes, *at, out, end, length);
                    *at += length;
                    end += length;
                    ends.push(end as i32);
                }
            }
        }
    }

    /// The column.
    pub fn finish(self, data_type: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
        match self {
            Target::Fixed { width, out, at } => {
                fixed_array(data_type, at / width, out.into_arrow(), nulls)
            }
            Target::Boolean(mut out) => Arc::new(BooleanArray::new(out.finish(), nulls)),
            Target::Variable { ends, out } => {
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

fn length(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..at + LENGTH_BYTES].try_into().expect("four bytes");
    u32::from_le_bytes(length) as usize
}

fn take<const WIDTH: usize>(bytes: &[u8], place: usize, starts: &[i32], out: &mut [u8]) {
    for (start, out) in starts.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
        let at = *start as usize + place;
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
            // SAFETY: the view lies within the block, and text was text in its source.
            false => unsafe {
                builder.append_view_unchecked(block, ends[0] as u32, (ends[1] - ends[0]) as u32);
            },
        }
    }
    builder.finish()
}
