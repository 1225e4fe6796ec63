//! What the endpoints of a queue of runs write to each other, and how it travels.

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Parcel, RunIndex};
use euphrates_policy::distributed::Peer;
use euphrates_policy::runs::Broken;

/// A letter that says nothing that could be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// To a consumer.
#[derive(Clone, Debug)]
pub enum ToReceiving {
    /// The next batch of its run.
    Batch(Parcel),
    /// Its run is complete.
    End(RunIndex),
    /// From the dealer: this run of this producer's is for it.
    Dealt(RunIndex, Peer),
    /// From the dealer: nothing more will be dealt. From either: what a producer has done wrong.
    Over(Option<Broken>),
}

/// To a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToSending {
    /// From the dealer: this run is this consumer's.
    Dealt(RunIndex, Peer),
    /// From the owner of a run: so many bytes of it have been taken.
    Taken(RunIndex, u64),
    /// A consumer takes no more.
    Gone(Peer),
}

/// To the dealer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToDealing {
    /// A producer has begun a run.
    Begun(RunIndex, Peer),
    /// A producer has no room for more of a run, or has put all of it.
    Full(RunIndex),
    /// A producer begins no more.
    Ended,
    /// A consumer has time.
    Idle(Peer),
    /// A consumer takes no more.
    Gone(Peer),
}

/// To a consumer, without the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    /// A batch of this run, of so many bytes.
    Batch(RunIndex, u64),
    /// See [`ToReceiving::End`].
    End(RunIndex),
    /// See [`ToReceiving::Dealt`].
    Dealt(RunIndex, Peer),
    /// See [`ToReceiving::Over`].
    Over(Option<Broken>),
}

/// What came in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// For a consumer.
    Down(Down),
    /// For a producer.
    Up(ToSending),
    /// For the dealer.
    Dealer(ToDealing),
}

impl Down {
    /// A letter, and the records that go beside it.
    pub fn of(letter: ToReceiving) -> (Down, Option<RecordBatch>) {
        match letter {
            ToReceiving::Batch(Parcel { batch, bytes, run }) => {
                let run = run.expect("batches of runs say which");
                (Down::Batch(run, bytes as u64), Some(batch))
            }
            ToReceiving::End(run) => (Down::End(run), None),
            ToReceiving::Dealt(run, from) => (Down::Dealt(run, from), None),
            ToReceiving::Over(broken) => (Down::Over(broken), None),
        }
    }

    /// A letter with what came beside it.
    pub fn with(self, batch: Option<RecordBatch>) -> Option<ToReceiving> {
        match (self, batch) {
            (Down::Batch(run, bytes), Some(batch)) => {
                let bytes = usize::try_from(bytes).ok()?;
                Some(ToReceiving::Batch(Parcel { batch, bytes, run: Some(run) }))
            }
            (Down::End(run), None) => Some(ToReceiving::End(run)),
            (Down::Dealt(run, from), None) => Some(ToReceiving::Dealt(run, from)),
            (Down::Over(broken), None) => Some(ToReceiving::Over(broken)),
            _ => None,
        }
    }
}

/// A kind and two numbers say everything.
const BYTES: usize = 17;

fn write(kind: u8, one: u64, other: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES);
    out.push(kind);
    out.extend(one.to_le_bytes());
    out.extend(other.to_le_bytes());
    out
}

/// As it travels to a consumer.
pub fn write_down(letter: Down) -> Vec<u8> {
    match letter {
        Down::Batch(run, bytes) => write(0, run, bytes),
        Down::End(run) => write(1, run, 0),
        Down::Over(None) => write(2, 0, 0),
        Down::Over(Some(Broken::Gap(run))) => write(3, run, 0),
        Down::Over(Some(Broken::Twice(run))) => write(13, run, 0),
        Down::Over(Some(Broken::Cut(run))) => write(14, run, 0),
        Down::Dealt(run, from) => write(11, run, from.into()),
    }
}

/// As it travels to a producer.
pub fn write_up(letter: ToSending) -> Vec<u8> {
    match letter {
        ToSending::Dealt(run, consumer) => write(4, run, consumer.into()),
        ToSending::Taken(run, bytes) => write(5, run, bytes),
        ToSending::Gone(consumer) => write(6, 0, consumer.into()),
    }
}

/// As it travels to the dealer.
pub fn write_to_dealer(letter: ToDealing) -> Vec<u8> {
    match letter {
        ToDealing::Begun(run, producer) => write(7, run, producer.into()),
        ToDealing::Ended => write(8, 0, 0),
        ToDealing::Full(run) => write(12, run, 0),
        ToDealing::Idle(consumer) => write(9, 0, consumer.into()),
        ToDealing::Gone(consumer) => write(10, 0, consumer.into()),
    }
}

/// What travelled.
pub fn read(bytes: &[u8]) -> Result<Received, Malformed> {
    let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| Malformed)?;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (one, other) = (number(1), number(9));
    let peer = || Peer::try_from(other).map_err(|_| Malformed);
    Ok(match bytes[0] {
        0 => Received::Down(Down::Batch(one, other)),
        1 => Received::Down(Down::End(one)),
        2 => Received::Down(Down::Over(None)),
        3 => Received::Down(Down::Over(Some(Broken::Gap(one)))),
        4 => Received::Up(ToSending::Dealt(one, peer()?)),
        5 => Received::Up(ToSending::Taken(one, other)),
        6 => Received::Up(ToSending::Gone(peer()?)),
        7 => Received::Dealer(ToDealing::Begun(one, peer()?)),
        8 => Received::Dealer(ToDealing::Ended),
        9 => Received::Dealer(ToDealing::Idle(peer()?)),
        10 => Received::Dealer(ToDealing::Gone(peer()?)),
        12 => Received::Dealer(ToDealing::Full(one)),
        11 => Received::Down(Down::Dealt(one, peer()?)),
        13 => Received::Down(Down::Over(Some(Broken::Twice(one)))),
        14 => Received::Down(Down::Over(Some(Broken::Cut(one)))),
        _ => return Err(Malformed),
    })
}
