//! The Python classes of rows and schemas. Their methods are in `tables` and `schemas`.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use pyo3::prelude::*;

/// A batch of rows: what flows between modules.
#[pyclass(frozen, module = "euphrates", name = "Batch")]
pub struct Batch {
    pub batch: RecordBatch,
}

/// Rows that a flow collected.
#[pyclass(frozen, module = "euphrates", name = "Table")]
pub struct Table {
    /// The schema, also of a table without batches.
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// Names and types of columns.
#[pyclass(frozen, module = "euphrates", name = "Schema")]
pub struct Schema {
    pub schema: SchemaRef,
}
