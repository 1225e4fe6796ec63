//! Partial aggregation: groups records where they are, and keeps the states of groups for an
//! `aggregate`.
//!
//! Every instance groups what it takes from its queue, in a table that fits the caches; if that
//! reduces nothing, records become states directly. States are partitioned by the high bits of the
//! hash of their key, in memory and on scratch. When the input has ended, a free consumer claims a
//! part, or several small ones, from all processes (River, 4.2, where partitions are assigned in
//! advance).

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_device::scratch::Scratch;
use euphrates_flow::spec::{self, IN, OUT};
use euphrates_flow::{
    Batches, Effect, Error, Module, ModuleSpec, Order, Partitioned, Placed, Ports, Result, Setup,
    split_batch,
};
use euphrates_policy::parts::{is_my_turn, must_spill, part_bits};

use crate::aggregate::exchanged_states::ExchangedStates;
use crate::aggregate::function_syntax::Config;
use crate::aggregate::partial_aggregate::PartialAggregator;
use crate::aggregate::plan::{Plan, Source};
use crate::batches::long_rows::lock_if_long;
use crate::coordination::collective::{all_gather, decode_counts};
use crate::partitioning::spill_store::{PartBits, SpillStore, spill_remark};

/// Name of the all-gather of the bytes of each part, when all input has been taken.
const SIZES: &str = "sizes";

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "pre_aggregate",
    summary: "Groups records where they are, and keeps what an `aggregate` makes values of.",
    detail: "Its output is keyed: a consumer takes the states of all groups whose keys have some \
             hashes, when it has time. Nobody needs to write it: it is placed before each \
             `aggregate`, with the same `by` and `values`. Records that hardly share their keys \
             are not grouped here, but passed on. What does not fit the memory goes to scratch.",
    inputs: IN,
    outputs: OUT,
    order: Order::Any,
    effect: Effect::Pure,
    parallel: true,
    wants_memory: true,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        let config: Config = spec::parse_config(config)?;
        let (known, kept, held_bytes) =
            (Mutex::default(), ExchangedStates::default(), AtomicUsize::new(0));
        Ok(Arc::new(PreAggregate { config, known, kept, held_bytes }))
    },
};

struct PreAggregate {
    config: Config,
    known: Mutex<Known>,
    /// The states of the instances in this process.
    kept: ExchangedStates,
    held_bytes: AtomicUsize,
}

#[derive(Default)]
struct Known {
    /// Known once the flow is checked.
    plan: Option<(Arc<Plan>, Arc<Source>)>,
    scratch: Option<Arc<Scratch>>,
    /// For the report.
    spilled_bytes: usize,
    passed_rows: usize,
}

impl Placed for PreAggregate {
    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let (plan, source) = Plan::new(&self.config, &inputs[0])?;
        let states = plan.states.clone();
        self.lock().plan = Some((Arc::new(plan), Arc::new(source)));
        Ok(vec![states])
    }

    fn bytes_expected(&self, inputs: &[Option<u64>]) -> Option<u64> {
        inputs[0]
    }

    fn partitioned(&self) -> Option<&dyn Partitioned> {
        Some(self)
    }

    fn serves(&self) -> Option<SchemaRef> {
        self.lock().plan.as_ref().map(|(plan, _)| plan.states.clone())
    }

    /// The states of some parts in this process.
    fn serve(&self, request: u64) -> Result<Batches> {
        Ok(self.kept.serve_parts(request))
    }

    fn prepare(&self, setup: &Setup) -> Result<()> {
        self.lock().scratch = Some(Arc::new(Scratch::new(setup)));
        Ok(())
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let (before, store) = {
            let known = self.lock();
            let (plan, source) = known.plan.clone().expect("schemas() has been called");
            let scratch = known.scratch.clone().expect("prepare() has been called");
            let bits = PartBits { used: 0, bits: part_bits(setup.instances) };
            let store = SpillStore::new(plan.states.clone(), bits, scratch);
            (PartialAggregator::new(plan, source, setup.memory_bytes), store)
        };
        Ok(Box::new(Instance { module: self, before: Some(before), store: Some(store) }))
    }

    fn remark(&self) -> Option<String> {
        let known = self.lock();
        let passed = (known.passed_rows > 0)
            .then(|| format!("{} rows passed on ungrouped", known.passed_rows));
        let remarks: Vec<String> =
            passed.into_iter().chain(spill_remark(known.spilled_bytes)).collect();
        (!remarks.is_empty()).then(|| remarks.join(", "))
    }
}

impl Partitioned for PreAggregate {
    fn count(&self, setup: &Setup) -> Result<u64> {
        Ok(self.takes(setup)?.len() as u64)
    }

    fn records(&self, partition: u64, setup: &Setup) -> Result<Batches> {
        let takes = self.takes(setup)?;
        let parts = takes.get(partition as usize).cloned();
        let parts = parts.ok_or_else(|| Error::corrupt(format!("there is no part {partition}")))?;
        self.kept.fetch(parts, &*setup.exchange)
    }
}

impl PreAggregate {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The ranges of parts to claim; blocks until all input has been taken.
    fn takes(&self, setup: &Setup) -> Result<Arc<Vec<Range<usize>>>> {
        // Without keys there is one group, even without rows.
        self.kept.takes(self.config.by.is_empty(), || {
            Ok(setup.learn(SIZES)?.iter().map(|one| decode_counts(one)).collect())
        })
    }
}

struct Instance {
    module: Arc<PreAggregate>,
    before: Option<PartialAggregator>,
    store: Option<SpillStore>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let mut before = self.before.take().expect("an instance runs once");
        let mut store = self.store.take().expect("an instance runs once");
        while let Some(batch) = ports.get(0)? {
            for batch in split_batch(batch) {
                let _turn = lock_if_long(&batch, ports.setup().memory_bytes);
                before.add(&batch, &mut |states| self.hold(&mut store, states, ports))?;
            }
        }
        before.finish(&mut |states| self.hold(&mut store, states, ports))?;
        let sizes = store.sizes();
        self.module.kept.add(store.finish()?);
        self.module.lock().passed_rows += before.passed_rows;
        all_gather(ports, SIZES, &sizes).map(drop)
    }
}

impl Instance {
    /// Stores states, and spills parts if the process holds too much.
    fn hold(&self, store: &mut SpillStore, states: RecordBatch, ports: &Ports) -> Result<()> {
        if states.num_rows() == 0 {
            return Ok(());
        }
        let setup = ports.setup();
        let more = store.push(states)?;
        let held = self.module.held_bytes.fetch_add(more, Relaxed) + more;
        let turn = is_my_turn(store.bytes(), held, setup.instances_here);
        if !turn || !must_spill(held, setup.memory_bytes * setup.instances_here) {
            return Ok(());
        }
        let before = store.bytes();
        let written = store.spill()?;
        ports.metrics().spilled(written);
        self.module.lock().spilled_bytes += written;
        self.module.held_bytes.fetch_sub(before - store.bytes(), Relaxed);
        Ok(())
    }
}
