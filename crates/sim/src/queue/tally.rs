//! Counters of a queue's run, and the check that every share of every batch is finished once.

use std::collections::BTreeMap;

use euphrates_policy::distributed::{HeldPieces, Piece, SHARES, ToConsumer, ToProducer};

/// The counters of a run so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Finished shares of each batch, by producer.
    finished: Vec<Vec<u32>>,
    /// Messages by kind, in the order of `KINDS`.
    counts: [u64; 11],
    pub pieces: u64,
    pub held_pieces_max: u32,
    pub held_bytes_max: u64,
    /// When each consumer began its latest piece, in nanoseconds.
    pub last_begun: Vec<u64>,
    /// How long each consumer has worked, in nanoseconds.
    pub busy: Vec<u64>,
}

/// Names of the kinds of messages, as in reports.
const KINDS: [&str; 11] = [
    "reserve", "give", "wait", "none", "dismiss", "recall", "request", "withdraw", "finished",
    "returned", "kept",
];

impl Tally {
    /// Zero counters, for `batches` batches of each producer.
    pub fn new(producers: u32, consumers: u32, batches: u64) -> Tally {
        Tally {
            finished: vec![vec![0; batches as usize]; producers as usize],
            last_begun: vec![0; consumers as usize],
            busy: vec![0; consumers as usize],
            ..Tally::default()
        }
    }

    pub fn on_to_consumer(&mut self, message: &ToConsumer) {
        self.pieces += u64::from(matches!(message, ToConsumer::Give { .. }));
        self.counts[match message {
            ToConsumer::Reserve { .. } => 0,
            ToConsumer::Give { .. } => 1,
            ToConsumer::Wait(_) => 2,
            ToConsumer::None(_) => 3,
            ToConsumer::Dismiss(_) => 4,
            ToConsumer::Recall(_) => 5,
        }] += 1;
    }

    pub fn on_to_producer(&mut self, message: &ToProducer) {
        self.counts[match message {
            ToProducer::Request { .. } => 6,
            ToProducer::Withdraw => 7,
            ToProducer::Finished(_) => 8,
            ToProducer::Returned(_) => 9,
            ToProducer::Kept(_) => 10,
        }] += 1;
    }

    pub fn on_held(&mut self, held: HeldPieces) {
        self.held_pieces_max = self.held_pieces_max.max(held.pieces);
        self.held_bytes_max = self.held_bytes_max.max(held.bytes);
    }

    /// A producer has received the message that a piece is finished.
    pub fn on_finished(&mut self, producer: u32, piece: Piece) {
        let finished = &mut self.finished[producer as usize][piece.batch as usize];
        *finished += piece.to - piece.from;
        assert!(*finished <= SHARES, "{piece:?} of producer {producer} was worked on twice");
    }

    /// Whether every share of a producer's batches is finished.
    pub fn is_whole(&self, producer: u32) -> bool {
        self.finished[producer as usize].iter().all(|&shares| shares == SHARES)
    }

    /// Messages by kind, and the number of those without data.
    pub fn messages(&self) -> (BTreeMap<&'static str, u64>, u64) {
        let kinds = KINDS.into_iter().zip(self.counts);
        let control = self.counts.iter().sum::<u64>() - self.counts[1];
        (kinds.filter(|&(_, count)| count > 0).collect(), control)
    }
}
