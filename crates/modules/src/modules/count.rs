//! Counts rows: the smallest module that has an input, an output and a state.

use std::sync::{Arc, Mutex};

use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::spec::{self, IN, OUT};
use euphrates_flow::{Effect, Module, ModuleSpec, Order, Placed, Ports, Result, Setup};
use schemars::JsonSchema;
use serde::Deserialize;

/// The module.
pub static MODULE: ModuleSpec = ModuleSpec {
    name: "count",
    summary: "Counts the rows of its input.",
    detail: "Output: one row with one column `count` (int64).",
    inputs: IN,
    outputs: OUT,
    order: Order::Any,
    effect: Effect::Pure,
    parallel: true,
    wants_memory: false,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        spec::parse_config::<Config>(config)?;
        Ok(Arc::new(Count::default()))
    },
};

/// Nothing to configure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {}

#[derive(Default)]
struct Count {
    /// Rows counted by the instances that have ended, and how many those are.
    total: Mutex<(i64, usize)>,
}

impl Placed for Count {
    fn schemas(&self, _: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        Ok(vec![Arc::new(Schema::new(vec![Field::new("count", DataType::Int64, false)]))])
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let instances = setup.instances;
        Ok(Box::new(move |ports: &mut Ports| {
            let mut rows = 0;
            while let Some(batch) = ports.get(0)? {
                rows += batch.num_rows() as i64;
            }
            // The last instance to end speaks for all.
            let total = {
                let mut total = self.total.lock().unwrap_or_else(|e| e.into_inner());
                *total = (total.0 + rows, total.1 + 1);
                (total.1 == instances).then_some(total.0)
            };
            match total {
                Some(total) => {
                    let schema = self.schemas(&[])?.remove(0);
                    let column = Arc::new(Int64Array::from(vec![total]));
                    ports.put(0, RecordBatch::try_new(schema, vec![column])?)
                }
                None => Ok(()),
            }
        }))
    }
}
