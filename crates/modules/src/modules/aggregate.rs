//! Computes values of groups of records.
//!
//! A `pre_aggregate` before it groups what each of its instances takes, and keeps the states of
//! groups by the hashes of their keys; each instance here takes all states of some of the hashes as
//! soon as it is free, merges those of one group, and finishes them. So a slow instance has fewer
//! groups, and no group is in two places (River, 4.2).

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::datatypes::SchemaRef;
use euphrates_flow::spec::{self, IN, OUT};
use euphrates_flow::{
    Effect, Module, ModuleSpec, Order, Placed, Ports, Result, Setup, batch_bytes, split_batch,
};
use euphrates_io::scratch::Scratch;
use euphrates_policy::parts::part_bits;
use serde_json::{Value, json};

use crate::aggregate::merging::Merging;
use crate::aggregate::plan::Plan;
use crate::aggregate::spelling::Config;
use crate::stepwise::Gathered;

/// The module.
pub static MODULE: ModuleSpec = ModuleSpec {
    name: "aggregate",
    summary: "Groups its input by columns, and computes values of each group.",
    detail: "`values` says what: `{\"total\": \"sum(price)\", \"rows\": \"count()\"}`. There are \
             `count`, `count(distinct ...)`, `sum`, `min`, `max` and `avg`, of columns or SQL \
             expressions. Nulls are skipped, but are a group of their own among keys, as are NaN; \
             zeros of either sign are one. Of no values, a count is 0 and all else null. Sums of \
             integers are 64 bits wide, of decimals 38 digits, and one that is larger is an \
             error. With no keys one row comes out. A `pre_aggregate` is placed before it, which \
             groups where the records are; what does not fit the memory goes to scratch. The \
             output has no order.",
    inputs: IN,
    outputs: OUT,
    order: Order::Any,
    effect: Effect::Pure,
    parallel: true,
    wants_memory: true,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        let config: Config = spec::parse_config(config)?;
        Ok(Arc::new(Aggregate { config, known: Mutex::default() }))
    },
};

struct Aggregate {
    config: Config,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Once the flow is checked.
    plan: Option<Arc<Plan>>,
    scratch: Option<Arc<Scratch>>,
    /// For the report.
    spilled_bytes: usize,
}

impl Placed for Aggregate {
    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let plan = Plan::of_states(&self.config, &inputs[0])?;
        let output = plan.output.clone();
        self.lock().plan = Some(Arc::new(plan));
        Ok(vec![output])
    }

    fn partitioner(&self) -> Option<(&'static str, Value)> {
        Some(("pre_aggregate", json!(self.config)))
    }

    fn prepare(&self, setup: &Setup) -> Result<()> {
        self.lock().scratch = Some(Arc::new(Scratch::new(setup)));
        Ok(())
    }

    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        let (plan, scratch) = {
            let known = self.lock();
            let plan = known.plan.clone().expect("schemas() has been called");
            (plan, known.scratch.clone().expect("prepare() has been called"))
        };
        Ok(Box::new(Instance { aggregate: self, plan, scratch }))
    }

    fn remark(&self) -> Option<String> {
        match self.lock().spilled_bytes {
            0 => None,
            bytes => Some(format!("{:.1} MB went through scratch", bytes as f64 / 1e6)),
        }
    }
}

impl Aggregate {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct Instance {
    aggregate: Arc<Aggregate>,
    plan: Arc<Plan>,
    scratch: Arc<Scratch>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let setup = ports.setup().clone();
        let mut gathered = Gathered::default();
        while let Some(partition) = ports.next_partition(0)? {
            let (taken, spilled) = (Cell::new((0, 0)), Cell::new(0));
            let merging = Merging {
                plan: &self.plan,
                scratch: &self.scratch,
                share_bytes: setup.memory_bytes,
                cancel: &setup.cancel,
                spilled: &|bytes| spilled.set(spilled.get() + bytes),
            };
            let states = partition.records()?.inspect(|batch| {
                let Ok(batch) = batch else { return };
                let (rows, bytes) = taken.get();
                taken.set((rows + batch.num_rows(), bytes + batch_bytes(batch)));
            });
            merging.merge(states, part_bits(setup.instances), &mut |batch| {
                split_batch(batch).try_for_each(|batch| gathered.put(ports, batch))
            })?;
            ports.metrics().got(taken.get().0, taken.get().1);
            ports.metrics().spilled(spilled.get());
            self.aggregate.lock().spilled_bytes += spilled.get();
        }
        gathered.flush(ports)
    }
}
