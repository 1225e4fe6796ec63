//! Drives modules that hold rows back or end early, and repeats the runs of the input on the
//! output.

use std::ops::ControlFlow;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Ports, Result, Taken};

/// An event of the input.
pub(crate) enum RunStep {
    /// A batch, and its run, if it has one.
    Batch(RecordBatch, Option<u64>),
    /// The end of a run or of the input: held rows must be put now.
    End,
}

/// Calls `step` with each batch of input 0. What it puts on output 0 belongs to the run of that
/// batch. `Break` ends the module early, with its run ended.
pub(crate) fn process_in_runs(
    ports: &mut Ports,
    mut step: impl FnMut(&mut Ports, RunStep) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut current = None;
    loop {
        let flow = match ports.get_in_runs(0)? {
            Taken::Batch(parcel) => {
                if let (None, Some(run)) = (current, parcel.run) {
                    ports.begin_run(0, run)?;
                    current = parcel.run;
                }
                step(ports, RunStep::Batch(parcel.batch, parcel.run))?
            }
            Taken::RunEnd(run) => {
                if current.take().is_none() {
                    ports.begin_run(0, run)?;
                }
                let flow = step(ports, RunStep::End)?;
                ports.end_run(0)?;
                flow
            }
            Taken::Empty => ControlFlow::Continue(()),
            Taken::End => return step(ports, RunStep::End).map(drop),
        };
        if flow.is_break() {
            return if current.is_some() { ports.end_run(0) } else { Ok(()) };
        }
    }
}
