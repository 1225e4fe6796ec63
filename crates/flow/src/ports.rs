//! The ports of an instance: inputs to get batches from, outputs to put batches to.
//!
//! The ports update the metrics, measure batches, check for cancellation, and copy the run numbers
//! of the input to the outputs, so that a module that preserves order need not (River, 2.3.1 and
//! 2.3.2).

pub mod brake;
pub mod metrics;
mod parcel;
pub mod partitioned;
mod queue_ends;
mod select;
mod split;
pub mod tap;

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use self::brake::Brake;
use self::metrics::{InstanceMetrics, InstanceState};
use self::partitioned::Partition;
use self::tap::Tap;
use crate::batch::{batch_bytes, concatenated, oversized_row_bytes};
use crate::error::{Error, Result, unknown};
use crate::setup::Setup;

pub use self::parcel::{Parcel, RunIndex, Taken};
pub use self::queue_ends::{Consumer, Producer};

/// A port, by position or by the name its spec gives it.
///
/// ```
/// use euphrates_flow::ports::PortRef;
///
/// let names = ["left".to_string(), "right".to_string()];
/// assert_eq!(["right".position(&names)?, 1.position(&names)?], [1, 1]);
/// assert_eq!("rihgt".position(&names).unwrap_err().advice(), Some("did you mean `right`?"));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub trait PortRef: Copy {
    /// The position among the names, if there is such a port.
    fn position(self, names: &[String]) -> Result<usize>;
}

impl PortRef for usize {
    fn position(self, names: &[String]) -> Result<usize> {
        if self < names.len() {
            return Ok(self);
        }
        Err(Error::usage(format!("port {self} of a module that has {}", names.len())))
    }
}

impl PortRef for &str {
    fn position(self, names: &[String]) -> Result<usize> {
        names
            .iter()
            .position(|name| name == self)
            .ok_or_else(|| unknown("port", self, names.iter().map(String::as_str)))
    }
}

/// An input: its name in the spec and its queue.
pub struct Input {
    /// The input's name in the module's spec.
    pub name: String,
    /// The consumer's end of its queue.
    pub queue: Box<dyn Consumer>,
    /// Whether its runs hold whole groups, as made by a `partition` upstream.
    pub keeps_equal_keys_together: bool,
}

/// An output: its name in the spec and its queue.
pub struct Output {
    /// The output's name in the module's spec.
    pub name: String,
    /// The producer's end of its queue.
    pub queue: Box<dyn Producer>,
}

/// The inputs and outputs of one instance.
pub struct Ports {
    inputs: Vec<Box<dyn Consumer>>,
    input_names: Vec<String>,
    /// Whether the runs of each input hold whole groups.
    groups: Vec<bool>,
    /// A tap for each input, which observes its batches; empty if there are none.
    taps: Vec<Arc<Tap>>,
    outputs: Vec<Box<dyn Producer>>,
    output_names: Vec<String>,
    /// The run each output is in.
    runs: Vec<Option<RunIndex>>,
    /// Whether the runs of the input are repeated on the outputs.
    keeps_runs: bool,
    /// The partition the module works on, if it keeps runs.
    partition: Option<RunIndex>,
    metrics: Arc<InstanceMetrics>,
    setup: Arc<Setup>,
    /// Slows the instance down, if it is perturbed.
    brake: Option<Brake>,
}

impl Ports {
    /// Ports over queues. `keeps_runs` repeats the runs of the input on every output.
    pub fn new(
        inputs: Vec<Input>,
        outputs: Vec<Output>,
        keeps_runs: bool,
        metrics: Arc<InstanceMetrics>,
        setup: Arc<Setup>,
    ) -> Ports {
        let groups = inputs.iter().map(|port| port.keeps_equal_keys_together).collect();
        let (input_names, inputs) = inputs.into_iter().map(|port| (port.name, port.queue)).unzip();
        let (output_names, outputs): (Vec<_>, Vec<_>) =
            outputs.into_iter().map(|port| (port.name, port.queue)).unzip();
        let runs = vec![None; outputs.len()];
        let brake = None;
        Ports {
            inputs,
            input_names,
            groups,
            taps: vec![],
            outputs,
            output_names,
            runs,
            keeps_runs,
            partition: None,
            metrics,
            setup,
            brake,
        }
    }

    /// Slows the instance down from now on: its work between two calls takes longer.
    pub fn slow_by(&mut self, brake: Brake) {
        self.brake = Some(brake);
    }

    /// Observes the batches of each input from now on.
    pub fn tap(&mut self, taps: Vec<Arc<Tap>>) {
        self.taps = taps;
    }

    /// The next batch of an input, or `None` at its end.
    pub fn get(&mut self, input: impl PortRef) -> Result<Option<RecordBatch>> {
        let input = input.position(&self.input_names)?;
        loop {
            match self.take(input, true)? {
                Taken::Batch(parcel) => {
                    self.follow(parcel.run)?;
                    return Ok(Some(parcel.batch));
                }
                Taken::RunEnd(run) => self.follow_end(run)?,
                Taken::Empty => {}
                Taken::End => return Ok(None),
            }
        }
    }

    /// Like `get`, but does not wait: `Empty` if no batch is available.
    pub fn try_get(&mut self, input: impl PortRef) -> Result<Taken> {
        let input = input.position(&self.input_names)?;
        loop {
            match self.take(input, false)? {
                Taken::Batch(parcel) => {
                    self.follow(parcel.run)?;
                    return Ok(Taken::Batch(parcel));
                }
                Taken::RunEnd(run) => self.follow_end(run)?,
                other => return Ok(other),
            }
        }
    }

    /// The next batch with its run, or the end of a run: for modules that write their output in
    /// order. `End` at the end of the input.
    pub fn get_in_runs(&mut self, input: impl PortRef) -> Result<Taken> {
        let input = input.position(&self.input_names)?;
        self.take(input, true)
    }

    /// Whether an input provides partitions: it is keyed, or comes in runs that hold whole groups
    /// of an earlier partitioning. `get` takes partitions batch by batch.
    pub fn has_partitions(&self, input: impl PortRef) -> Result<bool> {
        let input = input.position(&self.input_names)?;
        Ok(self.inputs[input].is_keyed() || self.groups[input])
    }

    /// All records of the next partition as one batch, or `None` when all partitions have been
    /// taken. Empty partitions are skipped.
    pub fn get_partition(&mut self, input: impl PortRef) -> Result<Option<RecordBatch>> {
        let input = input.position(&self.input_names)?;
        if self.groups[input] && !self.inputs[input].is_keyed() {
            return self.get_run(input);
        }
        let Some(partition) = self.next_partition(input)? else { return Ok(None) };
        let batches = partition.records()?.collect::<Result<Vec<_>>>()?;
        let Some(whole) = concatenated(&batches)? else { return self.get_partition(input) };
        self.metrics.got(whole.num_rows(), batch_bytes(&whole));
        Ok(Some(whole))
    }

    /// All records of the next run that is not empty. The output run of the same number is ended by
    /// the next call, since the module puts its results before that.
    fn get_run(&mut self, input: usize) -> Result<Option<RecordBatch>> {
        self.end_partition()?;
        let mut batches = vec![];
        loop {
            match self.take(input, true)? {
                Taken::Batch(parcel) => {
                    self.follow(parcel.run)?;
                    batches.push(parcel.batch);
                }
                Taken::RunEnd(run) => {
                    self.partition = Some(run);
                    match concatenated(&batches)? {
                        Some(whole) => return Ok(Some(whole)),
                        None => self.end_partition()?,
                    }
                }
                Taken::Empty => {}
                Taken::End => return Ok(None),
            }
        }
    }

    /// Ends the run that repeats the current partition.
    fn end_partition(&mut self) -> Result<()> {
        match self.partition.take() {
            Some(run) => self.follow_end(run),
            None => Ok(()),
        }
    }

    /// The next partition of a keyed input, or `None` when all have been taken: for modules that
    /// work on whole partitions.
    pub fn next_partition(&mut self, input: impl PortRef) -> Result<Option<Partition>> {
        let input = input.position(&self.input_names)?;
        self.setup.cancel.check()?;
        self.stretch_work()?;
        let next = {
            let _state = self.metrics.enter_in_ports(InstanceState::Starved);
            self.inputs[input].next_partition()?
        };
        self.end_partition()?;
        if let Some(partition) = &next {
            self.partition = Some(partition.run());
            self.follow(self.partition)?;
        }
        self.resume()?;
        Ok(next)
    }

    /// Puts a batch on an output; waits while the queue is full. Empty batches are not sent. Fails
    /// with `Closed` when the output has no consumers any more.
    pub fn put(&mut self, output: impl PortRef, batch: RecordBatch) -> Result<()> {
        let output = output.position(&self.output_names)?;
        self.give(output, batch, true).map(|refused| debug_assert!(refused.is_none()))
    }

    /// Like `put`, but returns the batch instead of waiting if the queue is full.
    pub fn try_put(
        &mut self,
        output: impl PortRef,
        batch: RecordBatch,
    ) -> Result<Option<RecordBatch>> {
        let output = output.position(&self.output_names)?;
        self.give(output, batch, false)
    }

    /// Begins a run on an output: batches put until `end_run` go to one consumer, in order. Runs of
    /// one stream are numbered from 0 without gaps.
    pub fn begin_run(&mut self, output: impl PortRef, run: RunIndex) -> Result<()> {
        let output = output.position(&self.output_names)?;
        assert!(self.runs[output].is_none(), "begin_run before end_run of the run before");
        self.outputs[output].begin_run(run)?;
        self.runs[output] = Some(run);
        Ok(())
    }

    /// Ends the run begun last on an output.
    pub fn end_run(&mut self, output: impl PortRef) -> Result<()> {
        let output = output.position(&self.output_names)?;
        let run = self.runs[output].take().expect("end_run without begin_run");
        self.outputs[output].end_run(run)
    }

    /// Splits off the inputs, for a module that gets in one thread and puts in another. Neither
    /// half repeats the runs of the input. The other thread must register with `Cancel` to be
    /// woken.
    pub fn take_inputs(&mut self) -> Ports {
        self.keeps_runs = false;
        Ports {
            inputs: std::mem::take(&mut self.inputs),
            input_names: std::mem::take(&mut self.input_names),
            groups: std::mem::take(&mut self.groups),
            taps: std::mem::take(&mut self.taps),
            outputs: vec![],
            output_names: vec![],
            runs: vec![],
            keeps_runs: false,
            partition: None,
            metrics: self.metrics.clone(),
            setup: self.setup.clone(),
            brake: self.brake.clone(),
        }
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// The resources of the instance: memory, scratch, cancellation.
    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// Fails when the flow has been cancelled. For loops that neither get nor put.
    pub fn check(&self) -> Result<()> {
        self.setup.cancel.check()
    }

    /// The metrics of the instance, for modules that move bytes past the ports (files, pipes).
    pub fn metrics(&self) -> &InstanceMetrics {
        &self.metrics
    }

    fn take(&mut self, input: usize, wait: bool) -> Result<Taken> {
        self.setup.cancel.check()?;
        self.stretch_work()?;
        let mut waits = false;
        let taken = loop {
            let _state = waits.then(|| self.metrics.enter_in_ports(InstanceState::Starved));
            match self.inputs[input].take(waits)? {
                Taken::Empty if wait => waits = !waits,
                taken => break taken,
            }
        };
        self.resume()?;
        match &taken {
            Taken::Batch(parcel) => {
                self.metrics.got(parcel.batch.num_rows(), parcel.bytes);
                if let Some(tap) = self.taps.get(input) {
                    tap.passed(&parcel.batch, parcel.bytes);
                }
            }
            // A failing producer cancels before its queues end, so that a truncated stream is not
            // taken for a complete one.
            Taken::End | Taken::RunEnd(_) => self.setup.cancel.check()?,
            Taken::Empty => {}
        }
        Ok(taken)
    }

    fn give(
        &mut self,
        output: usize,
        batch: RecordBatch,
        wait: bool,
    ) -> Result<Option<RecordBatch>> {
        self.setup.cancel.check()?;
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        self.stretch_work()?;
        let (rows, bytes) = (batch.num_rows(), batch_bytes(&batch));
        if let Some(long) = oversized_row_bytes(&batch, self.setup.row_bytes_max) {
            return Err(self.setup.row_too_long(long));
        }
        let parcel = Parcel { batch, bytes, run: self.runs[output] };
        let refused = match self.outputs[output].put(parcel, false)? {
            Some(parcel) if wait => {
                let _state = self.metrics.enter_in_ports(InstanceState::Blocked);
                self.outputs[output].put(parcel, true)?
            }
            refused => refused,
        };
        self.resume()?;
        if refused.is_none() {
            self.metrics.put(rows, bytes);
        }
        Ok(refused.map(|parcel| parcel.batch))
    }

    /// Stretches the module's work since the last call, if the instance is slowed.
    pub fn stretch_work(&mut self) -> Result<()> {
        match &mut self.brake {
            Some(brake) => brake.stretch_work(self.metrics.waited_outside(), &self.setup.cancel),
            None => Ok(()),
        }
    }

    /// Resumes the module, unless it is paused.
    fn resume(&mut self) -> Result<()> {
        match &mut self.brake {
            Some(brake) => brake.resume(&self.setup.cancel),
            None => Ok(()),
        }
    }

    /// A batch of `run` was taken: batches put from now on belong to the same run.
    fn follow(&mut self, run: Option<RunIndex>) -> Result<()> {
        let (true, Some(run)) = (self.keeps_runs, run) else { return Ok(()) };
        for output in 0..self.outputs.len() {
            if self.runs[output] != Some(run) {
                self.begin_run(output, run)?;
            }
        }
        Ok(())
    }

    fn follow_end(&mut self, run: RunIndex) -> Result<()> {
        if !self.keeps_runs {
            return Ok(());
        }
        self.follow(Some(run))?;
        (0..self.outputs.len()).try_for_each(|output| self.end_run(output))
    }
}
