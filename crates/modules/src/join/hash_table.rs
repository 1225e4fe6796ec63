//! The join's hash table: slots point to build rows, which stay in their batches.
//!
//! A slot has a hash and the address of its row, so a matching row costs two cache misses, one for
//! the slot and one for the row; both are prefetched. Rows with equal hashes are listed behind one
//! slot, so that a heavy key makes no long probe sequence. The table is built in parts by the high
//! bits of hashes: each part is built by one instance, without locks, in its cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use euphrates_device::buffer::{copy_freely, pool};
use euphrates_flow::{BATCH_BYTES_TARGET, Result};

use super::side_layout::{SideLayout, bytes_of};
use crate::partitioning::hashing::part_of;
use crate::prefetch::prefetch;

/// Slots or rows prefetched ahead: about the memory's latency over the time for one.
const PREFETCH: usize = 24;
/// Slots of a table that stays in the first-level cache, of which nothing is prefetched.
const CACHED_SLOTS_MAX: usize = 1 << 10;
/// Maximum bytes of rows gathered at once, unless a single row has more.
const GATHER_BYTES_MAX: usize = 4 * BATCH_BYTES_TARGET;
/// Maximum batches of a table.
pub(crate) const BATCHES_MAX: usize = LIST as usize;

/// The address of a row: its batch, its length if that is short, and its offset.
pub(crate) type RowAddress = u64;

/// The address of no row.
pub(crate) const NONE: RowAddress = u64::MAX;
/// In place of a batch number: a list of rows.
const LIST: u64 = 0xfffe;
/// In place of a length: the next row's offset gives it.
const LONG: u64 = 0xffff;

#[derive(Clone, Copy)]
struct JoinSlot {
    hash: u64,
    address: RowAddress,
}

/// Hashes and addresses of rows, partitioned by table part.
pub(crate) struct PartitionedSlots {
    slots: Vec<JoinSlot>,
    starts: Vec<usize>,
}

impl PartitionedSlots {
    /// Partitions the rows of these batches, which are numbered from `first`, into `1 << bits`
    /// parts.
    pub(crate) fn new(batches: &[RecordBatch], first: usize, bits: u32) -> PartitionedSlots {
        let mut starts = vec![0; (1 << bits) + 1];
        for batch in batches {
            let hashes = hashes_of(batch);
            hashes.iter().for_each(|hash| starts[part_of(*hash, 0, bits) + 1] += 1);
        }
        for part in 1..starts.len() {
            starts[part] += starts[part - 1];
        }
        let mut ends = starts.clone();
        let mut slots = vec![JoinSlot { hash: 0, address: NONE }; starts[starts.len() - 1]];
        for (number, batch) in batches.iter().enumerate() {
            let ends_of_rows = bytes_of(batch).value_offsets();
            let number = (first + number) as u64;
            for (hash, pair) in hashes_of(batch).iter().zip(ends_of_rows.windows(2)) {
                let end = &mut ends[part_of(*hash, 0, bits)];
                slots[*end] = JoinSlot { hash: *hash, address: address(number, pair[0], pair[1]) };
                *end += 1;
            }
        }
        PartitionedSlots { slots, starts }
    }

    /// The hashes of a part.
    pub(crate) fn hashes(&self, part: usize) -> impl Iterator<Item = u64> {
        self.part(part).iter().map(|slot| slot.hash)
    }

    fn part(&self, part: usize) -> &[JoinSlot] {
        &self.slots[self.starts[part]..self.starts[part + 1]]
    }
}

/// A part of the table, with all hashes that share its high bits.
pub(crate) struct TablePart {
    slots: Vec<JoinSlot>,
    /// The addresses of rows with one hash, behind their number.
    lists: Vec<RowAddress>,
}

impl TablePart {
    /// Builds a part from the slots that all instances have partitioned to it.
    pub(crate) fn new(partitioned: &[PartitionedSlots], part: usize) -> TablePart {
        let rows: usize = partitioned.iter().map(|partitioned| partitioned.part(part).len()).sum();
        // At most half of the slots are used, so that probe sequences are short; at least one is
        // empty, so that they end.
        let mut slots = vec![JoinSlot { hash: 0, address: NONE }; rows * 2 + 1];
        let mut doubles: Vec<(usize, RowAddress)> = vec![];
        for row in partitioned.iter().flat_map(|partitioned| partitioned.part(part)) {
            let at = find(&slots, row.hash);
            match slots[at].address {
                NONE => slots[at] = *row,
                _ => doubles.push((at, row.address)),
            }
        }
        let lists = list(&mut slots, &doubles);
        TablePart { slots, lists }
    }
}

/// Builds the lists for slots with several rows.
fn list(slots: &mut [JoinSlot], doubles: &[(usize, RowAddress)]) -> Vec<RowAddress> {
    if doubles.is_empty() {
        return vec![];
    }
    let mut counts = vec![0u32; slots.len()];
    doubles.iter().for_each(|(at, _)| counts[*at] += 1);
    let mut lists: Vec<RowAddress> = vec![];
    for (at, address) in doubles {
        let slot = &mut slots[*at];
        if slot.address >> 48 != LIST {
            let start = lists.len();
            lists.resize(start + 2 + counts[*at] as usize, NONE);
            (lists[start], lists[start + 1]) = (1, slot.address);
            slot.address = LIST << 48 | start as u64;
        }
        let start = (slot.address & 0xffff_ffff_ffff) as usize;
        lists[start] += 1;
        let end = start + lists[start] as usize;
        lists[end] = *address;
    }
    lists
}

/// The slot of this hash, or the empty slot where it belongs.
#[inline(always)]
fn find(slots: &[JoinSlot], hash: u64) -> usize {
    let mut at = home(slots, hash);
    while slots[at].address != NONE && slots[at].hash != hash {
        at += 1;
        if at == slots.len() {
            at = 0;
        }
    }
    at
}

/// The first slot of the probe sequence.
#[inline(always)]
fn home(slots: &[JoinSlot], hash: u64) -> usize {
    (((hash & 0xffff_ffff) * slots.len() as u64) >> 32) as usize
}

/// Rows that are found by hash.
pub(crate) struct HashTable {
    rows: Arc<SideLayout>,
    batches: Vec<TableBatch>,
    parts: Vec<TablePart>,
    bits: u32,
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

impl HashTable {
    /// A table of these batches, with its parts. `tracks` if matches are tracked.
    pub(crate) fn new(
        rows: Arc<SideLayout>,
        batches: Vec<RecordBatch>,
        parts: Vec<TablePart>,
        tracks: bool,
    ) -> HashTable {
        let stride = rows.format().row_bytes_min().max(1);
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
        let bits = parts.len().ilog2();
        HashTable { batches: batches.into_iter().map(hold).collect(), rows, parts, bits }
    }

    /// Builds a table in one thread.
    pub(crate) fn of(rows: Arc<SideLayout>, batches: Vec<RecordBatch>, tracks: bool) -> HashTable {
        let part = TablePart::new(&[PartitionedSlots::new(&batches, 0, 0)], 0);
        HashTable::new(rows, batches, vec![part], tracks)
    }

    pub(crate) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Whether no two rows have one hash.
    pub(crate) fn has_single_rows(&self) -> bool {
        self.parts.iter().all(|part| part.lists.is_empty())
    }

    /// For each hash, the address of its row or of a list, or `NONE`.
    pub(crate) fn find(&self, hashes: &[u64], found: &mut Vec<RowAddress>) {
        found.clear();
        found.reserve(hashes.len());
        if let [TablePart { slots, .. }] = &self.parts[..]
            && slots.len() <= CACHED_SLOTS_MAX
        {
            found.extend(hashes.iter().map(|hash| slots[find(slots, *hash)].address));
            return;
        }
        let mut last = JoinSlot { hash: 0, address: NONE };
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(ahead) = hashes.get(row + PREFETCH) {
                let part = &self.parts[part_of(*ahead, 0, self.bits)];
                prefetch(&part.slots, home(&part.slots, *ahead));
            }
            // Neighbouring rows often have one key.
            if *hash != last.hash || row == 0 {
                let part = &self.parts[part_of(*hash, 0, self.bits)];
                last =
                    JoinSlot { hash: *hash, address: part.slots[find(&part.slots, *hash)].address };
            }
            found.push(last.address);
        }
    }

    /// The rows of a list; `None` if the address is that of a single row.
    #[inline(always)]
    pub(crate) fn several(&self, hash: u64, address: RowAddress) -> Option<&[RowAddress]> {
        if address >> 48 != LIST {
            return None;
        }
        let lists = &self.parts[part_of(hash, 0, self.bits)].lists;
        let start = (address & 0xffff_ffff_ffff) as usize;
        Some(&lists[start + 1..][..lists[start] as usize])
    }

    /// Whether the key bytes of a row equal `check`.
    pub(crate) fn is(&self, address: RowAddress, check: &[u8]) -> bool {
        let held = &self.batches[batch_of(address)];
        self.rows.format().first(&held.bytes, start_of(address)) == check
    }

    /// Marks a row as matched.
    pub(crate) fn mark(&self, address: RowAddress) {
        let held = &self.batches[batch_of(address)];
        let bit = start_of(address) / self.rows.format().row_bytes_min().max(1);
        let (word, mask) = (&held.matched[bit / 64], 1 << (bit % 64));
        // Most rows are marked already; not writing keeps the cache lines of others valid.
        if word.load(Relaxed) & mask == 0 {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// The rows of a batch that have matched, or those that have not.
    pub(crate) fn marked(&self, batch: usize, matched: bool) -> Vec<RowAddress> {
        let stride = self.rows.format().row_bytes_min().max(1);
        let held = &self.batches[batch];
        let is_marked = |start: i32| {
            let bit = start as usize / stride;
            held.matched[bit / 64].load(Relaxed) & (1 << (bit % 64)) != 0
        };
        let rows = held.starts.windows(2).filter(|pair| is_marked(pair[0]) == matched);
        rows.map(|pair| address(batch as u64, pair[0], pair[1])).collect()
    }

    /// How many of these rows are gathered at once: at least one.
    pub(crate) fn fitting(&self, addresses: &[RowAddress]) -> usize {
        if let Some(width) = self.rows.format().fixed_bytes() {
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
    pub(crate) fn gather(&self, addresses: &[RowAddress]) -> Result<Vec<ArrayRef>> {
        let ends = match self.rows.format().fixed_bytes() {
            Some(width) => (0..=addresses.len()).map(|row| (row * width) as i32).collect(),
            None => self.ends(addresses),
        };
        let mut out = pool().take(ends[addresses.len()] as usize)?;
        match self.rows.format().fixed_bytes() {
            Some(8) => self.copy_fixed::<8>(addresses, &mut out),
            Some(16) => self.copy_fixed::<16>(addresses, &mut out),
            Some(24) => self.copy_fixed::<24>(addresses, &mut out),
            _ => self.copy_rows(addresses, &ends, &mut out),
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let cells = self.rows.format().unpack(&BinaryArray::new(ends, out.into_arrow(), None))?;
        self.rows.arrange(&cells, &self.others(addresses)?)
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
                prefetch(&self.batches[batch_of(*ahead)].bytes, start_of(*ahead));
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
fn address(batch: u64, start: i32, end: i32) -> RowAddress {
    batch << 48 | ((end - start) as u64).min(LONG) << 32 | start as u64
}

#[inline(always)]
fn batch_of(address: RowAddress) -> usize {
    (address >> 48) as usize
}

#[inline(always)]
fn start_of(address: RowAddress) -> usize {
    (address & 0xffff_ffff) as usize
}

fn hashes_of(batch: &RecordBatch) -> &[u64] {
    batch.column(0).as_primitive::<UInt64Type>().values()
}
