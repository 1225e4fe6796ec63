//! The type of callbacks that take an operator's output.

use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;

/// Called with each batch; its error ends the operator.
pub(crate) type BatchSink<'a> = dyn FnMut(RecordBatch) -> Result<()> + 'a;
