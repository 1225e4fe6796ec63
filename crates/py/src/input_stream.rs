//! The Python class `InputStream`: an input as an Arrow stream that a library pulls from.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use arrow::array::RecordBatchReader;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::data::capsules::{export_schema, export_stream};
use crate::lease::Lease;

/// An input as a stream of Arrow's, for libraries that pull.
///
/// A library may open a stream only for its schema. So the first reader that pulls gets the rows,
/// and any other reader that pulls gets an error.
#[pyclass(frozen, module = "euphrates", name = "InputStream")]
pub struct InputStream {
    lease: Arc<Lease>,
    input: usize,
    schema: SchemaRef,
    /// Whether a reader has pulled.
    is_taken: Arc<AtomicBool>,
}

impl InputStream {
    /// The stream of an input.
    pub fn new(lease: Arc<Lease>, input: usize, schema: SchemaRef) -> InputStream {
        InputStream { lease, input, schema, is_taken: Arc::default() }
    }
}

#[pymethods]
impl InputStream {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = StreamReader {
            lease: self.lease.clone(),
            input: self.input,
            schema: self.schema.clone(),
            is_taken: self.is_taken.clone(),
            has_pulled: false,
        };
        export_stream(py, Box::new(reader))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.schema)
    }
}

/// One reader of the stream.
struct StreamReader {
    lease: Arc<Lease>,
    input: usize,
    schema: SchemaRef,
    is_taken: Arc<AtomicBool>,
    /// Whether this reader has pulled.
    has_pulled: bool,
}

impl StreamReader {
    fn pull(&mut self) -> Result<Option<RecordBatch>> {
        if !self.has_pulled && self.is_taken.swap(true, SeqCst) {
            return Err(Error::usage("the input was read twice, but it flows by only once")
                .remedy("copy it into a table first"));
        }
        self.has_pulled = true;
        let input = self.input;
        let batch = without_gil(|| self.lease.with(|ports| ports.get(input)))?;
        batch.iter().for_each(|batch| self.lease.took(input, batch));
        Ok(batch)
    }
}

/// Runs without the GIL, which the caller may hold, because the modules that are waited for may
/// need it.
///
/// The caller is C code that may have released the GIL without PyO3, so PyO3's attach count is not
/// reliable here.
fn without_gil<T>(act: impl FnOnce() -> T) -> T {
    use pyo3::ffi;
    // SAFETY: `Ensure` works in any state of this thread; what it does is undone in order, also
    // when `act` panics, because then the caller turns the panic into an error only after `Undo`.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            return act();
        }
        struct Undo(ffi::PyGILState_STATE, *mut ffi::PyThreadState);
        impl Drop for Undo {
            fn drop(&mut self) {
                // SAFETY: the mirror image of what `without_gil` did.
                unsafe {
                    ffi::PyEval_RestoreThread(self.1);
                    ffi::PyGILState_Release(self.0);
                }
            }
        }
        let before = ffi::PyGILState_Ensure();
        let _undo = Undo(before, ffi::PyEval_SaveThread());
        act()
    }
}

impl Iterator for StreamReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A panic must not unwind into C.
        let pulled = catch_unwind(AssertUnwindSafe(|| self.pull()));
        let pulled = pulled.unwrap_or_else(|_| Err(Error::failed("panicked while it was read")));
        // The message passes through C, where a zero byte ends it.
        let external =
            |error: Error| ArrowError::ExternalError(error.to_string().replace('\0', " ").into());
        pulled.map_err(external).transpose()
    }
}

impl RecordBatchReader for StreamReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
