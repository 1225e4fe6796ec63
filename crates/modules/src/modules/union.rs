//! Unites several inputs into one output.

use euphrates_flow::module::{Bound, Configure, Inputs};
use euphrates_flow::{Module, ModuleSpec, PortNames, Ports, Result, Setup, Taken, spec};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

use crate::batches::schema_compatibility::{common_schema, conform};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "union",
    summary: "Passes on the rows of all its inputs.",
    detail: "As many inputs as are attached, with the same columns in the same order. Types may \
             differ in how values are laid out (text in a dictionary or not, large lists, the \
             names of items), but not in what they are; decimals are widened to one that has the \
             digits of all. Rows are taken from whichever input has \
             some; duplicates are kept, and no order is.",
    example: r#">>> flow = eu.Flow()
>>> union = flow.chain(eu.from_arrow({"n": [3, 1]}), eu.union())
>>> _ = flow.chain(eu.from_arrow({"n": [2, 1]}), union, eu.sort("n"), eu.collect())
>>> flow.go().collected().to_pydict()
{'n': [1, 1, 2, 3]}"#,
    inputs: PortNames::Many,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        spec::parse_config::<Config>(config)?;
        Ok(Arc::new(Union))
    },
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {}

struct Union;

impl Configure for Union {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let schema = Arc::new(common_schema(inputs.schemas)?);
        let output = schema.clone();
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let schema = schema.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                let mut live: Vec<usize> = (0..ports.inputs()).collect();
                while let Some(input) = ports.select(&live)? {
                    match ports.try_get(input)? {
                        Taken::Batch(parcel) => ports.put(0, conform(parcel.batch, &schema)?)?,
                        Taken::End => live.retain(|other| *other != input),
                        Taken::Empty | Taken::RunEnd(_) => {}
                    }
                    // `select` prefers the first ready input; rotating makes it fair.
                    if !live.is_empty() {
                        live.rotate_left(1);
                    }
                }
                Ok(())
            }))
        };
        let bytes_expected = inputs.bytes.iter().copied().sum();
        Ok(Bound { bytes_expected, ..Bound::new([output], instance) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, integers, rows};
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use arrow::record_batch::RecordBatch;
    use proptest::prelude::*;
    use serde_json::json;

    fn union(inputs: &[Vec<RecordBatch>]) -> (Vec<i64>, Result<()>) {
        let harness = Harness::new(&MODULE, json!({}));
        let schema = |batches: &[RecordBatch]| match batches.first() {
            Some(batch) => batch.schema(),
            None => integers([]).schema(),
        };
        let harness =
            inputs.iter().fold(harness, |harness, batches| harness.input(schema(batches), batches));
        let (outputs, outcome) = harness.run();
        let all = outputs.first().map(|output| rows(output, integers([]).schema()));
        let all = all.map(|all| all.column(0).as_primitive::<Int64Type>().values().to_vec());
        (all.unwrap_or_default(), outcome)
    }

    proptest! {
        #[test]
        fn union_loses_no_rows(
            inputs in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(0i64..99, 1..5), 0..6), 1..9),
        ) {
            let batches: Vec<Vec<_>> = inputs
                .iter()
                .map(|batches| batches.iter().map(|rows| integers(rows.clone())).collect())
                .collect();
            let (mut all, outcome) = union(&batches);
            outcome.unwrap();
            let mut expected: Vec<i64> = inputs.into_iter().flatten().flatten().collect();
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn rows_of_every_input_have_common_schema() {
        let column = |nullable| {
            let schema = Schema::new(vec![Field::new("n", DataType::Int64, nullable)]);
            let values: ArrayRef = Arc::new(Int64Array::from(vec![1]));
            RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap()
        };
        let inputs = [column(false), column(true)];
        let harness = Harness::new(&MODULE, json!({}));
        let harness = inputs.iter().fold(harness, |harness, batch| {
            harness.input(batch.schema(), std::slice::from_ref(batch))
        });
        let (outputs, outcome) = harness.run();
        outcome.unwrap();
        assert_eq!(outputs[0].len(), 2);
        for item in &outputs[0] {
            let Item::Batch(batch) = item else { panic!("no runs are made") };
            assert_eq!(batch.schema(), inputs[1].schema());
        }
    }

    #[test]
    fn differing_inputs_are_described() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        for (columns, expected) in [
            (vec![("n", text)], "`n` is Int64, and Utf8"),
            (vec![("m", number.clone())], "`n` is `m`"),
            (vec![("n", number.clone()), ("o", number)], "`o` is missing in the first"),
        ] {
            let other = RecordBatch::try_from_iter(columns).unwrap();
            let (_, outcome) = union(&[vec![integers([1])], vec![other]]);
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("inputs 0 and 1 differ") && error.contains(expected), "{error}");
        }
    }
}
