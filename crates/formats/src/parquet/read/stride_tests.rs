//! Tests strides of rows of a row group: the columns of one test are decoded at the rows that
//! passed the tests before it, if these are few.
//!
//! The test that leaves out most rows for its cost comes first, as Ross (TODS 2004) orders
//! conditions. A test that passes hardly any row precedes all others, as pages of other columns are
//! then not even decompressed.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, take};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, new_batch};

use super::flat_column::FlatColumn;
use super::page_values::Selection;
use crate::dataset::row_filter::{FileTest, RowMatcher};

/// Rows that are tested before it is known whether that pays.
const MATCHING_TRIAL_ROWS: usize = 64 << 10;
/// The inverse of the largest part of rows for which columns are decoded apart: for more, decoding
/// and comparing all is cheaper.
const SPARSE_INVERSE: usize = 4;
/// Pass rates below it leave most pages without a row.
const RATE_OF_PAGES: f64 = 1.0 / 2000.0;
/// What decoding any value costs, in bytes that are decoded in the same time.
const VALUE_COST_BYTES: f64 = 2.0;

/// The columns of a matcher, and the tests in the order in which they are made.
pub(super) struct StrideTests {
    matcher: RowMatcher,
    order: Vec<usize>,
    /// One for each column of the matcher.
    columns: Vec<FlatColumn>,
    /// Rows tested, and of these the ones that match; `None` if more than half match, so that all
    /// are taken.
    trial: Option<[usize; 2]>,
}

/// The rows of a stride that are left, and the columns at some rows.
struct RowsLeft {
    /// Number of rows of the stride.
    rows: usize,
    /// The rows at which columns are held; `None` for all.
    held: Option<BooleanBuffer>,
    /// Of these rows, the ones that are left.
    left: BooleanBuffer,
    /// The columns of the matcher that are decoded.
    columns: Vec<Option<ArrayRef>>,
}

impl StrideTests {
    /// The tests of a matcher by its columns, whose rows have `bytes_of` each in the file.
    pub(super) fn new(
        matcher: RowMatcher,
        columns: Vec<FlatColumn>,
        bytes_of: &[f64],
    ) -> StrideTests {
        let order = order_of(&matcher, bytes_of);
        StrideTests { matcher, order, columns, trial: Some([0, 0]) }
    }

    pub(super) fn columns(&mut self) -> &mut [FlatColumn] {
        &mut self.columns
    }

    /// The columns of the matcher.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.matcher.columns
    }

    /// Decodes and tests the next rows. Returns which of them match, and the columns of these;
    /// `None` if no row matches.
    pub(super) fn test(&mut self, rows: usize) -> Result<(BooleanBuffer, Option<RecordBatch>)> {
        let mut left = RowsLeft::all(rows, self.columns.len());
        if self.trial.is_some() {
            self.make_tests(&mut left)?;
        }
        let matching = left.left.count_set_bits();
        if matching == 0 {
            let none = BooleanBuffer::new_unset(rows);
            let undecoded = self.columns.iter_mut().zip(&left.columns);
            let mut undecoded = undecoded.filter(|(_, held)| held.is_none());
            undecoded.try_for_each(|(column, _)| column.append(Selection::Masked(&none)))?;
            self.count(rows, 0);
            return Ok((none, None));
        }
        left.compact()?;
        for (column, held) in self.columns.iter_mut().zip(&mut left.columns) {
            if held.is_none() {
                *held = Some(left_of(column, &left.held, rows)?);
            }
        }
        let columns: Vec<ArrayRef> = left.columns.into_iter().flatten().collect();
        let batch = self.without_codes(columns, matching)?;
        self.count(rows, matching);
        Ok((left.held.unwrap_or_else(|| BooleanBuffer::new_set(rows)), Some(batch)))
    }

    /// Moves behind rows of which none matches.
    pub(super) fn pass_over(&mut self, rows: usize) -> Result<()> {
        let none = BooleanBuffer::new_unset(rows);
        self.columns.iter_mut().try_for_each(|column| column.append(Selection::Masked(&none)))
    }

    /// Makes the tests until no row is left. Where a test fails, its rows are read, and the filter
    /// behind reports it.
    fn make_tests(&mut self, left: &mut RowsLeft) -> Result<()> {
        for at in &self.order {
            let test = &self.matcher.tests[*at];
            for column in &test.columns {
                if left.columns[*column].is_none() {
                    let cursor = &mut self.columns[*column];
                    left.columns[*column] = Some(left_of(cursor, &left.held, left.rows)?);
                }
            }
            let Ok(passing) = passing(test, &self.matcher.columns, left) else { return Ok(()) };
            test.rate.count(passing.len(), passing.count_set_bits());
            left.left = &left.left & &passing;
            match left.left.count_set_bits() {
                0 => return Ok(()),
                count if count * SPARSE_INVERSE < left.left.len() => left.compact()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Counts tested rows. If more than half match, testing them here saves less than it takes, and
    /// the filter behind does it, unless fewer will match.
    fn count(&mut self, rows: usize, matching: usize) {
        if self.matcher.tightens {
            return;
        }
        let Some(trial) = &mut self.trial else { return };
        *trial = [trial[0] + rows, trial[1] + matching];
        if trial[0] >= MATCHING_TRIAL_ROWS && trial[1] * 2 > trial[0] {
            self.trial = None;
            self.columns.iter_mut().for_each(FlatColumn::drop_codes);
        }
    }

    /// A batch of these columns with the values of codes, as the file has them.
    fn without_codes(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let fields = self.matcher.columns.fields().iter().zip(columns);
        let columns = fields.map(|(field, column)| match column.as_any_dictionary_opt() {
            Some(coded) if !matches!(field.data_type(), DataType::Dictionary(..)) => {
                Ok(take(coded.values(), coded.keys(), None)?)
            }
            _ => Ok(column),
        });
        let columns = columns.collect::<Result<_>>()?;
        new_batch(self.matcher.columns.clone(), columns, rows).map_err(Error::corrupt)
    }
}

impl RowsLeft {
    fn all(rows: usize, columns: usize) -> RowsLeft {
        let left = BooleanBuffer::new_set(rows);
        RowsLeft { rows, held: None, left, columns: vec![None; columns] }
    }

    /// Holds columns at the rows that are left alone.
    fn compact(&mut self) -> Result<()> {
        let rows = self.left.count_set_bits();
        if rows == self.left.len() {
            return Ok(());
        }
        let kept = BooleanArray::new(self.left.clone(), None);
        for column in self.columns.iter_mut().flatten() {
            *column = filter(column, &kept)?;
        }
        self.held = Some(match &self.held {
            None => self.left.clone(),
            Some(held) => {
                let mut both = BooleanBufferBuilder::new(self.rows);
                both.append_n(self.rows, false);
                let rows = held.set_indices().zip(&self.left);
                rows.filter(|(_, left)| *left).for_each(|(row, _)| both.set_bit(row, true));
                both.finish()
            }
        });
        self.left = BooleanBuffer::new_set(rows);
        Ok(())
    }
}

/// The next rows of a column, of those of a stride that are held.
fn left_of(column: &mut FlatColumn, held: &Option<BooleanBuffer>, rows: usize) -> Result<ArrayRef> {
    column.append(match held {
        None => Selection::All(rows),
        Some(held) => Selection::Masked(held),
    })?;
    column.finish()
}

/// Which of the rows that are held pass a test.
fn passing(test: &FileTest, all: &SchemaRef, rows: &RowsLeft) -> Result<BooleanBuffer> {
    let column = |at: &usize| rows.columns[*at].clone().expect("decoded for the test");
    let columns: Vec<ArrayRef> = test.columns.iter().map(column).collect();
    let fields = test
        .columns
        .iter()
        .zip(&columns)
        .map(|(at, column)| all.field(*at).clone().with_data_type(column.data_type().clone()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = new_batch(schema, columns, rows.left.len()).map_err(Error::corrupt)?;
    Ok((test.matches)(&batch)?.values().clone())
}

/// The order in which tests are made.
fn order_of(matcher: &RowMatcher, bytes_of: &[f64]) -> Vec<usize> {
    let rank = |test: &FileTest| {
        let decoded: f64 =
            test.columns.iter().map(|column| VALUE_COST_BYTES + bytes_of[*column]).sum();
        let rate = test.rate.get();
        (rate > RATE_OF_PAGES, (decoded + f64::from(test.cost_bytes)) / (1.0 - rate).max(1e-9))
    };
    let ranks: Vec<(bool, f64)> = matcher.tests.iter().map(rank).collect();
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by(|one, other| {
        let [one, other] = [one, other].map(|at| ranks[*at]);
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    order
}
