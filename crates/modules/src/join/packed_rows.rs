//! Rows of a hash table in row format: where they lie in their batches, and how they are gathered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::record_batch::RecordBatch;
use euphrates_device::buffer::{copy_freely, pool};
use euphrates_flow::Result;

use super::side_layout::{SideLayout, bytes_of};
use crate::batches::byte_strings::same;
use crate::prefetch::prefetch;

/// Rows prefetched ahead: about the memory's latency over the time for one.
pub(super) const PREFETCH: usize = 24;
/// Maximum bytes of rows gathered at once, unless a single row has more.
pub(super) const GATHER_BYTES_MAX: usize = 4 * euphrates_flow::BATCH_BYTES_TARGET;
/// Maximum batches of a table.
pub(crate) const BATCHES_MAX: usize = LIST as usize;

/// The address of a row: its batch, its length if that is short, and its offset. In a table of
/// columns, its number.
pub(crate) type RowAddress = u64;

/// The address of no row.
pub(crate) const NONE: RowAddress = u64::MAX;
/// In place of a batch number: a list of rows.
pub(super) const LIST: u64 = 0xfffe;
/// In place of a length: the next row's offset gives it.
const LONG: u64 = 0xffff;

/// All rows of a table.
pub(super) struct PackedRows {
    layout: Arc<SideLayout>,
    batches: Vec<TableBatch>,
}

/// A batch of rows in the table.
struct TableBatch {
    bytes: Buffer,
    starts: OffsetBuffer<i32>,
    others: Vec<ArrayRef>,
    /// One bit per row, to mark matches. The bit's index is the row's offset divided by the minimum
    /// row length, which is unique to the row. Empty if matches are not tracked.
    matched: Vec<AtomicU64>,
}

impl PackedRows {
    /// The rows of these batches. `tracks` if matches are tracked.
    pub(super) fn new(
        layout: Arc<SideLayout>,
        batches: Vec<RecordBatch>,
        tracks: bool,
    ) -> PackedRows {
        let stride = layout.format().row_bytes_min().max(1);
        let hold = |batch: RecordBatch| {
            let rows = bytes_of(&batch);
            let words = if tracks { rows.values().len() / stride / 64 + 1 } else { 0 };
            TableBatch {
                bytes: rows.values().clone(),
                starts: rows.offsets().clone(),
                matched: (0..words).map(|_| AtomicU64::new(0)).collect(),
                others: batch.columns()[2..].to_vec(),
            }
        };
        PackedRows { batches: batches.into_iter().map(hold).collect(), layout }
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Prefetches the first bytes of a row.
    #[inline(always)]
    pub(super) fn prefetch(&self, address: RowAddress) {
        prefetch(&self.batches[batch_of(address)].bytes, start_of(address));
    }

    /// Whether the key bytes of a row equal `check`.
    pub(super) fn is(&self, address: RowAddress, check: &[u8]) -> bool {
        let held = &self.batches[batch_of(address)];
        same(self.layout.format().first(&held.bytes, start_of(address)), check)
    }

    /// Marks a row as matched.
    pub(super) fn mark(&self, address: RowAddress) {
        let held = &self.batches[batch_of(address)];
        let bit = start_of(address) / self.layout.format().row_bytes_min().max(1);
        let (word, mask) = (&held.matched[bit / 64], 1 << (bit % 64));
        // Most rows are marked already; not writing keeps the cache lines of others valid.
        if word.load(Relaxed) & mask == 0 {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// The rows of a batch that have matched, or those that have not.
    pub(super) fn marked(&self, batch: usize, matched: bool) -> Vec<RowAddress> {
        let stride = self.layout.format().row_bytes_min().max(1);
        let held = &self.batches[batch];
        let is_marked = |start: i32| {
            let bit = start as usize / stride;
            held.matched[bit / 64].load(Relaxed) & (1 << (bit % 64)) != 0
        };
        let rows = held.starts.windows(2).filter(|pair| is_marked(pair[0]) == matched);
        rows.map(|pair| address(batch as u64, pair[0], pair[1])).collect()
    }

    /// How many of these rows are gathered at once: at least one.
    pub(super) fn fitting(&self, addresses: &[RowAddress]) -> usize {
        if self.layout.has_no_columns() {
            return addresses.len();
        }
        if let Some(width) = self.layout.format().fixed_bytes() {
            return addresses.len().min(GATHER_BYTES_MAX / width).max(1);
        }
        let mut bytes = 0;
        let fits = |address: &&RowAddress| {
            bytes += self.length_of(**address);
            bytes <= GATHER_BYTES_MAX
        };
        addresses.iter().take_while(fits).count().clamp(1, addresses.len().max(1))
    }

    /// The needed columns of these rows, which are not many more than `fitting` allows.
    pub(super) fn gather(&self, addresses: &[RowAddress]) -> Result<Vec<ArrayRef>> {
        if self.layout.has_no_columns() {
            return Ok(vec![]);
        }
        let ends = match self.layout.format().fixed_bytes() {
            Some(width) => (0..=addresses.len()).map(|row| (row * width) as i32).collect(),
            None => self.ends(addresses),
        };
        let mut out = pool().take(ends[addresses.len()] as usize)?;
        match self.layout.format().fixed_bytes() {
            Some(8) => self.copy_fixed::<8>(addresses, &mut out),
            Some(16) => self.copy_fixed::<16>(addresses, &mut out),
            Some(9) => self.copy_fixed::<9>(addresses, &mut out),
            Some(17) => self.copy_fixed::<17>(addresses, &mut out),
            Some(24) => self.copy_fixed::<24>(addresses, &mut out),
            _ => self.copy_rows(addresses, &ends, &mut out),
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let cells = self.layout.format().unpack(&BinaryArray::new(ends, out.into_arrow(), None))?;
        self.layout.arrange(&cells, &self.others(addresses)?)
    }

    /// Where each of these rows ends if they lie one behind the other, after a zero.
    fn ends(&self, addresses: &[RowAddress]) -> Vec<i32> {
        let mut ends = Vec::with_capacity(addresses.len() + 1);
        ends.push(0);
        let mut end = 0;
        for address in addresses {
            end += self.length_of(*address);
            ends.push(end as i32);
        }
        ends
    }

    /// Copies rows that all have `WIDTH` bytes.
    fn copy_fixed<const WIDTH: usize>(&self, addresses: &[RowAddress], out: &mut [u8]) {
        let (out, _) = out.as_chunks_mut::<WIDTH>();
        for (row, (address, out)) in addresses.iter().zip(out).enumerate() {
            if let Some(ahead) = addresses.get(row + PREFETCH) {
                self.prefetch(*ahead);
            }
            let bytes = &self.batches[batch_of(*address)].bytes[start_of(*address)..];
            out.copy_from_slice(&bytes[..WIDTH]);
        }
    }

    /// Copies rows to where they end.
    fn copy_rows(&self, addresses: &[RowAddress], ends: &[i32], out_bytes: &mut [u8]) {
        for (row, address) in addresses.iter().enumerate() {
            if let Some(ahead) = addresses.get(row + PREFETCH) {
                let bytes = &self.batches[batch_of(*ahead)].bytes;
                let (first, length) = (start_of(*ahead), *ahead >> 32 & 0xffff);
                prefetch(bytes, first);
                prefetch(bytes, first + length as usize);
            }
            let bytes = &self.batches[batch_of(*address)].bytes;
            let (from, to) = (ends[row] as usize, ends[row + 1] as usize);
            copy_freely(bytes, start_of(*address), out_bytes, from, to - from);
        }
    }

    /// The columns that are not part of the row format.
    fn others(&self, addresses: &[RowAddress]) -> Result<Vec<ArrayRef>> {
        let others = self.batches.first().map_or(0, |held| held.others.len());
        if others == 0 {
            return Ok(vec![]);
        }
        let row = |address: &RowAddress| {
            let batch = batch_of(*address);
            let start = start_of(*address) as i32;
            (batch, self.batches[batch].starts.partition_point(|other| *other < start))
        };
        let rows: Vec<(usize, usize)> = addresses.iter().map(row).collect();
        let gather = |column: usize| {
            let arrays: Vec<&dyn Array> =
                self.batches.iter().map(|held| held.others[column].as_ref()).collect();
            Ok(interleave(&arrays, &rows)?)
        };
        (0..others).map(gather).collect()
    }

    #[inline(always)]
    fn length_of(&self, address: RowAddress) -> usize {
        match address >> 32 & 0xffff {
            LONG => {
                let (starts, start) = (&self.batches[batch_of(address)].starts, start_of(address));
                let row = starts.partition_point(|other| *other as usize <= start);
                starts[row] as usize - start
            }
            length => length as usize,
        }
    }
}

/// The address of a row between these offsets.
#[inline(always)]
pub(super) fn address(batch: u64, start: i32, end: i32) -> RowAddress {
    batch << 48 | ((end - start) as u64).min(LONG) << 32 | start as u64
}

#[inline(always)]
pub(super) fn batch_of(address: RowAddress) -> usize {
    (address >> 48) as usize
}

#[inline(always)]
pub(super) fn start_of(address: RowAddress) -> usize {
    (address & 0xffff_ffff) as usize
}
