//! Merges the states of a hash part and finishes its groups, with bounded memory.
//!
//! States that do not fit are partitioned again, by hash bits that have not been used, and each
//! part is finished by itself. With `count(distinct)`, pairs of group and value are counted by
//! part. If they are partitioned by group, its count is complete in its part. Otherwise a giant
//! group, or each of few groups, spreads over all parts: each part yields counts as states, which
//! are merged once more, by group.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_device::scratch::Scratch;
use euphrates_flow::{Cancel, Error, MemoryAccount, MemoryReservation, Result};
use euphrates_policy::aggregate::{table_is_full, table_memory_bytes};
use euphrates_policy::hash_partitions::{must_write, part_bits};

use super::state_rows::{PairPartition, RowKind, StateRows};
use crate::aggregate::distinct_table::DistinctTable;
use crate::aggregate::output_expressions::emit;
use crate::aggregate::plan::AggregatePlan;
use crate::aggregate::tables::{AggregateTable, hashes_of};
use crate::batches::sink::BatchSink;
use crate::partitioning::hashing::hash_rows;
use crate::partitioning::spill_store::{PartBits, SpillStore, StoredParts};

/// Bits of a hash available for partitioning.
const HASH_BITS: u32 = u64::BITS;

/// The context of a merge.
pub(crate) struct StateMerge<'a> {
    pub(crate) plan: &'a Arc<AggregatePlan>,
    /// Scratch space for spilled states.
    pub(crate) scratch: &'a Arc<Scratch>,
    /// The memory of the module.
    pub(crate) memory: &'a MemoryAccount,
    /// Cancellation of the flow.
    pub(crate) cancel: &'a Cancel,
    /// Called with the bytes spilled.
    pub(crate) spilled: &'a dyn Fn(usize),
    /// Whether no states of these groups are elsewhere, unless there are pairs and these say so.
    pub(crate) is_last: bool,
}

/// The output of a merge.
pub(crate) enum MergeOutput {
    /// Values of groups.
    Values(RecordBatch),
    /// States of groups, with distinct values counted, to be merged with those of other parts.
    States(RecordBatch),
}

/// Called with the output; its error ends the merge.
pub(crate) type MergedSink<'a> = dyn FnMut(MergeOutput) -> Result<()> + 'a;

impl StateMerge<'_> {
    /// Merges and finishes groups whose hashes share the `used` high bits.
    pub(crate) fn merge(
        &self,
        states: impl Iterator<Item = Result<RecordBatch>>,
        used: u32,
        put: &mut MergedSink,
    ) -> Result<()> {
        let reservation = self.memory.reservation();
        let (table, is_last) = (self.table()?, self.is_last);
        let mut groups = GroupMerge { by: self, used, is_last, table, store: None, reservation };
        let mut distinct: Vec<DistinctMerge> =
            (0..self.plan.distinct.len()).map(|number| self.distinct_merge(number, used)).collect();
        for batch in states {
            self.cancel.check()?;
            for StateRows { kind, rows } in self.plan.by_kind(batch?)? {
                match kind {
                    RowKind::Group => groups.add(&rows)?,
                    RowKind::Pair { number, partition } => {
                        groups.is_last |= partition == PairPartition::ByGroup;
                        distinct[number].add(&rows, partition)?;
                    }
                }
            }
        }
        for merge in distinct {
            merge.finish(&mut |batch| groups.add(&batch))?;
        }
        groups.finish(put)
    }

    /// An empty table. Without keys there is one group, even without rows.
    fn table(&self) -> Result<AggregateTable> {
        let mut table = AggregateTable::new(self.plan.clone());
        if self.plan.keys.is_empty() {
            let states = self.plan.states.fields()[1..][..self.plan.state_columns()].iter();
            let nothing = states.map(|field| new_null_array(field.data_type(), 1)).collect();
            table.merge(&self.plan.of_groups(vec![0], vec![], nothing)?)?;
        }
        Ok(table)
    }

    fn distinct_merge(&self, number: usize, used: u32) -> DistinctMerge<'_> {
        let distinct = DistinctTable::new(self.plan.clone(), number);
        let reservation = self.memory.reservation();
        DistinctMerge { by: self, number, used, distinct, store: None, reservation }
    }

    /// Whether a table has grown so large that it must be spilled. A single entry cannot be
    /// partitioned, however large it is.
    fn is_full(&self, bytes: usize, entries: usize, used: u32) -> bool {
        let tables = 1 + self.plan.distinct.len();
        table_is_full(bytes, self.memory.share_bytes(), tables) && entries > 1 && used < HASH_BITS
    }

    fn store(&self, schema: &SchemaRef, used: u32) -> Result<SpillStore> {
        let bits = PartBits { used, bits: part_bits(1).min(HASH_BITS - used) };
        let mut store = SpillStore::new(schema.clone(), bits, self.scratch.clone());
        store.partition(0)?;
        Ok(store)
    }

    fn push(&self, store: &mut SpillStore, batch: RecordBatch) -> Result<()> {
        store.push(batch)?;
        if must_write(store.bytes(), self.memory.share_bytes()) {
            (self.spilled)(store.write()?);
        }
        Ok(())
    }
}

/// Merges groups in a table, and spills them when it is full.
struct GroupMerge<'a> {
    by: &'a StateMerge<'a>,
    used: u32,
    /// Whether the groups are complete.
    is_last: bool,
    table: AggregateTable,
    store: Option<SpillStore>,
    /// The bytes of the table.
    reservation: MemoryReservation,
}

impl GroupMerge<'_> {
    fn add(&mut self, states: &RecordBatch) -> Result<()> {
        self.table.merge(states)?;
        self.reservation.resize(table_memory_bytes(self.table.bytes()));
        if self.by.is_full(self.table.bytes(), self.table.groups(), self.used) {
            return self.spill();
        }
        // The rows of one group cannot be spilled; finishing them takes as much again.
        match self.table.collected() {
            Some((bytes, name)) if bytes > self.by.memory.limit_bytes() / 2 => {
                let error = format!("the rows that `{name}` collects of a group exceed the memory");
                Err(Error::resource(error).remedy(
                    "group by more columns, estimate (`approx_quantile`), count the rows of each \
                     value first (for `mode`, `histogram`), or give the flow more memory",
                ))
            }
            _ => Ok(()),
        }
    }

    fn spill(&mut self) -> Result<()> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(self.by.store(&self.by.plan.group_states, self.used)?),
        };
        self.by.push(store, self.table.take()?)
    }

    fn finish(mut self, put: &mut MergedSink) -> Result<()> {
        if self.store.is_none() {
            let StateMerge { plan, memory, .. } = self.by;
            let mut put_values = |values| put(MergeOutput::Values(values));
            return match self.is_last {
                true => {
                    let values = self.table.finish()?;
                    emit(&plan.projection, values, memory.share_bytes(), &mut put_values)
                }
                false => put(MergeOutput::States(self.table.take()?)),
            };
        }
        self.spill()?;
        let GroupMerge { by, used, is_last, store, table, reservation } = self;
        drop((table, reservation));
        let Some((pieces, bits)) = finished(store)? else { return Ok(()) };
        for part in 0..bits.parts() {
            // The distinct values have been counted.
            let mut groups = GroupMerge {
                by,
                used: used + bits.bits,
                is_last,
                table: AggregateTable::new(by.plan.clone()),
                store: None,
                reservation: by.memory.reservation(),
            };
            for batch in pieces.read(part) {
                by.cancel.check()?;
                groups.add(&batch?)?;
            }
            groups.finish(put)?;
        }
        Ok(())
    }
}

/// Merges distinct values in a table, and spills them when it is full.
struct DistinctMerge<'a> {
    by: &'a StateMerge<'a>,
    number: usize,
    used: u32,
    distinct: DistinctTable,
    store: Option<SpillStore>,
    /// The bytes of the table.
    reservation: MemoryReservation,
}

impl DistinctMerge<'_> {
    fn add(&mut self, rows: &RecordBatch, partition: PairPartition) -> Result<()> {
        // A hash of the group cannot divide its values, and one of a value not its groups.
        let hashes = (partition == PairPartition::Spread).then(|| hashes_of(rows));
        self.distinct.add_pairs(hashes, rows.columns()[1..].to_vec())?;
        self.spill_if_full()
    }

    fn spill_if_full(&mut self) -> Result<()> {
        self.reservation.resize(table_memory_bytes(self.distinct.bytes()));
        match self.by.is_full(self.distinct.weight_bytes(), self.distinct.count(), self.used) {
            true => self.spill(),
            false => Ok(()),
        }
    }

    fn spill(&mut self) -> Result<()> {
        let (by, plan, number) = (self.by, &self.by.plan, self.number);
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(by.store(&plan.pairs[number], self.used)?),
        };
        self.distinct.take_pairs(&mut |hashes, columns| {
            by.push(store, plan.of_pairs(number, hashes, columns)?)
        })
    }

    /// Puts the numbers of distinct values, as states of their groups.
    fn finish(mut self, put: &mut BatchSink) -> Result<()> {
        if self.store.is_none() {
            return put(self.counted()?);
        }
        self.spill()?;
        let DistinctMerge { by, number, used, store, distinct, reservation } = self;
        drop((distinct, reservation));
        let Some((pieces, bits)) = finished(store)? else { return Ok(()) };
        for part in 0..bits.parts() {
            let mut merge = by.distinct_merge(number, used + bits.bits);
            for batch in pieces.read(part) {
                by.cancel.check()?;
                merge.add(&batch?, PairPartition::Spread)?;
            }
            merge.finish(put)?;
        }
        Ok(())
    }

    fn counted(&mut self) -> Result<RecordBatch> {
        let plan = &self.by.plan;
        let (columns, counts) = self.distinct.take_counts()?;
        let rows = counts.len();
        let hashes = if columns.is_empty() { vec![0; rows] } else { hash_rows(&columns)? };
        let mut states: Vec<ArrayRef> = vec![];
        for (number, value) in plan.values.iter().enumerate() {
            if number == self.distinct.value() {
                states.push(Arc::new(Int64Array::from(counts.clone())));
            } else {
                let nothing = |of: DataType| new_null_array(&of, rows);
                states.extend(value.kind.states().into_iter().map(nothing));
            }
        }
        plan.of_groups(hashes, columns, states)
    }
}

fn finished(store: Option<SpillStore>) -> Result<Option<(StoredParts, PartBits)>> {
    let Some(store) = store else { return Ok(None) };
    let bits = store.bits();
    Ok(Some((store.finish()?, bits)))
}
