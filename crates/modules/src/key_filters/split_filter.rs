//! The scan's part of filters: waits for the joins if nothing else waits for the scan, leaves out
//! splits without keys, and decodes key columns first where few rows match.

use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::compute::{and, filter as take_passing};
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::module::{KeyFilter, KeyFilterSlot, MatchedBy};
use euphrates_flow::{Ports, Result};
use euphrates_formats::predicate::{ComparedColumn, RowPredicate, compared_values};
use euphrates_formats::{Dataset, ReadLimits, RowFilter, SplitBatches};
use euphrates_policy::key_filter::pays;
use euphrates_policy::predicate::{Comparison, Predicate};
use parking_lot::Mutex;

use crate::expression::Expression;

/// The inverse of the largest part of rows that pass for which the filter is asked about these
/// alone.
const SPARSE_INVERSE: usize = 4;

/// Reads the splits of a table by the keys of joins, for the instances in this process.
pub(crate) struct SplitFilter {
    joins: Vec<Arc<JoinFilter>>,
    /// The condition by which the table is filtered besides.
    condition: Option<Arc<Expression>>,
    weights: Mutex<SplitWeights>,
    skipped: AtomicUsize,
    /// Rows of the splits that were read, with those left out by their keys.
    rows: Arc<RowCounts>,
}

/// The filter of one join.
struct JoinFilter {
    slot: Arc<KeyFilterSlot>,
    is_awaited: bool,
    /// The names of the key columns in the table.
    names: Vec<String>,
    /// The key columns, by position in the table's schema.
    keys: Vec<usize>,
    known: OnceLock<KnownFilter>,
    trial: Trial,
}

/// A filter that a join has left.
struct KnownFilter {
    keys: Arc<dyn KeyFilter>,
    /// For each split, whether it may have a row that matches.
    may_match: Vec<bool>,
}

/// Bytes to be read before each split and before the end, as long as this many filters are known.
#[derive(Default)]
struct SplitWeights {
    known: usize,
    before: Arc<Vec<u64>>,
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
    /// The filter of a table by the keys of joins; `None` if the table has the columns of none, or
    /// cannot leave out rows. The condition must not fail on any row.
    pub(crate) fn new(
        dataset: &Dataset,
        matched_by: &[MatchedBy],
        condition: Option<Arc<Expression>>,
    ) -> Option<SplitFilter> {
        dataset.selects_rows().then_some(())?;
        let joins: Vec<Arc<JoinFilter>> =
            matched_by.iter().filter_map(|it| JoinFilter::new(dataset, it)).map(Arc::new).collect();
        (!joins.is_empty()).then(|| SplitFilter {
            joins,
            condition,
            weights: Mutex::default(),
            skipped: AtomicUsize::new(0),
            rows: Arc::default(),
        })
    }

    /// Says that an instance will read by the filters.
    pub(crate) fn attach(&self) {
        self.joins.iter().for_each(|join| join.slot.attach());
    }

    /// Waits for the filters that will come, as far as nobody else waits for this scan.
    pub(crate) fn wait(&self, ports: &Ports) -> Result<()> {
        for join in self.joins.iter().filter(|join| join.is_awaited && join.slot.is_expected()) {
            let _state = ports.metrics().enter(InstanceState::Starved);
            join.slot.wait(&ports.setup().cancel)?;
        }
        Ok(())
    }

    /// Reads a split of the table, without rows that match nothing as far as that is cheaper.
    pub(crate) fn read(
        &self,
        dataset: &Dataset,
        split: usize,
        limits: &ReadLimits,
    ) -> Result<SplitBatches> {
        let known: Vec<&Arc<JoinFilter>> =
            self.joins.iter().filter(|join| join.known(dataset).is_some()).collect();
        if known.is_empty() {
            return dataset.read(split, limits);
        }
        if !known.iter().all(|join| join.may_match(split)) {
            self.skipped.fetch_add(1, Relaxed);
            return Ok(Box::new(std::iter::empty()));
        }
        let counts = Arc::new(SplitCounts::default());
        let paying: Vec<Arc<JoinFilter>> =
            known.into_iter().filter(|join| join.pays()).cloned().collect();
        let batches = match paying.is_empty() {
            true => dataset.read(split, limits)?,
            false => {
                let columns = self.columns(&paying);
                let filter = self.row_filter(paying, columns, counts.clone());
                dataset.read_filtered(split, limits, Some(Arc::new(filter)))?
            }
        };
        Ok(Box::new(CountedRows { batches, put: 0, counts, rows: self.rows.clone() }))
    }

    /// Approximate bytes that are read of these splits. Skipped ones count nothing: otherwise an
    /// instance that skips many would seem fast, and others would leave it the rest.
    pub(crate) fn weight(&self, dataset: &Dataset, splits: Range<usize>) -> u64 {
        let known = self.joins.iter().filter(|join| join.known.get().is_some()).count();
        if known == 0 {
            return dataset.weight(splits);
        }
        let mut weights = self.weights.lock();
        if weights.known != known {
            *weights = self.weights_now(dataset, known);
        }
        let before = weights.before.clone();
        drop(weights);
        before[splits.end] - before[splits.start]
    }

    fn weights_now(&self, dataset: &Dataset, known: usize) -> SplitWeights {
        let mut before = vec![0];
        for split in 0..dataset.splits() {
            let is_read = self.joins.iter().all(|join| join.may_match(split));
            let bytes = if is_read { dataset.weight(split..split + 1) } else { 0 };
            before.push(before[split] + bytes);
        }
        SplitWeights { known, before: Arc::new(before) }
    }

    /// The columns that the condition and the keys of these joins need, ascending.
    fn columns(&self, joins: &[Arc<JoinFilter>]) -> Vec<usize> {
        let of_condition = self.condition.iter().flat_map(|it| it.columns());
        let keys = joins.iter().flat_map(|join| &join.keys);
        let mut columns: Vec<usize> = keys.chain(of_condition).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The filter of one split, by the keys of these joins.
    fn row_filter(
        &self,
        joins: Vec<Arc<JoinFilter>>,
        columns: Vec<usize>,
        counts: Arc<SplitCounts>,
    ) -> RowFilter {
        let seen_at = |column: &usize| columns.partition_point(|other| other < column);
        let condition = self.condition.clone().map(|condition| {
            let own: Vec<usize> = condition.columns().iter().map(seen_at).collect();
            (condition, own)
        });
        let joins: Vec<(Arc<JoinFilter>, Vec<usize>)> = joins
            .into_iter()
            .map(|join| {
                let keys = join.keys.iter().map(seen_at).collect();
                (join, keys)
            })
            .collect();
        let matches = move |batch: &RecordBatch| {
            let passing = condition
                .as_ref()
                .map(|(condition, own)| condition.matches_columns(&batch.project(own)?));
            let mut passing = passing.transpose()?;
            let rows = batch.num_rows();
            let passing_rows = passing.as_ref().map_or(rows, BooleanArray::true_count);
            for (join, keys) in &joins {
                passing = join.matches(batch, keys, passing)?;
            }
            let matching = passing.unwrap_or_else(|| BooleanArray::from(vec![true; rows]));
            counts.add(rows, passing_rows, matching.true_count());
            Ok(matching)
        };
        RowFilter { columns, matches: Box::new(matches) }
    }

    /// What the filters have achieved, for the report.
    pub(crate) fn remarks(&self, dataset: &Dataset) -> Vec<String> {
        let known = self.joins.iter().filter(|join| join.known.get().is_some());
        let names: Vec<&str> = known.map(|join| join.slot.module()).collect();
        let by = format!("by the keys of {}", names.join(" and "));
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

impl JoinFilter {
    /// The filter of a join that reads this table; `None` if the table does not have its columns.
    fn new(dataset: &Dataset, matched_by: &MatchedBy) -> Option<JoinFilter> {
        let MatchedBy { slot, source, columns, is_awaited } = matched_by;
        let position = |name: &String| dataset.schema().index_of(name).ok();
        let keys: Vec<usize> = columns.iter().map(position).collect::<Option<_>>()?;
        slot.accept(source);
        Some(JoinFilter {
            slot: slot.clone(),
            is_awaited: *is_awaited,
            names: columns.clone(),
            keys,
            known: OnceLock::new(),
            trial: Trial::default(),
        })
    }

    fn known(&self, dataset: &Dataset) -> Option<&KnownFilter> {
        if let Some(known) = self.known.get() {
            return Some(known);
        }
        let keys = self.slot.get()?;
        Some(self.known.get_or_init(|| {
            let may_match = match keys.is_empty() {
                true => vec![false; dataset.splits()],
                false => dataset.may_pass(&within(&keys, &self.names)),
            };
            KnownFilter { keys, may_match }
        }))
    }

    /// Whether asking the filter pays: one that tightens will.
    fn pays(&self) -> bool {
        self.trial.pays() || self.known.get().is_some_and(|known| known.keys.tightens())
    }

    /// Whether a split may have rows that match, as far as the filter is known.
    fn may_match(&self, split: usize) -> bool {
        self.known.get().is_none_or(|known| known.may_match[split])
    }

    /// The rows of a batch that pass and match; `keys` are the positions of the key columns.
    fn matches(
        &self,
        batch: &RecordBatch,
        keys: &[usize],
        passing: Option<BooleanArray>,
    ) -> Result<Option<BooleanArray>> {
        let Some(known) = self.known.get().filter(|_| self.pays()) else {
            return Ok(passing);
        };
        let keys: Vec<ArrayRef> = keys.iter().map(|at| batch.column(*at).clone()).collect();
        let rows = batch.num_rows();
        let passing_rows = passing.as_ref().map_or(rows, BooleanArray::true_count);
        let both = match passing {
            None => known.keys.matches(&keys)?,
            Some(passing) if passing_rows * SPARSE_INVERSE < rows => {
                matches_of(known.keys.as_ref(), &keys, &passing)?
            }
            Some(passing) => and(&passing, &known.keys.matches(&keys)?)?,
        };
        self.trial.add(passing_rows, both.true_count());
        Ok(Some(both))
    }
}

/// The rows that pass and match, of which those that pass alone are asked about.
fn matches_of(
    filter: &dyn KeyFilter,
    keys: &[ArrayRef],
    passing: &BooleanArray,
) -> Result<BooleanArray> {
    let keys: Vec<ArrayRef> =
        keys.iter().map(|column| Ok(take_passing(column, passing)?)).collect::<Result<_>>()?;
    let matching = filter.matches(&keys)?;
    let mut both = BooleanBufferBuilder::new(passing.len());
    both.append_n(passing.len(), false);
    let rows = passing.values().set_indices().zip(matching.values());
    rows.filter(|(_, is_match)| *is_match).for_each(|(row, _)| both.set_bit(row, true));
    Ok(BooleanArray::new(both.finish(), None))
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
