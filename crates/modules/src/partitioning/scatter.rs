//! Scatters the rows of a batch to parts, by the bits of their hashes.

use std::ops::Range;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

use crate::batches::long_rows::take_rows;
use crate::partitioning::hashing::part_of;

/// Rows of a slice, on average, from which on slices are copied as a whole.
const SLICE_ROWS_MIN: usize = 256;

/// A batch whose rows are grouped by part.
#[derive(Clone, Debug)]
pub(crate) struct Scattered {
    batch: RecordBatch,
    starts: Vec<usize>,
}

impl Scattered {
    pub(crate) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    #[cfg(test)]
    pub(crate) fn parts(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn rows(&self, part: usize) -> usize {
        self.starts[part + 1] - self.starts[part]
    }

    /// The rows of a part, without copying.
    pub(crate) fn part(&self, part: usize) -> RecordBatch {
        self.range(part..part + 1)
    }

    /// The rows of a range of parts, without copying.
    pub(crate) fn range(&self, parts: Range<usize>) -> RecordBatch {
        let (start, end) = (self.starts[parts.start], self.starts[parts.end]);
        self.batch.slice(start, end - start)
    }
}

/// Groups the rows of a batch by these bits of their hashes, keeping their order within each part.
/// Copies once, for any number of parts.
pub(crate) fn scatter(
    batch: &RecordBatch,
    hashes: &[u64],
    used_bits: u32,
    bits: u32,
) -> Result<Scattered> {
    let parts: Vec<u32> =
        hashes.iter().map(|hash| part_of(*hash, used_bits, bits) as u32).collect();
    scatter_to(batch, &parts, 1 << bits)
}

/// Like `scatter`, given the part of each row, of `count`.
pub(crate) fn scatter_to(batch: &RecordBatch, parts: &[u32], count: usize) -> Result<Scattered> {
    let mut ends = vec![0; count];
    parts.iter().for_each(|part| ends[*part as usize] += 1);
    let mut starts = Vec::with_capacity(ends.len() + 1);
    let mut sum = 0;
    for end in &mut ends {
        starts.push(sum);
        sum += *end;
        *end = starts[starts.len() - 1];
    }
    starts.push(sum);
    if let Some(slices) = slices_by_part(batch, parts, count) {
        let batch = concat_batches(&batch.schema(), &slices)?;
        return Ok(Scattered { batch, starts });
    }
    let mut places = vec![0u32; parts.len()];
    for (row, part) in parts.iter().enumerate() {
        let end = &mut ends[*part as usize];
        places[*end] = row as u32;
        *end += 1;
    }
    let batch = take_rows(batch, places)?;
    Ok(Scattered { batch, starts })
}

/// The batch in slices whose rows are of one part each, ordered by part; `None` if they would be
/// too short to be copied faster than row by row.
fn slices_by_part(batch: &RecordBatch, parts: &[u32], count: usize) -> Option<Vec<RecordBatch>> {
    let changes = parts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if parts.is_empty() || changes * SLICE_ROWS_MIN > parts.len() {
        return None;
    }
    let mut slices = vec![vec![]; count];
    let mut start = 0;
    for slice in parts.chunk_by(|one, next| one == next) {
        slices[slice[0] as usize].push(batch.slice(start, slice.len()));
        start += slice.len();
    }
    Some(slices.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitioning::hashing::hash_rows;
    use arrow::array::{ArrayRef, AsArray, Int64Array, UInt32Array};
    use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Random rows, and rows sorted so that slices are copied.
    fn values() -> impl Strategy<Value = Vec<i64>> {
        let random = prop::collection::vec(0i64..50, 0..300);
        let sorted = prop::collection::vec((0i64..50, 200usize..600), 0..6).prop_map(|runs| {
            runs.into_iter().flat_map(|(value, rows)| vec![value; rows]).collect()
        });
        prop_oneof![random, sorted]
    }

    proptest! {
        #[test]
        fn scattering_loses_nothing_and_keeps_order(
            values in values(), bits in 0u32..7, used in 0u32..9,
        ) {
            let keys: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            let rows: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..values.len() as u32));
            let hashes = hash_rows(std::slice::from_ref(&keys)).unwrap();
            let schema = Schema::new(vec![
                Field::new("key", DataType::Int64, false),
                Field::new("row", DataType::UInt32, false),
            ]);
            let batch = RecordBatch::try_new(Arc::new(schema), vec![keys, rows]).unwrap();
            let scattered = scatter(&batch, &hashes, used, bits).unwrap();
            prop_assert_eq!(scattered.parts(), 1 << bits);
            let mut seen = vec![];
            for part in 0..scattered.parts() {
                let batch = scattered.part(part);
                let rows = batch.column(1).as_primitive::<UInt32Type>().values().to_vec();
                prop_assert!(rows.is_sorted());
                for row in &rows {
                    prop_assert_eq!(part_of(hashes[*row as usize], used, bits), part);
                }
                seen.extend(rows);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..values.len() as u32).collect::<Vec<_>>());
        }
    }
}
