//! What endpoints of a queue write to each other: what their policies say, and what both sides must
//! know to see the end. Between processes a letter travels in a frame.

use arrow::record_batch::RecordBatch;
use euphrates_policy::distributed::{Piece, ToConsumer, ToProducer};
use euphrates_wire::letter::{Letter, Malformed};

/// From a producer to a consumer.
#[derive(Debug)]
pub enum ToReceiving {
    /// What the policy says.
    Said(ToConsumer),
    /// The same, with the records of the piece that is given.
    Given(ToConsumer, RecordBatch),
    /// What the policy does not say.
    Word(Word),
}

/// How a producer comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It puts no more. Whoever begins something of it from now on says so.
    Ended,
    /// All it ever put has been begun.
    Over,
}

/// From a consumer to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToSending {
    /// What the policy says.
    Said(ToProducer),
    /// A piece of a producer that has ended is being worked on: it will be nobody else's.
    Begun(Piece),
    /// It takes no more.
    Gone,
}

const SAID: u8 = 0;
const ENDED: u8 = 1;
const OVER: u8 = 2;
const SAID_UP: u8 = 3;
const BEGUN: u8 = 4;
const GONE: u8 = 5;

/// A letter that came in a frame.
#[derive(Debug, PartialEq)]
pub enum Received {
    /// For the consumer; records come beside it.
    Down(Down),
    /// For the producer.
    Up(ToSending),
}

/// To a consumer, without the records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Down {
    /// What the policy says.
    Said(ToConsumer),
    /// What it does not say.
    Word(Word),
}

impl ToReceiving {
    /// The letter, and the records that go beside it.
    pub fn without_records(self) -> (Down, Option<RecordBatch>) {
        match self {
            ToReceiving::Said(message) => (Down::Said(message), None),
            ToReceiving::Given(message, batch) => (Down::Said(message), Some(batch)),
            ToReceiving::Word(word) => (Down::Word(word), None),
        }
    }
}

impl Down {
    /// The letter with what came beside it: something is given with its records, and nothing else
    /// has any.
    pub fn with(self, batch: Option<RecordBatch>) -> Option<ToReceiving> {
        match (self, batch) {
            (Down::Said(message @ ToConsumer::Give { .. }), Some(batch)) => {
                Some(ToReceiving::Given(message, batch))
            }
            (Down::Said(ToConsumer::Give { .. }), None) | (_, Some(_)) => None,
            (Down::Said(message), None) => Some(ToReceiving::Said(message)),
            (Down::Word(word), None) => Some(ToReceiving::Word(word)),
        }
    }
}

/// As it travels to a consumer.
pub fn write_down(down: Down) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    match down {
        Down::Said(message) => {
            out.push(SAID);
            message.write(&mut out);
        }
        Down::Word(Word::Ended) => out.push(ENDED),
        Down::Word(Word::Over) => out.push(OVER),
    }
    out
}

/// As it travels to a producer.
pub fn write_up(letter: ToSending) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    match letter {
        ToSending::Said(message) => {
            out.push(SAID_UP);
            message.write(&mut out);
        }
        ToSending::Begun(piece) => {
            out.push(BEGUN);
            ToProducer::Kept(piece).write(&mut out);
        }
        ToSending::Gone => out.push(GONE),
    }
    out
}

/// What travelled.
pub fn read(bytes: &[u8]) -> Result<Received, Malformed> {
    let (tag, rest) = bytes.split_first().ok_or(Malformed)?;
    let bare = |received: Received| if rest.is_empty() { Ok(received) } else { Err(Malformed) };
    match *tag {
        SAID => Ok(Received::Down(Down::Said(ToConsumer::read(rest)?))),
        ENDED => bare(Received::Down(Down::Word(Word::Ended))),
        OVER => bare(Received::Down(Down::Word(Word::Over))),
        SAID_UP => Ok(Received::Up(ToSending::Said(ToProducer::read(rest)?))),
        BEGUN => match ToProducer::read(rest)? {
            ToProducer::Kept(piece) => Ok(Received::Up(ToSending::Begun(piece))),
            _ => Err(Malformed),
        },
        GONE => bare(Received::Up(ToSending::Gone)),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_policy::distributed::Stock;

    #[test]
    fn what_is_written_is_read() {
        let stock = Stock { ready: 1, left: 2 };
        for down in [
            Down::Said(ToConsumer::Reserve(stock)),
            Down::Word(Word::Ended),
            Down::Word(Word::Over),
        ] {
            assert_eq!(read(&write_down(down)), Ok(Received::Down(down)));
        }
        let piece = Piece::whole(3, 4);
        for up in [ToSending::Said(ToProducer::Withdraw), ToSending::Begun(piece), ToSending::Gone]
        {
            assert_eq!(read(&write_up(up)), Ok(Received::Up(up)));
        }
        assert_eq!(read(&[]), Err(Malformed));
        assert_eq!(read(&[GONE, 0]), Err(Malformed));
        assert_eq!(read(&[9]), Err(Malformed));
    }
}
