//! Sorts any number of records by any number of columns.
//!
//! The `partition` before it takes all input, sorted in runs, and cuts it into ranges of keys. Each
//! instance claims the next range when it is free and merges it, so a slow one merges fewer. Every
//! range is put as one run, so consumers are balanced too and still know the order (River, Fig. 8).
//! Behind a `partition` by other columns it sorts the records of each partition.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use euphrates_flow::spec::{self, IN, OUT};
use euphrates_flow::{
    Batches, Effect, Module, ModuleSpec, Order, Placed, Ports, Result, Setup, batch_bytes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::order_by::{SortKey, check_not_empty, resolve};
use crate::sort::in_memory::sorted;
use crate::sort::record_layout::Layout;
use crate::sort::sort_keys::KeyEncoder;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "sort",
    summary: "Sorts its input by one or more columns, spilling to disk what does not fit.",
    detail: "Each key is a column name, `\"price desc\"`, `\"name asc nulls first\"`, or an object \
             with `column`, `descending`, `nulls_first`. Nulls come last unless asked for first. \
             Zeros of either sign are equal, and NaN comes behind all numbers; lists and structs \
             are compared by their first difference, their nulls wherever the column's own would \
             come. The output is a stream of runs in order: `save` and `write` keep it. A \
             `partition` is placed before it unless one is there: it takes the input in, and the \
             sort's instances take its partitions.",
    inputs: IN,
    outputs: OUT,
    order: Order::Any,
    effect: Effect::Pure,
    parallel: true,
    wants_memory: false,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        let config: Config = spec::parse_config(config)?;
        check_not_empty(&config.by)?;
        Ok(Arc::new(Sort { config, form: Mutex::default(), comes_sorted: false.into() }))
    },
};

/// What to sort by.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The columns, most significant first.
    pub(crate) by: Vec<SortKey>,
    /// Keep the input's order among records with equal keys. The input must be a stream.
    #[serde(default)]
    pub(crate) stable: bool,
}

struct Sort {
    config: Config,
    /// Known once the flow is checked.
    form: Mutex<Option<(Arc<Layout>, Arc<KeyEncoder>)>>,
    /// Whether the partitions are already sorted as required.
    comes_sorted: AtomicBool,
}

impl Placed for Sort {
    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        let columns = resolve(&self.config.by, &inputs[0])?;
        let layout = Layout::new(&inputs[0], inputs[0].clone(), columns);
        let encoder = KeyEncoder::new(layout.held(), layout.keys().to_vec())?;
        let mut form = self.form.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *form = Some((Arc::new(layout), Arc::new(encoder)));
        Ok(vec![inputs[0].clone()])
    }

    fn partitioner(&self) -> Option<(&'static str, Value)> {
        let Config { by, stable } = &self.config;
        let config = match stable {
            true => json!({"by": by, "stable": true}),
            false => json!({"by": by}),
        };
        Some(("partition", config))
    }

    fn bytes_expected(&self, inputs: &[Option<u64>]) -> Option<u64> {
        inputs[0]
    }

    fn is_ordered(&self, _: bool, _: bool) -> bool {
        true
    }

    /// All keys if the partitions come sorted by them; else only the keys that the partitions are
    /// sorted by, if they are a prefix of the required ones.
    fn sorted_by(&self, input: &[String]) -> Vec<String> {
        let by: Vec<String> = self.config.by.iter().map(SortKey::to_string).collect();
        self.comes_sorted.store(input.starts_with(&by), Relaxed);
        if by.starts_with(input) { input.to_vec() } else { vec![] }
    }

    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        Ok(Box::new(Instance(self)))
    }
}

struct Instance(Arc<Sort>);

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        while let Some(partition) = ports.next_partition(0)? {
            ports.begin_run(0, partition.run())?;
            for batch in self.0.in_order(partition.records()?)? {
                let batch = batch?;
                ports.metrics().got(batch.num_rows(), batch_bytes(&batch));
                ports.put(0, batch)?;
            }
            ports.end_run(0)?;
        }
        Ok(())
    }
}

impl Sort {
    fn in_order(&self, records: Batches) -> Result<Batches> {
        if self.comes_sorted.load(Relaxed) {
            return Ok(records);
        }
        let form = self.form.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (layout, encoder) = form.clone().expect("schemas() has been called");
        drop(form);
        sorted(records, layout, encoder)
    }
}
