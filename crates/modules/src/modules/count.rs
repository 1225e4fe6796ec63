//! Counts rows: the smallest module with an input, an output and a state.

use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::metrics::InstanceState;
use euphrates_flow::module::{Bound, ColumnNames, Configure, Inputs, Interface, Needs};
use euphrates_flow::{Module, ModuleSpec, Ports, Result, Setup, spec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "count",
    summary: "Counts the rows of its input.",
    detail: "Output: one row with one column `count` (int64).",
    example: r#">>> flow = eu.Flow()
>>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
>>> flow.go().collected().to_pydict()
{'count': [1000]}"#,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        spec::parse_config::<Config>(config)?;
        Ok(Arc::new(Count))
    },
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {}

struct Count;

impl Configure for Count {
    fn interface(&self) -> Interface {
        Interface { needs: Needs::These(ColumnNames::default()), ..Interface::default() }
    }

    fn bind(self: Arc<Self>, _: &Inputs) -> Result<Bound> {
        let field = Field::new("count", DataType::Int64, false);
        let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
        let output = schema.clone();
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let schema = schema.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                let mut rows = 0;
                while let Some(batch) = ports.get(0)? {
                    rows += batch.num_rows() as i64;
                }
                let setup = ports.setup().clone();
                let all = {
                    let _waits = ports.metrics().enter(InstanceState::Starved);
                    setup.all_gather("rows", rows.to_le_bytes().to_vec())?
                };
                // Only the first instance puts the total.
                if setup.instance > 0 {
                    return Ok(());
                }
                let number =
                    |value: &Vec<u8>| value.as_slice().try_into().map(i64::from_le_bytes).ok();
                let total: i64 = all.iter().filter_map(number).sum();
                let schema = schema.clone();
                let column = Arc::new(Int64Array::from(vec![total]));
                ports.put(0, RecordBatch::try_new(schema, vec![column])?)
            }))
        };
        Ok(Bound::new([output], instance))
    }
}
