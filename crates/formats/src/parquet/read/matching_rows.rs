//! Reads the rows of a row group that match a filter: decodes the filter's columns, then the others
//! at the matching rows only (late materialization: Abadi et al., ICDE 2007).
//!
//! Pages without matching rows are not decompressed. Where many rows match, leaving the others out
//! gains less than decoding in two steps costs, so all are read, and the filter behind decides.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Result, new_batch};
use parquet::arrow::arrow_reader::RowSelection;

use super::read;
use crate::format::RowMatcher;
use crate::parquet::row_group::RowGroup;
use crate::stream::SplitBatches;

/// Rows after which the search ends if many of them match.
const TRIAL_ROWS: usize = 16 << 10;
/// The inverse of the largest part of matching rows for which they are decoded apart.
const PART_INVERSE: usize = 4;
/// The part of the memory, as a divisor, that the filter's columns of matching rows may take.
const SEEN_DIVISOR: u64 = 4;

/// The rows of a row group that match.
struct MatchingRows {
    rows: RowSelection,
    /// The filter's columns at these rows.
    seen: RecordBatch,
}

/// The batches of a row group, projected to the columns of `wanted`, of which the matcher sees
/// some; without rows that do not match, unless many do.
pub fn read_matching(
    group: RowGroup,
    wanted: &SchemaRef,
    matcher: &RowMatcher<'_>,
) -> Result<SplitBatches> {
    let Some(MatchingRows { rows, seen }) = matching_rows(&group, matcher)? else {
        return read(group, wanted, None);
    };
    let position = |field: &FieldRef| matcher.columns.index_of(field.name()).ok();
    let sources: Vec<Option<usize>> = wanted.fields().iter().map(position).collect();
    let is_other = |field: &&FieldRef| position(field).is_none();
    let others: Vec<FieldRef> = wanted.fields().iter().filter(is_other).cloned().collect();
    let batches = read(group, &Arc::new(Schema::new(others)), Some(rows))?;
    let (wanted, mut done) = (wanted.clone(), 0);
    Ok(Box::new(batches.map(move |batch| {
        let batch = batch?;
        let seen = seen.slice(done, batch.num_rows());
        done += batch.num_rows();
        let mut others = batch.columns().iter();
        let column = |source: &Option<usize>| match source {
            Some(at) => Some(seen.column(*at).clone()),
            None => others.next().cloned(),
        };
        let columns: Vec<ArrayRef> = sources.iter().filter_map(column).collect();
        Ok(new_batch(wanted.clone(), columns, batch.num_rows())?)
    })))
}

/// The rows to decode; `None` for all.
fn matching_rows(group: &RowGroup, matcher: &RowMatcher<'_>) -> Result<Option<MatchingRows>> {
    let (mut masks, mut seen): (Vec<BooleanArray>, Vec<RecordBatch>) = (vec![], vec![]);
    let (mut rows, mut matching, mut seen_bytes) = (0, 0, 0);
    for batch in read(group.clone(), &matcher.columns, None)? {
        let batch = batch?;
        // The filter itself reports what fails.
        let Ok(mask) = (matcher.matches)(&batch) else { return Ok(None) };
        let part = filter_record_batch(&batch, &mask)?;
        (rows, matching) = (rows + batch.num_rows(), matching + part.num_rows());
        seen_bytes += part.get_array_memory_size() as u64;
        let are_many = rows >= TRIAL_ROWS && matching * PART_INVERSE > rows;
        if are_many || seen_bytes > group.bytes_max() / SEEN_DIVISOR {
            return Ok(None);
        }
        masks.push(mask);
        seen.push(part);
    }
    if matching * PART_INVERSE > rows {
        return Ok(None);
    }
    let seen = concat_batches(&matcher.columns, &seen)?;
    Ok(Some(MatchingRows { rows: RowSelection::from_filters(&masks), seen }))
}
