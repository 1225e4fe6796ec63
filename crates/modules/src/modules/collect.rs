//! Collects all rows for the program that started the flow.

use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::check::names::exportable;
use euphrates_flow::module::Collected;
use euphrates_flow::spec::{self, IN, NONE};
use euphrates_flow::{Effect, Module, ModuleSpec, Order, Placed, Ports, Result, Setup, Spread};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "collect",
    summary: "Keeps the rows in memory, for the program that started the flow.",
    detail: "`report.collected()` gives them to anything that reads Arrow, without copying. The \
             order of a stream is kept.",
    inputs: IN,
    outputs: NONE,
    order: Order::Ordered,
    effect: Effect::Pure,
    parallel: false,
    wants_memory: false,
    config_schema: spec::schema_of::<Config>,
    place: |config| {
        spec::parse_config::<Config>(config)?;
        Ok(Arc::new(Collect::default()))
    },
};

/// Nothing to configure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {}

#[derive(Default)]
struct Collect {
    schema: Mutex<Option<SchemaRef>>,
    batches: Mutex<Vec<RecordBatch>>,
}

impl Placed for Collect {
    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        exportable(&inputs[0])?;
        *self.schema.lock().unwrap_or_else(|e| e.into_inner()) = Some(inputs[0].clone());
        Ok(vec![])
    }

    fn spread(&self) -> Spread {
        Spread::Home
    }

    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        Ok(Box::new(move |ports: &mut Ports| {
            while let Some(batch) = ports.get(0)? {
                self.batches.lock().unwrap_or_else(|e| e.into_inner()).push(batch);
            }
            Ok(())
        }))
    }

    fn abandon(&self) {
        self.batches.lock().unwrap_or_else(|e| e.into_inner()).clear();
    }

    fn collected(&self) -> Option<Collected> {
        let schema = self.schema.lock().unwrap_or_else(|e| e.into_inner()).clone()?;
        let batches = std::mem::take(&mut *self.batches.lock().unwrap_or_else(|e| e.into_inner()));
        Some(Collected { schema, batches })
    }
}
