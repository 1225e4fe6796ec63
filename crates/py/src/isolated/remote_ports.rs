//! Ports in a child process: consumers and producers whose queues are at the worker.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use euphrates_flow::ports::{Consumer, Producer};
use euphrates_flow::{Error, Kind, Parcel, Partition, Result, RunIndex, Taken, batch_bytes};

use super::channel::{WorkerChannel, WorkerFrame};
use super::messages::{ChildMessage, Codec, WorkerMessage};

/// The consumer's end of a queue at the worker.
pub struct WorkerConsumer {
    channel: Arc<WorkerChannel>,
    input: usize,
    codec: Codec,
    is_keyed: bool,
}

impl WorkerConsumer {
    /// A consumer of input number `input`; `is_keyed` says whether it has partitions.
    pub fn new(
        channel: Arc<WorkerChannel>,
        input: usize,
        schema: &SchemaRef,
        is_keyed: bool,
    ) -> Result<WorkerConsumer> {
        Ok(WorkerConsumer { channel, input, codec: Codec::new(schema)?, is_keyed })
    }

    fn batch(&self, (message, frame): WorkerFrame) -> Result<Taken> {
        match message {
            WorkerMessage::Batch => {
                let batch = self.codec.decode(&frame)?;
                let bytes = batch_bytes(&batch);
                Ok(Taken::Batch(Parcel { batch, bytes, run: None }))
            }
            WorkerMessage::Empty => Ok(Taken::Empty),
            WorkerMessage::End => Ok(Taken::End),
            other => Err(unexpected(&other)),
        }
    }
}

impl Consumer for WorkerConsumer {
    fn take(&mut self, wait: bool) -> Result<Taken> {
        let received = self.channel.ask(&ChildMessage::Take { input: self.input, wait }, None)?;
        self.batch(received)
    }

    fn ready(&mut self, _: bool) -> bool {
        true
    }

    fn select(&mut self, inputs: &[usize]) -> Result<Option<usize>> {
        match self.channel.ask(&ChildMessage::Select { inputs: inputs.to_vec() }, None)? {
            (WorkerMessage::Ready { input }, _) => Ok(input),
            (other, _) => Err(unexpected(&other)),
        }
    }

    fn is_keyed(&self) -> bool {
        self.is_keyed
    }

    fn next_partition(&mut self) -> Result<Option<Partition>> {
        let received = self.channel.ask(&ChildMessage::Partition { input: self.input }, None)?;
        match self.batch(received)? {
            Taken::Batch(Parcel { batch, .. }) => Ok(Some(Partition::of_batch(batch, 0))),
            _ => Ok(None),
        }
    }
}

/// The producer's end of a queue at the worker.
pub struct WorkerProducer {
    channel: Arc<WorkerChannel>,
    output: usize,
    codec: Codec,
    /// The batch that was refused last; the worker keeps a copy for `PutKept`.
    refused: Option<RecordBatch>,
}

impl WorkerProducer {
    /// A producer of output number `output`.
    pub fn new(
        channel: Arc<WorkerChannel>,
        output: usize,
        schema: &SchemaRef,
    ) -> Result<WorkerProducer> {
        Ok(WorkerProducer { channel, output, codec: Codec::new(schema)?, refused: None })
    }

    fn done(&self, (message, _): WorkerFrame) -> Result<bool> {
        match message {
            WorkerMessage::Done => Ok(true),
            WorkerMessage::Refused => Ok(false),
            other => Err(unexpected(&other)),
        }
    }
}

impl Producer for WorkerProducer {
    fn put(&mut self, parcel: Parcel, wait: bool) -> Result<Option<Parcel>> {
        let kept = self.refused.take();
        let is_kept = kept.is_some_and(|kept| is_same(&kept, &parcel.batch));
        let output = self.output;
        if !(wait && is_kept) {
            let batch = Some((&mut self.codec, &parcel.batch));
            let received = self.channel.ask(&ChildMessage::Put { output }, batch)?;
            if self.done(received)? {
                return Ok(None);
            }
            if !wait {
                self.refused = Some(parcel.batch.clone());
                return Ok(Some(parcel));
            }
        }
        let received = self.channel.ask(&ChildMessage::PutKept { output }, None)?;
        self.done(received).map(|_| None)
    }

    fn has_room(&mut self, _: &Parcel) -> bool {
        true
    }

    fn begin_run(&mut self, run: RunIndex) -> Result<()> {
        let received =
            self.channel.ask(&ChildMessage::BeginRun { output: self.output, run }, None)?;
        self.done(received).map(drop)
    }

    fn end_run(&mut self, _: RunIndex) -> Result<()> {
        let received = self.channel.ask(&ChildMessage::EndRun { output: self.output }, None)?;
        self.done(received).map(drop)
    }
}

/// Whether two batches share all columns.
fn is_same(one: &RecordBatch, other: &RecordBatch) -> bool {
    let columns = one.columns().iter().zip(other.columns());
    one.num_columns() == other.num_columns()
        && one.num_rows() == other.num_rows()
        && columns.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
}

fn unexpected(message: &WorkerMessage) -> Error {
    Error::new(Kind::Failed, format!("unexpected message of the worker: {message:?}"))
}
