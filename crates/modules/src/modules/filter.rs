//! Keeps the rows for which a condition is true.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::{Bound, Configure, Inputs, Interface, NeededRows, Needs};
use euphrates_flow::{InputOrder, Module, ModuleSpec, Ports, RecoveryClass, Result, Setup, spec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::batches::coalescer::Coalescer;
use crate::batches::run_preserving::{RunStep, process_in_runs};
use crate::expression::{Budget, Expression, column_names, compares_alone};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "filter",
    summary: "Keeps the rows for which a condition is true.",
    detail: "The condition is SQL, like `l_quantity > 30 and l_shipmode in ('AIR', 'RAIL')`. A row \
             for which it is null is left out. Arithmetic that overflows, and a division by zero, \
             fail. A `scan` before it skips row groups without such rows, if the condition \
             compares columns with literals.",
    example: r#">>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
>>> flow = eu.Flow()
>>> _ = flow.chain(orders, eu.filter("city = 'Ur' and price > 2"), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur'], 'price': [5]}"#,
    order: InputOrder::Keeps,
    recovery: RecoveryClass::ByUnit,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Filter(spec::parse_config(config)?))),
    ..ModuleSpec::USUAL
};

/// Which rows to keep.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// A condition in SQL.
    #[serde(rename = "where")]
    pub(crate) condition: String,
}

struct Filter(Config);

impl Configure for Filter {
    fn interface(&self) -> Interface {
        let needs = column_names(&self.0.condition).map_or(Needs::All, Needs::PassedOn);
        let rows = NeededRows::Where(self.0.condition.clone());
        Interface { needs, rows, ..Interface::default() }
    }

    fn key_source(&self, column: &str, _: usize, _: &[Option<SchemaRef>]) -> Option<String> {
        compares_alone(&self.0.condition).then(|| column.into())
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let condition = Expression::parse_condition(&self.0.condition, &inputs.schemas[0]);
        let condition = Arc::new(condition.map_err(|error| error.at("where"))?);
        let columns = needed_columns(inputs);
        let schema = match &columns {
            Some(columns) => Arc::new(inputs.schemas[0].project(columns)?),
            None => inputs.schemas[0].clone(),
        };
        let instance = move |setup: &Setup| -> Result<Box<dyn Module>> {
            let (condition, budget) = (condition.clone(), Budget::of(setup));
            let columns = columns.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                let mut coalescer = Coalescer::default();
                process_in_runs(ports, |ports, step| {
                    match step {
                        RunStep::Batch(batch, _) => {
                            let matches = condition.matches(&batch, &budget)?;
                            let batch = match &columns {
                                Some(columns) => batch.project(columns)?,
                                None => batch,
                            };
                            let kept = kept(batch, &matches)?;
                            coalescer.put(ports, kept)?;
                        }
                        RunStep::End => coalescer.flush(ports)?,
                    }
                    Ok(ControlFlow::Continue(()))
                })
            }))
        };
        Ok(Bound { outputs: vec![schema], ..inputs.passed_on(instance) })
    }
}

/// The columns that consumers read, if they are some only. The keys by which a stream is sorted
/// stay.
fn needed_columns(inputs: &Inputs) -> Option<Vec<usize>> {
    let schema = &inputs.schemas[0];
    let columns = inputs.needed?.columns_of(schema)?;
    (columns.len() < schema.fields().len() && inputs.sorted_by.is_empty()).then_some(columns)
}

/// The matching rows; copied only if some rows match and some do not.
fn kept(batch: RecordBatch, matches: &BooleanArray) -> Result<RecordBatch> {
    match matches.true_count() {
        0 => Ok(batch.slice(0, 0)),
        all if all == batch.num_rows() => Ok(batch),
        _ => Ok(filter_record_batch(&batch, matches)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, check, integers, rows};
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn rows_for_which_the_condition_is_true_are_kept() {
        for (condition, expected) in [
            ("n > 3", vec![4, 5, 6]),
            ("n < 0", vec![]),
            ("true", vec![1, 2, 3, 4, 5, 6]),
            ("n in (2, 5) and n <> 5", vec![2]),
            ("null", vec![]),
        ] {
            let input = [integers([1, 2, 3]), integers([4, 5, 6])];
            check(&MODULE, json!({"where": condition}), &input, &integers(expected));
        }
    }

    #[test]
    fn wrong_condition_fails_before_start() {
        let input = [integers([1])];
        let harness = Harness::new(&MODULE, json!({"where": "m > 3"}));
        let (_, outcome) = harness.input(input[0].schema(), &input).run();
        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with("where: no column named `m`"), "{error}");
    }

    #[test]
    fn runs_keep_their_rows_and_empty_runs_stay() {
        let runs = [vec![integers([1, 5]), integers([6])], vec![integers([2])], vec![]];
        let harness = Harness::new(&MODULE, json!({"where": "n > 4"}));
        let (outputs, outcome) = harness.stream(runs[0][0].schema(), &runs).run();
        outcome.unwrap();
        let expected = [
            Item::Begin(0),
            Item::Batch(integers([5, 6])),
            Item::End(0),
            Item::Begin(1),
            Item::End(1),
            Item::Begin(2),
            Item::End(2),
        ];
        assert_eq!(outputs[0], expected);
    }

    #[test]
    fn fully_matching_batch_is_not_copied() {
        let batch = integers(0..200_000);
        let harness = Harness::new(&MODULE, json!({"where": "n >= 0"}));
        let (outputs, _) = harness.input(batch.schema(), std::slice::from_ref(&batch)).run();
        let [Item::Batch(out)] = outputs[0].as_slice() else { panic!("{:?}", outputs[0].len()) };
        let start =
            |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().as_ptr();
        assert_eq!(start(out), start(&batch));
    }

    proptest! {
        #[test]
        fn filter_keeps_exactly_matching_rows(
            batches in proptest::collection::vec(proptest::collection::vec(-9i64..9, 0..50), 1..8),
            least in -9i64..9,
        ) {
            let input: Vec<_> = batches.iter().map(|batch| integers(batch.clone())).collect();
            let config = json!({"where": format!("n >= {least}")});
            let harness = Harness::new(&MODULE, config).input(input[0].schema(), &input);
            let (outputs, outcome) = harness.run();
            outcome.unwrap();
            let expected = integers(batches.into_iter().flatten().filter(|n| *n >= least));
            prop_assert_eq!(rows(&outputs[0], input[0].schema()), expected);
        }
    }
}
