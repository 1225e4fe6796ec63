//! The states of one instance, held and spilled by hash part: those of groups, and the distinct
//! values of groups, in stores with columns of their own.

use std::ops::Range;
use std::sync::Arc;

use euphrates_device::scratch::Scratch;
use euphrates_flow::{Batches, Result};

use super::state_rows::{PairPartition, RowKind, StateRows};
use crate::aggregate::plan::AggregatePlan;
use crate::partitioning::spill_store::{PartBits, SpillStore, StoredParts};

/// A store that takes states.
pub(crate) struct StateStore {
    plan: Arc<AggregatePlan>,
    groups: SpillStore,
    /// For each `count(distinct)`.
    pairs: Vec<SpillStore>,
    /// That of the pairs, which is the same for all.
    partition: PairPartition,
}

impl StateStore {
    pub(crate) fn new(
        plan: Arc<AggregatePlan>,
        bits: PartBits,
        scratch: &Arc<Scratch>,
    ) -> StateStore {
        let store = |schema: &_| SpillStore::new(Arc::clone(schema), bits, scratch.clone());
        StateStore {
            groups: store(&plan.group_states),
            pairs: plan.pairs.iter().map(store).collect(),
            partition: PairPartition::Spread,
            plan,
        }
    }

    /// Adds states; returns their bytes.
    pub(crate) fn push(&mut self, StateRows { kind, rows }: StateRows) -> Result<usize> {
        match kind {
            _ if rows.num_rows() == 0 => Ok(0),
            RowKind::Group => self.groups.push(rows),
            RowKind::Pair { number, partition } => {
                self.partition = partition;
                self.pairs[number].push(rows)
            }
        }
    }

    fn stores(&self) -> impl Iterator<Item = &SpillStore> {
        self.pairs.iter().chain([&self.groups])
    }

    /// Bytes in memory, including the slots of a hash table.
    pub(crate) fn bytes(&self) -> usize {
        self.stores().map(SpillStore::bytes).sum()
    }

    /// Spills parts, to free memory; returns the bytes written.
    pub(crate) fn spill(&mut self) -> Result<usize> {
        self.pairs.iter_mut().chain([&mut self.groups]).map(SpillStore::spill).sum()
    }

    /// Bytes of each part, in memory and on scratch, including the slots of a hash table.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        let mut all = self.groups.sizes();
        for store in &self.pairs {
            all.iter_mut().zip(store.sizes()).for_each(|(sum, bytes)| *sum += bytes);
        }
        all
    }

    /// Ends the intake; the states are read by part.
    pub(crate) fn finish(self) -> Result<StoredStates> {
        let kind = |number| RowKind::Pair { number, partition: self.partition };
        let pairs = self.pairs.into_iter().enumerate();
        let pairs = pairs.map(|(number, store)| Ok((kind(number), store.finish()?)));
        let mut stores: Vec<(RowKind, StoredParts)> = pairs.collect::<Result<_>>()?;
        stores.push((RowKind::Group, self.groups.finish()?));
        Ok(StoredStates { plan: self.plan, stores })
    }
}

/// Stored states, read by part.
pub(crate) struct StoredStates {
    plan: Arc<AggregatePlan>,
    stores: Vec<(RowKind, StoredParts)>,
}

impl StoredStates {
    /// The states in a range of parts, with the columns of all kinds.
    pub(crate) fn read_all(&self, parts: Range<usize>) -> Batches {
        let batches = self.stores.iter().map(|(kind, store)| {
            let (plan, kind) = (self.plan.clone(), *kind);
            store
                .read_all(parts.clone())
                .map(move |rows| plan.widened(StateRows { kind, rows: rows? }))
        });
        Box::new(batches.collect::<Vec<_>>().into_iter().flatten())
    }
}
