//! Probes the hash table with batches of the probe side.
//!
//! A batch is looked up as a whole, then the matches become pairs, then columns are gathered:
//! independent cache misses overlap. If each row has exactly one match, the columns of the batch
//! are output without a copy.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::compute::{cast, filter, take};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_ROWS_MAX, Result, array_bytes, batch_rows, new_batch};

use super::hash_table::HashTable;
use super::packed_rows::{NONE, RowAddress};
use super::plan::{JoinPlan, JoinSide};
use super::side_layout::KeyedRows;
use crate::batches::sink::BatchSink;
use crate::expression::Budget;

/// Probes one batch after the other, reusing its buffers.
pub(crate) struct Prober {
    budget: Budget,
    found: Vec<RowAddress>,
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

impl Prober {
    /// A prober with this budget for the condition.
    pub(crate) fn new(budget: Budget) -> Prober {
        Prober { budget, found: vec![], pairs: Pairs::default() }
    }

    /// Puts the pairs that these rows make, and returns whether each row has a match, if the join
    /// needs that.
    pub(crate) fn pairs(
        &mut self,
        plan: &JoinPlan,
        table: &HashTable,
        rows: &KeyedRows,
        put: &mut BatchSink,
    ) -> Result<Option<Vec<bool>>> {
        let probe = plan.build.other();
        let mut matched = plan.emits(probe).map(|_| vec![false; rows.hashes.len()]);
        table.find(&rows.hashes, &mut self.found);
        // One match suffices if only its existence counts.
        let is_asked_once = !plan.makes_pairs() && plan.emits(plan.build).is_none();
        if is_asked_once && plan.condition.is_none() {
            let partners = self.found.iter().enumerate();
            let matched = partners.map(|(row, address)| has_partner(table, rows, row, *address));
            return Ok(Some(matched.collect()));
        }
        if table.has_single_rows() {
            self.pairs.add_single(&self.found);
            self.flush(plan, table, rows, &mut matched, put)?;
            return Ok(matched);
        }
        let found = std::mem::take(&mut self.found);
        for (row, address) in found.iter().enumerate() {
            if *address == NONE {
                continue;
            }
            match table.several(rows.hashes[row], *address) {
                None => {
                    self.pairs.rows.push(row as u32);
                    self.pairs.addresses.push(*address);
                }
                Some(addresses) => {
                    for addresses in addresses.chunks(BATCH_ROWS_MAX) {
                        self.pairs.rows.extend(addresses.iter().map(|_| row as u32));
                        self.pairs.addresses.extend_from_slice(addresses);
                        if self.pairs.rows.len() >= BATCH_ROWS_MAX {
                            self.flush(plan, table, rows, &mut matched, put)?;
                        }
                    }
                }
            }
        }
        self.found = found;
        self.flush(plan, table, rows, &mut matched, put)?;
        Ok(matched)
    }

    /// Keeps the pairs that match, and puts them.
    fn flush(
        &mut self,
        plan: &JoinPlan,
        table: &HashTable,
        rows: &KeyedRows,
        matched: &mut Option<Vec<bool>>,
        put: &mut BatchSink,
    ) -> Result<()> {
        if let Some(checks) = &rows.checks {
            let pairs = self.pairs.rows.iter().zip(&self.pairs.addresses);
            let is = |(row, address): (&u32, &RowAddress)| {
                table.is(*address, checks.value(*row as usize))
            };
            let kept: Vec<bool> = pairs.map(is).collect();
            self.pairs.retain(&kept);
        }
        let (mut from, most) = (0, self.pairs_max(rows));
        while from < self.pairs.rows.len() {
            let to = from + table.fitting(&self.pairs.addresses[from..]).min(most);
            let (of_rows, addresses) =
                (&self.pairs.rows[from..to], &self.pairs.addresses[from..to]);
            from = to;
            let kept = self.step(plan, table, rows, (of_rows, addresses), put)?;
            let is_kept = |at: usize| kept.as_ref().is_none_or(|kept| kept.value(at));
            if let Some(matched) = matched {
                let of_rows = of_rows.iter().enumerate().filter(|(at, _)| is_kept(*at));
                of_rows.for_each(|(_, row)| matched[*row as usize] = true);
            }
            if plan.emits(plan.build).is_some() {
                let addresses = addresses.iter().enumerate().filter(|(at, _)| is_kept(*at));
                addresses.for_each(|(_, address)| table.mark(*address));
            }
        }
        self.pairs.clear();
        Ok(())
    }

    /// The number of pairs put at once: repeated rows can be wide.
    fn pairs_max(&self, rows: &KeyedRows) -> usize {
        let count = rows.hashes.len();
        if self.pairs.rows.len() <= count {
            return count.max(1);
        }
        let bytes: usize = rows.columns.iter().map(|column| array_bytes(column)).sum();
        batch_rows(bytes / count.max(1))
    }

    /// Puts some pairs; returns which of them match, unless all do.
    fn step(
        &self,
        plan: &JoinPlan,
        table: &HashTable,
        rows: &KeyedRows,
        (of_rows, addresses): (&[u32], &[RowAddress]),
        put: &mut BatchSink,
    ) -> Result<Option<BooleanArray>> {
        if plan.condition.is_none() && !plan.makes_pairs() {
            return Ok(None);
        }
        let mut build = table.gather(addresses)?;
        let is_whole = of_rows.len() == rows.hashes.len()
            && of_rows.iter().enumerate().all(|(at, row)| at == *row as usize);
        let mut probe = match is_whole {
            true => rows.columns.clone(),
            false => {
                let of_rows = UInt32Array::from(of_rows.to_vec());
                let taken = rows.columns.iter().map(|column| Ok(take(column, &of_rows, None)?));
                taken.collect::<Result<Vec<_>>>()?
            }
        };
        let kept = self.matching(plan, (&build, &probe), of_rows.len())?;
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
        plan: &JoinPlan,
        (build, probe): (&[ArrayRef], &[ArrayRef]),
        count: usize,
    ) -> Result<Option<BooleanArray>> {
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
    let is = |address: &RowAddress| match &rows.checks {
        Some(checks) => table.is(*address, checks.value(row)),
        None => true,
    };
    match table.several(rows.hashes[row], address) {
        _ if address == NONE => false,
        Some(addresses) => addresses.iter().any(is),
        None => is(&address),
    }
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
