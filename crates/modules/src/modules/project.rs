//! Selects, computes and renames columns.

use arrow::datatypes::SchemaRef;
use euphrates_flow::module::{Bound, Configure, Inputs, Interface, Needs};
use euphrates_flow::{
    Error, InputOrder, Module, ModuleSpec, Ports, RecoveryClass, Result, Setup, spec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

use crate::expression::{Budget, column_names_of, copied_column, parse_projection};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "project",
    summary: "Chooses, computes and names columns.",
    detail: "Each item is a column's name, `*`, `* exclude (a, b)`, or an SQL expression with a \
             name: `l_extendedprice * (1 - l_discount) as revenue`. The columns come out in this \
             order. Arithmetic that overflows, and a division by zero, fail.",
    example: r#">>> orders = eu.from_arrow({"city": ["Ur", "Kish"], "price": [2, 3], "n": [4, 1]})
>>> flow = eu.Flow()
>>> _ = flow.chain(orders, eu.project(["city", "price * n as revenue"]), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Kish'], 'revenue': [8, 3]}"#,
    order: InputOrder::Keeps,
    recovery: RecoveryClass::ByUnit,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        if config.columns.is_empty() {
            return Err(Error::usage("`columns` is empty").remedy("name at least one"));
        }
        Ok(Arc::new(Project(config)))
    },
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Names of columns, `*`, and expressions like `a + b as sum`.
    pub(crate) columns: Vec<String>,
}

struct Project(Config);

impl Configure for Project {
    fn interface(&self) -> Interface {
        let texts = self.0.columns.iter().map(String::as_str);
        let computed = column_names_of(texts.clone().filter(|text| *text != "*"));
        let needs = match computed {
            None => Needs::All,
            // What is computed is no column of the input.
            Some(names) if texts.clone().any(|text| text == "*") => {
                Needs::Joined(names, String::new())
            }
            Some(names) => Needs::These(names),
        };
        Interface { needs, ..Interface::default() }
    }

    fn key_source(&self, column: &str, _: usize, _: &[Option<SchemaRef>]) -> Option<String> {
        copied_column(&self.0.columns, column)
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let projection = parse_projection(&self.0.columns, &inputs.schemas[0]);
        let projection = Arc::new(projection.map_err(|error| error.at("columns"))?);
        let schema = projection.schema().clone();
        let instance = move |setup: &Setup| -> Result<Box<dyn Module>> {
            let (projection, budget) = (projection.clone(), Budget::of(setup));
            Ok(Box::new(move |ports: &mut Ports| {
                while let Some(batch) = ports.get(0)? {
                    projection.evaluate(&batch, &budget, &mut |slice| ports.put(0, slice))?;
                }
                Ok(())
            }))
        };
        Ok(Bound { bytes_expected: inputs.bytes[0], ..Bound::new([schema], instance) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, check, integers};
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::record_batch::RecordBatch;
    use serde_json::json;

    #[test]
    fn columns_are_computed_and_named() {
        let column = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let expected = RecordBatch::try_from_iter([
            ("twice", column(vec![2, 4, 6])),
            ("n", column(vec![1, 2, 3])),
        ]);
        let input = [integers([1, 2]), integers([3])];
        check(&MODULE, json!({"columns": ["n*2 as twice", "*"]}), &input, &expected.unwrap());
    }

    #[test]
    fn the_runs_of_the_input_are_passed_on() {
        let runs = [vec![], vec![integers([1])]];
        let harness = Harness::new(&MODULE, json!({"columns": ["n"]}));
        let (outputs, outcome) = harness.stream(integers([]).schema(), &runs).run();
        outcome.unwrap();
        let batch = Item::Batch(integers([1]));
        let expected = [Item::Begin(0), Item::End(0), Item::Begin(1), batch, Item::End(1)];
        assert_eq!(outputs[0], expected);
    }

    #[test]
    fn a_fault_in_a_value_names_the_expression() {
        let input = [integers([1, 0])];
        let harness = Harness::new(&MODULE, json!({"columns": ["10 / n as q"]}));
        let (_, outcome) = harness.input(input[0].schema(), &input).run();
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("`10 / n`") && error.contains("ivide by zero"), "{error}");
    }

    #[test]
    fn a_fault_in_a_value_names_the_first_row_that_has_it() {
        let input = [integers(1..100), integers((0..5000).map(|n| 1400 - n))];
        let harness = Harness::new(&MODULE, json!({"columns": ["10 / n as q"]}));
        let (_, outcome) = harness.input(input[0].schema(), &input).run();
        let error = outcome.unwrap_err();
        let row = error.row().unwrap();
        assert_eq!(row.about, "row 1400 of a batch of its input");
        assert_eq!(row.values[0].text.as_deref(), Some("0"));
        assert!(error.to_string().contains("\n  row: row 1400 of"), "{error}");
    }
}
