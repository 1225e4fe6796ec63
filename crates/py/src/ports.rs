//! The Python class `Ports`, the argument of a module's `run(self, ports)`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Ports, Result, Taken};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::data::classes::{Batch, Schema};
use crate::data::import::{import, import_batch};
use crate::data::schemas::conform;
use crate::errors::OrRaise;
use crate::input_stream::InputStream;
use crate::interpreter::type_name;
use crate::isolated::channel::count_rows;
use crate::lease::Lease;
use crate::user_code::{on_stop, outside};

/// The inputs and outputs of one instance.
#[pyclass(frozen, module = "euphrates", name = "Ports")]
pub struct PyPorts {
    lease: Arc<Lease>,
    info: PortInfo,
    /// Whether a run is open, by output, to detect wrong calls of `begin_run` and `end_run`.
    in_run: Vec<AtomicBool>,
}

/// Names and schemas of the ports of an instance.
#[derive(Clone)]
pub struct PortInfo {
    pub inputs: Vec<String>,
    pub input_schemas: Vec<SchemaRef>,
    pub outputs: Vec<String>,
    /// The schemas that the module has promised.
    pub output_schemas: Vec<SchemaRef>,
}

impl PyPorts {
    /// The ports of a leased instance.
    pub fn new(lease: Arc<Lease>, info: PortInfo) -> PyPorts {
        let in_run = info.outputs.iter().map(|_| AtomicBool::new(false)).collect();
        PyPorts { lease, info, in_run }
    }

    /// Uses the ports detached, and marked as outside of user code.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Ports) -> Result<T> + Send,
    ) -> PyResult<T> {
        outside(py, self.lease.cancel(), || self.lease.with(act)).or_raise(py)
    }

    fn input(&self, py: Python<'_>, port: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        position(&self.info.inputs, "input", port).or_raise(py)
    }

    fn output(&self, py: Python<'_>, port: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        position(&self.info.outputs, "output", port).or_raise(py)
    }

    fn taken(&self, input: usize, batch: RecordBatch) -> Batch {
        self.lease.took(input, &batch);
        Batch { batch }
    }

    fn give(&self, py: Python<'_>, data: &Bound<'_, PyAny>, output: usize) -> PyResult<()> {
        let rows = import(data)?.ok_or_else(|| not_arrow("put was given", data)).or_raise(py)?;
        let promised = &self.info.output_schemas[output];
        // Each batch uses the ports separately, because the data may pull from an input.
        let put = |part| self.lease.with(|ports| ports.put(output, part));
        let send = |batch| {
            let batch = conform(batch, promised).map_err(|e| e.at("put"))?;
            euphrates_flow::split_batch(batch).try_for_each(put)
        };
        outside(py, self.lease.cancel(), || rows.each(send)).or_raise(py)
    }
}

#[pymethods]
impl PyPorts {
    /// The next batch of an input; `None` when there will be no more.
    #[pyo3(signature = (input=None))]
    fn get(&self, py: Python<'_>, input: Option<Bound<'_, PyAny>>) -> PyResult<Option<Batch>> {
        let input = self.input(py, input.as_ref())?;
        let batch = self.with(py, |ports| ports.get(input))?;
        Ok(batch.map(|batch| self.taken(input, batch)))
    }

    /// All records of the next partition of an input behind a `partition`, in one batch; `None`
    /// when all have been taken.
    #[pyo3(signature = (input=None))]
    fn get_partition(
        &self,
        py: Python<'_>,
        input: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<Batch>> {
        let input = self.input(py, input.as_ref())?;
        let whole = self.with(py, |ports| ports.get_partition(input))?;
        Ok(whole.map(|batch| self.taken(input, batch)))
    }

    /// Like `get`, but does not wait: `EMPTY` if nothing is there now.
    #[pyo3(signature = (input=None))]
    fn try_get<'py>(
        &self,
        py: Python<'py>,
        input: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let input = self.input(py, input.as_ref())?;
        match self.with(py, |ports| ports.try_get(input))? {
            Taken::Batch(parcel) => {
                Ok(Some(Bound::new(py, self.taken(input, parcel.batch))?.into_any()))
            }
            Taken::End => Ok(None),
            _ => py.import("euphrates._user_code.module")?.getattr("EMPTY").map(Some),
        }
    }

    /// Puts rows on an output: `put(batch)` or `put("name", batch)`. Takes anything that speaks
    /// Arrow, batch by batch. Waits while the queue is full.
    #[pyo3(signature = (output_or_data, data=None))]
    fn put(
        &self,
        py: Python<'_>,
        output_or_data: Bound<'_, PyAny>,
        data: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (output, data) = match data {
            Some(data) => (self.output(py, Some(&output_or_data))?, data),
            None => (self.output(py, None)?, output_or_data),
        };
        self.give(py, &data, output)
    }

    /// Puts one batch if there is room for it, and says whether there was.
    #[pyo3(signature = (output_or_batch, batch=None))]
    fn try_put(
        &self,
        py: Python<'_>,
        output_or_batch: Bound<'_, PyAny>,
        batch: Option<Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (output, batch) = match batch {
            Some(batch) => (self.output(py, Some(&output_or_batch))?, batch),
            None => (self.output(py, None)?, output_or_batch),
        };
        let Some(rows) = import_batch(&batch)? else {
            let error = Error::failed(format!("try_put was given {}", type_name(&batch)));
            return Err(error.remedy("give one record batch; `put` takes tables and streams"))
                .or_raise(py);
        };
        let promised = &self.info.output_schemas[output];
        let rows = conform(rows, promised).map_err(|e| e.at("try_put")).or_raise(py)?;
        self.with(py, |ports| Ok(ports.try_put(output, rows)?.is_none()))
    }

    /// Waits until one of the inputs has something, or has ended, and returns it; all inputs if
    /// none is named. An input that has ended is always ready: leave it out.
    #[pyo3(signature = (inputs=None))]
    fn select<'py>(
        &self,
        py: Python<'py>,
        inputs: Option<Vec<Bound<'py, PyAny>>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inputs = match inputs {
            Some(inputs) => inputs,
            None => {
                let names = self.info.inputs.iter();
                names.map(|name| PyString::new(py, name).into_any()).collect()
            }
        };
        let positions: Vec<usize> =
            inputs.iter().map(|input| self.input(py, Some(input))).collect::<PyResult<_>>()?;
        let ready = self.with(py, |ports| ports.select(&positions))?;
        let chosen = positions.iter().position(|position| Some(*position) == ready);
        Ok(chosen.map(|chosen| inputs[chosen].clone()))
    }

    /// Begins a run on an output, `begin_run(3)` or `begin_run("name", 3)`: what is put until
    /// `end_run` stays together and in order. Runs of one output are numbered from 0 without gaps,
    /// over all instances.
    #[pyo3(signature = (output_or_run, run=None))]
    fn begin_run(
        &self,
        py: Python<'_>,
        output_or_run: Bound<'_, PyAny>,
        run: Option<u64>,
    ) -> PyResult<()> {
        let (output, run) = match run {
            Some(run) => (self.output(py, Some(&output_or_run))?, run),
            None => (self.output(py, None)?, output_or_run.extract()?),
        };
        if self.in_run[output].swap(true, SeqCst) {
            return Err(Error::usage("begin_run before the run before has ended")).or_raise(py);
        }
        self.with(py, |ports| ports.begin_run(output, run))
    }

    /// Ends the run begun last on an output.
    #[pyo3(signature = (output=None))]
    fn end_run(&self, py: Python<'_>, output: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let output = self.output(py, output.as_ref())?;
        if !self.in_run[output].swap(false, SeqCst) {
            return Err(Error::usage("end_run without begin_run")).or_raise(py);
        }
        self.with(py, |ports| ports.end_run(output))
    }

    /// An input as an Arrow stream for a library to pull from, while `run` runs. Its rows can be
    /// read once.
    #[pyo3(signature = (input=None))]
    fn stream(&self, py: Python<'_>, input: Option<Bound<'_, PyAny>>) -> PyResult<InputStream> {
        let input = self.input(py, input.as_ref())?;
        let schema = self.info.input_schemas[input].clone();
        Ok(InputStream::new(self.lease.clone(), input, schema))
    }

    /// The schema of an input.
    #[pyo3(signature = (input=None))]
    fn schema(&self, py: Python<'_>, input: Option<Bound<'_, PyAny>>) -> PyResult<Schema> {
        let input = self.input(py, input.as_ref())?;
        Ok(Schema { schema: self.info.input_schemas[input].clone() })
    }

    /// Raises when the flow has been stopped; for loops that neither get nor put.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |ports| ports.check())
    }

    /// Has a function called when the flow is stopped, from another thread and perhaps more than
    /// once, until `run` returns: to break off a library that computes without Python, as in
    /// `ports.on_stop(connection.interrupt)`.
    fn on_stop(&self, py: Python<'_>, stop: Py<PyAny>) {
        on_stop(py, self.lease.cancel(), self.lease.number(), stop);
    }

    /// Counts rows and bytes that a source brought in from outside the flow.
    fn count_in(&self, py: Python<'_>, rows: usize, bytes: usize) -> PyResult<()> {
        self.with(py, |ports| {
            if !count_rows(rows, bytes)? {
                ports.metrics().got(rows, bytes);
            }
            Ok(())
        })
    }

    /// Which instance of its module this is, from 0.
    #[getter]
    fn instance(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |ports| Ok(ports.setup().instance))
    }

    /// How many instances the module has.
    #[getter]
    fn instances(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |ports| Ok(ports.setup().instances))
    }

    /// Bytes of memory this instance may use beyond a few batches.
    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |ports| Ok(ports.setup().memory.even_share_bytes()))
    }

    /// Folders for what does not fit the memory.
    #[getter]
    fn scratch(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let folders = self.with(py, |ports| Ok(ports.setup().scratch.clone()))?;
        Ok(folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect())
    }

    /// Names of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.info.inputs.clone()
    }

    /// Names of the outputs.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.info.outputs.clone()
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The batches of the first input, one after the other.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.get(py, None)
    }
}

/// The position of a port, by name or position; the first one by default.
fn position(names: &[String], what: &str, port: Option<&Bound<'_, PyAny>>) -> Result<usize> {
    let known = || names.iter().map(String::as_str);
    let Some(port) = port else {
        return match names.is_empty() {
            true => Err(Error::usage(format!("the module has no {what}s"))
                .remedy(format!("declare them in its class: {what}s = (\"a\", \"b\")"))),
            false => Ok(0),
        };
    };
    if let Ok(position) = port.extract::<usize>() {
        return match position < names.len() {
            true => Ok(position),
            false => Err(Error::usage(format!("no {what} {position}: there are {}", names.len()))),
        };
    }
    let name = port.extract::<String>().map_err(|_| {
        Error::usage(format!("an {what} has a name or a position, not {}", type_name(port)))
    })?;
    let found = names.iter().position(|other| *other == name);
    found.ok_or_else(|| euphrates_flow::error::unknown(what, &name, known()))
}

/// The error for an object that has no rows.
pub fn not_arrow(subject: &str, object: &Bound<'_, PyAny>) -> Error {
    let error =
        Error::failed(format!("{subject} {}, which holds no Arrow data", type_name(object)));
    error.remedy(if is_plan(object) {
        "it is a plan of rows, not rows: collect() it first"
    } else if object.is_instance_of::<PyDict>() {
        "make a table of rows first: pyarrow.Table.from_pylist(rows), polars.DataFrame(rows)"
    } else {
        "give a pyarrow, Polars, pandas or DuckDB table, or a batch; eu.from_arrow also takes a \
         list or an iterator of these, a function that returns them, and a dict of lists"
    })
}

/// Whether an object is a lazy plan of rows, like a Polars `LazyFrame`.
pub fn is_plan(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr("collect").unwrap_or(false)
}
