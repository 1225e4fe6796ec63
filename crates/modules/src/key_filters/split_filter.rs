//! The scan's part of a filter: waits for the join if nothing else waits for the scan, leaves out
//! splits without keys, and decodes key columns first where few rows match.

use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::and;
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::module::{KeyFilter, KeyFilterSlot, MatchedBy};
use euphrates_flow::{Ports, Result};
use euphrates_formats::predicate::{ComparedColumn, RowPredicate, compared_values};
use euphrates_formats::{Dataset, ReadLimits, RowFilter, SplitBatches};
use euphrates_policy::key_filter::pays;
use euphrates_policy::predicate::{Comparison, Predicate};

use crate::expression::Expression;

/// Reads the splits of a table by the keys of a join, for the instances in this process.
pub(crate) struct SplitFilter {
    slot: Arc<KeyFilterSlot>,
    is_awaited: bool,
    /// The key columns, by position in the table's schema.
    keys: Vec<usize>,
    /// The condition by which the table is filtered besides.
    condition: Option<Arc<Expression>>,
    /// The columns that the condition and the keys need, ascending; `None` if they are all.
    columns: Option<Vec<usize>>,
    /// The filter, and for each split whether it may have a row that matches.
    known: OnceLock<KnownFilter>,
    trial: Arc<Trial>,
    skipped: AtomicUsize,
    /// Rows of the splits that were read, with those left out by their keys.
    rows: Arc<RowCounts>,
}

struct KnownFilter {
    keys: Arc<dyn KeyFilter>,
    may_match: Vec<bool>,
    /// Bytes to be read before each split, and before the end.
    before: Vec<u64>,
}

/// Rows that have been compared with the keys, of all splits.
#[derive(Default)]
struct Trial {
    rows: AtomicU64,
    matching: AtomicU64,
}

#[derive(Default)]
struct RowCounts {
    all: AtomicU64,
    left_out: AtomicU64,
}

/// Rows of one split: seen by the filter, of which the condition is true, and which match.
#[derive(Default)]
struct SplitCounts {
    seen: AtomicU64,
    passing: AtomicU64,
    matching: AtomicU64,
}

impl SplitFilter {
    /// The filter of a table by the keys of a join; `None` if the table does not have its columns,
    /// or cannot leave out rows. The condition must not fail on any row.
    pub(crate) fn new(
        dataset: &Dataset,
        matched_by: &MatchedBy,
        condition: Option<Arc<Expression>>,
    ) -> Option<SplitFilter> {
        let MatchedBy { slot, source, is_awaited } = matched_by;
        let position = |name: &String| dataset.schema().index_of(name).ok();
        let keys: Vec<usize> = slot.columns().iter().map(position).collect::<Option<_>>()?;
        dataset.selects_rows().then_some(())?;
        let of_condition = condition.iter().flat_map(|it| it.columns().iter().copied());
        let mut columns: Vec<usize> = keys.iter().copied().chain(of_condition).collect();
        columns.sort_unstable();
        columns.dedup();
        let is_partial = columns.len() < dataset.schema().fields().len();
        slot.accept(source);
        Some(SplitFilter {
            slot: slot.clone(),
            is_awaited: *is_awaited,
            keys,
            condition,
            columns: is_partial.then_some(columns),
            known: OnceLock::new(),
            trial: Arc::default(),
            skipped: AtomicUsize::new(0),
            rows: Arc::default(),
        })
    }

    /// Says that an instance will read by the filter.
    pub(crate) fn attach(&self) {
        self.slot.attach();
    }

    /// Waits for the filter if one will come and nobody else waits for this scan.
    pub(crate) fn wait(&self, ports: &Ports) -> Result<()> {
        if !self.is_awaited || !self.slot.is_expected() {
            return Ok(());
        }
        let _state = ports.metrics().enter(InstanceState::Starved);
        self.slot.wait(&ports.setup().cancel)
    }

    /// Reads a split of the table, without rows that match nothing as far as that is cheaper.
    pub(crate) fn read(
        &self,
        dataset: &Dataset,
        split: usize,
        limits: &ReadLimits,
    ) -> Result<SplitBatches> {
        let Some(known) = self.known(dataset) else { return dataset.read(split, limits) };
        if !known.may_match[split] {
            self.skipped.fetch_add(1, Relaxed);
            return Ok(Box::new(std::iter::empty()));
        }
        let counts = Arc::new(SplitCounts::default());
        let batches = match &self.columns {
            Some(columns) if self.trial.pays() => {
                let filter = self.row_filter(&known.keys, columns, counts.clone());
                dataset.read_filtered(split, limits, Some(Arc::new(filter)))?
            }
            _ => dataset.read(split, limits)?,
        };
        Ok(Box::new(CountedRows { batches, put: 0, counts, rows: self.rows.clone() }))
    }

    /// Approximate bytes that are read of these splits. Skipped ones count nothing: otherwise an
    /// instance that skips many would seem fast, and others would leave it the rest.
    pub(crate) fn weight(&self, dataset: &Dataset, splits: Range<usize>) -> u64 {
        match self.known.get() {
            Some(known) => known.before[splits.end] - known.before[splits.start],
            None => dataset.weight(splits),
        }
    }

    fn known(&self, dataset: &Dataset) -> Option<&KnownFilter> {
        if let Some(known) = self.known.get() {
            return Some(known);
        }
        let keys = self.slot.get()?;
        Some(self.known.get_or_init(|| {
            let may_match = match keys.is_empty() {
                true => vec![false; dataset.splits()],
                false => dataset.may_pass(&within(&keys, self.slot.columns())),
            };
            let mut before = vec![0];
            for (split, may_match) in may_match.iter().enumerate() {
                let bytes = if *may_match { dataset.weight(split..split + 1) } else { 0 };
                before.push(before[split] + bytes);
            }
            KnownFilter { keys, may_match, before }
        }))
    }

    /// The filter of one split.
    fn row_filter(
        &self,
        filter: &Arc<dyn KeyFilter>,
        columns: &[usize],
        counts: Arc<SplitCounts>,
    ) -> RowFilter {
        let seen_at = |column: &usize| columns.partition_point(|other| other < column);
        let keys: Vec<usize> = self.keys.iter().map(seen_at).collect();
        let condition = self.condition.clone().map(|condition| {
            let own: Vec<usize> = condition.columns().iter().map(seen_at).collect();
            (condition, own)
        });
        let (filter, trial) = (filter.clone(), self.trial.clone());
        let matches = move |batch: &RecordBatch| {
            let passing = condition
                .as_ref()
                .map(|(condition, own)| condition.matches_columns(&batch.project(own)?));
            let passing = passing.transpose()?;
            let rows = batch.num_rows();
            let passing_rows = passing.as_ref().map_or(rows, BooleanArray::true_count);
            let matching = match (trial.pays(), passing) {
                (false, Some(passing)) => passing,
                (false, None) => BooleanArray::from(vec![true; rows]),
                (true, passing) => {
                    let of_keys: Vec<ArrayRef> =
                        keys.iter().map(|at| batch.column(*at).clone()).collect();
                    let matching = filter.matches(&of_keys)?;
                    let both = match passing {
                        Some(passing) => and(&passing, &matching)?,
                        None => matching,
                    };
                    trial.add(passing_rows, both.true_count());
                    both
                }
            };
            counts.add(rows, passing_rows, matching.true_count());
            Ok(matching)
        };
        RowFilter { columns: columns.to_vec(), matches: Box::new(matches) }
    }

    /// What it has achieved, for the report.
    pub(crate) fn remarks(&self, dataset: &Dataset) -> Vec<String> {
        let by = format!("by the keys of {}", self.slot.module());
        let (skipped, all) = (self.skipped.load(Relaxed), dataset.splits_all());
        let (rows, left_out) = (self.rows.all.load(Relaxed), self.rows.left_out.load(Relaxed));
        let skipped = (skipped > 0).then(|| format!("skipped {skipped} of {all} row groups {by}"));
        let percent = (left_out as f64 / rows.max(1) as f64 * 100.0).floor();
        let left_out = (left_out > 0).then(|| match percent as u64 {
            0 => format!("left out less than 1 % of the rows {by}"),
            percent => format!("left out {percent} % of the rows {by}"),
        });
        skipped.into_iter().chain(left_out).collect()
    }
}

impl Trial {
    fn pays(&self) -> bool {
        let matching = self.matching.load(Relaxed);
        // Another thread may have counted its rows between the two.
        pays(self.rows.load(Relaxed).max(matching), matching)
    }

    fn add(&self, rows: usize, matching: usize) {
        self.rows.fetch_add(rows as u64, Relaxed);
        self.matching.fetch_add(matching as u64, Relaxed);
    }
}

impl SplitCounts {
    fn add(&self, seen: usize, passing: usize, matching: usize) {
        self.seen.fetch_add(seen as u64, Relaxed);
        self.passing.fetch_add(passing as u64, Relaxed);
        self.matching.fetch_add(matching as u64, Relaxed);
    }
}

/// The batches of a split, whose rows are counted at its end.
struct CountedRows {
    batches: SplitBatches,
    put: u64,
    counts: Arc<SplitCounts>,
    rows: Arc<RowCounts>,
}

impl Iterator for CountedRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let next = self.batches.next();
        match &next {
            Some(Ok(batch)) => self.put += batch.num_rows() as u64,
            Some(Err(_)) => {}
            None => self.count(),
        }
        next
    }
}

impl CountedRows {
    /// Counts the split, once. Where the filter saw more rows than were put, they were left out.
    fn count(&mut self) {
        let [seen, passing, matching] =
            [&self.counts.seen, &self.counts.passing, &self.counts.matching]
                .map(|count| count.swap(0, Relaxed));
        let put = std::mem::take(&mut self.put);
        self.rows.all.fetch_add(seen.max(put), Relaxed);
        if seen > put {
            self.rows.left_out.fetch_add(passing - matching, Relaxed);
        }
    }
}

/// The predicate that holds for all rows whose keys are within the ranges of the filter's.
fn within(filter: &Arc<dyn KeyFilter>, names: &[String]) -> RowPredicate {
    let range = |(name, range): (&String, &Option<ArrayRef>)| {
        let range = range.as_ref()?;
        let column = ComparedColumn { name: name.clone(), data_type: range.data_type().clone() };
        let mut values = compared_values(range).into_iter();
        let (least, greatest) = (values.next()??, values.next()??);
        Some(Predicate::All(vec![
            Predicate::Compare(column.clone(), Comparison::GreaterOrEqual, least),
            Predicate::Compare(column, Comparison::LessOrEqual, greatest),
        ]))
    };
    Predicate::All(names.iter().zip(filter.ranges()).filter_map(range).collect())
}
