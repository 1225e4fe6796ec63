//! The join's hash table: slots point to build rows, which stay in their batches.
//!
//! A slot has a hash and the address of its row, so a matching row costs two cache misses, one for
//! the slot and one for the row; both are prefetched. Rows with equal hashes are listed behind one
//! slot, so that a heavy key makes no long probe sequence. The table is built in parts by the high
//! bits of hashes: each part is built by one instance, without locks, in its cache.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, batch_bytes};
use euphrates_policy::join::direct_addresses_max;

use super::column_rows::{ColumnRows, RowNumbers};
use super::direct_addresses::DirectAddresses;
use super::packed_rows::{LIST, NONE, PREFETCH, PackedRows, RowAddress, address};
use super::side_layout::{SideLayout, bytes_of};
use crate::partitioning::hashing::part_of;
use crate::partitioning::load_factor::slots_of;
use crate::prefetch::prefetch;

/// Slots of a table that stays in the first-level cache (32 KiB), of which nothing is prefetched.
const CACHED_SLOTS_MAX: usize = 1 << 11;

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
        let count = slots_of(rows, size_of::<JoinSlot>());
        let mut slots = vec![JoinSlot { hash: 0, address: NONE }; count];
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

    /// Replaces the addresses of all rows.
    fn renumber(&mut self, numbers: &RowNumbers) {
        for slot in &mut self.slots {
            match slot.address {
                NONE => {}
                list if list >> 48 == LIST => {
                    let start = (list & 0xffff_ffff_ffff) as usize;
                    let count = self.lists[start] as usize;
                    for address in &mut self.lists[start + 1..][..count] {
                        *address = numbers.of(*address);
                    }
                }
                address => slot.address = numbers.of(address),
            }
        }
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
    rows: TableRows,
    parts: Vec<TablePart>,
    bits: u32,
    /// In place of the slots.
    direct: Option<DirectAddresses>,
}

/// The rows of a table, and what their addresses mean.
enum TableRows {
    Packed(PackedRows),
    Columns(ColumnRows),
}

impl HashTable {
    /// A table of these batches, with its parts. `tracks` if matches are tracked. Up to
    /// `columns_bytes_max`, rows are held as columns.
    pub(crate) fn new(
        layout: Arc<SideLayout>,
        batches: Vec<RecordBatch>,
        mut parts: Vec<TablePart>,
        (tracks, columns_bytes_max): (bool, usize),
    ) -> Result<HashTable> {
        let bytes: usize = batches.iter().map(batch_bytes).sum();
        let has_rows = batches.iter().any(|batch| batch.num_rows() > 0);
        let has_unique_hashes = layout.keys().has_unique_hashes();
        let columns = match has_rows && bytes <= columns_bytes_max {
            true => ColumnRows::new(&layout, &batches, tracks)?,
            false => None,
        };
        let rows = match columns {
            Some(columns) => {
                let numbers = RowNumbers::new(&batches);
                parts.iter_mut().for_each(|part| part.renumber(&numbers));
                TableRows::Columns(columns)
            }
            None => TableRows::Packed(PackedRows::new(layout, batches, tracks)),
        };
        let bits = parts.len().ilog2();
        let direct = has_unique_hashes.then(|| direct_addresses(&parts)).flatten();
        if direct.is_some() {
            parts.iter_mut().for_each(|part| part.slots = vec![]);
        }
        Ok(HashTable { rows, parts, bits, direct })
    }

    /// Builds a table in one thread.
    pub(crate) fn of(
        layout: Arc<SideLayout>,
        batches: Vec<RecordBatch>,
        options: (bool, usize),
    ) -> Result<HashTable> {
        let part = TablePart::new(&[PartitionedSlots::new(&batches, 0, 0)], 0);
        HashTable::new(layout, batches, vec![part], options)
    }

    /// The number of batches of rows, by which `marked` returns them.
    pub(crate) fn batches(&self) -> usize {
        match &self.rows {
            TableRows::Packed(rows) => rows.batches(),
            TableRows::Columns(_) => 1,
        }
    }

    /// Whether no two rows have one hash.
    pub(crate) fn has_single_rows(&self) -> bool {
        self.parts.iter().all(|part| part.lists.is_empty())
    }

    /// For each hash, the address of its row or of a list, or `NONE`.
    pub(crate) fn find(&self, hashes: &[u64], found: &mut Vec<RowAddress>) {
        found.clear();
        found.reserve(hashes.len());
        if let Some(direct) = &self.direct {
            return direct.find(hashes, found);
        }
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

    /// Prefetches the list of this address, unless it is that of a single row.
    #[inline(always)]
    pub(crate) fn prefetch_several(&self, hash: u64, address: RowAddress) {
        if address >> 48 == LIST {
            let lists = &self.parts[part_of(hash, 0, self.bits)].lists;
            prefetch(lists, (address & 0xffff_ffff_ffff) as usize);
        }
    }

    /// Prefetches the row or the list at this address, if there is one.
    #[inline(always)]
    pub(crate) fn prefetch_partner(&self, hash: u64, address: RowAddress) {
        match address >> 48 {
            LIST => self.prefetch_several(hash, address),
            _ if address != NONE => self.prefetch(address),
            _ => {}
        }
    }

    /// Prefetches the row at this address, which is not of a list.
    #[inline(always)]
    pub(crate) fn prefetch(&self, address: RowAddress) {
        if let TableRows::Packed(rows) = &self.rows {
            rows.prefetch(address);
        }
    }

    /// Whether the key bytes of a row equal `check`.
    pub(crate) fn is(&self, address: RowAddress, check: &[u8]) -> bool {
        match &self.rows {
            TableRows::Packed(rows) => rows.is(address, check),
            TableRows::Columns(rows) => rows.is(address, check),
        }
    }

    /// Marks a row as matched.
    pub(crate) fn mark(&self, address: RowAddress) {
        match &self.rows {
            TableRows::Packed(rows) => rows.mark(address),
            TableRows::Columns(rows) => rows.mark(address),
        }
    }

    /// The rows of a batch that have matched, or those that have not.
    pub(crate) fn marked(&self, batch: usize, matched: bool) -> Vec<RowAddress> {
        match &self.rows {
            TableRows::Packed(rows) => rows.marked(batch, matched),
            TableRows::Columns(rows) => rows.marked(matched),
        }
    }

    /// How many of these rows are gathered at once: at least one.
    pub(crate) fn fitting(&self, addresses: &[RowAddress]) -> usize {
        match &self.rows {
            TableRows::Packed(rows) => rows.fitting(addresses),
            TableRows::Columns(rows) => rows.fitting(addresses),
        }
    }

    /// The needed columns of these rows, which are not many more than `fitting` allows.
    pub(crate) fn gather(&self, addresses: &[RowAddress]) -> Result<Vec<ArrayRef>> {
        match &self.rows {
            TableRows::Packed(rows) => rows.gather(addresses),
            TableRows::Columns(rows) => rows.gather(addresses),
        }
    }
}

/// The addresses of the parts' rows by key, if these are close to each other.
fn direct_addresses(parts: &[TablePart]) -> Option<DirectAddresses> {
    let slots = parts.iter().flat_map(|part| &part.slots);
    let slots = slots.filter(|slot| slot.address != NONE).map(|slot| (slot.hash, slot.address));
    let slots_all = parts.iter().map(|part| part.slots.len()).sum();
    DirectAddresses::new(slots, direct_addresses_max(slots_all))
}

/// The hashes of packed rows.
pub(super) fn hashes_of(batch: &RecordBatch) -> &[u64] {
    batch.column(0).as_primitive::<UInt64Type>().values()
}
