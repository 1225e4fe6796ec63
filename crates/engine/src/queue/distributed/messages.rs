//! Messages between the endpoints of a distributed queue: those of their policies, and those by
//! which both sides detect the end of the stream.

use arrow::record_batch::RecordBatch;
use euphrates_policy::distributed::{Piece, ToConsumer, ToProducer};
use euphrates_wire::message::Message as _;

use crate::queue::protocol::{EndpointMessage, ReceivedMessage};

/// The protocol of the queue.
pub enum Pieces {}

/// From a producer to a consumer.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsumerMessage {
    /// A message of the policy that carries no records.
    Policy(ToConsumer),
    /// A message of the policy that gives a piece, with the piece's records.
    Give(ToConsumer, RecordBatch),
    /// The state of the producer's stream.
    Producer(ProducerState),
}

/// The state of a producer's stream: which stages of its end have been reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerState {
    /// It puts no more. From now on a consumer that begins one of its pieces reports that.
    Ended,
    /// All that it ever put has been begun.
    Drained,
}

/// From a consumer to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerMessage {
    /// A message of the policy.
    Policy(ToProducer),
    /// A piece of a producer that has ended is being processed, so no other consumer will get it.
    Begun(Piece),
    /// The consumer takes no more.
    Gone,
}

const TO_CONSUMER: u8 = 0;
const ENDED: u8 = 1;
const DRAINED: u8 = 2;
const TO_PRODUCER: u8 = 3;
const BEGUN: u8 = 4;
const GONE: u8 = 5;

impl EndpointMessage for ConsumerMessage {
    fn encode(self) -> (Vec<u8>, Option<RecordBatch>) {
        let (message, batch) = match self {
            ConsumerMessage::Policy(message) => (message, None),
            ConsumerMessage::Give(message, batch) => (message, Some(batch)),
            ConsumerMessage::Producer(ProducerState::Ended) => return (vec![ENDED], None),
            ConsumerMessage::Producer(ProducerState::Drained) => return (vec![DRAINED], None),
        };
        let mut out = Vec::with_capacity(64);
        out.push(TO_CONSUMER);
        message.write(&mut out);
        (out, batch)
    }
}

impl ConsumerMessage {
    /// A message of the policy with its records: a piece that is given has some, and nothing else
    /// does.
    fn with_records(message: ToConsumer, batch: Option<RecordBatch>) -> Option<ConsumerMessage> {
        match (message, batch) {
            (ToConsumer::Give { .. }, Some(batch)) => Some(ConsumerMessage::Give(message, batch)),
            (ToConsumer::Give { .. }, None) | (_, Some(_)) => None,
            (_, None) => Some(ConsumerMessage::Policy(message)),
        }
    }
}

impl EndpointMessage for ProducerMessage {
    fn encode(self) -> (Vec<u8>, Option<RecordBatch>) {
        let mut out = Vec::with_capacity(64);
        match self {
            ProducerMessage::Policy(message) => {
                out.push(TO_PRODUCER);
                message.write(&mut out);
            }
            ProducerMessage::Begun(piece) => {
                out.push(BEGUN);
                ToProducer::Kept(piece).write(&mut out);
            }
            ProducerMessage::Gone => out.push(GONE),
        }
        (out, None)
    }
}

/// Decodes a message; `None` if it is malformed, or its records are missing or unexpected.
pub fn decode(bytes: &[u8], batch: Option<RecordBatch>) -> Option<ReceivedMessage<Pieces>> {
    let (tag, rest) = bytes.split_first()?;
    if *tag == TO_CONSUMER {
        let message = ToConsumer::read(rest).ok()?;
        return ConsumerMessage::with_records(message, batch).map(ReceivedMessage::Consumer);
    }
    let is_bare = rest.is_empty();
    let state = |state| ReceivedMessage::Consumer(ConsumerMessage::Producer(state));
    let received = match *tag {
        ENDED if is_bare => state(ProducerState::Ended),
        DRAINED if is_bare => state(ProducerState::Drained),
        GONE if is_bare => ReceivedMessage::Producer(ProducerMessage::Gone),
        TO_PRODUCER => {
            ReceivedMessage::Producer(ProducerMessage::Policy(ToProducer::read(rest).ok()?))
        }
        BEGUN => match ToProducer::read(rest).ok()? {
            ToProducer::Kept(piece) => ReceivedMessage::Producer(ProducerMessage::Begun(piece)),
            _ => return None,
        },
        _ => return None,
    };
    batch.is_none().then_some(received)
}

#[cfg(test)]
mod tests {
    use euphrates_policy::distributed::Stock;

    use super::*;

    fn to_consumer(bytes: &[u8], batch: Option<RecordBatch>) -> Option<ConsumerMessage> {
        match decode(bytes, batch)? {
            ReceivedMessage::Consumer(message) => Some(message),
            _ => None,
        }
    }

    fn to_producer(bytes: &[u8]) -> Option<ProducerMessage> {
        match decode(bytes, None)? {
            ReceivedMessage::Producer(message) => Some(message),
            _ => None,
        }
    }

    #[test]
    fn messages_survive_encoding() {
        let stock = Stock { ready: 1, left_bytes: 2 };
        let schema = std::sync::Arc::new(arrow::datatypes::Schema::empty());
        let (batch, piece) = (RecordBatch::new_empty(schema), Piece::whole(3, 4));
        let give = ToConsumer::Give { piece, stock, waited: false };
        for message in [
            ConsumerMessage::Policy(ToConsumer::Reserve(stock)),
            ConsumerMessage::Give(give, batch.clone()),
            ConsumerMessage::Producer(ProducerState::Ended),
            ConsumerMessage::Producer(ProducerState::Drained),
        ] {
            let (bytes, records) = message.clone().encode();
            let is_given = records.is_some();
            assert_eq!(to_consumer(&bytes, records), Some(message));
            let other = (!is_given).then(|| batch.clone());
            assert_eq!(to_consumer(&bytes, other), None, "records are missing or unexpected");
        }
        for message in [
            ProducerMessage::Policy(ToProducer::Withdraw),
            ProducerMessage::Begun(piece),
            ProducerMessage::Gone,
        ] {
            assert_eq!(to_producer(&message.encode().0), Some(message));
        }
        assert!(decode(&[], None).is_none());
        assert!(decode(&[GONE, 0], None).is_none());
        assert!(decode(&[9], None).is_none());
    }
}
