//! An instance's thread at a worker: carries out the requests of its child process on the real
//! ports, and asks policy whether to retry after a crash.

use std::sync::{Arc, PoisonError};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Cancel, Cause, Error, Ports, Result, Row, Taken};
use euphrates_policy::recovery::Crashes;
use euphrates_wire::Frame;

use super::letters::{Ask, Codec, Instance, Order};
use super::placed::{Confined, settle};
use super::process::{Ending, Process, Silence};
use crate::user_code::ended;

/// One instance.
pub struct Serving<'a> {
    module: &'a Confined,
    ports: &'a mut Ports,
    cancel: Arc<Cancel>,
    inputs: Vec<Codec>,
    outputs: Vec<Codec>,
    /// By output: the batch that there was no room for.
    kept: Vec<Option<RecordBatch>>,
    given: Given,
    crashes: Crashes,
}

/// What the child process has received.
#[derive(Default)]
struct Given {
    /// Rows before the last batch, of all inputs.
    rows: usize,
    last: Option<RecordBatch>,
    /// Whether anything was put since the last batch.
    has_put: bool,
    /// Whether the last batch is to be given again.
    again: bool,
}

impl Given {
    fn note(&mut self, batch: &RecordBatch) {
        self.rows += self.last.as_ref().map_or(0, RecordBatch::num_rows);
        (self.last, self.has_put) = (Some(batch.clone()), false);
    }

    /// The rows of the last batch.
    fn place(&self) -> Option<String> {
        let rows = self.last.as_ref().map(RecordBatch::num_rows).filter(|rows| *rows > 0)?;
        Some(format!("rows {} to {} of its input", self.rows, self.rows + rows - 1))
    }
}

/// How a child process came to its end.
enum End {
    Returned(Result<()>),
    Crashed,
}

impl<'a> Serving<'a> {
    pub fn new(module: &'a Confined, ports: &'a mut Ports) -> Serving<'a> {
        let cancel = ports.setup().cancel.clone();
        let kept = (0..ports.outputs()).map(|_| None).collect();
        let (inputs, outputs, given, crashes) = Default::default();
        Serving { module, ports, cancel, inputs, outputs, kept, given, crashes }
    }

    /// Serves one process after the other, until the module returns.
    pub fn run(mut self, mut process: Process) -> Result<()> {
        loop {
            self.begin()?;
            let end = self.serve(&mut process)?;
            match end {
                End::Returned(result) => {
                    if result.is_ok() && !self.cancel.is_cancelled() {
                        process.put_back();
                    }
                    return ended(&self.cancel, result);
                }
                End::Crashed if self.cancel.is_cancelled() => return Err(Error::interrupted()),
                End::Crashed => {
                    let ending = process.end();
                    self.on_crash(&ending)?;
                    process = self.module.process()?;
                }
            }
        }
    }

    /// Resets the codecs, whose state is shared with one process.
    fn begin(&mut self) -> Result<()> {
        let schemas = self.module.schemas().clone();
        self.inputs = schemas.inputs.iter().map(Codec::new).collect::<Result<_>>()?;
        self.outputs = schemas.outputs.iter().map(Codec::new).collect::<Result<_>>()?;
        self.kept.iter_mut().for_each(|kept| *kept = None);
        Ok(())
    }

    /// Prepares a retry of the last batch, or returns the error the instance fails with.
    fn on_crash(&mut self, ending: &Ending) -> Result<()> {
        let name = self.ports.setup().module.clone();
        let place = self.given.place();
        let unit = format!("{name}, {}", place.as_deref().unwrap_or("before any rows"));
        let error = Error::failed(format!("the process that runs its code {ending}"));
        let error = error.remedy(ending.remedy());
        let error = match (&place, &self.given.last) {
            (Some(place), Some(last)) => {
                let about = || "the first of the batch that it worked on".to_string();
                error.at(place).in_row(|| Row::of(last, 0, about()))
            }
            _ => error,
        };
        if !self.module.is_batchwise() || self.given.has_put {
            // State, or output of this batch, is lost: only another attempt of the flow can
            // recover. Rows are distributed differently then, so crashes are counted by module.
            return Err(error.because(Cause::Crash { unit: name }));
        }
        if !self.crashes.is_retried(&unit) {
            return Err(error.at("crashed twice"));
        }
        let told = format!("its process {ending} at {unit}, and was restarted");
        self.module.crashes.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        self.given.again = self.given.last.is_some();
        Ok(())
    }

    /// Carries out requests until the process or the module ends.
    fn serve(&mut self, process: &mut Process) -> Result<End> {
        match settle(process, &self.cancel) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(Silence::Over) => return Err(Error::interrupted()),
            Err(Silence::Dead) => return Ok(End::Crashed),
        }
        self.ports.metrics().runs_in(process.number());
        let keyed = (0..self.ports.inputs()).map(|input| self.ports.has_partitions(input));
        let mut instance = Instance::of(self.ports.setup(), keyed.collect::<Result<_>>()?);
        instance.rows_before = self.given.rows;
        process.tell(&Order::Run(Box::new(instance)), None)?;
        loop {
            let (ask, frame) = match process.hear(&self.cancel) {
                Ok(heard) => heard,
                Err(Silence::Over) => return Err(Error::interrupted()),
                Err(Silence::Dead) => return Ok(End::Crashed),
            };
            if let Ask::Ended { error } = ask {
                return Ok(End::Returned(error.map_or(Ok(()), Err)));
            }
            match self.answer(ask, &frame) {
                Ok(Answer::Given(input, batch)) => {
                    process.tell(&Order::Batch, Some((&mut self.inputs[input], &batch)))?;
                }
                Ok(Answer::Said(order)) => process.tell(&order, None)?,
                Err(error) => process.tell(&Order::Failed { error }, None)?,
            }
        }
    }

    fn answer(&mut self, ask: Ask, frame: &Frame) -> Result<Answer> {
        Ok(match ask {
            Ask::Take { input, .. } | Ask::Partition { input } if self.given.again => {
                self.given.again = false;
                let last = self.given.last.clone();
                Answer::Given(input, last.ok_or_else(|| Error::failed("nothing was given"))?)
            }
            Ask::Take { input, wait: true } => {
                let batch = self.ports.get(input)?;
                self.give(input, batch)
            }
            Ask::Take { input, wait: false } => match self.ports.try_get(input)? {
                Taken::Batch(parcel) => self.give(input, Some(parcel.batch)),
                Taken::End => Answer::Said(Order::End),
                Taken::Empty | Taken::RunEnd(_) => Answer::Said(Order::Empty),
            },
            Ask::Partition { input } => {
                let whole = self.ports.get_partition(input)?;
                self.give(input, whole)
            }
            Ask::Select { inputs } => {
                Answer::Said(Order::Ready { input: self.ports.select(&inputs)? })
            }
            Ask::Put { output } => self.put(output, frame)?,
            Ask::PutKept { output } => {
                let kept = self.kept.get_mut(output).and_then(Option::take);
                let kept = kept.ok_or_else(|| Error::failed("there is nothing to put"))?;
                self.ports.put(output, kept)?;
                Answer::Said(Order::Done)
            }
            Ask::BeginRun { output, run } => {
                self.ports.begin_run(output, run)?;
                Answer::Said(Order::Done)
            }
            Ask::EndRun { output } => {
                self.ports.end_run(output)?;
                Answer::Said(Order::Done)
            }
            Ask::Count { rows, bytes } => {
                self.ports.metrics().got(rows, bytes);
                Answer::Said(Order::Done)
            }
            Ask::Placed { .. } | Ask::Checked { .. } | Ask::Unfit { .. } | Ask::Ended { .. } => {
                return Err(Error::failed(
                    "unexpected message of the process that runs the module",
                ));
            }
        })
    }

    fn give(&mut self, input: usize, batch: Option<RecordBatch>) -> Answer {
        let Some(batch) = batch else { return Answer::Said(Order::End) };
        self.given.note(&batch);
        Answer::Given(input, batch)
    }

    fn put(&mut self, output: usize, frame: &Frame) -> Result<Answer> {
        let unknown = || Error::failed(format!("there is no output {output}"));
        let batch = self.outputs.get(output).ok_or_else(unknown)?.decode(frame)?;
        // From now on a retry of the batch would put it twice.
        self.given.has_put = true;
        let refused = self.ports.try_put(output, batch)?;
        let said = if refused.is_some() { Order::Refused } else { Order::Done };
        self.kept[output] = refused;
        Ok(Answer::Said(said))
    }
}

/// The answer to a request.
enum Answer {
    /// A batch of this input.
    Given(usize, RecordBatch),
    Said(Order),
}
