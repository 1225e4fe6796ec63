//! Sorts any number of records by any number of columns.
//!
//! The `partition` before it takes all input, sorted in runs, and cuts it into ranges of keys. Each
//! instance claims the next range when it is free and merges it, so a slow one merges fewer. Every
//! range is put as one run, so consumers are balanced too and still know the order (River, Fig. 8).
//! Behind a `partition` by other columns it sorts the records of each partition.

use std::sync::Arc;

use euphrates_flow::module::{Bound, Configure, Inputs, Interface, NeededRows, Needs, OutputOrder};
use euphrates_flow::{Batches, Module, ModuleSpec, Ports, Result, Setup, batch_bytes, spec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::order_by::{SortKey, column_names, parse_keyed, resolve};
use crate::sort::in_memory::sorted;
use crate::sort::keys::key_encoder::KeyEncoder;
use crate::sort::record_layout::RecordLayout;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "sort",
    summary: "Sorts its input by one or more columns, spilling to disk what does not fit.",
    detail: "Each key is a column name, `\"price desc\"`, `\"name asc nulls first\"`, or an object \
             with `column`, `descending`, `nulls_first`. Nulls come last unless asked for first. \
             Zeros of either sign are equal, and NaN comes behind all numbers; lists and structs \
             are compared by their first difference, their nulls wherever the column's own would \
             come. Before a `limit`, only as many records are kept. The output is a stream of runs \
             in order: `save` and `write` keep it. A `partition` is placed before it unless one is \
             there: it takes the input in, and the sort's instances take its partitions.",
    example: r#">>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
>>> flow = eu.Flow()
>>> _ = flow.chain(orders, eu.sort(["city", "price desc"]), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Ur', 'Uruk'], 'price': [5, 2, 3]}"#,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Sort(parse_keyed(config, |config: &Config| &config.by)?))),
    ..ModuleSpec::USUAL
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

struct Sort(Config);

impl Configure for Sort {
    fn interface(&self) -> Interface {
        let Config { by, stable } = &self.0;
        let config = match stable {
            true => json!({"by": by, "stable": true}),
            false => json!({"by": by}),
        };
        let needs = Needs::PassedOn(column_names(by));
        let partitioner = Some(("partition", config));
        let rows = NeededRows::PassedOn;
        Interface { partitioner, keeps_first: true, needs, rows, ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let schema = &inputs.schemas[0];
        let columns = resolve(&self.0.by, schema)?;
        let layout = RecordLayout::new(schema, schema.clone(), columns);
        // Fails here if the columns cannot be keys.
        KeyEncoder::adaptive(layout.held(), layout.keys().to_vec())?;
        let by: Vec<String> = self.0.by.iter().map(SortKey::to_string).collect();
        let sorts = match inputs.sorted_by.starts_with(&by) {
            true => None,
            false => Some(Arc::new(layout)),
        };
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            Ok(Box::new(Instance { sorts: sorts.clone() }))
        };
        // If the partitions come sorted by fewer keys, only these are certain.
        let is_prefix = by.starts_with(inputs.sorted_by);
        let sorted_by = if is_prefix { inputs.sorted_by.to_vec() } else { vec![] };
        Ok(Bound {
            order: OutputOrder::Runs,
            sorted_by,
            bytes_expected: inputs.bytes[0],
            ..Bound::new([schema.clone()], instance)
        })
    }
}

struct Instance {
    /// Sorts each partition; none if the partitions come sorted.
    sorts: Option<Arc<RecordLayout>>,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        while let Some(partition) = ports.next_partition(0)? {
            ports.begin_run(0, partition.run())?;
            for batch in self.in_order(partition.records()?)? {
                let batch = batch?;
                ports.metrics().got(batch.num_rows(), batch_bytes(&batch));
                ports.put(0, batch)?;
            }
            ports.end_run(0)?;
        }
        Ok(())
    }
}

impl Instance {
    fn in_order(&self, records: Batches) -> Result<Batches> {
        match &self.sorts {
            Some(layout) => sorted(records, layout.clone()),
            None => Ok(records),
        }
    }
}
