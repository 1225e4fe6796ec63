//! The Arrow PyCapsule interface: batches, streams and schemas to and from any library that speaks
//! it, without copying (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface>).
//!
//! Ownership: a capsule owns its struct until a consumer moves it out and leaves a released one
//! behind; dropping a struct that has not been released releases it. So each is released once.

use std::ffi::CStr;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, RecordBatchOptions, RecordBatchReader, StructArray, make_array,
};
use arrow::datatypes::{DataType, Schema, SchemaRef, UnionMode};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::record_batch::RecordBatch;
use euphrates_flow::depth::{DEPTH_MAX, too_deep};
use euphrates_flow::{Error, Result, decoded, without_runs};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString, PyTuple};

use crate::errors::OrRaise;
use crate::tables::{Batch, Table};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// A capsule with a schema.
pub fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(Error::from).or_raise(py)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Capsules with a schema and a batch, as a struct array.
pub fn export_batch<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyTuple>> {
    let schema = export_schema(py, &batch.schema())?;
    let array = FFI_ArrowArray::new(&StructArray::from(batch.clone()).into_data());
    (schema, PyCapsule::new_with_value(py, array, ARRAY)?).into_pyobject(py)
}

/// A capsule with a stream.
pub fn export_stream<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// What an object that speaks Arrow holds.
pub enum Given {
    /// All of it.
    Batch(RecordBatch),
    /// More to come.
    Stream(Stream),
}

impl Given {
    /// The schema of what `each` gives.
    pub fn schema(&self) -> SchemaRef {
        match self {
            Given::Batch(batch) => without_runs(&batch.schema()),
            Given::Stream(stream) => without_runs(&stream.schema),
        }
    }

    /// Calls `each` with every batch, detached, its runs decoded. A stream is pulled with the GIL,
    /// because there are makers of streams who take it for granted (DuckDB's relations); one that
    /// waits lets it go.
    pub fn each(self, mut each: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let schema = self.schema();
        let mut each =
            |batch| decoded(batch, &schema).try_for_each(|part: Result<RecordBatch>| each(part?));
        match self {
            Given::Batch(batch) => each(batch),
            Given::Stream(mut stream) => loop {
                let pulled = Python::try_attach(|_| stream.next());
                match pulled.unwrap_or_else(|| Err(Error::interrupted()))? {
                    Some(batch) => each(batch)?,
                    None => return Ok(()),
                }
            },
        }
    }
}

/// What an object holds; `None` if it does not speak Arrow.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Given>> {
    let py = object.py();
    if let Ok(batch) = object.cast::<Batch>() {
        return Ok(Some(Given::Batch(batch.get().batch.clone())));
    }
    if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_stream__"))? {
        let stream: FFI_ArrowArrayStream = moved(method.call0()?, STREAM)?;
        return Stream::new(stream).map(Given::Stream).map(Some).or_raise(py);
    }
    if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_array__"))? {
        let pair = method.call0()?.cast_into::<PyTuple>()?;
        let schema: FFI_ArrowSchema = moved(pair.get_item(0)?, SCHEMA)?;
        let array: FFI_ArrowArray = moved(pair.get_item(1)?, ARRAY)?;
        let schema = schema_of_ffi(&schema).or_raise(py)?;
        return batch_of_ffi(array, &schema).map(Given::Batch).map(Some).or_raise(py);
    }
    Ok(None)
}

/// The schema of an object that speaks Arrow, without reading it; `None` if it does not.
pub fn import_schema(object: &Bound<'_, PyAny>) -> PyResult<Option<SchemaRef>> {
    let py = object.py();
    if let Ok(batch) = object.cast::<Batch>() {
        return Ok(Some(without_runs(&batch.get().batch.schema())));
    }
    if let Ok(table) = object.cast::<Table>() {
        return Ok(Some(table.get().schema.clone()));
    }
    if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_schema__"))? {
        let schema: FFI_ArrowSchema = moved(method.call0()?, SCHEMA)?;
        return schema_of_ffi(&schema).map(|schema| Some(without_runs(&schema))).or_raise(py);
    }
    Ok(import(object)?.map(|given| given.schema()))
}

/// Structs of the C data interface, which can be marked as released by leaving an empty one.
trait Released: Sized {
    fn released() -> Self;
}

impl Released for FFI_ArrowSchema {
    fn released() -> Self {
        FFI_ArrowSchema::empty()
    }
}

impl Released for FFI_ArrowArray {
    fn released() -> Self {
        FFI_ArrowArray::empty()
    }
}

impl Released for FFI_ArrowArrayStream {
    fn released() -> Self {
        FFI_ArrowArrayStream::empty()
    }
}

/// Moves a struct out of a capsule of this name.
fn moved<T: Released>(capsule: Bound<'_, PyAny>, name: &CStr) -> PyResult<T> {
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(name))?.cast::<T>();
    // SAFETY: the interface promises that a capsule of this name holds this struct; it is read and
    // marked as released while the GIL is held, so nobody else moves it too.
    Ok(unsafe { pointer.replace(T::released()) })
}

fn schema_of_ffi(schema: &FFI_ArrowSchema) -> Result<SchemaRef> {
    check_levels(schema)?;
    check_types(schema)?;
    match DataType::try_from(schema)? {
        DataType::Struct(fields) => {
            let metadata = schema.metadata()?;
            Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
        }
        other => Err(Error::usage(format!("a column of {other} is not a table"))
            .remedy("give a table, a data frame or a record batch")),
    }
}

/// Fails if a column has a type that is not Arrow's, like Polars' integers of 128 bits.
fn check_types(table: &FFI_ArrowSchema) -> Result<()> {
    let is_strange = |schema: &&FFI_ArrowSchema| DataType::try_from(*schema).is_err();
    let mut names: Vec<&str> = vec![];
    let mut strange = Some(table).filter(is_strange);
    while let Some(schema) = strange {
        let below = schema.children().chain(schema.dictionary()).find(is_strange);
        let Some(below) = below else {
            let format = schema.format();
            let kind = match format {
                "_pli128" | "_plu128" => "integers of 128 bits".into(),
                _ => format!("values of the type `{format}`"),
            };
            let message = format!("column `{}` has {kind}, which Arrow lacks", names.join("."));
            return Err(Error::usage(message).remedy("cast it, to a decimal or text for example"));
        };
        names.push(below.name().unwrap_or_default());
        strange = Some(below);
    }
    Ok(())
}

/// Fails if the table has columns of too many levels: what converts them is recursive.
fn check_levels(schema: &FFI_ArrowSchema) -> Result<()> {
    // The table itself is the level above its columns.
    let mut open = vec![(schema, 0)];
    while let Some((schema, level)) = open.pop() {
        if level > DEPTH_MAX {
            return Err(too_deep("a column of the Arrow table"));
        }
        let below = schema.children().chain(schema.dictionary());
        open.extend(below.map(|child| (child, level + 1)));
    }
    Ok(())
}

fn batch_of_ffi(array: FFI_ArrowArray, schema: &SchemaRef) -> Result<RecordBatch> {
    if array.is_released() {
        return Err(Error::usage("the Arrow array has already been released"));
    }
    // SAFETY: the producer promises that array and schema belong together.
    let data = unsafe { from_ffi_and_data_type(array, DataType::Struct(schema.fields().clone())) }?;
    let options = RecordBatchOptions::new().with_row_count(Some(data.len()));
    let (_, columns, nulls) = StructArray::from(settled(data)?).into_parts();
    if nulls.is_some_and(|nulls| nulls.null_count() > 0) {
        return Err(Error::usage("a table has no rows that are null as a whole"));
    }
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// The same array with slices taken of the children of structs, fixed-size lists and sparse
/// unions, so that these begin where their parent does. Arrow's own import takes them of the raw
/// data, which cuts the children of a struct twice, and panics.
fn settled(data: ArrayData) -> Result<ArrayData> {
    if data.child_data().is_empty() {
        return Ok(data);
    }
    let step = match data.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => Some(1),
        DataType::FixedSizeList(_, size) => Some(*size as usize),
        _ => None,
    };
    let children = data.child_data().iter().cloned().map(|child| {
        let child = settled(child)?;
        let Some(step) = step else { return Ok(child) };
        let (from, length) = (data.offset() * step, data.len() * step);
        if child.len() < from + length {
            return Err(Error::usage("a column of the Arrow array is shorter than its parent"));
        }
        Ok(make_array(child).slice(from, length).to_data())
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    let (offset, nulls) = (data.offset(), data.nulls().cloned());
    let buffers = match data.data_type() {
        DataType::Union(..) if step.is_some() => {
            vec![data.buffers()[0].slice_with_length(offset, data.len())]
        }
        _ => data.buffers().to_vec(),
    };
    let offset = if step.is_some() { 0 } else { offset };
    let settled = data.into_builder().offset(offset).nulls(nulls);
    // SAFETY: the producer promises that the array is sound, and children that begin elsewhere have
    // been cut to begin at the offset, which is 0 now; their lengths were compared.
    Ok(unsafe { settled.buffers(buffers).child_data(children).build_unchecked() })
}

/// A foreign stream.
pub struct Stream {
    ffi: FFI_ArrowArrayStream,
    /// The schema of its batches.
    pub schema: SchemaRef,
}

impl Stream {
    fn new(mut ffi: FFI_ArrowArrayStream) -> Result<Stream> {
        let (Some(get_schema), Some(_)) = (ffi.get_schema, ffi.release) else {
            return Err(Error::usage("the Arrow stream has already been consumed")
                .remedy("a stream can be read once: make a new one, or give a table"));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream has not been released.
        if unsafe { get_schema(&mut ffi, &mut schema) } != 0 {
            return Err(last_error(&mut ffi));
        }
        Ok(Stream { schema: schema_of_ffi(&schema)?, ffi })
    }

    /// The next batch; `None` at the end. To be called detached.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(get_next) = self.ffi.get_next else { return Ok(None) };
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream has not been released.
        if unsafe { get_next(&mut self.ffi, &mut array) } != 0 {
            return Err(last_error(&mut self.ffi));
        }
        if array.is_released() {
            return Ok(None);
        }
        batch_of_ffi(array, &self.schema).map(Some)
    }
}

/// What the producer says went wrong.
fn last_error(ffi: &mut FFI_ArrowArrayStream) -> Error {
    let text = ffi.get_last_error.map(|get| {
        // SAFETY: called right after a failure; the text lives until the next call.
        let text = unsafe { get(ffi) };
        if text.is_null() { None } else { Some(unsafe { CStr::from_ptr(text) }.to_string_lossy()) }
    });
    let text = text.flatten().unwrap_or("no reason given".into());
    Error::failed(format!("the Arrow stream failed: {text}"))
}

/// The name of an object's type, for messages.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type();
    kind.fully_qualified_name()
        .map_or("an object".into(), |name: Bound<'_, PyString>| name.to_string_lossy().into_owned())
}
