//! Computes window functions: values of a row that depend on others of its partition.
//!
//! A `partition` before it keeps the rows of each partition together, on disk if need be; a free
//! instance claims the next ones, sorts them by their order, and computes all values of them in
//! memory. So a slow instance has fewer partitions (River, 4.2).

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use euphrates_flow::error::unknown_column;
use euphrates_flow::module::{Bound, Configure, Inputs, Interface, Needs, OutputOrder};
use euphrates_flow::row::Row;
use euphrates_flow::{
    Batches, Error, Kind, MemoryDemand, Module, ModuleSpec, Ports, Result, Setup, batch_bytes,
    spec, split_batch,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::aggregate::config::Named;
use crate::expression;
use crate::order_by::{SortKey, column_names, resolve};
use crate::sort::in_memory::sorted;
use crate::sort::keys::key_encoder::KeyEncoder;
use crate::sort::keys::key_layout::KeyColumn;
use crate::sort::record_layout::RecordLayout;
use crate::window::plan::WindowPlan;
use crate::window::syntax::parse;

/// Bytes that a partition takes while its values are computed, for each byte of its rows: the rows
/// as they come, sorted, and with their values.
const COPIES: usize = 3;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "window",
    summary: "Computes values of each row from other rows of its partition: ranks, running sums.",
    detail: "`values` says what: `{\"rank\": \"rank()\", \"so_far\": \"sum(price)\"}`. There are \
             `row_number`, `rank`, `dense_rank`, `percent_rank`, `cume_dist`, `ntile(n)`, \
             `lag(x, n, default)`, `lead`, `first_value`, `last_value`, `nth_value(x, n)`, and \
             all functions of `aggregate`, as `median(x)` or `count(distinct x)`. These see the \
             rows of the partition up to the current one and those that are equal to it in \
             order, or all if there is no `order_by`; `over (rows between 6 preceding and \
             current row)` says otherwise, with `rows`, `range` or `groups`. `ignore nulls` passes \
             over nulls. The rows come out \
             sorted by partition and order. A `partition` is placed before it; the rows of one \
             partition must fit the memory.",
    example: r#">>> rows = {"city": ["Ur", "Ur", "Uruk"], "day": [2, 1, 1], "n": [5, 3, 4]}
>>> so_far = eu.window(["city"], order_by=["day"], values={"total": "sum(n)"})
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.from_arrow(rows), so_far, eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Ur', 'Uruk'], 'day': [1, 2, 1], 'n': [3, 5, 4], 'total': [3, 8, 4]}"#,
    memory: MemoryDemand::Adaptive,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        if config.partition_by.is_empty() {
            let error = Error::usage("`partition_by` is empty");
            return Err(error.remedy("for one window of all rows, name a column of a constant"));
        }
        Ok(Arc::new(Window(config)))
    },
    ..ModuleSpec::USUAL
};

/// The windows, and what to compute in them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The columns whose values make a partition.
    pub(crate) partition_by: Vec<String>,
    /// The order within a partition, as for `sort`.
    #[serde(default)]
    pub(crate) order_by: Vec<SortKey>,
    /// Names, and what stands under each: a function, with a frame if it is not the usual one.
    pub(crate) values: Named,
}

struct Window(Config);

impl Window {
    /// The columns that it reads; it passes on the others.
    fn needs(&self) -> Needs {
        let mut names = column_names(&self.0.order_by);
        self.0.partition_by.iter().for_each(|name| names.add(name));
        for (_, text) in &self.0.values.0 {
            let Ok(call) = parse(text) else { return Needs::All };
            for arg in call.args {
                let Some(read) = expression::column_names(&arg) else { return Needs::All };
                names.merge_possible(&read);
            }
        }
        // Names that are no columns of the input are values.
        Needs::Joined(names, String::new())
    }

    fn by(&self) -> Vec<SortKey> {
        let spelled = |name: &String| SortKey::of_column(name);
        self.0.partition_by.iter().map(spelled).collect()
    }
}

impl Configure for Window {
    fn interface(&self) -> Interface {
        let config = json!({"by": self.by(), "together": true});
        let partitioner = Some(("partition", config));
        Interface { partitioner, needs: self.needs(), ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let schema = &inputs.schemas[0];
        let of_name = |name: &String| {
            schema.index_of(name).map_err(|_| unknown_column(name, schema).at("partition_by"))
        };
        let partition_by = self.0.partition_by.iter().map(of_name).collect::<Result<Vec<_>>>()?;
        let order_by = resolve(&self.0.order_by, schema).map_err(|error| error.at("order_by"))?;
        let values = &self.0.values.0;
        let plan = WindowPlan::new(schema, partition_by.clone(), order_by.clone(), values)?;
        let ascending = |column: usize| KeyColumn { column, descending: false, nulls_first: false };
        let keys = partition_by.into_iter().map(ascending).chain(order_by).collect();
        let layout = RecordLayout::new(schema, schema.clone(), keys);
        // Fails here if the columns cannot be keys.
        KeyEncoder::adaptive(layout.held(), layout.keys().to_vec())?;
        let by = self.by().into_iter().chain(self.0.order_by.iter().cloned());
        let sorted_by = by.map(|key| key.to_string()).collect();
        let output = plan.output.clone();
        let (plan, layout) = (Arc::new(plan), Arc::new(layout));
        let input = schema.clone();
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (plan, layout, input) = (plan.clone(), layout.clone(), input.clone());
            Ok(Box::new(Instance { plan, layout, input }))
        };
        Ok(Bound {
            order: OutputOrder::Runs,
            sorted_by,
            bytes_expected: inputs.bytes[0],
            ..Bound::new([output], instance)
        })
    }
}

struct Instance {
    plan: Arc<WindowPlan>,
    layout: Arc<RecordLayout>,
    input: SchemaRef,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let reservation = ports.setup().memory.reservation();
        while let Some(partition) = ports.next_partition(0)? {
            ports.begin_run(0, partition.run())?;
            let taken = partition.records().and_then(|records| self.taken(records, ports));
            let taken = taken.map_err(of_partition)?;
            let bytes: usize = taken.iter().map(batch_bytes).sum();
            reservation.resize(bytes * COPIES);
            let records: Batches = Box::new(taken.into_iter().map(Ok));
            let ordered = sorted(records, self.layout.clone())
                .and_then(Iterator::collect::<Result<Vec<_>>>)
                .map_err(of_partition)?;
            let whole = concat_batches(&self.input, &ordered)?;
            drop(ordered);
            for batch in split_batch(self.plan.evaluate(&whole, ports.setup().budget_bytes / 2)?) {
                ports.put(0, batch)?;
            }
            ports.end_run(0)?;
            reservation.resize(0);
        }
        Ok(())
    }
}

impl Instance {
    /// The records of a partition. Fails if they are too large for the memory.
    fn taken(&self, records: Batches, ports: &mut Ports) -> Result<Vec<RecordBatch>> {
        let limit = ports.setup().budget_bytes / 2 / COPIES;
        let (mut taken, mut bytes) = (vec![], 0);
        for batch in records {
            let batch = batch?;
            ports.metrics().got(batch.num_rows(), batch_bytes(&batch));
            bytes += batch_bytes(&batch);
            if bytes > limit {
                return Err(too_large(&batch));
            }
            taken.push(batch);
        }
        Ok(taken)
    }
}

/// An error of a resource says that a partition needed it: its rows are held together.
fn of_partition(error: Error) -> Error {
    match error.kind() {
        Kind::Resource => error.at("the rows of a window's partition"),
        _ => error,
    }
}

/// The error for rows that do not fit the memory, with one of them.
fn too_large(rows: &RecordBatch) -> Error {
    let error = Error::resource("they exceed the memory");
    let error = error.remedy("partition by more columns, or give the flow more memory");
    match rows.num_rows() {
        0 => error,
        _ => error.in_row(|| Row::of(rows, 0, "one of them")),
    }
}
