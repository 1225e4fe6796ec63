//! Statistics of a segment's blocks, in its table of contents: an Arrow table with the bounds of
//! the columns, one row for each block.
//!
//! The columns of the table follow from the segment's schema: `least.N`, `greatest.N` and `nulls.N`
//! for each column number N that has bounds. So the table is stored as a record batch message
//! without its schema.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::buffer::Buffer;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use arrow::ipc::reader::FileDecoder;
use arrow::ipc::{self, MetadataVersion};
use euphrates_flow::Result;

use super::block::{Block, damaged};
use super::bounds::{ColumnBounds, array_of, columns_with_bounds};
use super::encode::compact_message;

/// The most blocks of a segment with statistics: their texts fit the offsets of an Arrow column.
const BLOCKS_MAX: usize = 1 << 24;
/// Blocks whose bounds are collected before they become a table, which takes less memory.
const COLLECTED_MAX: usize = 256;

/// What is known of the values in each block of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockStatistics {
    /// The positions of the columns that have bounds, ascending.
    columns: Vec<usize>,
    table: RecordBatch,
}

/// The bounds of one column by block. No value but NaN is outside of them.
#[derive(Clone, Debug)]
pub struct BlockBounds {
    /// In the column's type, or for text and bytes, as `Binary` of at most 64 bytes; null where
    /// there is none.
    pub least: ArrayRef,
    /// As `least`.
    pub greatest: ArrayRef,
    /// The number of nulls, at most that of rows.
    pub nulls: UInt64Array,
}

impl BlockStatistics {
    /// The bounds of the column at this position of the segment's schema; `None` for a column that
    /// has none.
    pub fn bounds(&self, column: usize) -> Option<BlockBounds> {
        let at = 3 * self.columns.binary_search(&column).ok()?;
        let column = |at: usize| self.table.column(at).clone();
        let nulls = self.table.column(at + 2).as_primitive::<UInt64Type>().clone();
        Some(BlockBounds { least: column(at), greatest: column(at + 1), nulls })
    }

    /// Decodes the statistics of these blocks. Allocates no more than twice the bytes.
    pub(super) fn decode(schema: &Schema, blocks: &[Block], bytes: &[u8]) -> Result<Self> {
        let columns = columns_with_bounds(schema);
        let word = bytes.get(4..8).and_then(|word| word.try_into().ok());
        let meta_bytes = word.map_or(0, u32::from_le_bytes) as usize + 8;
        let cut = || damaged("its statistics are cut");
        let metadata = bytes.get(8..meta_bytes).ok_or_else(cut)?;
        let message = ipc::root_as_message(metadata).map_err(damaged)?;
        let batch = message.header_as_record_batch().ok_or_else(cut)?;
        if batch.compression().is_some() || batch.length() != blocks.len() as i64 {
            return Err(damaged("its statistics are not those of its blocks"));
        }
        let block = ipc::Block::new(0, meta_bytes as i32, (bytes.len() - meta_bytes) as i64);
        let decoder = FileDecoder::new(table_schema(&columns), MetadataVersion::V5);
        let bytes = Buffer::from(bytes);
        let read = AssertUnwindSafe(|| decoder.read_record_batch(&block, &bytes));
        let table = match catch_unwind(read) {
            Ok(Ok(Some(table))) => table,
            Ok(Err(error)) => return Err(damaged(error)),
            _ => return Err(damaged("its statistics cannot be decoded")),
        };
        let has_rows = |nulls: &ArrayRef| {
            let nulls = nulls.as_primitive::<UInt64Type>();
            let rows = blocks.iter().map(|block| block.rows);
            nulls.null_count() == 0 && nulls.values().iter().zip(rows).all(|(one, all)| *one <= all)
        };
        if !table.columns().iter().skip(2).step_by(3).all(has_rows) {
            return Err(damaged("its statistics have more nulls than rows"));
        }
        Ok(BlockStatistics { columns: columns.into_iter().map(|(at, _)| at).collect(), table })
    }
}

fn table_schema(columns: &[(usize, DataType)]) -> SchemaRef {
    let fields = columns.iter().flat_map(|(at, data_type)| {
        [
            Field::new(format!("least.{at}"), data_type.clone(), true),
            Field::new(format!("greatest.{at}"), data_type.clone(), true),
            Field::new(format!("nulls.{at}"), DataType::UInt64, false),
        ]
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Collects the bounds of a segment's blocks, in any order.
#[derive(Default)]
pub(super) struct StatisticsBuilder {
    /// The offset of each block.
    offsets: Vec<u64>,
    tables: Vec<RecordBatch>,
    /// The bounds of the last blocks, by column.
    last: Vec<Vec<ColumnBounds>>,
}

impl StatisticsBuilder {
    /// Adds the bounds of the block at this offset.
    pub fn add(
        &mut self,
        schema: &Schema,
        offset: u64,
        bounds: &[(usize, ColumnBounds)],
    ) -> Result<()> {
        if bounds.is_empty() || self.offsets.len() == BLOCKS_MAX {
            return Ok(());
        }
        self.offsets.push(offset);
        self.last.resize(bounds.len(), vec![]);
        self.last.iter_mut().zip(bounds).for_each(|(all, (_, one))| all.push(one.clone()));
        if self.last[0].len() == COLLECTED_MAX { self.compact(schema) } else { Ok(()) }
    }

    fn compact(&mut self, schema: &Schema) -> Result<()> {
        let columns = columns_with_bounds(schema);
        let arrays = columns.iter().zip(std::mem::take(&mut self.last));
        let arrays = arrays.flat_map(|((_, data_type), bounds)| {
            let nulls = UInt64Array::from_iter_values(bounds.iter().map(|bounds| bounds.nulls));
            [
                array_of(data_type, bounds.iter().map(|bounds| bounds.least.as_ref())),
                array_of(data_type, bounds.iter().map(|bounds| bounds.greatest.as_ref())),
                Arc::new(nulls) as ArrayRef,
            ]
        });
        self.tables.push(RecordBatch::try_new(table_schema(&columns), arrays.collect())?);
        Ok(())
    }

    /// The statistics as stored, for blocks in the order of their offsets; empty if there are none
    /// for some of this number of blocks.
    pub fn finish(mut self, schema: &Schema, blocks: usize) -> Result<Vec<u8>> {
        if self.offsets.len() != blocks || blocks == 0 {
            return Ok(vec![]);
        }
        if !self.last.is_empty() {
            self.compact(schema)?;
        }
        let table = concat_batches(self.tables[0].schema_ref(), &self.tables)?;
        let mut places: Vec<u64> = (0..blocks as u64).collect();
        places.sort_unstable_by_key(|place| self.offsets[*place as usize]);
        compact_message(&take_record_batch(&table, &UInt64Array::from(places))?)
    }
}
