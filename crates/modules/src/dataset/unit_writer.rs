//! Writes the runs of an input as units, so that another attempt at the flow can adopt the files.
//! If the attempt fails elsewhere, what has arrived is completed, also a part of a unit.

use arrow::record_batch::RecordBatch;
use euphrates_flow::module::UnitPlan;
use euphrates_flow::{Error, Ports, Result, Taken};

use super::file_writer::{FileWriter, Written};

/// Writes all runs of input 0 to files, without the rows that earlier attempts have written.
/// `count` is called with what has been written.
pub(crate) fn write_units(
    plan: &UnitPlan,
    files: &mut FileWriter,
    ports: &mut Ports,
    count: impl Fn(Written, &Ports),
) -> Result<()> {
    let mut durable_left = 0;
    loop {
        let taken = match ports.get_in_runs(0) {
            Ok(taken) => taken,
            Err(error) => {
                // A file that cannot be completed is computed again.
                let completed = files.finish_units().unwrap_or_default();
                count(completed, ports);
                return Err(error);
            }
        };
        let written = match taken {
            Taken::Batch(parcel) => {
                let unit = parcel.run.map(|run| plan.unit_of_run(run));
                let unit = unit.ok_or_else(|| Error::failed("rows that belong to no unit"))?;
                begin(unit, plan, files, &mut durable_left);
                let rows = without_first(parcel.batch, &mut durable_left);
                files.push(&rows, ports.setup())?
            }
            Taken::RunEnd(run) => {
                begin(plan.unit_of_run(run), plan, files, &mut durable_left);
                if durable_left > 0 {
                    return Err(shorter(plan.unit_of_run(run)));
                }
                files.end_unit()?
            }
            Taken::Empty => continue,
            Taken::End => break,
        };
        count(written, ports);
    }
    count(files.finish_units()?, ports);
    Ok(())
}

/// Begins a unit, unless it has begun.
fn begin(unit: u64, plan: &UnitPlan, files: &mut FileWriter, durable_left: &mut u64) {
    if files.unit().is_none() {
        *durable_left = plan.durable_rows.get(&unit).copied().unwrap_or(0);
        files.begin_unit(unit, *durable_left);
    }
}

/// The rows of a batch behind the first ones, which are durable already.
fn without_first(batch: RecordBatch, durable_left: &mut u64) -> RecordBatch {
    let rows = batch.num_rows();
    let first = usize::try_from(*durable_left).unwrap_or(usize::MAX).min(rows);
    *durable_left -= first as u64;
    batch.slice(first, rows - first)
}

fn shorter(unit: u64) -> Error {
    let message = format!("split {unit} has fewer rows than in the attempt before");
    Error::failed(message).remedy("run it without `resume`, which begins from the start")
}
