//! Gathers rows from many batches in a given order: the step that copies every byte.
//!
//! Rows come from random places, so cache misses dominate: the next rows are prefetched while
//! columns are copied, and wide records have few columns (see `record_layout`). Bits, views and
//! nested types are copied by arrow's `interleave`, which supports everything at a third of the
//! speed.

mod copied_values;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, Result, array_bytes, new_batch};

use self::copied_values::{
    BatchValues, FixedValues, PartNulls, gather_bytes, gather_fixed, gather_nulls, longest_step,
};
use super::keys::key_decoder::KeyDecoder;
use super::keys::key_encoder::KeyEncoder;
use crate::batches::array_values::{bytes_array, fixed_array, fixed_values};

pub(crate) use self::copied_values::RowId;

/// A batch of values of variable length is cut at this size.
const BATCH_BYTES_MAX: usize = 4 * BATCH_BYTES_TARGET;

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
    /// Fixed-width values.
    Fixed { width: usize, data_type: DataType, parts: Vec<Buffer>, nulls: PartNulls },
    /// Texts and binaries.
    Bytes { data_type: DataType, parts: Vec<BatchValues>, longest: usize, nulls: PartNulls },
    /// Binaries of one length, whose offsets need not be read: rows without texts have one.
    SameLength { data_type: DataType, values: FixedValues },
    /// Columns of any other type, which Arrow interleaves.
    Other { arrays: Vec<ArrayRef>, longest: usize },
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
        let width = match data_type {
            DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
            DataType::Boolean => None,
            other => other.primitive_width(),
        };
        let nulls: Vec<Option<NullBuffer>> =
            arrays.clone().map(|array| array.nulls().cloned()).collect();
        let has_nulls = nulls.iter().flatten().any(|nulls| nulls.null_count() > 0);
        let nulls: PartNulls = has_nulls.then_some(nulls);
        let data_type = data_type.clone();
        match (width, &data_type) {
            (Some(width @ 1..), _) => {
                let parts = arrays.map(|array| fixed_values(array, width)).collect();
                GatherColumn::Fixed { width, data_type, parts, nulls }
            }
            (_, DataType::Utf8 | DataType::Binary) => {
                let parts: Vec<BatchValues> = arrays.map(BatchValues::new::<i32>).collect();
                let fixed = BatchValues::of_one_width::<i32>(&parts);
                if let Some(values) = fixed.filter(|_| nulls.is_none()) {
                    return GatherColumn::SameLength { data_type, values };
                }
                let longest = parts.iter().map(BatchValues::longest::<i32>).max().unwrap_or(0);
                GatherColumn::Bytes { data_type, parts, longest, nulls }
            }
            (_, DataType::LargeUtf8 | DataType::LargeBinary) => {
                let parts: Vec<BatchValues> = arrays.map(BatchValues::new::<i64>).collect();
                let longest = parts.iter().map(BatchValues::longest::<i64>).max().unwrap_or(0);
                GatherColumn::Bytes { data_type, parts, longest, nulls }
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
            GatherColumn::Keys { decoder, .. } => {
                let rows_max = BATCH_BYTES_MAX / decoder.longest().max(1);
                return ids.len().min(rows_max.max(1));
            }
            GatherColumn::SameLength { values, .. } => values.width,
            GatherColumn::Fixed { .. } => 0,
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
            GatherColumn::Bytes { data_type, parts, .. } if is_large(data_type) => {
                parts[part].length::<i64>(row)
            }
            GatherColumn::Bytes { parts, .. } => parts[part].length::<i32>(row),
            GatherColumn::Other { arrays, .. } => length(&arrays[part], row),
            GatherColumn::SameLength { values, .. } => values.width,
            GatherColumn::Keys { .. } | GatherColumn::Fixed { .. } => 0,
        }
    }

    fn gather(&self, ids: &[RowId], keys: &[u128]) -> Result<ArrayRef> {
        match self {
            GatherColumn::Keys { data_type, decoder } => decoder.decode(data_type, keys),
            GatherColumn::Fixed { width, data_type, parts, nulls } => {
                let nulls = nulls.as_ref().and_then(|nulls| gather_nulls(nulls, ids));
                Ok(fixed_array(data_type, ids.len(), gather_fixed(parts, *width, ids)?, nulls))
            }
            GatherColumn::Bytes { data_type, parts, nulls, .. } => {
                let nulls = nulls.as_ref().and_then(|nulls| gather_nulls(nulls, ids));
                let (ends, values) = match is_large(data_type) {
                    true => gather_bytes::<i64>(parts, ids)?,
                    false => gather_bytes::<i32>(parts, ids)?,
                };
                Ok(bytes_array(data_type, ends, values, nulls))
            }
            GatherColumn::SameLength { data_type, values } => {
                let (ends, values) = values.gather_bytes(ids)?;
                Ok(bytes_array(data_type, ends, values, None))
            }
            GatherColumn::Other { arrays, .. } => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                let split = |id: &RowId| ((id >> 16) as usize, (id & 0xffff) as usize);
                let positions: Vec<(usize, usize)> = ids.iter().map(split).collect();
                Ok(interleave(&arrays, &positions)?)
            }
        }
    }
}

fn is_large(data_type: &DataType) -> bool {
    matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary)
}

/// The bytes of a value that Arrow copies, if the type has variable length.
fn length(array: &ArrayRef, row: usize) -> usize {
    match array.data_type() {
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

fn bytes_each(values: &ArrayRef) -> usize {
    array_bytes(values).div_ceil(values.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::super::keys::key_layout::KeyColumn;
    use super::*;
    use arrow::array::{
        BooleanArray, FixedSizeBinaryArray, Int32Array, Int64Array, LargeStringArray, StringArray,
    };
    use arrow::datatypes::{Field, Schema};

    #[test]
    fn gathering_agrees_with_interleave_for_every_kind_of_column() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int32, false),
            Field::new("text", DataType::Utf8, false),
            Field::new("maybe", DataType::Utf8, true),
            Field::new("large", DataType::LargeUtf8, true),
            Field::new("some", DataType::Int64, true),
            Field::new("flag", DataType::Boolean, true),
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
                Arc::new(LargeStringArray::from_iter(
                    numbers().map(|n| (n % 7 != 0).then(|| text(n))),
                )),
                // The second batch has no nulls.
                Arc::new(Int64Array::from_iter(
                    numbers().map(|n| (base == 100 || n % 4 != 0).then_some(i64::from(n))),
                )),
                Arc::new(BooleanArray::from_iter(numbers().map(|n| Some(n % 2 == 0)))),
                fixed(3),
                fixed(10),
            ];
            RecordBatch::try_new(schema.clone(), columns).unwrap().slice(3, rows as usize - 3)
        };
        let batches = [batch(0, 50), batch(100, 20), batch(200, 70)];
        let key = KeyColumn { column: 7, descending: true, nulls_first: false };
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
