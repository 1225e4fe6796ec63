//! Tests of rows by some of their columns, before the other columns are decoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::BooleanArray;
use arrow::compute::and;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

use crate::predicate::RowPredicate;

/// Which rows of a batch match.
pub(crate) type RowMatches = dyn Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync;

/// The pass rate of a test that has not been made.
const RATE_UNKNOWN: f64 = 0.5;
/// The weight of the last rows that were tested in the pass rate.
const RATE_WEIGHT: f64 = 0.25;
/// Fewer rows do not change a pass rate.
const RATE_ROWS_MIN: usize = 64;

/// Decides which rows of a table have to be read: those that pass all tests.
pub struct RowFilter {
    /// The tests, which may be made in any order; rows that fail one need not be given to another.
    pub tests: Vec<RowTest>,
    /// True for all rows that match, as far as it is known.
    pub predicate: Option<RowPredicate>,
    /// Whether it leaves out more rows later on, however few it has left out so far.
    pub tightens: bool,
}

/// A test of rows by some of their columns.
pub struct RowTest {
    /// The columns that it sees, by position in the table's schema, ascending.
    pub columns: Vec<usize>,
    /// The rows that pass, without nulls, given these columns, of which some have dictionaries.
    pub matches: Box<RowMatches>,
    /// Shared by the tests of all splits that are of one kind.
    pub rate: Arc<PassRate>,
    /// What testing a value costs, in bytes of a column that are decoded in the same time.
    pub cost_bytes: u32,
}

impl RowFilter {
    /// A filter of one test.
    pub fn of(
        columns: Vec<usize>,
        matches: impl Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync + 'static,
    ) -> RowFilter {
        let (matches, rate) = (Box::new(matches), Arc::default());
        RowFilter {
            tests: vec![RowTest { columns, matches, rate, cost_bytes: 0 }],
            predicate: None,
            tightens: false,
        }
    }

    /// The columns that any test sees, ascending.
    pub fn columns(&self) -> Vec<usize> {
        let mut all: Vec<usize> =
            self.tests.iter().flat_map(|test| test.columns.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The part of rows that passed a test lately.
pub struct PassRate(AtomicU64);

impl Default for PassRate {
    fn default() -> PassRate {
        PassRate(AtomicU64::new(RATE_UNKNOWN.to_bits()))
    }
}

impl PassRate {
    /// The moving average, from 0 to 1.
    pub(crate) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    /// Counts rows that were tested. Of updates by two threads at once, one may be lost.
    pub(crate) fn count(&self, rows: usize, passed: usize) {
        if rows >= RATE_ROWS_MIN {
            let last = passed as f64 / rows as f64;
            let rate = self.get() * (1.0 - RATE_WEIGHT) + last * RATE_WEIGHT;
            self.0.store(rate.to_bits(), Relaxed);
        }
    }
}

/// The row filter of a file.
pub struct RowMatcher {
    /// The columns that any test sees, in the types of the file.
    pub(crate) columns: SchemaRef,
    pub(crate) tests: Vec<FileTest>,
    /// True for all rows that match, as far as it is known: bounds of pages tell where it is not.
    pub(crate) predicate: Option<RowPredicate>,
    /// Whether it leaves out more rows later on.
    pub(crate) tightens: bool,
}

impl RowMatcher {
    /// The rows that pass all tests, given its columns.
    pub(crate) fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut passing = BooleanArray::from(vec![true; batch.num_rows()]);
        for test in &self.tests {
            passing = and(&passing, &(test.matches)(&batch.project(&test.columns)?)?)?;
        }
        Ok(passing)
    }
}

/// A test of the rows of a file.
pub(crate) struct FileTest {
    /// The columns that it sees, by position among those of the matcher, ascending.
    pub(crate) columns: Vec<usize>,
    pub(crate) matches: Box<RowMatches>,
    pub(crate) rate: Arc<PassRate>,
    pub(crate) cost_bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_rate_follows_the_last_rows() {
        let rate = PassRate::default();
        (0..40).for_each(|_| rate.count(1000, 1000));
        assert!(rate.get() > 0.99);
        (0..40).for_each(|_| rate.count(1000, 0));
        assert!(rate.get() < 0.01);
        rate.count(RATE_ROWS_MIN - 1, RATE_ROWS_MIN - 1);
        assert!(rate.get() < 0.01, "few rows do not count");
    }
}
