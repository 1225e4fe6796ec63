//! Reads a source by splits, which are assigned dynamically, so that a slow instance reads fewer.
//! With `is_statically_divided` they are assigned in advance, for comparison.

use std::ops::Range;

use arrow::record_batch::RecordBatch;
use euphrates_flow::module::UnitPlan;
use euphrates_flow::{Ports, Result, RunIndex, batch_bytes};

use crate::coordination::affine_units::AffineUnits;
use crate::coordination::work_units::WorkUnits;

/// The splits of a source.
pub(crate) struct Splits<'a, W: Fn(Range<usize>) -> u64> {
    /// The number of splits.
    pub(crate) count: usize,
    /// The bytes of a range of splits, as far as known.
    pub(crate) weigh: W,
    /// The splits that each process reads first, and which of these lists is that of this process.
    /// Not used if the source is a stream, whose splits are claimed in order.
    pub(crate) affinity: Option<(&'a [Vec<usize>], usize)>,
}

/// Claims splits until none is left, and puts the batches that `read` makes of each on output 0. If
/// the source is a stream, split *i* becomes run *i* of all outputs. `after` is called behind each
/// batch and each split.
pub(crate) fn read_splits<I: Iterator<Item = Result<RecordBatch>>>(
    ports: &mut Ports,
    parts: Splits<'_, impl Fn(Range<usize>) -> u64>,
    is_stream: bool,
    mut read: impl FnMut(usize) -> Result<I>,
    mut after: impl FnMut(&mut Ports) -> Result<()>,
) -> Result<()> {
    let setup = ports.setup().clone();
    let mut own = (setup.instance..parts.count).step_by(setup.instances);
    let mut units = WorkUnits::new(&setup, UnitPlan::COUNTER, parts.count, parts.weigh);
    let affinity = parts.affinity.filter(|_| !is_stream);
    let equal = |units: Range<usize>| units.len() as u64;
    let mut affine =
        affinity.map(|(lists, own)| AffineUnits::new(&setup, "dealt parts", lists, own, equal));
    let mut next = || match &mut affine {
        _ if setup.is_statically_divided => Ok(own.next()),
        Some(affine) => affine.claim(),
        None => units.claim(),
    };
    while let Some(part) = next()? {
        // A split whose rows are all left out puts nothing, which would notice a cancelled flow.
        ports.check()?;
        if is_stream {
            for output in 0..ports.outputs() {
                ports.begin_run(output, part as RunIndex)?;
            }
        }
        for batch in read(part)? {
            let batch = batch?;
            ports.metrics().got(batch.num_rows(), batch_bytes(&batch));
            ports.put(0, batch)?;
            after(ports)?;
        }
        after(ports)?;
        if is_stream {
            for output in 0..ports.outputs() {
                ports.end_run(output)?;
            }
        }
    }
    Ok(())
}
