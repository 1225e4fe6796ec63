//! A hash table over rows that are held.
//!
//! Rows stay where they are; a slot has the hash of a key and the place of its row, so a row that
//! matches costs two waits for memory, one for the slot and one for the row, and both are asked for
//! well before they are needed. The rows of a key that several have are listed behind one slot,
//! so that a heavy key makes no chain. The table is built in parts by the high bits of hashes: each
//! part is built by one instance, without locks, in its cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, Result};
use euphrates_io::buffer::{copy_freely, pool};

use super::rows::{SideRows, bytes_of};
use crate::hashing::part_of;
use crate::store::prefetch;

/// How many slots, or rows, ahead are fetched: about the memory's latency over the time for one.
const PREFETCH: usize = 24;
/// Rows gathered at once have at most so many bytes, unless one has more.
const GATHER_BYTES_MAX: usize = 4 * BATCH_BYTES_TARGET;
/// Batches a table can have.
pub const BATCHES_MAX: usize = LIST as usize;

/// Where a row is: its batch, the bytes it has if they are few, and where they begin.
pub type Place = u64;

/// No row.
pub const NONE: Place = u64::MAX;
/// In place of a batch: several rows, in a list.
const LIST: u64 = 0xfffe;
/// In place of a length: look where the next row begins.
const LONG: u64 = 0xffff;

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    place: Place,
}

/// The places of rows by the parts they belong to.
pub struct Dealt {
    slots: Vec<Slot>,
    starts: Vec<usize>,
}

impl Dealt {
    /// Of the rows of these batches, which begin with this number, in `1 << bits` parts.
    pub fn new(batches: &[RecordBatch], first: usize, bits: u32) -> Dealt {
        let mut starts = vec![0; (1 << bits) + 1];
        for batch in batches {
            let hashes = hashes_of(batch);
            hashes.iter().for_each(|hash| starts[part_of(*hash, 0, bits) + 1] += 1);
        }
        for part in 1..starts.len() {
            starts[part] += starts[part - 1];
        }
        let mut ends = starts.clone();
        let mut slots = vec![Slot { hash: 0, place: NONE }; starts[starts.len() - 1]];
        for (number, batch) in batches.iter().enumerate() {
            let ends_of_rows = bytes_of(batch).value_offsets();
            let number = (first + number) as u64;
            for (hash, pair) in hashes_of(batch).iter().zip(ends_of_rows.windows(2)) {
                let end = &mut ends[part_of(*hash, 0, bits)];
                slots[*end] = Slot { hash: *hash, place: place(number, pair[0], pair[1]) };
                *end += 1;
            }
        }
        Dealt { slots, starts }
    }

    fn part(&self, part: usize) -> &[Slot] {
        &self.slots[self.starts[part]..self.starts[part + 1]]
    }
}

/// One part of a table.
pub struct Part {
    slots: Vec<Slot>,
    /// The places of rows with one hash, behind their number.
    lists: Vec<Place>,
}

impl Part {
    /// Of what all have dealt to it.
    pub fn new(dealt: &[Dealt], part: usize) -> Part {
        let rows: usize = dealt.iter().map(|dealt| dealt.part(part).len()).sum();
        // At most half of them are used, so that searches are short; and one never, so that each
        // ends.
        let mut slots = vec![Slot { hash: 0, place: NONE }; rows * 2 + 1];
        let mut doubles: Vec<(usize, Place)> = vec![];
        for row in dealt.iter().flat_map(|dealt| dealt.part(part)) {
            let at = find(&slots, row.hash);
            match slots[at].place {
                NONE => slots[at] = *row,
                _ => doubles.push((at, row.place)),
            }
        }
        let lists = list(&mut slots, &doubles);
        Part { slots, lists }
    }
}

/// Lists the rows of each slot that has several.
fn list(slots: &mut [Slot], doubles: &[(usize, Place)]) -> Vec<Place> {
    if doubles.is_empty() {
        return vec![];
    }
    let mut counts = vec![0u32; slots.len()];
    doubles.iter().for_each(|(at, _)| counts[*at] += 1);
    let mut lists: Vec<Place> = vec![];
    for (at, place) in doubles {
        let slot = &mut slots[*at];
        if slot.place >> 48 != LIST {
            let start = lists.len();
            lists.resize(start + 2 + counts[*at] as usize, NONE);
            (lists[start], lists[start + 1]) = (1, slot.place);
            slot.place = LIST << 48 | start as u64;
        }
        let start = (slot.place & 0xffff_ffff_ffff) as usize;
        lists[start] += 1;
        let end = start + lists[start] as usize;
        lists[end] = *place;
    }
    lists
}

/// The slot of this hash, or the empty one where it would be.
#[inline(always)]
fn find(slots: &[Slot], hash: u64) -> usize {
    let mut at = home(slots, hash);
    while slots[at].place != NONE && slots[at].hash != hash {
        at += 1;
        if at == slots.len() {
            at = 0;
        }
    }
    at
}

/// Where the search begins.
#[inline(always)]
fn home(slots: &[Slot], hash: u64) -> usize {
    (((hash & 0xffff_ffff) * slots.len() as u64) >> 32) as usize
}

/// Rows that can be found by their hash.
pub struct Table {
    rows: Arc<SideRows>,
    batches: Vec<Held>,
    parts: Vec<Part>,
    bits: u32,
}

/// A batch of the table.
struct Held {
    bytes: Buffer,
    starts: OffsetBuffer<i32>,
    others: Vec<ArrayRef>,
    /// Of rows that matched, a bit where they begin; empty if nobody asks.
    matched: Vec<AtomicU64>,
}

impl Table {
    /// Of these batches, by parts that have been built of them. `tracks` if it is to be known which
    /// rows matched.
    pub fn new(
        rows: Arc<SideRows>,
        batches: Vec<RecordBatch>,
        parts: Vec<Part>,
        tracks: bool,
    ) -> Table {
        let stride = rows.format().row_bytes_min().max(1);
        let hold = |batch: RecordBatch| {
            let rows = bytes_of(&batch);
            let words = if tracks { rows.values().len() / stride / 64 + 1 } else { 0 };
            Held {
                bytes: rows.values().clone(),
                starts: rows.offsets().clone(),
                matched: (0..words).map(|_| AtomicU64::new(0)).collect(),
                others: batch.columns()[2..].to_vec(),
            }
        };
        let bits = parts.len().ilog2();
        Table { batches: batches.into_iter().map(hold).collect(), rows, parts, bits }
    }

    /// Built at once by one thread.
    pub fn of(rows: Arc<SideRows>, batches: Vec<RecordBatch>, tracks: bool) -> Table {
        let part = Part::new(&[Dealt::new(&batches, 0, 0)], 0);
        Table::new(rows, batches, vec![part], tracks)
    }

    /// How its rows are held.
    pub fn side(&self) -> &SideRows {
        &self.rows
    }

    /// Number of batches.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// For each hash, the place of the row that has it, of a list of them, or `NONE`.
    pub fn find(&self, hashes: &[u64], found: &mut Vec<Place>) {
        found.clear();
        found.reserve(hashes.len());
        let mut last = Slot { hash: 0, place: NONE };
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(ahead) = hashes.get(row + PREFETCH) {
                let part = &self.parts[part_of(*ahead, 0, self.bits)];
                prefetch(&part.slots, home(&part.slots, *ahead));
            }
            // Rows of one key are often neighbours.
            if *hash != last.hash || row == 0 {
                let part = &self.parts[part_of(*hash, 0, self.bits)];
                last = Slot { hash: *hash, place: part.slots[find(&part.slots, *hash)].place };
            }
            found.push(last.place);
        }
    }

    /// The rows at a place that was found for this hash.
    #[inline(always)]
    pub fn several(&self, hash: u64, place: Place) -> Option<&[Place]> {
        if place >> 48 != LIST {
            return None;
        }
        let lists = &self.parts[part_of(hash, 0, self.bits)].lists;
        let start = (place & 0xffff_ffff_ffff) as usize;
        Some(&lists[start + 1..][..lists[start] as usize])
    }

    /// Whether the key of a row has these bytes.
    pub fn is(&self, place: Place, check: &[u8]) -> bool {
        let held = &self.batches[batch_of(place)];
        self.rows.format().first(&held.bytes, start_of(place)) == check
    }

    /// Keeps in mind that a row has matched.
    pub fn mark(&self, place: Place) {
        let held = &self.batches[batch_of(place)];
        let bit = start_of(place) / self.rows.format().row_bytes_min().max(1);
        let (word, mask) = (&held.matched[bit / 64], 1 << (bit % 64));
        // Most have been marked before: then nobody else's cache is disturbed.
        if word.load(Relaxed) & mask == 0 {
            word.fetch_or(mask, Relaxed);
        }
    }

    /// The rows of a batch that have matched, or those that have not.
    pub fn marked(&self, batch: usize, matched: bool) -> Vec<Place> {
        let stride = self.rows.format().row_bytes_min().max(1);
        let held = &self.batches[batch];
        let is_marked = |start: i32| {
            let bit = start as usize / stride;
            held.matched[bit / 64].load(Relaxed) & (1 << (bit % 64)) != 0
        };
        let rows = held.starts.windows(2).filter(|pair| is_marked(pair[0]) == matched);
        rows.map(|pair| place(batch as u64, pair[0], pair[1])).collect()
    }

    /// How many of these rows are gathered at once: at least one.
    pub fn fitting(&self, places: &[Place]) -> usize {
        let mut bytes = 0;
        let fits = |place: &&Place| {
            bytes += self.length_of(**place);
            bytes <= GATHER_BYTES_MAX
        };
        places.iter().take_while(fits).count().clamp(1, places.len().max(1))
    }

    /// The needed columns of these rows, which are not many more than fit (see `fitting`).
    pub fn gather(&self, places: &[Place]) -> Result<Vec<ArrayRef>> {
        let mut ends = Vec::with_capacity(places.len() + 1);
        ends.push(0);
        let mut end = 0;
        for place in places {
            end += self.length_of(*place);
            ends.push(end as i32);
        }
        let mut out = pool().take(end)?;
        let out_bytes = &mut out[..];
        for (row, place) in places.iter().enumerate() {
            if let Some(ahead) = places.get(row + PREFETCH) {
                let bytes = &self.batches[batch_of(*ahead)].bytes;
                let (first, length) = (start_of(*ahead), *ahead >> 32 & 0xffff);
                prefetch(bytes, first);
                prefetch(bytes, first + length as usize);
            }
            let bytes = &self.batches[batch_of(*place)].bytes;
            let (from, to) = (ends[row] as usize, ends[row + 1] as usize);
            copy_freely(bytes, start_of(*place), out_bytes, from, to - from);
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let cells = self.rows.format().unpack(&BinaryArray::new(ends, out.into_arrow(), None))?;
        self.rows.arrange(&cells, &self.others(places)?)
    }

    /// The columns that have no place in rows.
    fn others(&self, places: &[Place]) -> Result<Vec<ArrayRef>> {
        let others = self.batches.first().map_or(0, |held| held.others.len());
        if others == 0 {
            return Ok(vec![]);
        }
        let row = |place: &Place| {
            let batch = batch_of(*place);
            let start = start_of(*place) as i32;
            (batch, self.batches[batch].starts.partition_point(|other| *other < start))
        };
        let rows: Vec<(usize, usize)> = places.iter().map(row).collect();
        let gather = |column: usize| {
            let arrays: Vec<&dyn Array> =
                self.batches.iter().map(|held| held.others[column].as_ref()).collect();
            Ok(interleave(&arrays, &rows)?)
        };
        (0..others).map(gather).collect()
    }

    #[inline(always)]
    fn length_of(&self, place: Place) -> usize {
        match place >> 32 & 0xffff {
            LONG => {
                let (starts, start) = (&self.batches[batch_of(place)].starts, start_of(place));
                let row = starts.partition_point(|other| *other as usize <= start);
                starts[row] as usize - start
            }
            length => length as usize,
        }
    }
}

/// A row of a batch, from here to there.
#[inline(always)]
fn place(batch: u64, start: i32, end: i32) -> Place {
    batch << 48 | ((end - start) as u64).min(LONG) << 32 | start as u64
}

#[inline(always)]
fn batch_of(place: Place) -> usize {
    (place >> 48) as usize
}

#[inline(always)]
fn start_of(place: Place) -> usize {
    (place & 0xffff_ffff) as usize
}

fn hashes_of(batch: &RecordBatch) -> &[u64] {
    batch.column(0).as_primitive::<UInt64Type>().values()
}
