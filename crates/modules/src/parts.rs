//! Sources read by parts: whoever is free takes the next one, so a slow instance reads fewer;
//! unless the flow is to be divided in advance, to compare.

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Ports, Result, RunIndex, batch_bytes};

/// Takes parts until none is left, and puts what `read` makes of each on output 0; if the source is
/// a stream, part *i* goes out as run *i*.
pub fn run<I: Iterator<Item = Result<RecordBatch>>>(
    ports: &mut Ports,
    parts: usize,
    is_stream: bool,
    mut read: impl FnMut(usize) -> Result<I>,
) -> Result<()> {
    let setup = ports.setup().clone();
    let mut own = (setup.instance..).step_by(setup.instances);
    loop {
        let part = match setup.is_divided {
            true => own.next().unwrap_or(parts),
            false => setup.next("parts")? as usize,
        };
        if part >= parts {
            return Ok(());
        }
        if is_stream {
            ports.begin_run(0, part as RunIndex)?;
        }
        for batch in read(part)? {
            let batch = batch?;
            ports.metrics().got(batch.num_rows(), batch_bytes(&batch));
            ports.put(0, batch)?;
        }
        if is_stream {
            ports.end_run(0)?;
        }
    }
}
