//! Keeps its input in partitions of one range of keys each.
//!
//! Every instance takes what it can from its queue and keeps it in sorted chunks, or spills it as a
//! sorted run when its share of memory is full. When the input has ended, all runs of all instances
//! are cut into ranges, smaller ones at the end, for any distribution (splitters from samples, not
//! NOW-Sort's uniform ones); a free consumer claims the next range, merged (River, 4.2; NOW-Sort,
//! 6.1). One pass if everything fits the memory, two if not.

use std::iter;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use euphrates_flow::module::{
    Bound, Configure, ExchangeServer, Inputs, InstanceFactory, Interface, NeededRows, Needs,
    OutputOrder, not_prepared,
};
use euphrates_flow::{
    Batches, Error, InputOrder, MemoryDemand, Module, ModuleSpec, Partitioned, Ports, Result,
    Setup, Shape, spec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::order_by::{SortKey, column_names, first_order, named_columns, parse_keyed, resolve};
use crate::sort::first_rows_filter::FirstRowsFilter;
use crate::sort::keys::key_encoder::KeyEncoder;
use crate::sort::range_store::RangeStore;
use crate::sort::record_layout::RecordLayout;
use crate::sort::run_generation::{RunGenerator, with_position};
use crate::sort::splitters::SplitPolicy;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "partition",
    summary: "Keeps its input in partitions, each of one range of keys, for whoever is free.",
    detail: "Its output is keyed: a consumer takes a whole partition, sorted, when it has time, \
             and the partitions are in the order of their keys. There are many, of at most about \
             16 MiB and smaller towards the end, cut where samples of the data say, so that \
             skewed keys make no large one. With `together`, records of equal keys are in one \
             partition, however large it gets: for modules that work on groups. What does not \
             fit the memory goes to scratch. `by` is written as for `sort`.",
    example: r#">>> flow = eu.Flow()
>>> integers = eu.generate("integers", rows=1000)
>>> _ = flow.chain(integers, eu.partition("n"), eu.sort("n"), eu.limit(3), eu.collect())
>>> flow.go().collected().to_pydict()
{'n': [0, 1, 2]}"#,
    memory: MemoryDemand::Adaptive,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Partition(parse_keyed(config, |config: &Config| &config.by)?))),
    ..ModuleSpec::USUAL
};

/// What to partition by.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The columns, most significant first.
    pub(crate) by: Vec<SortKey>,
    /// Keep the input's order among records with equal keys. The input must be a stream.
    #[serde(default)]
    pub(crate) stable: bool,
    /// The same, if the input is a stream; else there is no order to keep.
    #[serde(default)]
    pub(crate) stable_if_ordered: bool,
    /// Keep records with equal keys in one partition.
    #[serde(default)]
    pub(crate) together: bool,
    /// Keep at least this many records that come first, and perhaps leave out others; all if
    /// absent. A `sort` before a `limit` asks for that.
    #[serde(default)]
    pub(crate) first: Option<u64>,
}

struct Partition(Config);

impl Configure for Partition {
    fn interface(&self) -> Interface {
        let needs = Needs::PassedOn(column_names(&self.0.by));
        let needs_runs = self.0.stable;
        // Which records come first depends on the others.
        let rows = match self.0.first {
            Some(_) => NeededRows::First(named_columns(&self.0.by), first_order(&self.0.by)),
            None => NeededRows::PassedOn,
        };
        // Whole runs are taken only where their order is kept.
        let shape = self.0.stable_if_ordered.then(|| Shape {
            inputs: vec!["in".into()],
            outputs: vec!["out".into()],
            order: InputOrder::Keeps,
            parallel: true,
        });
        Interface { shape, needs_runs, is_keyed: true, needs, rows, ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let mut config = self.0.clone();
        config.stable |= config.stable_if_ordered && inputs.keeps_runs;
        if config.first.is_some() && config.together {
            let error = Error::usage("`first` would leave out records of a group");
            return Err(error.remedy("leave out `first` or `together`"));
        }
        let schema = &inputs.schemas[0];
        let mut columns = resolve(&config.by, schema)?;
        let input = match config.stable {
            true => with_position(schema, &mut columns),
            false => schema.clone(),
        };
        let layout = Arc::new(RecordLayout::new(&input, schema.clone(), columns));
        let encoder = Arc::new(KeyEncoder::adaptive(layout.held(), layout.keys().to_vec())?);
        let sorted_by = config.by.iter().map(SortKey::to_string).collect();
        let groups = config.together;
        let by = resolve(&config.by, schema)?;
        let mut slots = inputs.key_filters.iter().flatten();
        let slot = slots.next().filter(|_| config.first.is_some() && !config.stable);
        let filter = slot.and_then(|slot| FirstRowsFilter::publish(slot, schema, &by));
        let extent = slot.filter(|_| filter.is_some()).and_then(|slot| {
            let sources = slot.sources().join(" and ");
            let by = slot.columns().join(", ");
            (!sources.is_empty()).then(|| format!("may filter {sources} by the first {by}"))
        });
        let store = OnceLock::new();
        let ranges = Arc::new(LocalPartitions { config, layout, encoder, filter, store });
        Ok(Bound {
            order: OutputOrder::Runs,
            extent,
            sorted_by,
            keeps_equal_keys_together: groups,
            bytes_expected: inputs.bytes[0],
            partitioned: Some(ranges.clone()),
            exchange: Some(ranges.clone()),
            ..Bound::shared([schema.clone()], ranges)
        })
    }
}

/// The partitions of this process.
struct LocalPartitions {
    config: Config,
    layout: Arc<RecordLayout>,
    encoder: Arc<KeyEncoder>,
    /// What sources leave out rows by, if only the first are kept.
    filter: Option<Arc<FirstRowsFilter>>,
    store: OnceLock<Arc<RangeStore>>,
}

impl InstanceFactory for LocalPartitions {
    fn prepare(&self, setup: &Setup) -> Result<()> {
        let split_policy =
            if self.config.together { SplitPolicy::BetweenKeys } else { SplitPolicy::Anywhere };
        let (layout, encoder) = (self.layout.clone(), self.encoder.clone());
        let store = || Arc::new(RangeStore::new(layout, encoder, split_policy, setup));
        self.store.get_or_init(store);
        Ok(())
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let Config { stable, first, .. } = self.config;
        let first = first.map(|first| usize::try_from(first).unwrap_or(usize::MAX));
        let intake = RunGenerator::new(self.store()?, setup, first, self.filter.clone());
        Ok(Box::new(Instance { intake: Some(intake), stable }))
    }

    fn remark(&self) -> Option<String> {
        let passes = self.store.get()?.remark();
        Some(match self.config.first {
            Some(first) => format!("{passes}; kept the first {first} rows"),
            None => passes,
        })
    }
}

impl ExchangeServer for LocalPartitions {
    fn schema(&self) -> SchemaRef {
        self.layout.held().clone()
    }

    /// The records of a range in this process.
    fn serve(&self, range: u64) -> Result<Batches> {
        let ranges = self.store()?.await_ranges()?;
        // Merged when the first batch is requested.
        let merge = move || ranges.merge(range as usize);
        let batches = iter::once_with(merge).flat_map(|merged| match merged {
            Ok(merged) => Box::new(merged.into_batches()) as Batches,
            Err(error) => Box::new(iter::once(Err(error))),
        });
        Ok(Box::new(batches))
    }
}

impl LocalPartitions {
    fn store(&self) -> Result<Arc<RangeStore>> {
        self.store.get().cloned().ok_or_else(not_prepared)
    }
}

impl Partitioned for LocalPartitions {
    fn count(&self, setup: &Setup) -> Result<u64> {
        self.store()?.count(setup)
    }

    fn records(&self, partition: u64, setup: &Setup) -> Result<Batches> {
        let store = self.store()?;
        let ranges = store.await_ranges()?;
        let others = setup.exchange.fetch(partition)?;
        let merged = ranges.merge_with(partition as usize, others.into_iter().flatten())?;
        let layout = store.layout().clone();
        Ok(Box::new(merged.into_batches().map(move |batch| layout.unpack(batch?))))
    }

    fn release(&self) {
        self.store.get().into_iter().for_each(|store| store.release());
    }
}

struct Instance {
    intake: Option<RunGenerator>,
    stable: bool,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let intake = self.intake.take().expect("an instance runs once");
        if self.stable { intake.run_in_order(ports) } else { intake.run(ports) }
    }
}
