//! Probes the hash table with batches of the probe side.
//!
//! A batch is looked up as a whole, then the matches become pairs, then columns are gathered:
//! independent cache misses overlap. If each row has exactly one match, the columns of the batch
//! are output without a copy.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{cast, filter, take};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_ROWS_MAX, Result, array_bytes, batch_rows, new_batch};

use super::hash_table::HashTable;
use super::packed_rows::{NONE, PREFETCH, RowAddress};
use super::plan::{JoinPlan, JoinSide};
use super::side_layout::KeyedRows;
use crate::batches::sink::BatchSink;
use crate::expression::Budget;

/// Probes a table with one batch after the other, reusing its buffers.
pub(crate) struct Prober<'a> {
    plan: &'a JoinPlan,
    table: &'a HashTable,
    budget: Budget,
    found: Vec<RowAddress>,
    /// The hashes of the last dictionary's values, and what was found for them.
    of_values: Option<(ScalarBuffer<u64>, Vec<RowAddress>)>,
    pairs: Pairs,
}

/// Pairs of rows of the batch and addresses in the table.
#[derive(Default)]
struct Pairs {
    rows: Vec<u32>,
    addresses: Vec<RowAddress>,
}

impl Pairs {
    /// Adds the pair of each row that has an address. Without a branch, which would be mispredicted
    /// where some rows have none.
    fn add_single(&mut self, found: &[RowAddress]) {
        let (rows, addresses) = (&mut self.rows, &mut self.addresses);
        let mut count = rows.len();
        rows.resize(count + found.len(), 0);
        addresses.resize(count + found.len(), NONE);
        for (row, address) in found.iter().enumerate() {
            (rows[count], addresses[count]) = (row as u32, *address);
            count += usize::from(*address != NONE);
        }
        rows.truncate(count);
        addresses.truncate(count);
    }

    fn retain(&mut self, kept: &[bool]) {
        let mut kept_rows = kept.iter();
        self.rows.retain(|_| *kept_rows.next().expect("one for each"));
        let mut keep = kept.iter();
        self.addresses.retain(|_| *keep.next().expect("one for each"));
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.addresses.clear();
    }
}

impl<'a> Prober<'a> {
    /// A prober of this table, with this budget for the condition.
    pub(crate) fn new(plan: &'a JoinPlan, table: &'a HashTable, budget: Budget) -> Prober<'a> {
        Prober { plan, table, budget, found: vec![], of_values: None, pairs: Pairs::default() }
    }

    /// Puts the pairs that these rows make, and returns whether each row has a match, if the join
    /// needs that.
    pub(crate) fn pairs(
        &mut self,
        rows: &KeyedRows,
        put: &mut BatchSink,
    ) -> Result<Option<Vec<bool>>> {
        let (plan, table) = (self.plan, self.table);
        let probe = plan.build.other();
        let mut matched = plan.emits(probe).map(|_| vec![false; rows.count()]);
        self.find(rows);
        // One match suffices if only its existence counts.
        let is_asked_once = !plan.makes_pairs() && plan.emits(plan.build).is_none();
        if is_asked_once && plan.condition.is_none() {
            if rows.keys.checks.is_none() {
                return Ok(Some(self.found.iter().map(|address| *address != NONE).collect()));
            }
            let partner = |(row, address): (usize, &RowAddress)| {
                if let Some(ahead) = self.found.get(row + PREFETCH) {
                    table.prefetch_partner(rows.hash(row + PREFETCH), *ahead);
                }
                has_partner(table, rows, row, *address)
            };
            let matched = self.found.iter().enumerate().map(partner);
            return Ok(Some(matched.collect()));
        }
        if table.has_single_rows() {
            self.pairs.add_single(&self.found);
            self.flush(rows, &mut matched, put)?;
            return Ok(matched);
        }
        let found = std::mem::take(&mut self.found);
        for (row, address) in found.iter().enumerate() {
            if let Some(ahead) = found.get(row + PREFETCH) {
                table.prefetch_several(rows.hash(row + PREFETCH), *ahead);
            }
            if *address == NONE {
                continue;
            }
            match table.several(rows.hash(row), *address) {
                None => {
                    self.pairs.rows.push(row as u32);
                    self.pairs.addresses.push(*address);
                }
                Some(addresses) => {
                    for addresses in addresses.chunks(BATCH_ROWS_MAX) {
                        self.pairs.rows.extend(addresses.iter().map(|_| row as u32));
                        self.pairs.addresses.extend_from_slice(addresses);
                        if self.pairs.rows.len() >= BATCH_ROWS_MAX {
                            self.flush(rows, &mut matched, put)?;
                        }
                    }
                }
            }
        }
        self.found = found;
        self.flush(rows, &mut matched, put)?;
        Ok(matched)
    }

    /// Finds the address of each row, of a list, or of a row with the same hash and another key.
    fn find(&mut self, rows: &KeyedRows) {
        let (table, hashes) = (self.table, &rows.keys.hashes);
        let Some(codes) = &rows.codes else { return table.find(hashes, &mut self.found) };
        let is_same = |(last, _): &(ScalarBuffer<u64>, _)| last.inner().ptr_eq(hashes.inner());
        if !self.of_values.as_ref().is_some_and(is_same) {
            let mut found = vec![];
            table.find(hashes, &mut found);
            if self.is_verified(rows) {
                let is_other = |(value, address): &(usize, &mut RowAddress)| {
                    let check = rows.keys.checks.as_ref().map(|checks| checks.value(*value));
                    **address != NONE && check.is_some_and(|check| !table.is(**address, check))
                };
                found.iter_mut().enumerate().filter(is_other).for_each(|(_, it)| *it = NONE);
            }
            self.of_values = Some((hashes.clone(), found));
        }
        let (_, of_values) = self.of_values.as_ref().expect("just found");
        self.found.clear();
        self.found.extend(codes.iter().map(|code| of_values[*code as usize]));
    }

    /// Whether the keys of these rows are compared when they are found: once for each value.
    fn is_verified(&self, rows: &KeyedRows) -> bool {
        rows.codes.is_some() && self.table.has_single_rows()
    }

    /// Keeps the pairs that match, and puts them.
    fn flush(
        &mut self,
        rows: &KeyedRows,
        matched: &mut Option<Vec<bool>>,
        put: &mut BatchSink,
    ) -> Result<()> {
        if rows.keys.checks.is_some() && !self.is_verified(rows) {
            let Pairs { rows: of_rows, addresses } = &self.pairs;
            let is = |(at, (row, address)): (usize, (&u32, &RowAddress))| {
                if let Some(ahead) = addresses.get(at + PREFETCH) {
                    self.table.prefetch(*ahead);
                }
                is_key(self.table, rows, *row as usize, *address)
            };
            let kept: Vec<bool> = of_rows.iter().zip(addresses).enumerate().map(is).collect();
            self.pairs.retain(&kept);
        }
        let (mut from, most) = (0, self.pairs_max(rows));
        while from < self.pairs.rows.len() {
            let to = from + self.table.fitting(&self.pairs.addresses[from..]).min(most);
            let (of_rows, addresses) =
                (&self.pairs.rows[from..to], &self.pairs.addresses[from..to]);
            from = to;
            let kept = self.step(rows, (of_rows, addresses), put)?;
            let is_kept = |at: usize| kept.as_ref().is_none_or(|kept| kept.value(at));
            if let Some(matched) = matched {
                let of_rows = of_rows.iter().enumerate().filter(|(at, _)| is_kept(*at));
                of_rows.for_each(|(_, row)| matched[*row as usize] = true);
            }
            if self.plan.emits(self.plan.build).is_some() {
                let addresses = addresses.iter().enumerate().filter(|(at, _)| is_kept(*at));
                addresses.for_each(|(_, address)| self.table.mark(*address));
            }
        }
        self.pairs.clear();
        Ok(())
    }

    /// The number of pairs put at once: repeated rows can be wide.
    fn pairs_max(&self, rows: &KeyedRows) -> usize {
        let count = rows.count();
        if self.pairs.rows.len() <= count {
            return count.max(1);
        }
        let bytes: usize = rows.columns.iter().map(|column| array_bytes(column)).sum();
        batch_rows(bytes / count.max(1))
    }

    /// Puts some pairs; returns which of them match, unless all do.
    fn step(
        &self,
        rows: &KeyedRows,
        (of_rows, addresses): (&[u32], &[RowAddress]),
        put: &mut BatchSink,
    ) -> Result<Option<BooleanArray>> {
        let plan = self.plan;
        if plan.condition.is_none() && !plan.makes_pairs() {
            return Ok(None);
        }
        let mut build = self.table.gather(addresses)?;
        let is_whole = of_rows.len() == rows.count()
            && of_rows.iter().enumerate().all(|(at, row)| at == *row as usize);
        let mut probe = match is_whole {
            true => rows.columns.clone(),
            false => {
                let of_rows = UInt32Array::from(of_rows.to_vec());
                let taken = rows.columns.iter().map(|column| Ok(take(column, &of_rows, None)?));
                taken.collect::<Result<Vec<_>>>()?
            }
        };
        let kept = self.matching((&build, &probe), of_rows.len())?;
        if !plan.makes_pairs() {
            return Ok(kept);
        }
        let mut count = of_rows.len();
        if let Some(kept) = &kept {
            count = kept.true_count();
            for column in build.iter_mut().chain(&mut probe) {
                *column = filter(column, kept)?;
            }
        }
        put(of_both(plan, &build, &probe, count)?)?;
        Ok(kept)
    }

    fn matching(
        &self,
        (build, probe): (&[ArrayRef], &[ArrayRef]),
        count: usize,
    ) -> Result<Option<BooleanArray>> {
        let plan = self.plan;
        let Some(condition) = &plan.condition else { return Ok(None) };
        let column = |(at, home): (usize, &Option<(JoinSide, usize)>)| match home {
            Some((side, column)) if *side == plan.build => build[*column].clone(),
            Some((_, column)) => probe[*column].clone(),
            None => new_null_array(condition.schema.field(at).data_type(), count),
        };
        let columns = condition.columns.iter().enumerate().map(column).collect();
        let schema = condition.schema.clone();
        let batch = new_batch(schema, columns, count)?;
        Ok(Some(condition.expression.matches(&batch, &self.budget)?))
    }
}

/// Whether a row matches one of the table's rows at this place.
fn has_partner(table: &HashTable, rows: &KeyedRows, row: usize, address: RowAddress) -> bool {
    match table.several(rows.hash(row), address) {
        _ if address == NONE => false,
        Some(addresses) => addresses.iter().any(|address| is_key(table, rows, row, *address)),
        None => is_key(table, rows, row, address),
    }
}

/// Whether the row at this address, which has the same hash, has the same key.
#[inline(always)]
fn is_key(table: &HashTable, rows: &KeyedRows, row: usize, address: RowAddress) -> bool {
    rows.check(row).is_none_or(|check| table.is(address, check))
}

/// The output columns of pairs.
fn of_both(
    plan: &JoinPlan,
    build: &[ArrayRef],
    probe: &[ArrayRef],
    count: usize,
) -> Result<RecordBatch> {
    let (left, right) = match plan.build {
        JoinSide::Left => (build, probe),
        JoinSide::Right => (probe, build),
    };
    let columns = plan.columns.iter().map(|column| match (column.left, column.right) {
        (Some(at), _) => (&left[at], &column.data_type),
        (None, Some(at)) => (&right[at], &column.data_type),
        (None, None) => unreachable!("each column is of one side"),
    });
    let columns = columns.map(|(column, data_type)| match column.data_type() == data_type {
        true => Ok(column.clone()),
        false => Ok(cast(column, data_type)?),
    });
    finish(plan, columns.collect::<Result<_>>()?, count)
}

/// The output columns of rows of one side without a match.
pub(crate) fn of_one(
    plan: &JoinPlan,
    side: JoinSide,
    rows: &[ArrayRef],
    count: usize,
) -> Result<RecordBatch> {
    let columns = plan.columns.iter().map(|column| {
        let home = if side == JoinSide::Left { column.left } else { column.right };
        match home.map(|at| &rows[at]) {
            Some(array) if array.data_type() == &column.data_type => Ok(array.clone()),
            Some(array) => Ok(cast(array, &column.data_type)?),
            None => Ok(new_null_array(&column.data_type, count)),
        }
    });
    finish(plan, columns.collect::<Result<_>>()?, count)
}

/// The rows that are output by match: those that match, or those that do not.
pub(crate) fn emitted_rows(
    plan: &JoinPlan,
    side: JoinSide,
    rows: &[ArrayRef],
    matched: &[bool],
) -> Result<Option<RecordBatch>> {
    let Some(wanted) = plan.emits(side) else { return Ok(None) };
    let count = matched.iter().filter(|matched| **matched == wanted).count();
    if count == 0 {
        return Ok(None);
    }
    if count == matched.len() {
        return of_one(plan, side, rows, count).map(Some);
    }
    let kept: BooleanArray = matched.iter().map(|matched| Some(*matched == wanted)).collect();
    let rows = rows.iter().map(|column| Ok(filter(column, &kept)?));
    of_one(plan, side, &rows.collect::<Result<Vec<_>>>()?, count).map(Some)
}

/// Puts the table's rows of a batch that are output by match.
pub(crate) fn of_table(
    plan: &JoinPlan,
    table: &HashTable,
    batch: usize,
    put: &mut BatchSink,
) -> Result<()> {
    let Some(wanted) = plan.emits(plan.build) else { return Ok(()) };
    let addresses = table.marked(batch, wanted);
    let mut rest = addresses.as_slice();
    while !rest.is_empty() {
        let (some, others) = rest.split_at(table.fitting(rest));
        put(of_one(plan, plan.build, &table.gather(some)?, some.len())?)?;
        rest = others;
    }
    Ok(())
}

fn finish(plan: &JoinPlan, columns: Vec<ArrayRef>, count: usize) -> Result<RecordBatch> {
    let output = Arc::clone(&plan.output);
    Ok(new_batch(output, columns, count)?)
}
