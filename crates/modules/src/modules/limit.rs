//! Passes on the first rows, and lets its producers stop.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::module::{Bound, ColumnNames, Configure, Inputs, Interface, Needs};
use euphrates_flow::{InputOrder, Module, ModuleSpec, Ports, Result, Setup, spec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::batches::run_preserving::{RunStep, process_in_runs};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "limit",
    summary: "Passes on the first rows and ends.",
    detail: "Of a stream, and of the files of a scan, these are the first rows; of anything else, \
             whichever come first. What comes before it stops as soon as there are enough.",
    example: r#">>> cheapest = eu.sort("price"), eu.limit(2)
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.from_arrow({"price": [5, 2, 7, 3]}), *cheapest, eu.collect())
>>> flow.go().collected().to_pydict()
{'price': [2, 3]}"#,
    order: InputOrder::Ordered,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Limit { config: spec::parse_config(config)? })),
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Number of rows to pass on.
    pub(crate) rows: u64,
    /// Number of rows to leave out before them.
    #[serde(default)]
    pub(crate) offset: u64,
}

struct Limit {
    config: Config,
}

impl Configure for Limit {
    fn interface(&self) -> Interface {
        let reads_first = Some(self.config.rows.saturating_add(self.config.offset));
        let needs = Needs::PassedOn(ColumnNames::default());
        Interface { needs, reads_first, ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let Config { offset, rows } = self.config;
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            Ok(Box::new(move |ports: &mut Ports| {
                let (mut skip, mut left) = (offset, rows);
                if left == 0 {
                    return Ok(());
                }
                process_in_runs(ports, |ports, step| {
                    if let RunStep::Batch(batch, _) = step {
                        let chosen = cut(&batch, &mut skip, &mut left);
                        ports.put(0, chosen)?;
                    }
                    Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })
            }))
        };
        Ok(inputs.passed_on(instance))
    }
}

/// The rows of a batch behind those to `skip`, at most `left`; both are counted down.
fn cut(batch: &RecordBatch, skip: &mut u64, left: &mut u64) -> RecordBatch {
    let rows = batch.num_rows();
    let start = rows.min(usize::try_from(*skip).unwrap_or(usize::MAX));
    let count = (rows - start).min(usize::try_from(*left).unwrap_or(usize::MAX));
    *skip -= start as u64;
    *left -= count as u64;
    batch.slice(start, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, check, integers};
    use serde_json::json;

    #[test]
    fn the_first_rows_behind_the_offset_pass() {
        let input = [integers(0..3), integers(3..6), integers(6..9)];
        for (rows, offset, expected) in
            [(4, 0, 0..4), (3, 2, 2..5), (0, 0, 0..0), (100, 7, 7..9), (1, 100, 0..0)]
        {
            let config = json!({"rows": rows, "offset": offset});
            check(&MODULE, config, &input, &integers(expected));
        }
    }

    #[test]
    fn truncated_run_is_ended() {
        let runs = [vec![integers(0..3)], vec![integers(3..6), integers(6..9)]];
        let harness = Harness::new(&MODULE, json!({"rows": 1, "offset": 4}));
        let (outputs, outcome) = harness.stream(runs[0][0].schema(), &runs).run();
        outcome.unwrap();
        let batch = Item::Batch(integers([4]));
        let expected = [Item::Begin(0), Item::End(0), Item::Begin(1), batch, Item::End(1)];
        assert_eq!(outputs[0], expected);
    }
}
