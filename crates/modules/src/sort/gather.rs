//! Gathers rows from many batches in a given order: the step that copies every byte.
//!
//! Rows come from random places, so cache misses dominate: the next rows are prefetched while
//! columns are copied, and wide records have few columns (see `record_layout`). Columns with nulls
//! and nested types are copied by arrow's `interleave`, which supports everything at a third of the
//! speed.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::buffer::Buffer;
use arrow::compute::interleave;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_device::buffer::pool;
use euphrates_flow::{BATCH_BYTES_TARGET, Error, Result, array_bytes, new_batch};

use super::keys::key_decoder::KeyDecoder;
use super::keys::key_encoder::KeyEncoder;
use crate::batches::array_values::{bytes_array, fixed_array, fixed_values};

/// Rows prefetched ahead: about the memory's latency over the time of one copy.
const PREFETCH_ROWS: usize = 16;

/// Maximum bytes prefetched of a value; the hardware prefetcher continues longer ones.
const PREFETCH_BYTES_MAX: usize = 512;

/// A batch of values of variable length is cut at this size.
const BATCH_BYTES_MAX: usize = 4 * BATCH_BYTES_TARGET;

/// The id of a row: batch << 16 | row.
pub(crate) type RowId = u32;

/// Batches to gather rows from, prepared once for many calls.
pub(crate) struct Sources {
    encoder: Arc<KeyEncoder>,
    schema: SchemaRef,
    columns: Vec<GatherColumn>,
    /// Batches of one row, by number. Such a row may be long, and need not be copied.
    single: Vec<(usize, RecordBatch)>,
}

/// A column of all batches.
enum GatherColumn {
    /// The values are decoded from the sort keys.
    Keys { data_type: DataType, decoder: KeyDecoder },
    /// Fixed-width values without nulls.
    Fixed { width: usize, data_type: DataType, parts: Vec<Buffer> },
    /// Bytes with 32-bit offsets, without nulls.
    Bytes { data_type: DataType, parts: Vec<BatchValues>, longest: usize },
    /// Columns of any other type, which Arrow interleaves.
    Other { arrays: Vec<ArrayRef>, longest: usize },
}

/// The offsets and values of a batch.
struct BatchValues {
    offsets: Buffer,
    values: Buffer,
}

impl Sources {
    /// Prepares these batches, whose schemas begin with `schema`. `is_exact` says that none of
    /// their keys is tied.
    pub(crate) fn new<'a>(
        encoder: &Arc<KeyEncoder>,
        schema: SchemaRef,
        batches: impl Iterator<Item = &'a RecordBatch> + Clone,
        is_exact: bool,
    ) -> Sources {
        let column = |index: usize| batches.clone().map(move |batch| batch.column(index));
        let source = |index: usize| {
            let data_type = schema.field(index).data_type();
            match encoder.decoder(&schema, index).filter(|_| is_exact) {
                Some(decoder) => GatherColumn::Keys { data_type: data_type.clone(), decoder },
                None => GatherColumn::new(data_type, column(index)),
            }
        };
        let columns: Vec<GatherColumn> = (0..schema.fields().len()).map(source).collect();
        // Keys of all columns may lack row ids.
        let has_ids = !columns.iter().all(|column| matches!(column, GatherColumn::Keys { .. }));
        let single = batches.enumerate().filter(|(_, batch)| has_ids && batch.num_rows() == 1);
        let single = single.map(|(number, batch)| (number, batch.clone())).collect();
        Sources { encoder: encoder.clone(), schema, columns, single }
    }

    /// Gathers the rows of these keys, in order, as one batch; only the first rows if all together
    /// are much larger than a batch should be.
    pub(crate) fn gather(&self, keys: &[u128]) -> Result<RecordBatch> {
        if let Some(row) = self.single(keys) {
            let columns = row.columns()[..self.columns.len()].to_vec();
            return Ok(RecordBatch::try_new(self.schema.clone(), columns)?);
        }
        let ids: Vec<RowId> = keys.iter().map(|key| self.encoder.id(*key)).collect();
        let fitting =
            self.columns.iter().fold(ids.len(), |fit, source| source.fitting(&ids[..fit]));
        let (ids, keys) = (&ids[..fitting], &keys[..fitting]);
        let columns = self.columns.iter().map(|source| source.gather(ids, keys));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(new_batch(self.schema.clone(), columns, ids.len())?)
    }

    /// The batch that consists of the only row of these keys.
    fn single(&self, keys: &[u128]) -> Option<&RecordBatch> {
        let [key] = keys else { return None };
        let number = (self.encoder.id(*key) >> 16) as usize;
        let found = self.single.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.single[found].1)
    }
}

impl GatherColumn {
    fn new<'a>(
        data_type: &DataType,
        arrays: impl Iterator<Item = &'a ArrayRef> + Clone,
    ) -> GatherColumn {
        let has_nulls = arrays.clone().any(|array| array.null_count() > 0);
        let width = match data_type {
            DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
            DataType::Boolean => None,
            other => other.primitive_width(),
        };
        let binary = matches!(data_type, DataType::Utf8 | DataType::Binary);
        match width {
            Some(width) if !has_nulls && width > 0 => {
                let parts = arrays.map(|array| fixed_values(array, width)).collect();
                GatherColumn::Fixed { width, data_type: data_type.clone(), parts }
            }
            None if !has_nulls && binary => {
                let parts: Vec<BatchValues> = arrays.map(BatchValues::new).collect();
                let longest = parts.iter().map(BatchValues::longest).max().unwrap_or(0);
                GatherColumn::Bytes { data_type: data_type.clone(), parts, longest }
            }
            _ => {
                let arrays: Vec<ArrayRef> = arrays.cloned().collect();
                let longest = arrays.iter().map(longest).max().unwrap_or(0);
                GatherColumn::Other { arrays, longest }
            }
        }
    }

    /// How many of these rows make a batch that is not too large: at least one.
    fn fitting(&self, ids: &[RowId]) -> usize {
        let longest = match self {
            GatherColumn::Bytes { longest, .. } | GatherColumn::Other { longest, .. } => *longest,
            GatherColumn::Keys { .. } | GatherColumn::Fixed { .. } => 0,
        };
        if longest.saturating_mul(ids.len()) <= BATCH_BYTES_MAX {
            return ids.len();
        }
        let mut bytes = 0;
        let fits = |id: &&RowId| {
            bytes += self.length((**id >> 16) as usize, (**id & 0xffff) as usize);
            bytes <= BATCH_BYTES_MAX
        };
        ids.iter().take_while(fits).count().clamp(1, ids.len().max(1))
    }

    /// The bytes of a value, if the type has variable length.
    fn length(&self, part: usize, row: usize) -> usize {
        match self {
            GatherColumn::Bytes { parts, .. } => {
                let offsets: &[i32] = parts[part].offsets.typed_data();
                (offsets[row + 1] - offsets[row]) as usize
            }
            GatherColumn::Other { arrays, .. } => length(&arrays[part], row),
            GatherColumn::Keys { .. } | GatherColumn::Fixed { .. } => 0,
        }
    }

    fn gather(&self, ids: &[RowId], keys: &[u128]) -> Result<ArrayRef> {
        match self {
            GatherColumn::Keys { data_type, decoder } => {
                let mut out = pool().take(keys.len() * decoder.width)?;
                decoder.write(keys, &mut out);
                Ok(fixed_array(data_type, keys.len(), out.into_arrow(), decoder.nulls(keys)))
            }
            GatherColumn::Fixed { width, data_type, parts } => {
                Ok(fixed_array(data_type, ids.len(), gather_fixed(parts, *width, ids)?, None))
            }
            GatherColumn::Bytes { data_type, parts, .. } => gather_bytes(data_type, parts, ids),
            GatherColumn::Other { arrays, .. } => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                let split = |id: &RowId| ((id >> 16) as usize, (id & 0xffff) as usize);
                let positions: Vec<(usize, usize)> = ids.iter().map(split).collect();
                Ok(interleave(&arrays, &positions)?)
            }
        }
    }
}

impl BatchValues {
    fn new(array: &ArrayRef) -> BatchValues {
        let data = array.to_data();
        let offsets = data.buffers()[0].slice_with_length(data.offset() * 4, (data.len() + 1) * 4);
        BatchValues { offsets, values: data.buffers()[1].clone() }
    }

    fn longest(&self) -> usize {
        longest_step::<i32>(self.offsets.typed_data())
    }
}

/// The bytes of a value, if the type has variable length.
fn length(array: &ArrayRef, row: usize) -> usize {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value_length(row) as usize,
        DataType::LargeUtf8 => array.as_string::<i64>().value_length(row) as usize,
        DataType::Binary => array.as_binary::<i32>().value_length(row) as usize,
        DataType::LargeBinary => array.as_binary::<i64>().value_length(row) as usize,
        // The lower half of a view's first word is its length.
        DataType::Utf8View => array.as_string_view().views()[row] as u32 as usize,
        DataType::BinaryView => array.as_binary_view().views()[row] as u32 as usize,
        DataType::List(_) => array_bytes(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => array_bytes(&array.as_list::<i64>().value(row)),
        _ => 0,
    }
}

/// Approximate bytes of the longest value, if the type has variable length.
fn longest(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8 => longest_step(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => longest_step(array.as_string::<i64>().value_offsets()),
        DataType::Binary => longest_step(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => longest_step(array.as_binary::<i64>().value_offsets()),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            longest_step(lists.value_offsets()) * bytes_each(lists.values())
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            longest_step(lists.value_offsets()) * bytes_each(lists.values())
        }
        DataType::Utf8View | DataType::BinaryView => {
            (0..array.len()).map(|row| length(array, row)).max().unwrap_or(0)
        }
        _ => 0,
    }
}

fn longest_step<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    offsets.windows(2).map(|pair| (pair[1] - pair[0]).as_usize()).max().unwrap_or(0)
}

fn bytes_each(values: &ArrayRef) -> usize {
    array_bytes(values).div_ceil(values.len().max(1))
}

fn gather_fixed(parts: &[Buffer], width: usize, ids: &[RowId]) -> Result<Buffer> {
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
    for (row, (id, out)) in ids.iter().zip(out.chunks_exact_mut(width)).enumerate() {
        if let Some(ahead) = ids.get(row + PREFETCH_ROWS) {
            prefetch(values, *ahead, width);
        }
        let at = (id & 0xffff) as usize * width;
        out.copy_from_slice(&values[(id >> 16) as usize][at..at + width]);
    }
}

fn gather_bytes(data_type: &DataType, parts: &[BatchValues], ids: &[RowId]) -> Result<ArrayRef> {
    let offsets: Vec<&[i32]> = parts.iter().map(|part| part.offsets.typed_data()).collect();
    let values: Vec<&[u8]> = parts.iter().map(|part| part.values.as_slice()).collect();
    let mut ends = Vec::with_capacity(ids.len() + 1);
    let mut end = 0i32;
    ends.push(end);
    for (row, id) in ids.iter().enumerate() {
        if let Some(ahead) = ids.get(row + PREFETCH_ROWS) {
            let offsets = offsets[(ahead >> 16) as usize];
            prefetch_at(as_bytes(offsets), (ahead & 0xffff) as usize * 4, 8);
        }
        let row = (id & 0xffff) as usize;
        let offsets = offsets[(id >> 16) as usize];
        end = end
            .checked_add(offsets[row + 1] - offsets[row])
            .ok_or_else(|| Error::failed("a batch would hold more than 2 GiB of text"))?;
        ends.push(end);
    }
    let mut out = pool().take(end as usize)?;
    let mut at = 0;
    for (row, id) in ids.iter().enumerate() {
        if let Some(ahead) = ids.get(row + PREFETCH_ROWS) {
            let (part, row) = ((ahead >> 16) as usize, (ahead & 0xffff) as usize);
            let (from, to) = (offsets[part][row] as usize, offsets[part][row + 1] as usize);
            prefetch_at(values[part], from, (to - from).min(PREFETCH_BYTES_MAX));
        }
        let (part, row) = ((id >> 16) as usize, (id & 0xffff) as usize);
        let offsets = offsets[part];
        let bytes = &values[part][offsets[row] as usize..offsets[row + 1] as usize];
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    Ok(bytes_array(data_type, ends, out.into_arrow(), None))
}

fn prefetch(values: &[&[u8]], id: RowId, width: usize) {
    prefetch_at(values[(id >> 16) as usize], (id & 0xffff) as usize * width, width);
}

fn as_bytes(offsets: &[i32]) -> &[u8] {
    // SAFETY: an integer is four bytes.
    unsafe { std::slice::from_raw_parts(offsets.as_ptr().cast(), size_of_val(offsets)) }
}

/// Prefetches the cache lines of `bytes[at..at + length]`.
#[inline(always)]
fn prefetch_at(bytes: &[u8], at: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let mut line = at;
        while line < (at + length).min(bytes.len()) {
            // SAFETY: prefetching has no effect but on caches, and the address is within `bytes`.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().add(line).cast()) };
            line += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at, length);
}

#[cfg(test)]
mod tests {
    use super::super::keys::key_layout::KeyColumn;
    use super::*;
    use arrow::array::{FixedSizeBinaryArray, Int32Array, StringArray};
    use arrow::datatypes::{Field, Schema};

    #[test]
    fn gathering_agrees_with_interleave_for_every_kind_of_column() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int32, false),
            Field::new("text", DataType::Utf8, false),
            Field::new("maybe", DataType::Utf8, true),
            Field::new("fixed", DataType::FixedSizeBinary(3), false),
            Field::new("key", DataType::FixedSizeBinary(10), false),
        ]));
        let batch = |base: i32, rows: i32| {
            let text = |n: i32| "x".repeat((n % 5) as usize) + &n.to_string();
            let numbers = || base..base + rows;
            let fixed = |width: usize| -> ArrayRef {
                let bytes: Vec<u8> = numbers().flat_map(|n| vec![n as u8; width]).collect();
                Arc::new(FixedSizeBinaryArray::new(width as i32, Buffer::from(bytes), None))
            };
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int32Array::from_iter_values(numbers())),
                Arc::new(StringArray::from_iter_values(numbers().map(text))),
                Arc::new(StringArray::from_iter(numbers().map(|n| (n % 3 != 0).then(|| text(n))))),
                fixed(3),
                fixed(10),
            ];
            RecordBatch::try_new(schema.clone(), columns).unwrap().slice(3, rows as usize - 3)
        };
        let batches = [batch(0, 50), batch(100, 20), batch(200, 70)];
        let key = KeyColumn { column: 4, descending: true, nulls_first: false };
        let encoder = Arc::new(KeyEncoder::new(&schema, vec![key]).unwrap());
        let encode = |(number, batch)| encoder.encode(batch, number).unwrap().packed;
        let keys: Vec<Vec<u128>> = batches.iter().enumerate().map(encode).collect();
        let ids: Vec<RowId> = (0..200u32).map(|n| ((n % 3) << 16) | (n * 7 % 17)).collect();
        let key_of = |id: &RowId| keys[(id >> 16) as usize][(id & 0xffff) as usize];
        let wanted: Vec<u128> = ids.iter().map(key_of).collect();
        let sources = Sources::new(&encoder, schema.clone(), batches.iter(), true);
        let coalescer = sources.gather(&wanted).unwrap();
        for (index, column) in coalescer.columns().iter().enumerate() {
            let arrays: Vec<&dyn Array> =
                batches.iter().map(|batch| batch.column(index).as_ref()).collect();
            let positions: Vec<_> =
                ids.iter().map(|id| ((id >> 16) as usize, (id & 0xffff) as usize)).collect();
            assert_eq!(column, &interleave(&arrays, &positions).unwrap(), "column {index}");
        }
    }
}
