//! An in-memory sort in separate steps, so that a benchmark can time each of them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_policy::sort::{RANGE_BYTES_MAX, RangeSizes};
use parking_lot::Mutex;

use super::keys::key_encoder::KeyEncoder;
use super::keys::key_layout::KeyColumn;
use super::keys::owned_keys::KeyInterner;
use super::memory_runs::MemoryRuns;
use super::ranges::{Merged, SortedRuns};
use super::splitters::SplitPolicy;

/// Generates sorted runs in memory, by the first column of a schema, ascending.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use euphrates_modules::benchmark::RunBuilder;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![3, 1, 2]));
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let mut runs = RunBuilder::new(batch.schema())?;
/// runs.push(batch)?;
/// let cut = runs.cut();
/// assert_eq!(cut.count(), 1, "a range is megabytes");
/// assert!(cut.merge(0).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RunBuilder {
    schema: SchemaRef,
    encoder: Arc<KeyEncoder>,
    runs: MemoryRuns,
}

impl RunBuilder {
    /// A builder without rows. Fails if the first column cannot be a key.
    pub fn new(schema: SchemaRef) -> Result<RunBuilder> {
        let key = KeyColumn { column: 0, descending: false, nulls_first: false };
        let encoder = Arc::new(KeyEncoder::new(&schema, vec![key])?);
        let runs = MemoryRuns::new(encoder.clone());
        Ok(RunBuilder { schema, encoder, runs })
    }

    /// Encodes the keys of a batch, and sorts the chunks that become full.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.runs.push(batch)
    }

    /// Sorts the last chunk, and cuts all runs into ranges.
    pub fn cut(mut self) -> CutRuns {
        self.runs.close();
        let mut ranges = SortedRuns::uncut(self.encoder, self.schema, vec![self.runs], vec![]);
        let interner = Mutex::new(KeyInterner::new(0));
        ranges.cut(RangeSizes::even(RANGE_BYTES_MAX), SplitPolicy::Anywhere, &interner);
        CutRuns(ranges)
    }
}

/// Sorted runs, cut into ranges of keys.
pub struct CutRuns(SortedRuns);

impl CutRuns {
    /// The number of ranges.
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Merges the keys of a range.
    pub fn merge(&self, range: usize) -> Result<MergedRange> {
        self.0.merge(range).map(MergedRange)
    }
}

/// A range whose keys are in order, and whose rows have not been copied.
pub struct MergedRange(Merged);

impl MergedRange {
    /// Copies the rows, batch by batch.
    pub fn batches(&self) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        self.0.batches()
    }
}
