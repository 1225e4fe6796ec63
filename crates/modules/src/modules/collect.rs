//! Collects all rows for the program that started the flow.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::check::names::exportable;
use euphrates_flow::module::{
    Bound, Collected, Configure, Inputs, InstanceFactory, PlacementConstraint,
};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{InputOrder, Module, ModuleSpec, Ports, Result, Setup};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "collect",
    summary: "Keeps the rows in memory, for the program that started the flow.",
    detail: "`report.collected()` gives them to anything that reads Arrow, without copying. The \
             order of a stream is kept.",
    example: r#">>> flow = eu.Flow()
>>> kept = flow.chain(eu.from_arrow({"city": ["Ur", "Uruk"]}), eu.collect())
>>> flow.go().collected(kept).to_pydict()
{'city': ['Ur', 'Uruk']}"#,
    outputs: NONE,
    order: InputOrder::Ordered,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        spec::parse_config::<Config>(config)?;
        Ok(Arc::new(Collect))
    },
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {}

struct Collect;

impl Configure for Collect {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let schema = inputs.schemas[0].clone();
        exportable(&schema)?;
        let rows = CollectedRows { schema, batches: Mutex::default() };
        Ok(Bound { spread: PlacementConstraint::Home, ..Bound::new([], rows) })
    }
}

struct CollectedRows {
    schema: SchemaRef,
    batches: Mutex<Vec<RecordBatch>>,
}

impl InstanceFactory for CollectedRows {
    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
        Ok(Box::new(move |ports: &mut Ports| {
            while let Some(batch) = ports.get(0)? {
                self.batches.lock().push(batch);
            }
            Ok(())
        }))
    }

    fn abandon(&self) {
        self.batches.lock().clear();
    }

    fn collected(&self) -> Option<Collected> {
        let batches = std::mem::take(&mut *self.batches.lock());
        Some(Collected { schema: self.schema.clone(), batches })
    }
}
