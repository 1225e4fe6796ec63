//! Coalesces small batches into larger ones before they are put.

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, Ports, Result, batch_bytes};

/// Collects small batches until they make one worth sending.
#[derive(Default)]
pub(crate) struct Coalescer {
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: usize,
}

impl Coalescer {
    /// Puts a batch on output 0, at once or coalesced with later ones.
    pub(crate) fn put(&mut self, ports: &mut Ports, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.rows + batch.num_rows() > BATCH_ROWS_MAX {
            self.flush(ports)?;
        }
        self.bytes += batch_bytes(&batch);
        self.rows += batch.num_rows();
        self.batches.push(batch);
        if self.bytes * 4 < BATCH_BYTES_TARGET * 3 {
            return Ok(());
        }
        self.flush(ports)
    }

    /// Puts the collected rows.
    pub(crate) fn flush(&mut self, ports: &mut Ports) -> Result<()> {
        (self.bytes, self.rows) = (0, 0);
        match self.batches.as_slice() {
            [] => Ok(()),
            [_] => match self.batches.pop() {
                Some(one) => ports.put(0, one),
                None => Ok(()),
            },
            [first, ..] => {
                let whole = concat_batches(first.schema_ref(), &self.batches)?;
                self.batches.clear();
                ports.put(0, whole)
            }
        }
    }
}
