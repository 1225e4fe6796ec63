//! Reads the rows of a row group that match a filter: decodes the filter's columns, then the others
//! at the matching rows only (late materialization: Abadi et al., ICDE 2007).
//!
//! Flat columns are decoded in step, some ten thousand rows at a time. Where a column is nested,
//! the `parquet` crate decodes it, which is told all matching rows at once; so the filter's columns
//! are read to their end first. This gains less where many rows match, so that then all are read,
//! and the filter behind decides.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, new_batch};
use parquet::arrow::arrow_reader::RowSelection;

use super::flat_column::{FlatColumn, MASK_ROWS_MAX};
use super::page_bounds::candidate_rows;
use super::page_values::Selection;
use super::stride_tests::StrideTests;
use super::{Leaves, batches_until_end, read};
use crate::dataset::row_filter::RowMatcher;
use crate::parquet::batch_rows::{rows_of_longest, rows_together};
use crate::parquet::column_reader::{PAGE_BY_PAGE, window_bytes};
use crate::parquet::row_group::RowGroup;
use crate::stream::SplitBatches;

/// Rows of the filter's columns that are decoded before the other columns.
const STRIDE_ROWS: usize = 16 << 10;
/// The same for the first rows of a filter that tightens, which needs a few rows for that; twice as
/// many follow each time.
const FIRST_STRIDE_ROWS: usize = 2 << 10;
/// Rows after which the search ends if many of them match, where columns are nested.
const TRIAL_ROWS: usize = 16 << 10;
/// The inverse of the largest part of matching rows for which they are decoded apart, where columns
/// are nested.
const PART_INVERSE: usize = 4;
/// The part of the memory, as a divisor, that the filter's columns of matching rows may take, where
/// columns are nested.
const SEEN_DIVISOR: u64 = 4;

/// The batches of a row group, projected to the columns of `wanted`, of which the matcher sees
/// some; without rows that do not match, unless a column is nested and many match.
pub fn read_matching(
    mut group: RowGroup,
    wanted: &SchemaRef,
    matcher: RowMatcher,
) -> Result<SplitBatches> {
    let leaves = Leaves::of(&group, wanted)?;
    let unread = group.clone();
    let window_bytes = window_bytes(&group.blob, leaves.all.len(), &group.allowance);
    let (mut tested, mut tested_bytes, mut others) = (vec![], vec![], vec![]);
    for (root, field) in leaves.roots.iter().zip(wanted.fields()) {
        let is_tested = matcher.columns.index_of(field.name()).is_ok();
        let is_sparse = (!is_tested || group.rows().start > 0) && !group.blob.is_remote();
        group.window_bytes = if is_sparse { PAGE_BY_PAGE } else { window_bytes };
        match leaves.flat_column(&group, *root)? {
            Some(column) if is_tested => {
                tested.push(column);
                tested_bytes.push(bytes_per_row(&group, &leaves, *root));
            }
            Some(column) => others.push(column),
            None => return read_matching_nested(unread, wanted, &matcher),
        }
    }
    let read = group.rows();
    if read.is_empty() {
        return Ok(Box::new(std::iter::empty()));
    }
    let step = fitting_rows(rows_together(&group, &leaves.all)?, &mut tested)?;
    tested.iter_mut().try_for_each(FlatColumn::keep_codes)?;
    let candidates = match &matcher.predicate {
        Some(predicate) => candidate_rows(&group, &group.file, predicate),
        None => vec![read.clone()],
    };
    let within = |rows: Range<usize>| rows.start.max(read.start)..rows.end.min(read.end);
    let candidates = candidates.into_iter().map(within).filter(|rows| !rows.is_empty()).collect();
    let stride = if matcher.tightens { FIRST_STRIDE_ROWS } else { STRIDE_ROWS };
    let tests = StrideTests::new(matcher, tested, &tested_bytes);
    let mut batches = MatchingBatches::new(wanted, tests, others, read.end, step);
    (batches.candidates, batches.stride) = (candidates, stride);
    batches.has_end = !group.has_rows_behind();
    Ok(batches_until_end(move || batches.decode()))
}

/// Mean bytes of a row of a flat column in the file, when decompressed.
fn bytes_per_row(group: &RowGroup, leaves: &Leaves, root: usize) -> f64 {
    let columns = leaves.of_root(root).map(|leaf| group.group().column(leaf).uncompressed_size());
    columns.sum::<i64>() as f64 / group.group().num_rows().max(1) as f64
}

/// Limits `rows` so that they fit if all have the longest strings of these columns.
fn fitting_rows(rows: usize, columns: &mut [FlatColumn]) -> Result<usize> {
    columns
        .iter_mut()
        .try_fold(rows, |rows, column| Ok(rows_of_longest(rows, column.longest_string()?)))
}

/// Decodes flat columns: the matcher's for a stride of rows, the others at the rows that match. Of
/// the others nothing is read before a row matches.
struct MatchingBatches {
    /// The columns that the matcher sees, in its order.
    tests: StrideTests,
    /// The columns that it does not see.
    others: Vec<FlatColumn>,
    /// For each column of `wanted`, whether it is tested.
    is_tested: Vec<bool>,
    wanted: SchemaRef,
    /// The most rows of a batch, by the tested columns and, once any matches, the others.
    step: usize,
    /// The rows that are tested next.
    stride: usize,
    /// Whether `step` considers the other columns.
    has_others: bool,
    /// Number of rows of the row group, up to the last that is read.
    rows: usize,
    /// Whether the columns end behind these rows.
    has_end: bool,
    /// Number of rows yet to be tested.
    left: usize,
    /// The ranges of rows, ascending, of which any may match; others are not decoded.
    candidates: VecDeque<Range<usize>>,
    /// The rows tested since the last batch: which of them match.
    mask: BooleanBufferBuilder,
    /// The tested columns of those that match.
    matching: Vec<RecordBatch>,
    found: Option<TestedRows>,
}

/// Tested rows of which some match and are not yet in a batch.
struct TestedRows {
    /// The rows behind the last batch: which of them match.
    mask: BooleanBuffer,
    /// The tested columns of those that match.
    tested: RecordBatch,
}

impl TestedRows {
    /// Splits off the first rows, up to and with this many that match.
    fn split_to(&mut self, matching: usize) -> TestedRows {
        let rows = match matching < self.tested.num_rows() {
            true => self.mask.set_indices().nth(matching).unwrap_or(self.mask.len()),
            false => self.mask.len(),
        };
        let first = TestedRows {
            mask: self.mask.slice(0, rows),
            tested: self.tested.slice(0, matching.min(self.tested.num_rows())),
        };
        self.mask = self.mask.slice(rows, self.mask.len() - rows);
        let taken = first.tested.num_rows();
        self.tested = self.tested.slice(taken, self.tested.num_rows() - taken);
        first
    }
}

impl MatchingBatches {
    fn new(
        wanted: &SchemaRef,
        tests: StrideTests,
        others: Vec<FlatColumn>,
        rows: usize,
        step: usize,
    ) -> MatchingBatches {
        let is_tested = |field: &FieldRef| tests.schema().index_of(field.name()).is_ok();
        let is_tested = wanted.fields().iter().map(is_tested).collect();
        MatchingBatches {
            tests,
            others,
            is_tested,
            wanted: wanted.clone(),
            step,
            stride: STRIDE_ROWS,
            has_others: false,
            rows,
            has_end: true,
            left: rows,
            candidates: std::iter::once(0..rows).collect(),
            mask: BooleanBufferBuilder::new(STRIDE_ROWS),
            matching: vec![],
            found: None,
        }
    }

    /// The next batch; `None` after the last. It has some rows more than a stride, or few if few
    /// match.
    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        if self.found.is_none() {
            self.found = self.find()?;
        }
        let Some(found) = &mut self.found else {
            let mut columns = self.tests.columns().iter_mut().chain(&mut self.others);
            return match self.has_end {
                true => columns.try_for_each(FlatColumn::check_end).map(|()| None),
                false => Ok(None),
            };
        };
        let first = found.split_to(self.step);
        self.found.take_if(|found| found.tested.num_rows() == 0);
        self.others
            .iter_mut()
            .try_for_each(|column| column.append(Selection::Masked(&first.mask)))?;
        let (mut tested, mut others) = (first.tested.columns().iter(), self.others.iter_mut());
        let columns = self.is_tested.iter().filter_map(|is_tested| match is_tested {
            true => tested.next().map(|column| Ok(column.clone())),
            false => others.next().map(FlatColumn::finish),
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let rows = first.tested.num_rows();
        new_batch(self.wanted.clone(), columns, rows).map(Some).map_err(Error::corrupt)
    }

    /// Tests rows until some match, enough for a batch if there are as many; `None` if none is
    /// left that matches.
    fn find(&mut self) -> Result<Option<TestedRows>> {
        while self.left > 0 {
            let (mut matching, wanted) = (0, self.stride.min(self.step));
            while self.left > 0 && matching < wanted && self.mask.len() < MASK_ROWS_MAX {
                matching += self.test_stride()?;
            }
            let mask = self.mask.finish();
            if matching > 0 {
                if !std::mem::replace(&mut self.has_others, true) {
                    self.step = fitting_rows(self.step, &mut self.others)?;
                }
                let tested = std::mem::take(&mut self.matching);
                let tested = concat_batches(self.tests.schema(), &tested)?;
                return Ok(Some(TestedRows { mask, tested }));
            }
            let none = Selection::Masked(&mask);
            self.others.iter_mut().try_for_each(|column| column.append(none))?;
        }
        Ok(None)
    }

    /// Decodes and tests a stride of rows, and returns how many match.
    fn test_stride(&mut self) -> Result<usize> {
        let done = self.rows - self.left;
        let rows = match self.candidates.front() {
            None => return self.pass_over(self.left).map(|()| 0),
            Some(candidate) if done < candidate.start => {
                return self.pass_over(candidate.start - done).map(|()| 0);
            }
            Some(candidate) => self.stride.min(self.step).min(candidate.end - done),
        };
        self.stride = (self.stride * 2).min(STRIDE_ROWS);
        self.candidates.pop_front_if(|candidate| candidate.end == done + rows);
        self.left -= rows;
        let (mask, part) = self.tests.test(rows)?;
        self.mask.append_buffer(&mask);
        let matching = part.as_ref().map_or(0, RecordBatch::num_rows);
        self.matching.extend(part);
        Ok(matching)
    }

    /// Moves behind rows of which none matches, or the first of them.
    fn pass_over(&mut self, rows: usize) -> Result<()> {
        let rows = rows.min(MASK_ROWS_MAX);
        self.left -= rows;
        self.mask.append_n(rows, false);
        self.tests.pass_over(rows)
    }
}

/// The rows of a row group that match.
struct MatchingRows {
    rows: RowSelection,
    /// The filter's columns at these rows.
    seen: RecordBatch,
}

/// Like `read_matching` where a column is nested.
fn read_matching_nested(
    group: RowGroup,
    wanted: &SchemaRef,
    matcher: &RowMatcher,
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
fn matching_rows(group: &RowGroup, matcher: &RowMatcher) -> Result<Option<MatchingRows>> {
    let (mut masks, mut seen): (Vec<BooleanArray>, Vec<RecordBatch>) = (vec![], vec![]);
    let (mut rows, mut matching, mut seen_bytes) = (0, 0, 0);
    for batch in read(group.clone(), &matcher.columns, None)? {
        let batch = batch?;
        // The filter itself reports what fails.
        let Ok(mask) = matcher.matches(&batch) else { return Ok(None) };
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
