//! The scan's part of filters: waits for the joins if nothing else waits for the scan, leaves out
//! splits without keys, and decodes key columns first where few rows match.

use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use arrow::array::{ArrayRef, BooleanArray};
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::module::{KeyFilter, KeyFilterSlot, MatchedBy};
use euphrates_flow::{Ports, Result};
use euphrates_formats::predicate::{ComparedColumn, ComparedValue, RowPredicate, compared_values};
use euphrates_formats::{Dataset, PassRate, ReadLimits, RowFilter, RowTest, SplitBatches};
use euphrates_policy::key_filter::pays;
use euphrates_policy::predicate::{Comparison, Predicate};
use parking_lot::Mutex;

use crate::expression::Expression;

/// What a filter by several keys, or by hashes, costs for a row, see `RowTest::cost_bytes`.
const KEY_COST_BYTES: u32 = 8;

/// A term of the condition by which a table is filtered.
pub(crate) struct ConditionTerm {
    expression: Arc<Expression>,
    rate: Arc<PassRate>,
}

impl ConditionTerm {
    pub(crate) fn new(expression: Expression) -> ConditionTerm {
        ConditionTerm { expression: Arc::new(expression), rate: Arc::default() }
    }

    /// The test of rows by this term.
    pub(crate) fn test(&self) -> RowTest {
        let expression = self.expression.clone();
        RowTest {
            columns: expression.columns().to_vec(),
            matches: Box::new(move |batch| expression.matches_columns(batch)),
            rate: self.rate.clone(),
            cost_bytes: 0,
        }
    }
}

/// Reads the splits of a table by the keys of joins, for the instances in this process.
pub(crate) struct SplitFilter {
    joins: Vec<Arc<JoinFilter>>,
    /// The terms of the condition by which the table is filtered besides.
    condition: Vec<ConditionTerm>,
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
    rate: Arc<PassRate>,
    /// The pass rate of the first key alone.
    first_rate: Arc<PassRate>,
}

/// A filter that a join has left.
struct KnownFilter {
    keys: Arc<dyn KeyFilter>,
    /// For each split, whether it may have a row that matches; empty if that changes.
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

/// Rows of one split.
struct SplitCounts {
    /// For each test, the rows that it has seen: the first one has seen all.
    seen: Vec<AtomicU64>,
    /// Rows left out by keys.
    left_out: AtomicU64,
}

impl SplitFilter {
    /// The filter of a table by the keys of joins; `None` if the table has the columns of none, or
    /// cannot leave out rows. The condition must not fail on any row.
    pub(crate) fn new(
        dataset: &Dataset,
        matched_by: &[MatchedBy],
        condition: Vec<ConditionTerm>,
    ) -> Option<SplitFilter> {
        dataset.selects_rows().then_some(())?;
        let joins: Vec<Arc<JoinFilter>> =
            matched_by.iter().flat_map(|it| JoinFilter::of(dataset, it)).map(Arc::new).collect();
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
        if !known.iter().all(|join| join.may_match(dataset, split)) {
            self.skipped.fetch_add(usize::from(dataset.is_first_part(split)), Relaxed);
            return Ok(Box::new(std::iter::empty()));
        }
        let paying: Vec<Arc<JoinFilter>> =
            known.into_iter().filter(|join| join.pays()).cloned().collect();
        let (filter, counts) = self.row_filter(&paying);
        let batches = match paying.is_empty() {
            true => dataset.read(split, limits)?,
            false => dataset.read_filtered(split, limits, Some(Arc::new(filter)))?,
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
            let is_read = self.joins.iter().all(|join| join.is_read(split));
            let bytes = if is_read { dataset.weight(split..split + 1) } else { 0 };
            before.push(before[split] + bytes);
        }
        SplitWeights { known, before: Arc::new(before) }
    }

    /// The filter of one split by the condition and the keys of these joins, and what it counts.
    fn row_filter(&self, joins: &[Arc<JoinFilter>]) -> (RowFilter, Arc<SplitCounts>) {
        let of_condition = self.condition.iter().map(|term| (term.test(), false));
        let of_joins = joins.iter().flat_map(|join| join.tests()).map(|test| (test, true));
        let tests: Vec<(RowTest, bool)> = of_condition.chain(of_joins).collect();
        let seen = tests.iter().map(|_| AtomicU64::default()).collect();
        let counts = Arc::new(SplitCounts { seen, left_out: AtomicU64::default() });
        let tests = tests.into_iter().enumerate().map(|(at, (test, is_by_keys))| {
            let (counts, matches) = (counts.clone(), test.matches);
            let counted = move |batch: &RecordBatch| {
                let matching = matches(batch)?;
                let rows = batch.num_rows();
                counts.seen[at].fetch_add(rows as u64, Relaxed);
                if is_by_keys {
                    counts.left_out.fetch_add((rows - matching.true_count()) as u64, Relaxed);
                }
                Ok(matching)
            };
            RowTest { matches: Box::new(counted), ..test }
        });
        let tests = tests.collect();
        let predicates = joins.iter().filter_map(|join| join.predicate());
        let predicate = Some(Predicate::All(predicates.collect()));
        let tightens = joins.iter().any(|join| join.tightens());
        (RowFilter { tests, predicate, tightens }, counts)
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
    /// The filters of a join that read this table: by all keys if it has their columns, or else by
    /// those that it has.
    fn of(dataset: &Dataset, matched_by: &MatchedBy) -> Vec<JoinFilter> {
        let of_all = JoinFilter::new(dataset, matched_by);
        let single = || matched_by.single.iter().filter_map(|it| JoinFilter::new(dataset, it));
        of_all.map_or_else(|| single().collect(), |filter| vec![filter])
    }

    /// The filter of a join that reads this table; `None` if the table does not have its columns.
    fn new(dataset: &Dataset, matched_by: &MatchedBy) -> Option<JoinFilter> {
        let MatchedBy { slot, source, columns, is_awaited, .. } = matched_by;
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
            rate: Arc::default(),
            first_rate: Arc::default(),
        })
    }

    fn known(&self, dataset: &Dataset) -> Option<&KnownFilter> {
        if let Some(known) = self.known.get() {
            return Some(known);
        }
        let keys = self.slot.get()?;
        Some(self.known.get_or_init(|| {
            let may_match = match (keys.is_empty(), keys.tightens()) {
                (true, _) => vec![false; dataset.splits()],
                (false, true) => vec![],
                (false, false) => dataset.may_pass(&within(&keys, &self.names)),
            };
            KnownFilter { keys, may_match }
        }))
    }

    /// Whether asking the filter pays: one that tightens will.
    fn pays(&self) -> bool {
        self.trial.pays() || self.tightens()
    }

    /// Whether the filter leaves out more rows later on.
    fn tightens(&self) -> bool {
        self.known.get().is_some_and(|known| known.keys.tightens())
    }

    /// Whether a split may have rows that match, as far as the filter is known.
    fn may_match(&self, dataset: &Dataset, split: usize) -> bool {
        match self.known.get() {
            Some(known) if known.keys.tightens() => {
                dataset.may_pass_split(split, &within(&known.keys, &self.names))
            }
            _ => self.is_read(split),
        }
    }

    /// Like `may_match`, for what a filter says that does not change.
    fn is_read(&self, split: usize) -> bool {
        let known = self.known.get().filter(|known| !known.may_match.is_empty());
        known.is_none_or(|known| known.may_match[split])
    }

    /// True for all rows that match, as far as the filter is known.
    fn predicate(&self) -> Option<RowPredicate> {
        self.known.get().map(|known| within(&known.keys, &self.names))
    }

    /// The tests of rows by this filter: if it tightens, also by the first of several keys alone.
    fn tests(self: &Arc<Self>) -> Vec<RowTest> {
        let mut columns = self.keys.clone();
        columns.sort_unstable();
        columns.dedup();
        let at = |key: &usize| columns.partition_point(|other| other < key);
        let positions: Vec<usize> = self.keys.iter().map(at).collect();
        let (join, rate) = (self.clone(), self.rate.clone());
        let all = RowTest {
            columns,
            matches: Box::new(move |batch| join.matches(batch, &positions)),
            rate,
            cost_bytes: KEY_COST_BYTES,
        };
        let by_first = self.tightens().then(|| {
            let (join, rate) = (self.clone(), self.first_rate.clone());
            let matches = move |batch: &RecordBatch| join.matches_first(batch);
            let columns = vec![self.keys[0]];
            RowTest { columns, matches: Box::new(matches), rate, cost_bytes: 0 }
        });
        by_first.into_iter().chain([all]).collect()
    }

    /// The rows of a batch whose first key, its only column, may match.
    fn matches_first(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let known = self.known.get();
        let found = known.map(|known| known.keys.may_match_first(batch.column(0))).transpose()?;
        let all = || BooleanArray::from(vec![true; batch.num_rows()]);
        Ok(found.flatten().unwrap_or_else(all))
    }

    /// The rows of a batch that match; `keys` are the positions of the key columns.
    fn matches(&self, batch: &RecordBatch, keys: &[usize]) -> Result<BooleanArray> {
        let Some(known) = self.known.get().filter(|_| self.pays()) else {
            return Ok(BooleanArray::from(vec![true; batch.num_rows()]));
        };
        let keys: Vec<ArrayRef> = keys.iter().map(|at| batch.column(*at).clone()).collect();
        let matching = known.keys.matches(&keys)?;
        self.trial.add(batch.num_rows(), matching.true_count());
        Ok(matching)
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
        let seen = self.counts.seen.iter().map(|count| count.swap(0, Relaxed)).max().unwrap_or(0);
        let left_out = self.counts.left_out.swap(0, Relaxed);
        let put = std::mem::take(&mut self.put);
        self.rows.all.fetch_add(seen.max(put), Relaxed);
        if seen > put {
            self.rows.left_out.fetch_add(left_out, Relaxed);
        }
    }
}

/// The table with the splits first that have the best values for a module that keeps the first
/// rows, if there is one. Its filter then leaves out most of the others.
pub(crate) fn best_splits_first(dataset: Dataset, matched_by: &[MatchedBy]) -> Dataset {
    let wanted =
        matched_by.iter().find_map(|it| Some((it.slot.first_rows()?, it.columns.first()?)));
    match wanted.and_then(|(order, name)| Some((order, dataset.schema().index_of(name).ok()?))) {
        Some((order, column)) => dataset.in_order_of(column, order),
        None => dataset,
    }
}

/// The predicate that holds for all rows whose keys are within the ranges of the filter's.
fn within(filter: &Arc<dyn KeyFilter>, names: &[String]) -> RowPredicate {
    let range = |(name, range): (&String, Option<ArrayRef>)| {
        let range = range?;
        let column = ComparedColumn { name: name.clone(), data_type: range.data_type().clone() };
        let comparisons = match filter.excludes_bounds() {
            true => [Comparison::Greater, Comparison::Less],
            false => [Comparison::GreaterOrEqual, Comparison::LessOrEqual],
        };
        let ends = compared_values(&range).into_iter().zip(comparisons);
        let compared = |(value, comparison): (Option<ComparedValue>, Comparison)| {
            Some(Predicate::Compare(column.clone(), comparison, value?))
        };
        Some(Predicate::All(ends.filter_map(compared).collect()))
    };
    Predicate::All(names.iter().zip(filter.ranges()).filter_map(range).collect())
}
