//! Imports batches, streams and schemas from Python objects that support the Arrow PyCapsule
//! interface.

use arrow::datatypes::SchemaRef;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, converted_batches, converted_schema};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::capsules::{ARRAY, SCHEMA, STREAM, Stream, batch_of_ffi, moved, schema_of_ffi};
use super::classes::{Batch, Table};
use crate::errors::OrRaise;

/// The rows of an object.
pub enum ArrowData {
    /// All rows in one batch.
    Batch(RecordBatch),
    /// A stream of batches, read on demand.
    Stream(Stream),
}

impl ArrowData {
    /// The schema of the batches that `each` passes on.
    pub fn schema(&self) -> SchemaRef {
        match self {
            ArrowData::Batch(batch) => converted_schema(&batch.schema()),
            ArrowData::Stream(stream) => converted_schema(&stream.schema),
        }
    }

    /// Calls `each` with every batch, detached, with run-end encoding decoded. A stream is pulled
    /// with the GIL, because some producers require it (DuckDB's relations); those that wait
    /// release it.
    pub fn each(self, mut each: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let schema = self.schema();
        let mut each = |batch| {
            converted_batches(batch, &schema).try_for_each(|part: Result<RecordBatch>| each(part?))
        };
        match self {
            ArrowData::Batch(batch) => each(batch),
            ArrowData::Stream(mut stream) => loop {
                let pulled = Python::try_attach(|_| stream.next());
                match pulled.unwrap_or_else(|| Err(Error::interrupted()))? {
                    Some(batch) => each(batch)?,
                    None => return Ok(()),
                }
            },
        }
    }
}

/// The rows of an object; `None` if it does not support the interface.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<ArrowData>> {
    let py = object.py();
    if !object.is_instance_of::<Batch>()
        && let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_stream__"))?
    {
        let stream = moved(method.call0()?, STREAM, FFI_ArrowArrayStream::empty())?;
        return Stream::new(stream).map(ArrowData::Stream).map(Some).or_raise(py);
    }
    Ok(import_batch(object)?.map(ArrowData::Batch))
}

/// The rows of an object that is one batch; `None` for anything else. A batch of pyarrow can also
/// be read as a stream, and `import` does so.
pub fn import_batch(object: &Bound<'_, PyAny>) -> PyResult<Option<RecordBatch>> {
    let py = object.py();
    if let Ok(batch) = object.cast::<Batch>() {
        return Ok(Some(batch.get().batch.clone()));
    }
    let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_array__"))? else {
        return Ok(None);
    };
    let pair = method.call0()?.cast_into::<PyTuple>()?;
    let schema = moved(pair.get_item(0)?, SCHEMA, FFI_ArrowSchema::empty())?;
    let array = moved(pair.get_item(1)?, ARRAY, FFI_ArrowArray::empty())?;
    let schema = schema_of_ffi(&schema).or_raise(py)?;
    batch_of_ffi(array, &schema).map(Some).or_raise(py)
}

/// The schema of an object, without reading its rows; `None` if it does not support the interface.
pub fn import_schema(object: &Bound<'_, PyAny>) -> PyResult<Option<SchemaRef>> {
    let py = object.py();
    if let Ok(batch) = object.cast::<Batch>() {
        return Ok(Some(converted_schema(&batch.get().batch.schema())));
    }
    if let Ok(table) = object.cast::<Table>() {
        return Ok(Some(table.get().schema.clone()));
    }
    if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_schema__"))? {
        let schema = moved(method.call0()?, SCHEMA, FFI_ArrowSchema::empty())?;
        return schema_of_ffi(&schema).map(|schema| Some(converted_schema(&schema))).or_raise(py);
    }
    Ok(import(object)?.map(|data| data.schema()))
}
