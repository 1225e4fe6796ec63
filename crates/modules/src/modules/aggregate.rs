//! Computes aggregates of groups of records.
//!
//! The `pre_aggregate` before it groups the rows of each of its instances, and partitions the
//! states of groups by the hashes of their keys. Each instance here claims a partition when it is
//! free, merges the states of each group, and finishes them. So a slow instance has fewer groups,
//! and no group is in two partitions (River, 4.2). Distinct values of unbalanced groups are
//! partitioned by the hash of value and group: then the merged states are partitioned once more, by
//! groups.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use euphrates_device::scratch::Scratch;
use euphrates_flow::module::{
    Bound, Configure, ExchangeServer, Inputs, InstanceFactory, Interface,
};
use euphrates_flow::{
    Batches, MemoryDemand, MemoryReservation, Module, ModuleSpec, Ports, Result, Setup,
    batch_bytes, spec, split_batch,
};
use euphrates_policy::aggregate::table_is_full;
use euphrates_policy::hash_partitions::part_bits;
use serde_json::json;

use crate::aggregate::config::Config;
use crate::aggregate::exchange::exchanged_states::ExchangedStates;
use crate::aggregate::exchange::state_merge::{MergeOutput, MergedSink, StateMerge};
use crate::aggregate::exchange::state_rows::{RowKind, StateRows};
use crate::aggregate::exchange::state_store::StateStore;
use crate::aggregate::plan::AggregatePlan;
use crate::batches::coalescer::Coalescer;
use crate::coordination::collective::all_gather;
use crate::coordination::work_units::WorkUnits;
use crate::partitioning::spill_store::{PartBits, spill_remark};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "aggregate",
    summary: "Groups its input by columns, and computes values of each group.",
    detail: "`values` says what: `{\"total\": \"sum(price)\", \"rows\": \"count()\"}`. There are \
             `count`, `count(distinct ...)`, `sum`, `min`, `max`, `avg`, `variance`, `stddev`, \
             `var_pop` and `stddev_pop`, of columns or SQL expressions, and expressions over \
             them: `max(a) - min(a)`. Nulls are skipped, but are a group of their own among \
             keys, as are NaN; zeros of either sign are one. Of no values, a count is 0 and all \
             else null. Sums of integers are 64 bits wide, of decimals 38 digits, and one that is \
             larger is an error. With no keys one row comes out. A `pre_aggregate` is placed \
             before it, which groups where the records are; what does not fit the memory goes to \
             scratch. The output has no order.",
    example: r#">>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
>>> totals = eu.aggregate("city", values={"total": "sum(price)", "orders": "count()"})
>>> flow = eu.Flow()
>>> _ = flow.chain(orders, totals, eu.sort("city"), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Uruk'], 'total': [7, 3], 'orders': [2, 1]}"#,
    memory: MemoryDemand::Adaptive,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Aggregate(spec::parse_config(config)?))),
    ..ModuleSpec::USUAL
};

struct Aggregate(Config);

impl Configure for Aggregate {
    fn interface(&self) -> Interface {
        let partitioner = Some(("pre_aggregate", json!(self.0)));
        Interface { partitioner, ..Interface::default() }
    }

    fn key_source(&self, column: &str, _: usize, _: &[Option<SchemaRef>]) -> Option<String> {
        self.0.by.iter().find(|key| *key == column).cloned()
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let plan = Arc::new(AggregatePlan::of_states(&self.0, &inputs.schemas[0])?);
        let output = plan.output.clone();
        // With distinct values, states are exchanged once more.
        let is_exchanged = !plan.distinct.is_empty();
        let merge = Arc::new(SharedMerge {
            plan,
            counted: ExchangedStates::default(),
            scratch: OnceLock::new(),
            reservation: OnceLock::new(),
            ended: AtomicUsize::new(0),
            spilled_bytes: AtomicUsize::new(0),
        });
        Ok(Bound {
            bytes_expected: inputs.bytes[0],
            exchange: is_exchanged.then(|| merge.clone() as Arc<dyn ExchangeServer>),
            ..Bound::shared([output], merge)
        })
    }
}

/// The state that the instances in this process share.
struct SharedMerge {
    plan: Arc<AggregatePlan>,
    /// States with counted distinct values.
    counted: ExchangedStates,
    scratch: OnceLock<Arc<Scratch>>,
    /// The counted states in memory.
    reservation: OnceLock<MemoryReservation>,
    /// Instances that have merged all counted states that they could take.
    ended: AtomicUsize,
    spilled_bytes: AtomicUsize,
}

impl InstanceFactory for SharedMerge {
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let scratch = self.scratch.get_or_init(|| Arc::new(Scratch::new(setup))).clone();
        let plan = self.plan.clone();
        Ok(Box::new(Instance { shared: self, plan, scratch }))
    }

    fn remark(&self) -> Option<String> {
        spill_remark(self.spilled_bytes.load(Relaxed))
    }
}

impl ExchangeServer for SharedMerge {
    fn schema(&self) -> SchemaRef {
        self.plan.states.clone()
    }

    /// The states of some parts in this process.
    fn serve(&self, request: u64) -> Result<Batches> {
        Ok(self.counted.serve_parts(request))
    }
}

impl SharedMerge {
    /// Drops the counted states when the last instance ends, if no other process reads them.
    fn release_counted(&self, setup: &Setup) {
        let is_last = self.ended.fetch_add(1, AcqRel) + 1 == setup.instances_here;
        if is_last && setup.is_in_one_process {
            self.counted.release();
            self.reservation.get().into_iter().for_each(|reservation| reservation.resize(0));
        }
    }
}

struct Instance {
    shared: Arc<SharedMerge>,
    plan: Arc<AggregatePlan>,
    scratch: Arc<Scratch>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let mut coalescer = Coalescer::default();
        if self.plan.distinct.is_empty() {
            while let Some(partition) = ports.next_partition(0)? {
                self.merge(partition.records()?, true, ports, &mut |merged, ports| {
                    put_values(merged, &mut coalescer, ports)
                })?;
            }
            return coalescer.flush(ports);
        }
        let takes = self.count_distinct(&mut coalescer, ports)?;
        let setup = ports.setup().clone();
        let equal_weights = |some: Range<usize>| some.len() as u64;
        let mut left = WorkUnits::new(&setup, "counted parts", takes.len(), equal_weights);
        while let Some(take) = left.claim()? {
            let states = self.shared.counted.fetch(takes[take].clone(), &*setup.exchange)?;
            self.merge(states, true, ports, &mut |merged, ports| {
                put_values(merged, &mut coalescer, ports)
            })?;
        }
        self.shared.release_counted(&setup);
        coalescer.flush(ports)
    }
}

/// Puts the values of complete groups.
fn put_values(merged: MergeOutput, coalescer: &mut Coalescer, ports: &mut Ports) -> Result<()> {
    let MergeOutput::Values(values) = merged else { unreachable!("no states are elsewhere") };
    split_batch(values).try_for_each(|batch| coalescer.put(ports, batch))
}

impl Instance {
    /// Counts distinct values by parts. Puts the values of groups that are complete in their part,
    /// and partitions the states of the others by group. Returns the ranges of parts to claim.
    fn count_distinct(
        &mut self,
        coalescer: &mut Coalescer,
        ports: &mut Ports,
    ) -> Result<Arc<Vec<Range<usize>>>> {
        let setup = ports.setup().clone();
        let bits = PartBits { used: 0, bits: part_bits(setup.instances) };
        let mut store = StateStore::new(self.plan.clone(), bits, &self.scratch);
        let reservation = self.shared.reservation.get_or_init(|| setup.memory.reservation());
        while let Some(partition) = ports.next_partition(0)? {
            self.merge(partition.records()?, false, ports, &mut |merged, ports| {
                let MergeOutput::States(rows) = merged else {
                    return put_values(merged, coalescer, ports);
                };
                reservation.grow(store.push(StateRows { kind: RowKind::Group, rows })?);
                if table_is_full(store.bytes(), setup.memory.share_bytes(), 1) {
                    let before = store.bytes();
                    self.on_spilled(store.spill()?, ports);
                    reservation.shrink(before - store.bytes());
                }
                Ok(())
            })?;
        }
        let sizes = store.sizes();
        self.shared.counted.add(store.finish()?);
        let all = all_gather(ports, "counted", &sizes)?;
        self.shared.counted.claims(false, || Ok(all))
    }

    /// Merges states of some groups, or of some of their distinct values.
    fn merge(
        &self,
        states: Batches,
        is_last: bool,
        ports: &mut Ports,
        put: &mut dyn FnMut(MergeOutput, &mut Ports) -> Result<()>,
    ) -> Result<()> {
        let setup = ports.setup().clone();
        let (taken, spilled) = (Cell::new((0, 0)), Cell::new(0));
        let merging = StateMerge {
            plan: &self.plan,
            scratch: &self.scratch,
            memory: &setup.memory,
            cancel: &setup.cancel,
            spilled: &|bytes| spilled.set(spilled.get() + bytes),
            is_last,
        };
        let states = states.inspect(|batch| {
            let Ok(batch) = batch else { return };
            let (rows, bytes) = taken.get();
            taken.set((rows + batch.num_rows(), bytes + batch_bytes(batch)));
        });
        let used = part_bits(setup.instances);
        let put: &mut MergedSink = &mut |merged| put(merged, ports);
        merging.merge(states, used, put)?;
        // States that are merged twice are counted as input once.
        if is_last == self.plan.distinct.is_empty() {
            ports.metrics().got(taken.get().0, taken.get().1);
        }
        self.on_spilled(spilled.get(), ports);
        Ok(())
    }

    fn on_spilled(&self, bytes: usize, ports: &Ports) {
        ports.metrics().spilled(bytes);
        self.shared.spilled_bytes.fetch_add(bytes, Relaxed);
    }
}
