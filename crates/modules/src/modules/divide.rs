//! Partitions rows by fixed ranges of keys, without looking at the data.
//!
//! NOW-Sort and the Beowulf's bucket sort assign records to machines in this way: the ranges are of
//! one size, and each has its owner from the start (Berkeley NOW, 6; Beowulf out-of-core sort,
//! 3.1). Skewed keys fill one range, and a slow owner delays the whole sort. `partition` has
//! neither problem.

use euphrates_flow::module::{Bound, Configure, Inputs};
use euphrates_flow::{Module, ModuleSpec, PortNames, Ports, Result, Setup, spec, split_batch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

use crate::open_outputs::OpenOutputs;
use crate::order_by::{SortKey, parse_keyed, resolve};
use crate::partitioning::scatter::scatter_to;
use crate::sort::keys::key_encoder::KeyEncoder;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "divide",
    summary: "Gives each row to the output that has its range of keys, of ranges of one size.",
    detail: "As many outputs as are attached; the first has the keys that sort first. Ranges \
             divide all that the type of the key could hold, not what is there; if the column is \
             nullable, null takes half of the ranges. This suits keys that are spread evenly, \
             like those of the sort benchmark. `by` is written as for `sort`. Use `partition` \
             for ranges that follow the data and go to any free consumer; this module is for \
             comparison.",
    example: r#">>> flow = eu.Flow()
>>> divided = flow.chain(eu.generate("records", rows=1000), eu.divide("key"))
>>> low, high = divided >> eu.collect(), divided >> eu.collect()
>>> report = flow.go()
>>> report.collected(low).num_rows, report.collected(high).num_rows
(529, 471)"#,
    outputs: PortNames::Many,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Divide(parse_keyed(config, |config: &Config| &config.by)?))),
    ..ModuleSpec::USUAL
};

/// What to divide by.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The columns, most significant first.
    pub(crate) by: Vec<SortKey>,
}

struct Divide(Config);

impl Configure for Divide {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let columns = resolve(&self.0.by, &inputs.schemas[0])?;
        let encoder = Arc::new(KeyEncoder::new(&inputs.schemas[0], columns)?);
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let encoder = encoder.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                let outputs = ports.outputs();
                let mut open = OpenOutputs::all(outputs);
                while let Some(batch) = ports.get(0)? {
                    for batch in split_batch(batch) {
                        let keys = encoder.encode(&batch, 0)?.packed.into_iter();
                        let ranges: Vec<u32> =
                            keys.map(|key| encoder.range_of(key, outputs as u32)).collect();
                        let scattered = scatter_to(&batch, &ranges, outputs)?;
                        open.each_of(
                            |output| scattered.rows(output) > 0,
                            |output| ports.put(output, scattered.part(output)),
                        )?;
                    }
                }
                Ok(())
            }))
        };
        Ok(Bound::new([inputs.schemas[0].clone()], instance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, rows};
    use arrow::array::{ArrayRef, AsArray, FixedSizeBinaryArray, StringArray};
    use arrow::datatypes::{Field, Int64Type, Schema, UInt8Type};
    use arrow::record_batch::RecordBatch;
    use proptest::prelude::*;
    use serde_json::json;

    /// The rows in the first and in the second half of the key range.
    fn halves(column: ArrayRef, by: &str) -> [RecordBatch; 2] {
        let field = Field::new("n", column.data_type().clone(), false);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
        let harness = Harness::new(&MODULE, json!({"by": [by]}));
        let (outputs, outcome) = harness.input(schema.clone(), &[batch]).run();
        outcome.unwrap();
        [0, 1].map(|output| rows(&outputs[output], schema.clone()))
    }

    proptest! {
        #[test]
        fn integers_are_divided_in_the_middle(values in prop::collection::vec(any::<i64>(), 1..9)) {
            let column = Arc::new(arrow::array::Int64Array::from(values.clone()));
            for (by, is_first) in
                [("n", (|value| value < 0) as fn(i64) -> bool), ("n desc", |value| value >= 0)]
            {
                let halves = halves(column.clone(), by);
                let half = |at: usize| halves[at].column(0).as_primitive::<Int64Type>().values();
                let (first, second): (Vec<i64>, Vec<i64>) =
                    values.iter().partition(|value| is_first(**value));
                prop_assert_eq!((half(0).to_vec(), half(1).to_vec()), (first, second));
            }
        }
    }

    #[test]
    fn narrow_and_wide_keys_divide_equally() {
        let narrow = halves(Arc::new(arrow::array::UInt8Array::from(vec![200, 127, 0, 128])), "n");
        let first = narrow[0].column(0).as_primitive::<UInt8Type>().values().to_vec();
        assert_eq!((first, narrow[1].num_rows()), (vec![127, 0], 2));
        let keys = [[0x7f; 10], [0x80; 10], [0xff; 10]];
        let keys = FixedSizeBinaryArray::try_from_iter(keys.iter()).unwrap();
        assert_eq!(halves(Arc::new(keys), "n").map(|half| half.num_rows()), [1, 2]);
        let texts = StringArray::from(vec!["a", "\u{7f}", "é", ""]);
        assert_eq!(halves(Arc::new(texts), "n").map(|half| half.num_rows()), [4, 0]);
    }
}
