//! What a module sees of the world: inputs to get from, outputs to put to.
//!
//! Metrics, memory accounting, cancellation and the order of runs live here, so that no module
//! ever counts, times or numbers anything (River, 2.3.1 and 2.3.2).

mod select;

use std::sync::Arc;

use arrow::record_batch::RecordBatch;

use crate::batch::{batch_bytes, joined, longer_row};
use crate::brake::Brake;
use crate::error::{Error, Result, unknown};
use crate::metrics::{InstanceMetrics, State};
use crate::partitioned::Partition;
use crate::setup::Setup;
use crate::tap::Tap;

/// The number of a run in its stream: dense, from 0.
pub type RunIndex = u64;

/// What travels on a queue: a batch, its size (counted once), and its run if it has one.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The records.
    pub batch: RecordBatch,
    /// What it counts against the queue's bound.
    pub bytes: usize,
    /// The run it belongs to, if the stream is ordered.
    pub run: Option<RunIndex>,
}

/// What a queue gives its consumer.
#[derive(Debug)]
pub enum Taken {
    /// A batch.
    Batch(Parcel),
    /// All batches of this run have been taken. A run may be empty.
    RunEnd(RunIndex),
    /// Nothing now; only when asked not to wait.
    Empty,
    /// Nothing ever again.
    End,
}

/// The consumer's end of a queue.
pub trait Consumer: Send {
    /// The next item; waits for one if `wait`. `Empty` after that: it is still to be computed.
    fn take(&mut self, wait: bool) -> Result<Taken>;
    /// Whether `take` would not wait. Registers the calling thread to be unparked when this may
    /// have changed, if `register`; otherwise forgets it.
    fn ready(&mut self, register: bool) -> bool;
    /// Waits until one of these inputs is ready and returns it. Only remote queue ends implement
    /// this, because they cannot be polled one by one; all others return `None`.
    fn select(&mut self, inputs: &[usize]) -> Result<Option<usize>> {
        let _ = inputs;
        Ok(None)
    }
    /// Whether it gives whole partitions.
    fn is_keyed(&self) -> bool {
        false
    }
    /// The next partition, if the queue is keyed.
    fn next_partition(&mut self) -> Result<Option<Partition>> {
        Err(Error::usage("the queue is not keyed").remedy("place a `partition` before this module"))
    }
}

/// The producer's end of a queue.
pub trait Producer: Send {
    /// Puts a batch, waiting for room if `wait`; gives it back if there was none.
    fn put(&mut self, parcel: Parcel, wait: bool) -> Result<Option<Parcel>>;
    /// Whether a batch would be let in now.
    fn has_room(&mut self, parcel: &Parcel) -> bool;
    /// Says that a run has begun: its batches will follow, from this producer alone.
    fn begin_run(&mut self, run: RunIndex) -> Result<()>;
    /// Says that no more batches of a run will follow.
    fn end_run(&mut self, run: RunIndex) -> Result<()>;
}

/// A port, by position or by the name its spec gives it.
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

/// An input: its name in the spec and the queue behind it.
pub struct Input {
    /// Name in the module's spec.
    pub name: String,
    /// The queue.
    pub queue: Box<dyn Consumer>,
    /// Whether its runs have whole groups, as a `partition` somewhere before has made them.
    pub groups: bool,
}

/// An output: its name in the spec and the queue behind it.
pub struct Output {
    /// Name in the module's spec.
    pub name: String,
    /// The queue.
    pub queue: Box<dyn Producer>,
}

/// The inputs and outputs of one instance.
pub struct Ports {
    inputs: Vec<Box<dyn Consumer>>,
    input_names: Vec<String>,
    /// Of each input, whether its runs have whole groups.
    groups: Vec<bool>,
    /// What comes in is told here, per input, if anybody wants to know.
    taps: Vec<Arc<Tap>>,
    outputs: Vec<Box<dyn Producer>>,
    output_names: Vec<String>,
    /// The run each output is in.
    runs: Vec<Option<RunIndex>>,
    /// Whether runs of the input are repeated on the outputs as they come.
    keeps_runs: bool,
    /// The partition that the module works on, if it keeps runs.
    partition: Option<RunIndex>,
    metrics: Arc<InstanceMetrics>,
    setup: Arc<Setup>,
    /// What makes the instance slow, if it is to be.
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
        let groups = inputs.iter().map(|port| port.groups).collect();
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

    /// Makes the instance slow: what it does between two calls takes longer from now on.
    pub fn slow_by(&mut self, brake: Brake) {
        self.brake = Some(brake);
    }

    /// Tells of what comes in at each input from now on.
    pub fn tap(&mut self, taps: Vec<Arc<Tap>>) {
        self.taps = taps;
    }

    /// The module has returned: what it did last is made up for.
    pub fn make_up(&mut self) -> Result<()> {
        self.stand_still()
    }

    /// The next batch of an input, or `None` when there will be no more.
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

    /// Like `get`, but does not wait: `Empty` when nothing is there now.
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

    /// The next batch with the run it belongs to, or the end of a run: for modules that give an
    /// order to what they write. `End` when there will be no more.
    pub fn get_in_runs(&mut self, input: impl PortRef) -> Result<Taken> {
        let input = input.position(&self.input_names)?;
        self.take(input, true)
    }

    /// Whether an input has partitions to give: it is keyed, or what was kept in partitions before
    /// comes in runs that still have whole groups. `get` takes them batch by batch.
    pub fn has_partitions(&self, input: impl PortRef) -> Result<bool> {
        let input = input.position(&self.input_names)?;
        Ok(self.inputs[input].is_keyed() || self.groups[input])
    }

    /// All records of the next partition in one batch, or `None` when all partitions have been
    /// taken. Those without records are left out.
    pub fn get_partition(&mut self, input: impl PortRef) -> Result<Option<RecordBatch>> {
        let input = input.position(&self.input_names)?;
        if self.groups[input] && !self.inputs[input].is_keyed() {
            return self.get_run(input);
        }
        let Some(partition) = self.next_partition(input)? else { return Ok(None) };
        let batches = partition.records()?.collect::<Result<Vec<_>>>()?;
        let Some(whole) = joined(&batches)? else { return self.get_partition(input) };
        self.metrics.got(whole.num_rows(), batch_bytes(&whole));
        Ok(Some(whole))
    }

    /// All records of the next run that has any. It ends where it is repeated when what comes of it
    /// has been put.
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
                    match joined(&batches)? {
                        Some(whole) => return Ok(Some(whole)),
                        None => self.end_partition()?,
                    }
                }
                Taken::Empty => {}
                Taken::End => return Ok(None),
            }
        }
    }

    /// What the module works on has been worked on.
    fn end_partition(&mut self) -> Result<()> {
        match self.partition.take() {
            Some(run) => self.follow_end(run),
            None => Ok(()),
        }
    }

    /// The next partition of a keyed input, or `None` when all of them have been taken: for modules
    /// that work on whole partitions.
    pub fn next_partition(&mut self, input: impl PortRef) -> Result<Option<Partition>> {
        let input = input.position(&self.input_names)?;
        self.setup.cancel.check()?;
        self.stand_still()?;
        let next = {
            let _state = self.metrics.enter_in_ports(State::Starved);
            self.inputs[input].next_partition()?
        };
        self.end_partition()?;
        if let Some(partition) = &next {
            self.partition = Some(partition.run());
            self.follow(self.partition)?;
        }
        self.let_go()?;
        Ok(next)
    }

    /// Puts a batch on an output; waits while the queue is full. Batches without rows are not
    /// sent. Fails with `Closed` when nobody reads this output any more.
    pub fn put(&mut self, output: impl PortRef, batch: RecordBatch) -> Result<()> {
        let output = output.position(&self.output_names)?;
        self.give(output, batch, true).map(|refused| debug_assert!(refused.is_none()))
    }

    /// Like `put`, but gives the batch back instead of waiting.
    pub fn try_put(
        &mut self,
        output: impl PortRef,
        batch: RecordBatch,
    ) -> Result<Option<RecordBatch>> {
        let output = output.position(&self.output_names)?;
        self.give(output, batch, false)
    }

    /// Begins a run on an output: batches put until `end_run` stay together, in order, on their
    /// way to one consumer. Runs of one stream are numbered from 0 without gaps.
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

    /// Takes the inputs away, for a module that gets in one thread and puts in another. Neither
    /// half repeats the runs of the input; the other thread must have itself woken by `Cancel`.
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

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// What the instance may use: memory, scratch, cancellation.
    pub fn setup(&self) -> &Arc<Setup> {
        &self.setup
    }

    /// Fails when the flow has been cancelled; for loops that neither get nor put.
    pub fn check(&self) -> Result<()> {
        self.setup.cancel.check()
    }

    /// The instance's metrics: for modules that move bytes past the ports (files, pipes).
    pub fn metrics(&self) -> &InstanceMetrics {
        &self.metrics
    }

    fn take(&mut self, input: usize, wait: bool) -> Result<Taken> {
        self.setup.cancel.check()?;
        self.stand_still()?;
        let mut waits = false;
        let taken = loop {
            let _state = waits.then(|| self.metrics.enter_in_ports(State::Starved));
            match self.inputs[input].take(waits)? {
                Taken::Empty if wait => waits = !waits,
                taken => break taken,
            }
        };
        self.let_go()?;
        match &taken {
            Taken::Batch(parcel) => {
                self.metrics.got(parcel.batch.num_rows(), parcel.bytes);
                if let Some(tap) = self.taps.get(input) {
                    tap.passed(&parcel.batch, parcel.bytes);
                }
            }
            // Whoever fails cancels before its queues end: a stream cut short is no whole one.
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
        self.stand_still()?;
        let (rows, bytes) = (batch.num_rows(), batch_bytes(&batch));
        if let Some(long) = longer_row(&batch, self.setup.row_bytes_max) {
            return Err(self.setup.refuse_row(long));
        }
        let parcel = Parcel { batch, bytes, run: self.runs[output] };
        let refused = match self.outputs[output].put(parcel, false)? {
            Some(parcel) if wait => {
                let _state = self.metrics.enter_in_ports(State::Blocked);
                self.outputs[output].put(parcel, true)?
            }
            refused => refused,
        };
        self.let_go()?;
        if refused.is_none() {
            self.metrics.put(rows, bytes);
        }
        Ok(refused.map(|parcel| parcel.batch))
    }

    /// The module has come to its ports: if it is to be slow, its work takes longer than it did.
    fn stand_still(&mut self) -> Result<()> {
        match &mut self.brake {
            Some(brake) => brake.stand_still(self.metrics.aside(), &self.setup.cancel),
            None => Ok(()),
        }
    }

    /// The module goes on, unless it is paused.
    fn let_go(&mut self) -> Result<()> {
        match &mut self.brake {
            Some(brake) => brake.let_go(&self.setup.cancel),
            None => Ok(()),
        }
    }

    /// A batch of `run` came in: what is put from now on belongs to the same run.
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
