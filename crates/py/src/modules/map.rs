//! The module `map`: calls a Python function with every batch, and emits what it returns.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::check::names::exportable;
use euphrates_flow::row::{Row, at_fault};
use euphrates_flow::{
    Bound as BoundModule, Cancel, Configure, Error, InputOrder, Inputs, Kind, Module, ModuleSpec,
    PlacementConstraint, Ports, Result, Setup, spec, split_batch,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map as JsonMap, Value};

use super::reference::ObjectReference;
use crate::data::classes::Batch;
use crate::data::import::{ArrowData, import};
use crate::data::schemas::{conform, parse};
use crate::interpreter::{attached, checking, python_of};
use crate::isolated::channel::rows_before;
use crate::ports::not_arrow;
use crate::user_code::{CHECKING, CallingFlow, call, instance_result};

/// The spec of the module.
pub const MODULE: ModuleSpec = ModuleSpec {
    name: "map",
    summary: "Gives every batch to a Python function, and sends on what it returns.",
    detail: "The function gets a `Batch` of about 1 MiB, which pyarrow, Polars, pandas and DuckDB \
             understand (`batch.to_polars()`, …), and returns anything that speaks Arrow, with \
             any number of rows, or `None` to send nothing. Several instances call it at the same \
             time from different threads; Python runs one of them at a time, except inside \
             libraries that release the GIL, as those four do. Behind a `partition`, the function \
             gets a whole partition at a time. Without `schema`, the function is \
             called once with an empty batch when the flow is checked, and what it returns says \
             what the columns are. When it raises, it is called again with parts of that batch, \
             for two seconds at most, to name the first row at which it does.",
    example: r#">>> def doubled(batch):
...     return batch.to_polars() * 2
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.generate("integers", rows=3), eu.map(doubled), eu.collect())
>>> flow.go().collected().to_pydict()
{'n': [0, 2, 4]}"#,
    order: InputOrder::Keeps,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        let schema = config.schema.as_ref().map(parse).transpose()?;
        let function = checking(|py| config.function.resolve(py))?;
        let (spread, arguments) = (config.function.spread(), config.arguments.unwrap_or_default());
        Ok(Arc::new(Map { function, spread, arguments, schema }))
    },
    ..ModuleSpec::USUAL
};

/// The function, its further arguments, and the schema of its results.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The function, or where it can be imported from: `package.module:name`.
    #[schemars(extend("x-python" = "Callable[..., Any] | str"))]
    pub function: ObjectReference,
    /// The columns it returns: a schema, or types by name like `{"id": "int64"}`. Inferred from an
    /// empty batch if absent.
    #[serde(default)]
    #[schemars(extend("x-python" = "SchemaLike"))]
    pub schema: Option<JsonMap<String, Value>>,
    /// More arguments for every call, by name.
    #[serde(default)]
    pub arguments: Option<JsonMap<String, Value>>,
}

/// The time limit of the search for the row at which a function raised.
const REPLAY_MAX: Duration = Duration::from_secs(2);

struct Map {
    function: Py<PyAny>,
    spread: PlacementConstraint,
    arguments: JsonMap<String, Value>,
    /// The declared schema of its results.
    schema: Option<SchemaRef>,
}

impl Map {
    /// Calls the function with a batch. Returns `None` if it returns `None`.
    fn apply(
        &self,
        py: Python<'_>,
        caller: CallingFlow,
        batch: RecordBatch,
    ) -> Result<Option<ArrowData>> {
        let returned = call(py, caller, || {
            let arguments = match self.arguments.is_empty() {
                true => None,
                false => {
                    let arguments = python_of(py, &Value::from(self.arguments.clone()))?;
                    Some(arguments.cast_into::<PyDict>()?)
                }
            };
            self.function.bind(py).call((Batch { batch },), arguments.as_ref())
        })?;
        if returned.is_none() {
            return Ok(None);
        }
        let data = call(py, caller, || import(&returned))?;
        data.map(Some).ok_or_else(|| not_arrow("the function returned", &returned))
    }

    /// The schema that the function returns for an empty batch.
    fn infer(&self, input: &SchemaRef) -> Result<SchemaRef> {
        let empty = RecordBatch::new_empty(input.clone());
        let returned = checking(|py| self.apply(py, CHECKING, empty));
        let returned = returned.map_err(|error| {
            error
                .at("called with an empty batch, to see what it returns")
                .remedy("make it accept a batch without rows, or say what it returns: schema=…")
        })?;
        match returned {
            Some(data) => Ok(data.schema()),
            None => Err(Error::usage("the function returned None for an empty batch")
                .remedy("say what it returns: schema=…")),
        }
    }

    /// Adds to an error the first row at which the function raises. The function is called again
    /// with parts of the batch; a repeated call must be harmless anyway, because a flow restarts
    /// when a worker dies. If no part raises, the error names the batch only.
    fn in_row(
        &self,
        py: Python<'_>,
        cancel: &Arc<Cancel>,
        error: Error,
        (batch, first): (&RecordBatch, usize),
    ) -> Error {
        let is_over = || cancel.is_cancelled();
        if matches!(error.kind(), Kind::Closed | Kind::Interrupted | Kind::Resource) || is_over() {
            return error;
        }
        let began = Instant::now();
        let fails = |rows: Range<usize>| {
            let part = batch.slice(rows.start, rows.len());
            let is_late = is_over() || began.elapsed() > REPLAY_MAX;
            (!is_late).then(|| self.apply(py, Some(cancel), part).is_err())
        };
        let (from, about) = match at_fault(batch.num_rows(), fails) {
            Some(rows) if rows.len() == 1 => {
                (rows.start, format!("row {} of its input", first + rows.start))
            }
            _ => (0, format!("the first of {} rows; it cannot be told which", batch.num_rows())),
        };
        match batch.num_rows() {
            0 => error,
            _ => error.in_row(|| Row::of(batch, from, about)),
        }
    }

    fn run(&self, ports: &mut Ports, promised: &SchemaRef) -> Result<()> {
        let cancel = ports.setup().cancel.clone();
        let mut rows = rows_before();
        let result = attached(|py| {
            // The thread stays attached, so that thread-local data of user code lives as long as
            // the instance.
            let has_partitions = ports.has_partitions(0)?;
            let next = |ports: &mut Ports| match has_partitions {
                true => ports.get_partition(0),
                false => ports.get(0),
            };
            while let Some(batch) = py.detach(|| next(ports))? {
                let (first, whole) = (rows, batch.clone());
                rows += batch.num_rows();
                let last = rows.saturating_sub(1);
                let place = |e: Error| e.at(format!("rows {first} to {last} of its input"));
                let Some(data) = self
                    .apply(py, Some(&cancel), batch)
                    .map_err(|error| self.in_row(py, &cancel, error, (&whole, first)))
                    .map_err(place)?
                else {
                    continue;
                };
                py.detach(|| {
                    data.each(|batch| {
                        let batch = conform(batch, promised).map_err(place)?;
                        split_batch(batch).try_for_each(|part| ports.put(0, part))
                    })
                })?;
            }
            Ok(())
        });
        instance_result(&cancel, result)
    }
}

impl Configure for Map {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<BoundModule> {
        exportable(&inputs.schemas[0])?;
        let schema = self.schema.clone().map_or_else(|| self.infer(&inputs.schemas[0]), Ok)?;
        let (output, spread) = (schema.clone(), self.spread.clone());
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (map, promised) = (self.clone(), schema.clone());
            Ok(Box::new(move |ports: &mut Ports| map.run(ports, &promised)))
        };
        Ok(BoundModule { spread, ..BoundModule::new([output], instance) })
    }
}
