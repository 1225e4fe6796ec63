//! An instance's thread at a worker: executes the requests of its child process on the real ports,
//! and retries after a crash if policy allows it.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Cancel, Cause, Error, Ports, Result, Row, Taken};
use euphrates_policy::recovery::Crashes;
use euphrates_wire::Frame;

use super::messages::{ChildMessage, Codec, InstanceSetup, WorkerMessage};
use super::module::{IsolatedModule, await_placement};
use super::process::{Ending, NoReply, Process};
use crate::user_code::instance_result;

/// Serves the ports of one instance to its child process.
pub struct PortServer<'a> {
    module: &'a IsolatedModule,
    ports: &'a mut Ports,
    cancel: Arc<Cancel>,
    inputs: Vec<Codec>,
    outputs: Vec<Codec>,
    /// The refused batch of each output, for which there was no room.
    kept: Vec<Option<RecordBatch>>,
    delivered: Delivered,
    crashes: Crashes,
}

/// The batches that the child process has received.
#[derive(Default)]
struct Delivered {
    /// Rows before the last batch, of all inputs.
    rows: usize,
    last: Option<RecordBatch>,
    /// Whether anything was put since the last batch.
    has_put: bool,
    /// Whether the last batch is to be delivered again.
    again: bool,
}

impl Delivered {
    /// Records that a batch was delivered.
    fn record(&mut self, batch: &RecordBatch) {
        self.rows += self.last.as_ref().map_or(0, RecordBatch::num_rows);
        (self.last, self.has_put) = (Some(batch.clone()), false);
    }

    /// The row numbers of the last batch, for messages.
    fn rows_text(&self) -> Option<String> {
        let rows = self.last.as_ref().map(RecordBatch::num_rows).filter(|rows| *rows > 0)?;
        Some(format!("rows {} to {} of its input", self.rows, self.rows + rows - 1))
    }
}

/// How a child process ended.
enum ChildEnd {
    Returned(Result<()>),
    Crashed,
}

impl<'a> PortServer<'a> {
    pub fn new(module: &'a IsolatedModule, ports: &'a mut Ports) -> PortServer<'a> {
        let cancel = ports.setup().cancel.clone();
        let kept = (0..ports.outputs()).map(|_| None).collect();
        let (inputs, outputs, delivered, crashes) = Default::default();
        PortServer { module, ports, cancel, inputs, outputs, kept, delivered, crashes }
    }

    /// Serves one process after another, until the module returns.
    pub fn run(mut self, mut process: Process) -> Result<()> {
        loop {
            self.reset_codecs()?;
            let end = self.serve(&mut process)?;
            match end {
                ChildEnd::Returned(result) => {
                    if result.is_ok() && !self.cancel.is_cancelled() {
                        process.release();
                    }
                    return instance_result(&self.cancel, result);
                }
                ChildEnd::Crashed if self.cancel.is_cancelled() => return Err(Error::interrupted()),
                ChildEnd::Crashed => {
                    let ending = process.end();
                    self.on_crash(&ending)?;
                    process = self.module.acquire_process()?;
                }
            }
        }
    }

    /// Resets the codecs, whose state belongs to one process.
    fn reset_codecs(&mut self) -> Result<()> {
        let schemas = self.module.schemas.lock().clone();
        self.inputs = schemas.inputs.iter().map(Codec::new).collect::<Result<_>>()?;
        self.outputs = schemas.outputs.iter().map(Codec::new).collect::<Result<_>>()?;
        self.kept.iter_mut().for_each(|kept| *kept = None);
        Ok(())
    }

    /// Prepares a retry of the last batch, or returns the error the instance fails with.
    fn on_crash(&mut self, ending: &Ending) -> Result<()> {
        let name = self.ports.setup().module.clone();
        let rows = self.delivered.rows_text();
        let unit = format!("{name}, {}", rows.as_deref().unwrap_or("before any rows"));
        let error = Error::failed(format!("the process that runs its code {ending}"));
        let error = error.remedy(ending.remedy());
        let error = match (&rows, &self.delivered.last) {
            (Some(rows), Some(last)) => {
                let about = || "the first of the batch that it worked on".to_string();
                error.at(rows).in_row(|| Row::of(last, 0, about()))
            }
            _ => error,
        };
        if !self.module.is_batchwise() || self.delivered.has_put {
            // State or output is lost, so the flow must restart. It distributes rows differently
            // then, so crashes are counted by module.
            return Err(error.because(Cause::Crash { unit: name }));
        }
        if !self.crashes.retries_after_crash(&unit) {
            return Err(error.at("crashed twice"));
        }
        let crash = format!("its process {ending} at {unit}, and was restarted");
        self.module.crashes.lock().push(crash);
        self.delivered.again = self.delivered.last.is_some();
        Ok(())
    }

    /// Executes requests until the process or the module ends.
    fn serve(&mut self, process: &mut Process) -> Result<ChildEnd> {
        match await_placement(process, &self.cancel) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(NoReply::Cancelled) => return Err(Error::interrupted()),
            Err(NoReply::Dead) => return Ok(ChildEnd::Crashed),
        }
        self.ports.metrics().runs_in(process.pid());
        let keyed = (0..self.ports.inputs()).map(|input| self.ports.has_partitions(input));
        let mut instance = InstanceSetup::of(self.ports.setup(), keyed.collect::<Result<_>>()?);
        instance.rows_before = self.delivered.rows;
        process.send(&WorkerMessage::Run(Box::new(instance)), None)?;
        loop {
            let (request, frame) = match process.receive(&self.cancel) {
                Ok(received) => received,
                Err(NoReply::Cancelled) => return Err(Error::interrupted()),
                Err(NoReply::Dead) => return Ok(ChildEnd::Crashed),
            };
            if let ChildMessage::Ended { error } = request {
                return Ok(ChildEnd::Returned(error.map_or(Ok(()), Err)));
            }
            match self.execute(request, &frame) {
                Ok(PortReply::Batch(input, batch)) => {
                    process.send(&WorkerMessage::Batch, Some((&mut self.inputs[input], &batch)))?;
                }
                Ok(PortReply::Message(message)) => process.send(&message, None)?,
                Err(error) => process.send(&WorkerMessage::Failed { error }, None)?,
            }
        }
    }

    /// Executes a request on the ports.
    fn execute(&mut self, request: ChildMessage, frame: &Frame) -> Result<PortReply> {
        Ok(match request {
            ChildMessage::Take { input, .. } | ChildMessage::Partition { input }
                if self.delivered.again =>
            {
                self.delivered.again = false;
                let last = self.delivered.last.clone();
                PortReply::Batch(input, last.ok_or_else(|| Error::failed("nothing was given"))?)
            }
            ChildMessage::Take { input, wait: true } => {
                let batch = self.ports.get(input)?;
                self.deliver(input, batch)
            }
            ChildMessage::Take { input, wait: false } => match self.ports.try_get(input)? {
                Taken::Batch(parcel) => self.deliver(input, Some(parcel.batch)),
                Taken::End => PortReply::Message(WorkerMessage::End),
                Taken::Empty | Taken::RunEnd(_) => PortReply::Message(WorkerMessage::Empty),
            },
            ChildMessage::Partition { input } => {
                let whole = self.ports.get_partition(input)?;
                self.deliver(input, whole)
            }
            ChildMessage::Select { inputs } => {
                PortReply::Message(WorkerMessage::Ready { input: self.ports.select(&inputs)? })
            }
            ChildMessage::Put { output } => self.put(output, frame)?,
            ChildMessage::PutKept { output } => {
                let kept = self.kept.get_mut(output).and_then(Option::take);
                let kept = kept.ok_or_else(|| Error::failed("there is nothing to put"))?;
                self.ports.put(output, kept)?;
                PortReply::Message(WorkerMessage::Done)
            }
            ChildMessage::BeginRun { output, run } => {
                self.ports.begin_run(output, run)?;
                PortReply::Message(WorkerMessage::Done)
            }
            ChildMessage::EndRun { output } => {
                self.ports.end_run(output)?;
                PortReply::Message(WorkerMessage::Done)
            }
            ChildMessage::Count { rows, bytes } => {
                self.ports.metrics().got(rows, bytes);
                PortReply::Message(WorkerMessage::Done)
            }
            ChildMessage::FetchAdd { name } => PortReply::Message(WorkerMessage::Number {
                number: self.ports.setup().fetch_add(&name)?,
            }),
            ChildMessage::Configured { .. }
            | ChildMessage::Checked { .. }
            | ChildMessage::Unfit { .. }
            | ChildMessage::Ended { .. } => {
                return Err(Error::failed(
                    "unexpected message of the process that runs the module",
                ));
            }
        })
    }

    fn deliver(&mut self, input: usize, batch: Option<RecordBatch>) -> PortReply {
        let Some(batch) = batch else { return PortReply::Message(WorkerMessage::End) };
        self.delivered.record(&batch);
        PortReply::Batch(input, batch)
    }

    fn put(&mut self, output: usize, frame: &Frame) -> Result<PortReply> {
        let unknown = || Error::failed(format!("there is no output {output}"));
        let batch = self.outputs.get(output).ok_or_else(unknown)?.decode(frame)?;
        // A retry of the input batch would put this output twice.
        self.delivered.has_put = true;
        let refused = self.ports.try_put(output, batch)?;
        let message = if refused.is_some() { WorkerMessage::Refused } else { WorkerMessage::Done };
        self.kept[output] = refused;
        Ok(PortReply::Message(message))
    }
}

/// The reply to a request.
enum PortReply {
    /// A batch of this input.
    Batch(usize, RecordBatch),
    Message(WorkerMessage),
}
