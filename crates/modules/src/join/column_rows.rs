//! Rows of a small hash table as columns, which stay in the processor's cache.
//!
//! Of a table larger than the cache, a row in one place costs one cache miss. Of a small one,
//! copying whole rows and taking them apart again costs more than taking each column by itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt32Array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, array_bytes};
use euphrates_policy::join::OUTPUT_DICTIONARY_BYTES_MAX;

use super::packed_rows::{GATHER_BYTES_MAX, RowAddress, batch_of, start_of};
use super::side_layout::{SideLayout, bytes_of, can_encode};
use crate::batches::byte_strings::same;

/// The rows of a table, whose addresses are their numbers.
pub(super) struct ColumnRows {
    /// The key bytes of each row, if hashes are not unique.
    checks: Option<BinaryArray>,
    columns: Vec<ArrayRef>,
    /// The bytes of each row, and those of the longest.
    bytes: Vec<u32>,
    longest: usize,
    /// One bit for each row, to mark matches. Empty if matches are not tracked.
    matched: Vec<AtomicU64>,
}

impl ColumnRows {
    /// The rows of these batches, at least one. `tracks` if matches are tracked. `None` if rows of
    /// this layout cannot be held as columns: those without columns have no numbers, and a large
    /// dictionary would go into each batch of the output.
    pub(super) fn new(
        layout: &SideLayout,
        batches: &[RecordBatch],
        tracks: bool,
    ) -> Result<Option<ColumnRows>> {
        if layout.has_no_columns() {
            return Ok(None);
        }
        let parts = batches.iter().map(|batch| layout.unpack(batch));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let whole = |column: usize| {
            let parts: Vec<&dyn Array> =
                parts.iter().map(|part| part.columns[column].as_ref()).collect();
            with_one_dictionary(concat(&parts)?)
        };
        let columns = (0..layout.types().count()).map(whole);
        let Some(columns) = columns.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
        let checks: Option<Vec<&dyn Array>> =
            parts.iter().map(|part| part.keys.checks.as_ref().map(|it| it as &dyn Array)).collect();
        let checks = match checks {
            Some(checks) => Some(concat(&checks)?.as_binary::<i32>().clone()),
            None => None,
        };
        let ends = batches.iter().map(|batch| bytes_of(batch).value_offsets());
        let lengths = ends.flat_map(|ends| ends.windows(2).map(|pair| (pair[1] - pair[0]) as u32));
        let bytes: Vec<u32> = lengths.collect();
        let longest = bytes.iter().max().map_or(0, |bytes| *bytes as usize);
        let words = if tracks { bytes.len() / 64 + 1 } else { 0 };
        let matched = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ok(Some(ColumnRows { checks, columns, bytes, longest, matched }))
    }

    /// Whether the key bytes of a row equal `check`.
    pub(super) fn is(&self, row: RowAddress, check: &[u8]) -> bool {
        self.checks.as_ref().is_none_or(|checks| same(checks.value(row as usize), check))
    }

    /// Marks a row as matched.
    pub(super) fn mark(&self, row: RowAddress) {
        let (word, mask) = (&self.matched[row as usize / 64], 1 << (row % 64));
        // Most rows are marked already; not writing keeps the cache lines of others valid.
        if word.load(Relaxed) & mask == 0 {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// The rows that have matched, or those that have not.
    pub(super) fn marked(&self, matched: bool) -> Vec<RowAddress> {
        let is_marked = |row: usize| self.matched[row / 64].load(Relaxed) & (1 << (row % 64)) != 0;
        let rows = (0..self.bytes.len()).filter(|row| is_marked(*row) == matched);
        rows.map(|row| row as RowAddress).collect()
    }

    /// How many of these rows are gathered at once: at least one.
    pub(super) fn fitting(&self, rows: &[RowAddress]) -> usize {
        if self.longest.saturating_mul(rows.len()) <= GATHER_BYTES_MAX {
            return rows.len();
        }
        let mut bytes = 0;
        let fits = |row: &&RowAddress| {
            bytes += self.bytes[**row as usize] as usize;
            bytes <= GATHER_BYTES_MAX
        };
        rows.iter().take_while(fits).count().clamp(1, rows.len().max(1))
    }

    /// The needed columns of these rows, which are not many more than `fitting` allows.
    pub(super) fn gather(&self, rows: &[RowAddress]) -> Result<Vec<ArrayRef>> {
        let rows = UInt32Array::from_iter_values(rows.iter().map(|row| *row as u32));
        self.columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
    }
}

/// A column whose dictionary, if it has one, has each value once; `None` if that is large.
fn with_one_dictionary(column: ArrayRef) -> Result<Option<ArrayRef>> {
    let DataType::Dictionary(_, values) = column.data_type() else { return Ok(Some(column)) };
    if !can_encode(values) {
        return Ok(None);
    }
    let column = cast(&cast(&column, values)?, column.data_type())?;
    let is_small = array_bytes(column.as_any_dictionary().values()) <= OUTPUT_DICTIONARY_BYTES_MAX;
    Ok(is_small.then_some(column))
}

/// Converts addresses in packed batches to the numbers of rows.
pub(super) struct RowNumbers<'a> {
    /// The number of each batch's first row, and where its rows begin.
    batches: Vec<(usize, &'a [i32])>,
}

impl<'a> RowNumbers<'a> {
    pub(super) fn new(batches: &'a [RecordBatch]) -> RowNumbers<'a> {
        let firsts = batches.iter().scan(0, |next, batch| {
            let first = *next;
            *next += batch.num_rows();
            Some((first, bytes_of(batch).value_offsets()))
        });
        RowNumbers { batches: firsts.collect() }
    }

    /// The number of the row at this address. Rows must not be empty.
    pub(super) fn of(&self, address: RowAddress) -> RowAddress {
        let (first, starts) = self.batches[batch_of(address)];
        let start = start_of(address);
        (first + starts.partition_point(|other| (*other as usize) < start)) as RowAddress
    }
}
