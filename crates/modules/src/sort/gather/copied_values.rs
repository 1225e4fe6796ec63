//! Copies values of many batches in a given order: fixed widths, texts and nulls.
//!
//! A value of a random row is a cache miss; those of the next rows are prefetched.

use arrow::array::{Array, ArrayRef, OffsetSizeTrait};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use euphrates_device::buffer::{copy_freely, pool};
use euphrates_flow::{Error, Result};

/// Rows prefetched ahead: about the memory's latency over the time of one copy.
const PREFETCH_ROWS: usize = 16;

/// Maximum bytes prefetched of a value; the hardware prefetcher continues longer ones.
const PREFETCH_BYTES_MAX: usize = 512;

/// The id of a row: batch << 16 | row.
pub(crate) type RowId = u32;

/// The nulls of each batch, if any batch has some.
pub(super) type PartNulls = Option<Vec<Option<NullBuffer>>>;

/// The offsets and values of a batch.
pub(super) struct BatchValues {
    offsets: Buffer,
    values: Buffer,
}

/// The values of all batches, which have one width.
pub(super) struct FixedValues {
    pub(super) width: usize,
    pub(super) parts: Vec<Buffer>,
}

impl FixedValues {
    /// The offsets and values of these rows.
    pub(super) fn gather_bytes(&self, ids: &[RowId]) -> Result<(Vec<i32>, Buffer)> {
        let ends = ids.len().checked_mul(self.width).and_then(|end| i32::try_from(end).ok());
        ends.ok_or_else(too_large)?;
        let ends = (0..=ids.len()).map(|row| (row * self.width) as i32).collect();
        Ok((ends, gather_fixed(&self.parts, self.width, ids)?))
    }
}

fn too_large() -> Error {
    Error::failed("a batch would hold more than 2 GiB of text")
}

impl BatchValues {
    pub(super) fn new<O: OffsetSizeTrait>(array: &ArrayRef) -> BatchValues {
        let (data, width) = (array.to_data(), size_of::<O>());
        // An array without rows may have no offsets.
        let offsets = match data.len() {
            0 => Buffer::from_vec(vec![O::zero()]),
            rows => data.buffers()[0].slice_with_length(data.offset() * width, (rows + 1) * width),
        };
        BatchValues { offsets, values: data.buffers()[1].clone() }
    }

    pub(super) fn longest<O: OffsetSizeTrait>(&self) -> usize {
        longest_step::<O>(self.offsets.typed_data())
    }

    /// The values one behind the other, and their width, if all have one.
    pub(super) fn of_one_width<O: OffsetSizeTrait>(parts: &[BatchValues]) -> Option<FixedValues> {
        let mut width = None;
        for part in parts {
            for pair in part.offsets.typed_data::<O>().windows(2) {
                let length = (pair[1] - pair[0]).as_usize();
                if *width.get_or_insert(length) != length {
                    return None;
                }
            }
        }
        let values = |part: &BatchValues| {
            let ends: &[O] = part.offsets.typed_data();
            part.values.slice(ends[0].as_usize())
        };
        width.map(|width| FixedValues { width, parts: parts.iter().map(values).collect() })
    }

    pub(super) fn length<O: OffsetSizeTrait>(&self, row: usize) -> usize {
        let offsets: &[O] = self.offsets.typed_data();
        (offsets[row + 1] - offsets[row]).as_usize()
    }
}

pub(super) fn longest_step<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    offsets.windows(2).map(|pair| (pair[1] - pair[0]).as_usize()).max().unwrap_or(0)
}

pub(super) fn gather_fixed(parts: &[Buffer], width: usize, ids: &[RowId]) -> Result<Buffer> {
    let values: Vec<&[u8]> = parts.iter().map(Buffer::as_slice).collect();
    let mut out = pool().take(ids.len() * width)?;
    // Copies of constant width compile to a few moves.
    match width {
        1 => copy_rows::<1>(&values, ids, &mut out),
        2 => copy_rows::<2>(&values, ids, &mut out),
        4 => copy_rows::<4>(&values, ids, &mut out),
        8 => copy_rows::<8>(&values, ids, &mut out),
        10 => copy_rows::<10>(&values, ids, &mut out),
        16 => copy_rows::<16>(&values, ids, &mut out),
        90 => copy_rows::<90>(&values, ids, &mut out),
        100 => copy_rows::<100>(&values, ids, &mut out),
        _ => copy_wide_rows(&values, width, ids, &mut out),
    }
    Ok(out.into_arrow())
}

fn copy_rows<const WIDTH: usize>(values: &[&[u8]], ids: &[RowId], out: &mut [u8]) {
    for (row, (id, out)) in ids.iter().zip(out.as_chunks_mut::<WIDTH>().0).enumerate() {
        if let Some(ahead) = ids.get(row + PREFETCH_ROWS) {
            prefetch(values, *ahead, WIDTH);
        }
        let at = (id & 0xffff) as usize * WIDTH;
        let row = &values[(id >> 16) as usize][at..at + WIDTH];
        *out = row.try_into().expect("one width");
    }
}

fn copy_wide_rows(values: &[&[u8]], width: usize, ids: &[RowId], out: &mut [u8]) {
    for (row, id) in ids.iter().enumerate() {
        if let Some(ahead) = ids.get(row + PREFETCH_ROWS) {
            prefetch(values, *ahead, width);
        }
        let at = (id & 0xffff) as usize * width;
        copy_freely(values[(id >> 16) as usize], at, out, row * width, width);
    }
}

/// Which of these rows are null, if any is.
pub(super) fn gather_nulls(parts: &[Option<NullBuffer>], ids: &[RowId]) -> Option<NullBuffer> {
    let is_valid = |row: usize| {
        let nulls = parts[(ids[row] >> 16) as usize].as_ref();
        nulls.is_none_or(|nulls| nulls.is_valid((ids[row] & 0xffff) as usize))
    };
    let nulls = NullBuffer::new(BooleanBuffer::collect_bool(ids.len(), is_valid));
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}

/// The offsets and values of these rows' texts.
pub(super) fn gather_bytes<O: OffsetSizeTrait>(
    parts: &[BatchValues],
    ids: &[RowId],
) -> Result<(Vec<i32>, Buffer)> {
    let offsets: Vec<&[O]> = parts.iter().map(|part| part.offsets.typed_data()).collect();
    let values: Vec<&[u8]> = parts.iter().map(|part| part.values.as_slice()).collect();
    let mut ends = Vec::with_capacity(ids.len() + 1);
    let mut end = 0i32;
    ends.push(end);
    for (row, id) in ids.iter().enumerate() {
        if let Some(ahead) = ids.get(row + PREFETCH_ROWS) {
            let offsets = offsets[(ahead >> 16) as usize];
            let width = size_of::<O>();
            prefetch_at(as_bytes(offsets), (ahead & 0xffff) as usize * width, 2 * width);
        }
        let row = (id & 0xffff) as usize;
        let offsets = offsets[(id >> 16) as usize];
        let length = (offsets[row + 1] - offsets[row]).as_usize();
        end = i32::try_from(length)
            .ok()
            .and_then(|length| end.checked_add(length))
            .ok_or_else(too_large)?;
        ends.push(end);
    }
    let mut out = pool().take(end as usize)?;
    let mut at = 0;
    for (row, id) in ids.iter().enumerate() {
        if let Some(ahead) = ids.get(row + PREFETCH_ROWS) {
            let (part, row) = ((ahead >> 16) as usize, (ahead & 0xffff) as usize);
            let (from, to) = (offsets[part][row].as_usize(), offsets[part][row + 1].as_usize());
            prefetch_at(values[part], from, (to - from).min(PREFETCH_BYTES_MAX));
        }
        let (part, row) = ((id >> 16) as usize, (id & 0xffff) as usize);
        let offsets = offsets[part];
        let bytes = &values[part][offsets[row].as_usize()..offsets[row + 1].as_usize()];
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    Ok((ends, out.into_arrow()))
}

fn prefetch(values: &[&[u8]], id: RowId, width: usize) {
    prefetch_at(values[(id >> 16) as usize], (id & 0xffff) as usize * width, width);
}

fn as_bytes<O: OffsetSizeTrait>(offsets: &[O]) -> &[u8] {
    // SAFETY: an integer has no padding, and any byte is valid.
    unsafe { std::slice::from_raw_parts(offsets.as_ptr().cast(), size_of_val(offsets)) }
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Prefetches the cache lines of `bytes[at..at + length]`.
#[inline(always)]
fn prefetch_at(bytes: &[u8], at: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = bytes.as_ptr().wrapping_add(at);
        let mut line = first.wrapping_sub(first.addr() % LINE_BYTES);
        while line < first.wrapping_add(length) {
            // SAFETY: prefetching has no effect but on caches, wherever the address points.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
            line = line.wrapping_add(LINE_BYTES);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at, length);
}
