//! The Arrow PyCapsule interface: exchanges batches, streams and schemas with other libraries,
//! without copying (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface>).
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
use euphrates_flow::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::errors::OrRaise;

pub const SCHEMA: &CStr = c"arrow_schema";
pub const ARRAY: &CStr = c"arrow_array";
pub const STREAM: &CStr = c"arrow_array_stream";

/// Exports a schema as a capsule.
pub fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(Error::from).or_raise(py)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Exports a batch as a pair of capsules: its schema, and its rows as a struct array.
pub fn export_batch<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyTuple>> {
    let schema = export_schema(py, &batch.schema())?;
    let array = FFI_ArrowArray::new(&StructArray::from(batch.clone()).into_data());
    (schema, PyCapsule::new_with_value(py, array, ARRAY)?).into_pyobject(py)
}

/// Exports a stream as a capsule.
pub fn export_stream<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Moves a struct out of a capsule of this name, and leaves an empty one behind, which counts as
/// released.
pub fn moved<T>(capsule: Bound<'_, PyAny>, name: &CStr, empty: T) -> PyResult<T> {
    let capsule = capsule.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(name))?.cast::<T>();
    // SAFETY: the interface promises that a capsule of this name holds this struct; it is read and
    // marked as released while the GIL is held, so no other thread moves it too.
    Ok(unsafe { pointer.replace(empty) })
}

/// The schema of a table, after a check of its types and its depth.
pub fn schema_of_ffi(schema: &FFI_ArrowSchema) -> Result<SchemaRef> {
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

/// Fails if a column has a type outside of the Arrow format, like Polars' 128-bit integers.
fn check_types(table: &FFI_ArrowSchema) -> Result<()> {
    let is_unknown = |schema: &&FFI_ArrowSchema| DataType::try_from(*schema).is_err();
    let mut names: Vec<&str> = vec![];
    let mut unknown = Some(table).filter(is_unknown);
    while let Some(schema) = unknown {
        let below = schema.children().chain(schema.dictionary()).find(is_unknown);
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
        unknown = Some(below);
    }
    Ok(())
}

/// Fails if a column is nested too deeply, because its conversion is recursive.
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

/// The batch of a struct array.
pub fn batch_of_ffi(array: FFI_ArrowArray, schema: &SchemaRef) -> Result<RecordBatch> {
    if array.is_released() {
        return Err(Error::usage("the Arrow array has already been released"));
    }
    // SAFETY: the producer promises that array and schema belong together.
    let data = unsafe { from_ffi_and_data_type(array, DataType::Struct(schema.fields().clone())) }?;
    let options = RecordBatchOptions::new().with_row_count(Some(data.len()));
    let (_, columns, nulls) = StructArray::from(with_zero_offset(data)?).into_parts();
    if nulls.is_some_and(|nulls| nulls.null_count() > 0) {
        return Err(Error::usage("a table has no rows that are null as a whole"));
    }
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// The same array with a zero offset for structs, fixed-size lists and sparse unions: the offset is
/// applied to their children instead. Without this, arrow-rs slices the children of a struct twice,
/// and panics.
fn with_zero_offset(data: ArrayData) -> Result<ArrayData> {
    if data.child_data().is_empty() {
        return Ok(data);
    }
    let step = match data.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => Some(1),
        DataType::FixedSizeList(_, size) => Some(*size as usize),
        _ => None,
    };
    let children = data.child_data().iter().cloned().map(|child| {
        let child = with_zero_offset(child)?;
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
    let builder = data.into_builder().offset(offset).nulls(nulls);
    // SAFETY: the producer promises that the array is sound, and children that begin elsewhere have
    // been cut to begin at the offset, which is 0 now; their lengths were compared.
    Ok(unsafe { builder.buffers(buffers).child_data(children).build_unchecked() })
}

/// An Arrow stream of another library.
pub struct Stream {
    ffi: FFI_ArrowArrayStream,
    /// The schema of the batches.
    pub schema: SchemaRef,
}

impl Stream {
    /// Takes over a stream, and reads its schema.
    pub fn new(mut ffi: FFI_ArrowArrayStream) -> Result<Stream> {
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

    /// The next batch; `None` at the end.
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

/// The last error of the stream's producer.
fn last_error(ffi: &mut FFI_ArrowArrayStream) -> Error {
    let text = ffi.get_last_error.map(|get| {
        // SAFETY: called right after a failure; the text lives until the next call.
        let text = unsafe { get(ffi) };
        if text.is_null() { None } else { Some(unsafe { CStr::from_ptr(text) }.to_string_lossy()) }
    });
    let text = text.flatten().unwrap_or("no reason given".into());
    Error::failed(format!("the Arrow stream failed: {text}"))
}
