//! Copies every batch to each of its outputs.

use euphrates_flow::module::{Bound, ColumnNames, Configure, Inputs, Interface, NeededRows, Needs};
use euphrates_flow::{
    InputOrder, Module, ModuleSpec, PortNames, Ports, Result, Setup, Taken, spec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

use crate::open_outputs::OpenOutputs;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "tee",
    summary: "Gives every row to each of its outputs.",
    detail: "As many outputs as are attached; nothing is copied. It goes at the pace of the \
             slowest of them; one whose consumer has had enough is left out from then on. Do not \
             lead two of its outputs to a module that reads one of them to its end first.",
    example: r#">>> flow = eu.Flow()
>>> tee = flow.chain(eu.from_arrow({"price": [5, 2, 7]}), eu.tee())
>>> rows = flow.chain(tee, eu.count(), eu.collect())
>>> cheapest = flow.chain(tee, eu.sort("price"), eu.limit(1), eu.collect())
>>> report = flow.go()
>>> report.collected(rows).to_pydict(), report.collected(cheapest).to_pydict()
({'count': [3]}, {'price': [2]})"#,
    outputs: PortNames::Many,
    order: InputOrder::Keeps,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        spec::parse_config::<Config>(config)?;
        Ok(Arc::new(Tee))
    },
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {}

struct Tee;

impl Configure for Tee {
    fn interface(&self) -> Interface {
        let needs = Needs::PassedOn(ColumnNames::default());
        Interface { needs, rows: NeededRows::PassedOn, ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let instance = |_: &Setup| -> Result<Box<dyn Module>> {
            Ok(Box::new(|ports: &mut Ports| {
                let mut open = OpenOutputs::all(ports.outputs());
                let mut current = None;
                loop {
                    match ports.get_in_runs(0)? {
                        Taken::Batch(parcel) => {
                            if let (None, Some(run)) = (current, parcel.run) {
                                open.each(|output| ports.begin_run(output, run))?;
                                current = parcel.run;
                            }
                            open.each(|output| ports.put(output, parcel.batch.clone()))?;
                        }
                        Taken::RunEnd(run) => {
                            if current.take().is_none() {
                                open.each(|output| ports.begin_run(output, run))?;
                            }
                            open.each(|output| ports.end_run(output))?;
                        }
                        Taken::Empty => {}
                        Taken::End => return Ok(()),
                    }
                }
            }))
        };
        Ok(inputs.passed_on(instance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, integers, rows};
    use serde_json::json;

    #[test]
    fn every_output_gets_every_row() {
        let input = [integers(0..3), integers(3..6)];
        let harness = Harness::new(&MODULE, json!({})).input(input[0].schema(), &input);
        let (outputs, outcome) = harness.run();
        outcome.unwrap();
        assert_eq!(outputs.len(), 2);
        for output in &outputs {
            assert_eq!(rows(output, input[0].schema()), integers(0..6));
        }
    }

    #[test]
    fn an_output_that_closes_does_not_stop_the_others() {
        let runs = [vec![integers([0]), integers([1])], vec![integers([2])], vec![]];
        let harness = Harness::new(&MODULE, json!({})).stream(integers([]).schema(), &runs);
        let (outputs, outcome) = harness.leaves(0, 1).run();
        outcome.unwrap();
        assert_eq!(outputs[0], [Item::Begin(0), Item::Batch(integers([0]))]);
        let runs = [Item::Begin(0), Item::End(0), Item::Begin(1), Item::End(1)];
        assert!(runs.iter().all(|item| outputs[1].contains(item)), "{:?}", outputs[1]);
        assert_eq!(rows(&outputs[1], integers([]).schema()), integers(0..3));
    }
}
