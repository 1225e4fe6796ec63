//! Flows within a module: `recurse` runs its step as a flow of its own, again and again. The
//! program gives the engine, which this crate does not know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::{Bound, Collected, Configure, Inputs};
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{Document, Error, Module, ModuleSpec, Ports, Result, Setup};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Runs a flow of built-in modules and one more within these bytes of memory, for an instance with
/// this setup, and returns the rows of its only `collect`.
pub type SubflowRunner = fn(&Document, &'static ModuleSpec, usize, &Setup) -> Result<Collected>;

static RUNNER: OnceLock<SubflowRunner> = OnceLock::new();

/// Sets what runs flows within modules; the first call counts.
pub fn run_subflows_by(runner: SubflowRunner) {
    let _ = RUNNER.set(runner);
}

/// The name of the module that stands for an input of a step.
const GIVEN: &str = "given";

/// Rows that a step reads.
#[derive(Clone)]
pub(crate) struct GivenRows {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// The rows of the runs that are under way, by the number of the run.
static INPUTS: LazyLock<Mutex<HashMap<u64, Arc<Vec<GivenRows>>>>> = LazyLock::new(Mutex::default);

static RUNS: AtomicU64 = AtomicU64::new(0);

/// Removes the rows of a run when it ends.
struct RunInputs(u64);

impl Drop for RunInputs {
    fn drop(&mut self) {
        INPUTS.lock().remove(&self.0);
    }
}

/// Runs a step, whose last module has the rows. Its `given` modules read the input of their number.
pub(crate) fn run(
    step: &Document,
    inputs: Vec<GivenRows>,
    memory_bytes: usize,
    setup: &Setup,
) -> Result<Collected> {
    let runner = RUNNER.get().ok_or_else(|| {
        Error::failed("nothing runs flows within modules here").remedy("run it at a worker")
    })?;
    let run = RunInputs(RUNS.fetch_add(1, Relaxed));
    INPUTS.lock().insert(run.0, Arc::new(inputs));
    let mut step = step.clone();
    for node in step.modules.iter_mut().filter(|node| node.module == GIVEN) {
        node.config.insert("run".into(), run.0.into());
    }
    let Some(last) = step.modules.last().map(|node| node.id.clone()) else {
        return Err(Error::usage("the step has no modules"));
    };
    let collect = step.place("collect", json!({}), None);
    step.attach(&last, &collect);
    runner(&step, &MODULE, memory_bytes, setup)
}

static MODULE: ModuleSpec = ModuleSpec {
    name: GIVEN,
    summary: "Rows that a module gives to its step.",
    inputs: NONE,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(GivenInput { config: spec::parse_config(config)? })),
    ..ModuleSpec::USUAL
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The number of the input.
    input: usize,
    /// The number of the run.
    run: u64,
}

struct GivenInput {
    config: Config,
}

impl Configure for GivenInput {
    fn bind(self: Arc<Self>, _: &Inputs) -> Result<Bound> {
        let inputs = INPUTS.lock().get(&self.config.run).cloned();
        let rows = inputs.and_then(|inputs| inputs.get(self.config.input).cloned());
        let missing = || Error::usage(format!("the step has no input {}", self.config.input));
        let GivenRows { schema, batches } = rows.ok_or_else(missing)?;
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let batches = batches.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                batches.iter().try_for_each(|batch| ports.put(0, batch.clone()))
            }))
        };
        Ok(Bound::new([schema], instance))
    }
}
