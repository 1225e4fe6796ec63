//! The module `map`: calls a Python function with every batch, and emits what it returns.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::check::names::exportable;
use euphrates_flow::error::unknown;
use euphrates_flow::module::{Interface, REJECTED};
use euphrates_flow::row::{Row, at_fault};
use euphrates_flow::{
    Bound as BoundModule, Cancel, Configure, Error, InputOrder, Inputs, Kind, Module, ModuleSpec,
    PlacementConstraint, Ports, RecoveryClass, Result, Setup, Shape, new_batch, spec, split_batch,
};
use euphrates_modules::rejects_sink;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map as JsonMap, Value};

use super::reference::ObjectReference;
use crate::data::classes::{Batch, Schema as PySchema};
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
             understand (`batch.to_polars()`, …), and returns anything that speaks Arrow, or \
             with `schema` a dict of columns or a list of dicts, with any number of rows; or \
             `None` to send nothing. Several instances call it at the same time from different \
             threads; Python runs one of them at a time, except inside libraries that release the \
             GIL, as those four do. Behind a `partition`, the function \
             gets a whole partition at a time. Without `schema`, the function is \
             called once with an empty batch when the flow is checked, and what it returns says \
             what the columns are. When it raises, it is called again with parts of that batch, \
             for two seconds at most, to name the first row at which it does. A class with \
             `__call__` is constructed once for each instance, with `args` and `kwargs`. What an \
             `async` function awaits overlaps among the parts of a batch; a generator returns \
             several results.",
    example: r#">>> def doubled(batch):
...     return batch.to_polars() * 2
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.generate("integers", rows=3), eu.map(doubled), eu.collect())
>>> flow.go().collected().to_pydict()
{'n': [0, 2, 4]}"#,
    order: InputOrder::Keeps,
    recovery: RecoveryClass::ByUnit,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        let schema = config.schema.as_ref().map(parse).transpose()?;
        let function = checking(|py| config.function.resolve(py))?;
        let skips = match config.on_error.as_deref() {
            None | Some("fail") => false,
            Some("skip") => true,
            Some(other) => {
                return Err(unknown("`on_error`", other, ["fail", "skip"].into_iter()));
            }
        };
        if !skips && (config.rejects.is_some() || config.errors_max.is_some()) {
            let error = Error::usage("rejects are expected, and the first error ends the flow");
            return Err(error.at("on_error").remedy("say on_error=\"skip\""));
        }
        if config.rows_per_call == Some(0) || config.concurrency == Some(0) {
            let error = Error::usage("`rows_per_call` or `concurrency` is 0");
            return Err(error.remedy("give at least 1"));
        }
        let spread = config.function.spread();
        Ok(Arc::new(Map { function, spread, config, schema, skips }))
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
    /// Of a class: arguments of its constructor, by position.
    #[serde(default)]
    pub args: Option<Vec<Value>>,
    /// Of a class: arguments of its constructor, by name.
    #[serde(default)]
    pub kwargs: Option<JsonMap<String, Value>>,
    /// The most rows of a call; a batch if absent.
    #[serde(default)]
    pub rows_per_call: Option<usize>,
    /// Of an `async` function: the most calls that an instance awaits at a time; 16 if absent.
    #[serde(default)]
    pub concurrency: Option<usize>,
    /// `skip` leaves out rows at which the function raises: it is called again with ever smaller
    /// parts of the batch, down to single rows. `fail`, which ends the flow, if absent.
    #[serde(default)]
    pub on_error: Option<String>,
    /// The most rows that are left out, by all instances together, before the flow fails after
    /// all; any number if absent.
    #[serde(default)]
    pub errors_max: Option<u64>,
    /// A file for rows that are left out, which is replaced, or a folder that ends with `/`, which
    /// grows: the columns of the input, and the `reason`. It appears with the other outputs of the
    /// flow.
    #[serde(default)]
    pub rejects: Option<String>,
}

/// The time limit of the search for the row at which a function raised.
const REPLAY_MAX: Duration = Duration::from_secs(2);

struct Map {
    function: Py<PyAny>,
    spread: PlacementConstraint,
    config: Config,
    /// The declared schema of its results.
    schema: Option<SchemaRef>,
    /// Whether rows at which the function raises are left out.
    skips: bool,
}

/// Rows that were left out, with the reason.
type Rejected = (RecordBatch, String);

impl Map {
    /// What an instance calls: of a class, a new object. `promised` is the schema of its results,
    /// if it is known.
    fn callee(
        &self,
        py: Python<'_>,
        caller: CallingFlow,
        promised: Option<&SchemaRef>,
    ) -> Result<Py<PyAny>> {
        let Config { args, kwargs, rows_per_call, concurrency, .. } = &self.config;
        call(py, caller, || {
            let make = py.import("euphrates._user_code.mapped")?.getattr("prepared")?;
            let args = python_of(py, &Value::from(args.clone().unwrap_or_default()))?;
            let kwargs = python_of(py, &Value::from(kwargs.clone().unwrap_or_default()))?;
            let limits = (*rows_per_call, *concurrency);
            let promised = promised.map(|schema| PySchema { schema: schema.clone() });
            let callee = make.call1((&self.function, args, kwargs, limits.0, limits.1, promised));
            Ok(callee?.unbind())
        })
    }

    /// Calls the function with a batch; returns its results, none if it returns `None`.
    fn apply(
        &self,
        py: Python<'_>,
        callee: &Py<PyAny>,
        caller: CallingFlow,
        batch: RecordBatch,
    ) -> Result<Vec<ArrowData>> {
        let returned = call(py, caller, || {
            let arguments = match &self.config.arguments {
                None => None,
                Some(arguments) => {
                    let arguments = python_of(py, &Value::from(arguments.clone()))?;
                    Some(arguments.cast_into::<PyDict>()?)
                }
            };
            callee.bind(py).call((Batch { batch },), arguments.as_ref())
        })?;
        if returned.is_none() {
            return Ok(vec![]);
        }
        let one = |returned: &Bound<'_, PyAny>| {
            let data = call(py, caller, || {
                let rows = py.import("euphrates._user_code.rows")?.getattr("arrow_of")?;
                import(&rows.call1((returned,))?)
            })?;
            data.ok_or_else(|| not_arrow("the function returned", returned))
        };
        // A list of the function itself is no result.
        if !returned.hasattr("__euphrates_results__").unwrap_or(false) {
            return Ok(vec![one(&returned)?]);
        }
        let results = call(py, caller, || returned.extract::<Vec<Bound<'_, PyAny>>>())?;
        results.iter().filter(|result| !result.is_none()).map(one).collect()
    }

    /// Calls the function with parts of a batch, and leaves out rows at which it raises.
    fn apply_without_failures(
        &self,
        py: Python<'_>,
        callee: &Py<PyAny>,
        cancel: &Arc<Cancel>,
        batch: RecordBatch,
        rejected: &mut Vec<Rejected>,
    ) -> Result<Vec<ArrowData>> {
        let (mut results, mut left) = (vec![], vec![batch]);
        while let Some(batch) = left.pop() {
            match self.apply(py, callee, Some(cancel), batch.clone()) {
                Ok(data) => results.extend(data),
                Err(error) if is_final(&error) || cancel.is_cancelled() => return Err(error),
                Err(error) if batch.num_rows() == 0 => return Err(error),
                Err(error) if batch.num_rows() == 1 => {
                    rejected.push((batch, error.message().to_string()));
                    let most = self.config.errors_max.unwrap_or(u64::MAX);
                    if rejected.len() as u64 > most {
                        return Err(error.remedy("see why, or raise `errors_max`"));
                    }
                }
                Err(_) => {
                    let (rows, middle) = (batch.num_rows(), batch.num_rows() / 2);
                    left.push(batch.slice(middle, rows - middle));
                    left.push(batch.slice(0, middle));
                }
            }
        }
        Ok(results)
    }

    /// The schema that the function returns for an empty batch.
    fn infer(&self, input: &SchemaRef) -> Result<SchemaRef> {
        let empty = RecordBatch::new_empty(input.clone());
        let returned = checking(|py| {
            let callee = self.callee(py, CHECKING, None)?;
            self.apply(py, &callee, CHECKING, empty)
        });
        let returned = returned.map_err(|error| {
            error
                .at("called with an empty batch, to see what it returns")
                .remedy("make it accept a batch without rows, or say what it returns: schema=…")
        })?;
        match returned.first() {
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
        callee: &Py<PyAny>,
        cancel: &Arc<Cancel>,
        error: Error,
        (batch, first): (&RecordBatch, usize),
    ) -> Error {
        let is_over = || cancel.is_cancelled();
        if is_final(&error) || is_over() {
            return error;
        }
        let began = Instant::now();
        let fails = |rows: Range<usize>| {
            let part = batch.slice(rows.start, rows.len());
            let is_late = is_over() || began.elapsed() > REPLAY_MAX;
            (!is_late).then(|| self.apply(py, callee, Some(cancel), part).is_err())
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

    /// Counts rows that were left out with those of all other instances; fails if they are too
    /// many. A batch is counted when it is done, so what a crash repeats counts once.
    fn count(&self, rejected: &[Rejected], setup: &Setup) -> Result<()> {
        let Some(most) = self.config.errors_max else { return Ok(()) };
        for (_, reason) in rejected {
            if setup.fetch_add("errors")? >= most {
                let message = format!("more than {most} errors (`errors_max`): {reason}");
                return Err(Error::failed(message).remedy("see why, or raise `errors_max`"));
            }
        }
        Ok(())
    }

    fn run(&self, ports: &mut Ports, promised: &SchemaRef) -> Result<()> {
        let cancel = ports.setup().cancel.clone();
        let mut rows = rows_before();
        let result = attached(|py| {
            // The thread stays attached, so that thread-local data of user code lives as long as
            // the instance.
            let callee = self.callee(py, Some(&cancel), Some(promised))?;
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
                let mut rejected = vec![];
                let results = match self.skips {
                    true => self.apply_without_failures(py, &callee, &cancel, batch, &mut rejected),
                    false => self
                        .apply(py, &callee, Some(&cancel), batch)
                        .map_err(|error| self.in_row(py, &callee, &cancel, error, (&whole, first))),
                };
                let results = results.map_err(place)?;
                py.detach(|| -> Result<()> {
                    self.count(&rejected, ports.setup()).map_err(place)?;
                    for data in results {
                        data.each(|batch| {
                            let batch = conform(batch, promised).map_err(place)?;
                            split_batch(batch).try_for_each(|part| ports.put(0, part))
                        })?;
                    }
                    if !rejected.is_empty() && self.config.rejects.is_some() {
                        ports.put(1, rejected_rows(&rejected)?)?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        });
        instance_result(&cancel, result)
    }
}

/// Whether an error is one of the flow rather than of the function.
fn is_final(error: &Error) -> bool {
    matches!(error.kind(), Kind::Closed | Kind::Interrupted | Kind::Resource)
}

/// The columns of rejected rows: those of the input, and the reason.
fn rejected_schema(input: &Schema) -> SchemaRef {
    let mut name = "reason".to_string();
    while input.index_of(&name).is_ok() {
        name.push('_');
    }
    let reason = Arc::new(Field::new(name, DataType::Utf8, true));
    Arc::new(Schema::new(input.fields().iter().cloned().chain([reason]).collect::<Vec<_>>()))
}

fn rejected_rows(rejected: &[Rejected]) -> Result<RecordBatch> {
    let rows: Vec<&RecordBatch> = rejected.iter().map(|(row, _)| row).collect();
    let rows = concat_batches(&rows[0].schema(), rows)?;
    let reasons: StringArray = rejected.iter().map(|(_, reason)| Some(reason.as_str())).collect();
    let reasons: ArrayRef = Arc::new(reasons);
    let columns = rows.columns().iter().cloned().chain([reasons]).collect();
    Ok(new_batch(rejected_schema(&rows.schema()), columns, rows.num_rows())?)
}

impl Configure for Map {
    fn interface(&self) -> Interface {
        let Some(rejects) = &self.config.rejects else { return Interface::default() };
        let (inputs, outputs) = (vec!["in".into()], vec!["out".into(), REJECTED.to_string()]);
        let shape = Shape { inputs, outputs, order: InputOrder::Keeps, parallel: true };
        let rejects_to = Some(rejects_sink(rejects));
        Interface { shape: Some(shape), rejects_to, ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<BoundModule> {
        exportable(&inputs.schemas[0])?;
        let schema = self.schema.clone().map_or_else(|| self.infer(&inputs.schemas[0]), Ok)?;
        let (outputs, spread) =
            ([schema.clone(), rejected_schema(&inputs.schemas[0])], self.spread.clone());
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (map, promised) = (self.clone(), schema.clone());
            Ok(Box::new(move |ports: &mut Ports| map.run(ports, &promised)))
        };
        Ok(BoundModule { spread, ..BoundModule::new(outputs, instance) })
    }
}
