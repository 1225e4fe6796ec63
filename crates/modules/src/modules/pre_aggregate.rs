//! Partial aggregation: groups records where they are, and keeps the states of groups for an
//! `aggregate`.
//!
//! Every instance groups what it takes from its queue, in a table that fits the caches; if that
//! saves little, records become states directly. States are partitioned by the high bits of the
//! hash of their key, in memory and on scratch. When the input has ended, a free consumer claims a
//! part, or several small ones, from all processes (River, 4.2, where partitions are assigned in
//! advance).

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use euphrates_device::scratch::Scratch;
use euphrates_flow::module::{
    Bound, Configure, ExchangeServer, Inputs, InstanceFactory, Interface, Needs,
};
use euphrates_flow::{
    Batches, Error, MemoryDemand, MemoryReservation, Module, ModuleSpec, Partitioned, Ports,
    Result, Setup, spec, split_batch,
};
use euphrates_policy::aggregate::must_spill_states;
use euphrates_policy::hash_partitions::{must_help_spill, part_bits};

use crate::aggregate::config::Config;
use crate::aggregate::exchange::exchanged_states::ExchangedStates;
use crate::aggregate::exchange::state_rows::{PairPartition, PairPartitioning, StateRows};
use crate::aggregate::exchange::state_store::StateStore;
use crate::aggregate::output_expressions::needed_columns;
use crate::aggregate::partial_aggregate::PartialAggregator;
use crate::aggregate::plan::{AggregatePlan, ArgumentEvaluator};
use crate::batches::long_rows::lock_if_long;
use crate::coordination::collective::{all_gather, decode_counts};
use crate::partitioning::spill_store::{PartBits, spill_remark};

/// Name of the all-gather of the bytes of each part, when all input has been taken.
const SIZES: &str = "sizes";

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "pre_aggregate",
    summary: "Groups records where they are, and keeps what an `aggregate` makes values of.",
    detail: "Its output is keyed: a consumer takes the states of all groups whose keys have some \
             hashes, when it has time. Nobody needs to write it: it is placed before each \
             `aggregate`, with the same `by` and `values`. Records that hardly share their keys \
             are not grouped here, but passed on. What does not fit the memory goes to scratch.",
    example: r#">>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
>>> totals = {"by": "city", "values": {"total": "sum(price)"}}
>>> flow = eu.Flow()
>>> groups = flow.chain(orders, eu.pre_aggregate(**totals), eu.aggregate(**totals))
>>> _ = flow.chain(groups, eu.sort("city"), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Uruk'], 'total': [7, 3]}"#,
    memory: MemoryDemand::Adaptive,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(PreAggregate(spec::parse_config(config)?))),
    ..ModuleSpec::USUAL
};

struct PreAggregate(Config);

impl Configure for PreAggregate {
    fn interface(&self) -> Interface {
        let needs = needed_columns(&self.0).map_or(Needs::All, Needs::These);
        Interface { is_keyed: true, needs, ..Interface::default() }
    }

    fn key_source(&self, column: &str, _: usize, _: &[Option<SchemaRef>]) -> Option<String> {
        self.0.by.iter().find(|key| *key == column).cloned()
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let (plan, source) = AggregatePlan::new(&self.0, &inputs.schemas[0])?;
        let states = plan.states.clone();
        let grouping = Arc::new(Grouping {
            plan: Arc::new(plan),
            source: Arc::new(source),
            is_one_group: self.0.by.is_empty(),
            kept: ExchangedStates::default(),
            pair_partition: Arc::default(),
            scratch: OnceLock::new(),
            reservation: OnceLock::new(),
            spilled_bytes: AtomicUsize::new(0),
            passed_rows: AtomicUsize::new(0),
        });
        Ok(Bound {
            bytes_expected: inputs.bytes[0],
            partitioned: Some(grouping.clone()),
            exchange: Some(grouping.clone()),
            ..Bound::shared([states], grouping)
        })
    }
}

/// The state that the instances in this process share.
struct Grouping {
    plan: Arc<AggregatePlan>,
    source: Arc<ArgumentEvaluator>,
    /// Whether there are no keys.
    is_one_group: bool,
    /// The states of the instances in this process.
    kept: ExchangedStates,
    /// How the distinct values of groups are partitioned.
    pair_partition: Arc<OnceLock<PairPartition>>,
    scratch: OnceLock<Arc<Scratch>>,
    /// The stored states in memory.
    reservation: OnceLock<MemoryReservation>,
    /// Bytes and rows of all instances, for the report.
    spilled_bytes: AtomicUsize,
    passed_rows: AtomicUsize,
}

impl InstanceFactory for Grouping {
    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let scratch = self.scratch.get_or_init(|| Arc::new(Scratch::new(setup))).clone();
        let bits = PartBits { used: 0, bits: part_bits(setup.instances) };
        let store = StateStore::new(self.plan.clone(), bits, &scratch);
        let (plan, source) = (self.plan.clone(), self.source.clone());
        let instances = setup.is_in_one_process.then_some(setup.instances);
        let partitioning = PairPartitioning::new(instances, self.pair_partition.clone());
        let before = PartialAggregator::new(plan, source, partitioning, setup.memory.clone());
        Ok(Box::new(Instance { shared: self, before: Some(before), store: Some(store) }))
    }

    fn remark(&self) -> Option<String> {
        let rows = self.passed_rows.load(Relaxed);
        let passed = (rows > 0).then(|| format!("{rows} rows passed on ungrouped"));
        let spilled = spill_remark(self.spilled_bytes.load(Relaxed));
        let remarks: Vec<String> = passed.into_iter().chain(spilled).collect();
        (!remarks.is_empty()).then(|| remarks.join(", "))
    }
}

impl ExchangeServer for Grouping {
    fn schema(&self) -> SchemaRef {
        self.plan.states.clone()
    }

    /// The states of some parts in this process.
    fn serve(&self, request: u64) -> Result<Batches> {
        Ok(self.kept.serve_parts(request))
    }
}

impl Partitioned for Grouping {
    fn count(&self, setup: &Setup) -> Result<u64> {
        Ok(self.claims(setup)?.len() as u64)
    }

    fn records(&self, partition: u64, setup: &Setup) -> Result<Batches> {
        let takes = self.claims(setup)?;
        let parts = takes.get(partition as usize).cloned();
        let parts = parts.ok_or_else(|| Error::corrupt(format!("there is no part {partition}")))?;
        self.kept.fetch(parts, &*setup.exchange)
    }

    fn release(&self) {
        self.kept.release();
        self.reservation.get().into_iter().for_each(|reservation| reservation.resize(0));
    }
}

impl Grouping {
    /// Bytes of the states that the instances in this process store in memory.
    fn stored_bytes(&self) -> usize {
        self.reservation.get().map_or(0, MemoryReservation::bytes)
    }

    /// The ranges of parts to claim; blocks until all input has been taken.
    fn claims(&self, setup: &Setup) -> Result<Arc<Vec<Range<usize>>>> {
        // Without keys there is one group, even without rows.
        self.kept.claims(self.is_one_group, || {
            Ok(setup.observe(SIZES)?.iter().map(|one| decode_counts(one)).collect())
        })
    }
}

struct Instance {
    shared: Arc<Grouping>,
    before: Option<PartialAggregator>,
    store: Option<StateStore>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let mut before = self.before.take().expect("an instance runs once");
        let mut store = self.store.take().expect("an instance runs once");
        while let Some(batch) = ports.get(0)? {
            for batch in split_batch(batch) {
                let _turn = lock_if_long(&batch, ports.setup().memory.share_bytes());
                let stored = self.shared.stored_bytes() / ports.setup().instances_here.max(1);
                before.add(&batch, stored, &mut |states| self.hold(&mut store, states, ports))?;
            }
        }
        before.finish(&mut |states| self.hold(&mut store, states, ports))?;
        let sizes = store.sizes();
        self.shared.kept.add(store.finish()?);
        self.shared.passed_rows.fetch_add(before.passed_rows, Relaxed);
        all_gather(ports, SIZES, &sizes).map(drop)
    }
}

impl Instance {
    /// Stores states, and spills parts if the process holds too much.
    fn hold(&self, store: &mut StateStore, states: StateRows, ports: &Ports) -> Result<()> {
        if states.rows.num_rows() == 0 {
            return Ok(());
        }
        let setup = ports.setup();
        let reservation = self.shared.reservation.get_or_init(|| setup.memory.reservation());
        let more = store.push(states)?;
        let stored = reservation.grow(more);
        let turn = must_help_spill(store.bytes(), stored, setup.instances_here);
        let memory = &setup.memory;
        let (limit, intake) = (memory.limit_bytes(), memory.intake_limit_bytes());
        if !turn || !must_spill_states(stored, memory.held_bytes(), limit, intake) {
            return Ok(());
        }
        let before = store.bytes();
        let written = store.spill()?;
        ports.metrics().spilled(written);
        self.shared.spilled_bytes.fetch_add(written, Relaxed);
        reservation.shrink(before - store.bytes());
        Ok(())
    }
}
