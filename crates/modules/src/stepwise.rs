//! For modules that hold rows back, or leave early, and still pass on the runs they came in.

use std::ops::ControlFlow;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, Ports, Result, Taken, batch_bytes};

/// What comes in.
pub enum Step {
    /// A batch, and its run, if it has one.
    Batch(RecordBatch, Option<u64>),
    /// A run, or everything, is at its end: what is held back must be put now.
    End,
}

/// Feeds `step` with the batches of input 0; what it puts on output 0 belongs to the run the batch
/// came in. `Break` ends the module early, with the run properly ended.
pub fn stepwise(
    ports: &mut Ports,
    mut step: impl FnMut(&mut Ports, Step) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut current = None;
    loop {
        let flow = match ports.get_in_runs(0)? {
            Taken::Batch(parcel) => {
                if let (None, Some(run)) = (current, parcel.run) {
                    ports.begin_run(0, run)?;
                    current = parcel.run;
                }
                step(ports, Step::Batch(parcel.batch, parcel.run))?
            }
            Taken::RunEnd(run) => {
                if current.take().is_none() {
                    ports.begin_run(0, run)?;
                }
                let flow = step(ports, Step::End)?;
                ports.end_run(0)?;
                flow
            }
            Taken::Empty => ControlFlow::Continue(()),
            Taken::End => return step(ports, Step::End).map(drop),
        };
        if flow.is_break() {
            return if current.is_some() { ports.end_run(0) } else { Ok(()) };
        }
    }
}

/// Gathers small batches until they make one worth sending.
#[derive(Default)]
pub struct Gathered {
    batches: Vec<RecordBatch>,
    bytes: usize,
    rows: usize,
}

impl Gathered {
    /// Puts a batch on output 0, now or with those that follow.
    pub fn put(&mut self, ports: &mut Ports, batch: RecordBatch) -> Result<()> {
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

    /// Puts what there is.
    pub fn flush(&mut self, ports: &mut Ports) -> Result<()> {
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
