//! The module `from_arrow`: emits the rows of an object of this process.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::OutputOrder;
use euphrates_flow::spec::{self, NONE};
use euphrates_flow::{
    Bound as BoundModule, Configure, Error, Inputs, Module, ModuleSpec, PlacementConstraint, Ports,
    Result, Setup, batch_bytes, split_batch,
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::reference::ObjectReference;
use crate::data::import::{ArrowData, import, import_schema};
use crate::data::schemas::{conform, parse};
use crate::interpreter::{attached, checking};
use crate::ports::{is_plan, not_arrow};
use crate::user_code::{CHECKING, CallingFlow, call, instance_result};

/// The spec of the module.
pub static MODULE: ModuleSpec = ModuleSpec {
    name: "from_arrow",
    summary: "Brings in a table: pyarrow, Polars, pandas, DuckDB, anything that speaks Arrow.",
    detail: "The rows are not copied, and a stream is read only as fast as the flow takes it. A \
             list or an iterator of tables is one table; a function that returns any of these is \
             called when the flow is checked.",
    example: r#">>> import polars
>>> cities = polars.DataFrame({"city": ["Ur", "Uruk"]})
>>> flow = eu.Flow()
>>> _ = flow.chain(eu.from_arrow(cities, order=True), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Uruk']}"#,
    inputs: NONE,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        let schema = config.schema.as_ref().map(parse).transpose()?;
        let data = checking(|py| config.data.resolve(py))?;
        let (spread, order) = (config.data.spread(), config.order);
        Ok(Arc::new(FromArrow { data, spread, schema, order }))
    },
    ..ModuleSpec::USUAL
};

/// What to bring in.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The table, or where it can be imported from: `package.module:name`.
    #[schemars(extend("x-python" = "Any"))]
    pub data: ObjectReference,
    /// Keep the order of the rows: they come as a stream.
    #[serde(default)]
    pub order: bool,
    /// The columns of an iterator's tables: a schema, or types by name like `{"id": "int64"}`.
    #[serde(default)]
    #[schemars(extend("x-python" = "SchemaLike"))]
    pub schema: Option<Map<String, Value>>,
}

struct FromArrow {
    data: Py<PyAny>,
    spread: PlacementConstraint,
    schema: Option<SchemaRef>,
    order: bool,
}

enum ArrowSource {
    /// One batch or stream.
    One(ArrowData),
    /// An iterator of objects with this schema.
    Several(Py<PyIterator>, SchemaRef),
}

impl ArrowSource {
    fn schema(&self) -> SchemaRef {
        match self {
            ArrowSource::One(item) => item.schema(),
            ArrowSource::Several(_, schema) => schema.clone(),
        }
    }
}

impl FromArrow {
    /// Opens the data, and determines its schema.
    fn open(&self, py: Python<'_>) -> Result<ArrowSource> {
        let mut data = self.data.bind(py).clone();
        let is_made = !has_arrow_data(&data) && data.is_callable();
        if is_made {
            data = call(py, CHECKING, || data.call0())?;
        }
        if let Some(item) = call(py, CHECKING, || import(&data)).map_err(with_remedy)? {
            return Ok(ArrowSource::One(item));
        }
        // Text and lazy plans are iterable, but not over rows.
        let iterated = match is_plan(&data) || data.is_instance_of::<PyString>() {
            true => None,
            false => data.try_iter().ok(),
        };
        let Some(mut iterator) = iterated else {
            return Err(not_arrow("`data` is", &data));
        };
        if let Some(schema) = &self.schema {
            return Ok(ArrowSource::Several(iterator.unbind(), schema.clone()));
        }
        if data.is(&iterator) && !is_made {
            return Err(Error::usage("an iterator does not say what its columns are")
                .remedy("say it (schema=…), or give a function that returns the iterator"));
        }
        let Some(first) = call(py, CHECKING, || iterator.next().transpose())? else {
            return Err(Error::usage("the list is empty, so its columns are not known")
                .remedy("say what they are: schema=…"));
        };
        let schema = call(py, CHECKING, || import_schema(&first))?;
        let schema = schema.ok_or_else(|| not_arrow("the list holds", &first))?;
        let whole = call(py, CHECKING, || {
            let chain = py.import("itertools")?.getattr("chain")?;
            chain.call1(((first,), iterator))?.try_iter()
        });
        Ok(ArrowSource::Several(whole?.unbind(), schema))
    }

    fn run(&self, ports: &mut Ports, source: Option<ArrowSource>) -> Result<()> {
        let source = source.ok_or_else(|| Error::usage("the data has been read already"))?;
        let schema = source.schema();
        let mut runs = 0;
        let mut send = |batch: RecordBatch, ports: &mut Ports| -> Result<()> {
            for part in split_batch(conform(batch, &schema)?) {
                ports.metrics().got(part.num_rows(), batch_bytes(&part));
                if self.order {
                    ports.begin_run(0, runs)?;
                    runs += 1;
                }
                ports.put(0, part)?;
                if self.order {
                    ports.end_run(0)?;
                }
            }
            Ok(())
        };
        let cancel = ports.setup().cancel.clone();
        let result = match source {
            ArrowSource::One(item) => item.each(|batch| send(batch, ports)),
            ArrowSource::Several(iterator, _) => attached(|py| {
                let mut iterator = iterator.into_bound(py);
                while let Some(item) = next(py, Some(&cancel), &mut iterator)? {
                    py.detach(|| item.each(|batch| send(batch, ports)))?;
                }
                Ok(())
            }),
        };
        instance_result(&cancel, result)
    }
}

/// What to do about a table whose own library cannot make Arrow columns of it: pandas has columns
/// of objects of any types.
fn with_remedy(error: Error) -> Error {
    match ["ArrowInvalid", "ArrowTypeError"].iter().any(|kind| error.message().contains(kind)) {
        true => error.remedy(
            "give each column one type, like df[\"a\"] = df[\"a\"].astype(str), or \
             df.convert_dtypes()",
        ),
        false => error,
    }
}

/// Whether an object supports the Arrow PyCapsule interface.
fn has_arrow_data(data: &Bound<'_, PyAny>) -> bool {
    ["__arrow_c_stream__", "__arrow_c_array__"]
        .iter()
        .any(|method| data.hasattr(*method).unwrap_or(false))
}

/// The rows of the iterator's next object.
fn next(
    py: Python<'_>,
    caller: CallingFlow,
    iterator: &mut Bound<'_, PyIterator>,
) -> Result<Option<ArrowData>> {
    let Some(item) = call(py, caller, || iterator.next().transpose())? else { return Ok(None) };
    let rows = call(py, caller, || import(&item))?;
    rows.map(Some).ok_or_else(|| not_arrow("the iterator gave", &item))
}

impl Configure for FromArrow {
    fn bind(self: Arc<Self>, _: &Inputs) -> Result<BoundModule> {
        // Only an open stream has a schema.
        let source = checking(|py| self.open(py))?;
        let schema = source.schema();
        let known = attached(|py| {
            let bytes = self.data.bind(py).getattr("nbytes");
            Ok(bytes.and_then(|bytes| bytes.extract::<u64>()).ok())
        });
        let (order, spread) = (OutputOrder::numbered(self.order), self.spread.clone());
        let source = Mutex::new(Some(source));
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (module, mut source) = (self.clone(), source.lock().take());
            Ok(Box::new(move |ports: &mut Ports| module.run(ports, source.take())))
        };
        Ok(BoundModule {
            order,
            bytes_expected: known.ok().flatten(),
            spread,
            is_repeatable: false,
            ..BoundModule::new([schema], instance)
        })
    }
}
