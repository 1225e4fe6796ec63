//! Messages between the endpoints of a queue of runs, and their encoding: a kind and two numbers.

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Parcel, RunIndex};
use euphrates_policy::distributed::Peer;
use euphrates_policy::runs::Broken;

use crate::queue::protocol::{EndpointMessage, ReceivedMessage};

/// The protocol of the queue.
pub enum RunProtocol {}

/// A message to a consumer.
#[derive(Clone, Debug)]
pub enum ConsumerMessage {
    /// The next batch of its run.
    Batch(Parcel),
    /// Its run is complete.
    End(RunIndex),
    /// From the scheduler: it owns this run, which this producer sends.
    Assigned(RunIndex, Peer),
    /// From the scheduler: no run will be assigned any more. From either: the rule that a producer
    /// has broken.
    Over(Option<Broken>),
}

/// A message to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerMessage {
    /// From the scheduler: this consumer owns this run.
    Assigned(RunIndex, Peer),
    /// From the owner of a run: it has taken this many bytes of it.
    Taken(RunIndex, u64),
    /// A consumer takes no more.
    Gone(Peer),
}

/// A message to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerMessage {
    /// A producer has begun a run.
    Begun(RunIndex, Peer),
    /// A producer has no room for more of a run, or has put all of it.
    Full(RunIndex),
    /// A producer begins no more.
    Ended,
    /// A consumer is idle.
    Idle(Peer),
    /// A consumer takes no more.
    Gone(Peer),
}

/// Bytes of an encoded message.
const BYTES: usize = 17;

fn encode(kind: u8, one: u64, other: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES);
    out.push(kind);
    out.extend(one.to_le_bytes());
    out.extend(other.to_le_bytes());
    out
}

impl EndpointMessage for ConsumerMessage {
    fn encode(self) -> (Vec<u8>, Option<RecordBatch>) {
        let message = match self {
            ConsumerMessage::Batch(Parcel { batch, bytes, run }) => {
                let run = run.expect("batches of runs say which");
                return (encode(0, run, bytes as u64), Some(batch));
            }
            ConsumerMessage::End(run) => encode(1, run, 0),
            ConsumerMessage::Over(None) => encode(2, 0, 0),
            ConsumerMessage::Over(Some(Broken::Gap(run))) => encode(3, run, 0),
            ConsumerMessage::Over(Some(Broken::Twice(run))) => encode(13, run, 0),
            ConsumerMessage::Over(Some(Broken::Cut(run))) => encode(14, run, 0),
            ConsumerMessage::Assigned(run, from) => encode(11, run, from.into()),
        };
        (message, None)
    }
}

impl EndpointMessage for ProducerMessage {
    fn encode(self) -> (Vec<u8>, Option<RecordBatch>) {
        let message = match self {
            ProducerMessage::Assigned(run, consumer) => encode(4, run, consumer.into()),
            ProducerMessage::Taken(run, bytes) => encode(5, run, bytes),
            ProducerMessage::Gone(consumer) => encode(6, 0, consumer.into()),
        };
        (message, None)
    }
}

impl EndpointMessage for SchedulerMessage {
    fn encode(self) -> (Vec<u8>, Option<RecordBatch>) {
        let message = match self {
            SchedulerMessage::Begun(run, producer) => encode(7, run, producer.into()),
            SchedulerMessage::Ended => encode(8, 0, 0),
            SchedulerMessage::Full(run) => encode(12, run, 0),
            SchedulerMessage::Idle(consumer) => encode(9, 0, consumer.into()),
            SchedulerMessage::Gone(consumer) => encode(10, 0, consumer.into()),
        };
        (message, None)
    }
}

/// Decodes a message; `None` if it is malformed, or its records are missing or unexpected.
pub fn decode(bytes: &[u8], batch: Option<RecordBatch>) -> Option<ReceivedMessage<RunProtocol>> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (one, other) = (number(1), number(9));
    let peer = || Peer::try_from(other).ok();
    let has_batch = batch.is_some();
    let to_consumer = ReceivedMessage::Consumer;
    let over = |broken| ReceivedMessage::Consumer(ConsumerMessage::Over(Some(broken)));
    let received = match bytes[0] {
        0 => {
            let (batch, bytes) = (batch?, usize::try_from(other).ok()?);
            to_consumer(ConsumerMessage::Batch(Parcel { batch, bytes, run: Some(one) }))
        }
        1 => to_consumer(ConsumerMessage::End(one)),
        2 => to_consumer(ConsumerMessage::Over(None)),
        3 => over(Broken::Gap(one)),
        4 => ReceivedMessage::Producer(ProducerMessage::Assigned(one, peer()?)),
        5 => ReceivedMessage::Producer(ProducerMessage::Taken(one, other)),
        6 => ReceivedMessage::Producer(ProducerMessage::Gone(peer()?)),
        7 => ReceivedMessage::Scheduler(SchedulerMessage::Begun(one, peer()?)),
        8 => ReceivedMessage::Scheduler(SchedulerMessage::Ended),
        9 => ReceivedMessage::Scheduler(SchedulerMessage::Idle(peer()?)),
        10 => ReceivedMessage::Scheduler(SchedulerMessage::Gone(peer()?)),
        11 => to_consumer(ConsumerMessage::Assigned(one, peer()?)),
        12 => ReceivedMessage::Scheduler(SchedulerMessage::Full(one)),
        13 => over(Broken::Twice(one)),
        14 => over(Broken::Cut(one)),
        _ => return None,
    };
    (has_batch == (bytes[0] == 0)).then_some(received)
}
