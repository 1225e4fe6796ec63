//! Sources read by parts: whoever is free takes the next one, so a slow instance reads fewer;
//! unless the flow is to be divided in advance, to compare.

use std::ops::Range;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Ports, Result, RunIndex, batch_bytes};

use crate::units::Units;

/// Parts of a source, and what so many of them weigh together.
pub struct Parts<W: Fn(Range<usize>) -> u64> {
    /// So many.
    pub count: usize,
    /// Their bytes, as far as these are known.
    pub weigh: W,
}

/// Takes parts until none is left, and puts what `read` makes of each on output 0; if the source is
/// a stream, part *i* goes out as run *i*.
pub fn run<I: Iterator<Item = Result<RecordBatch>>>(
    ports: &mut Ports,
    parts: Parts<impl Fn(Range<usize>) -> u64>,
    is_stream: bool,
    mut read: impl FnMut(usize) -> Result<I>,
) -> Result<()> {
    let setup = ports.setup().clone();
    let mut own = (setup.instance..parts.count).step_by(setup.instances);
    let mut units = Units::new(&setup, "parts", parts.count, parts.weigh);
    while let Some(part) = if setup.is_divided { own.next() } else { units.take()? } {
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
    Ok(())
}
