//! State of requests in flight: those that this process has sent, and those that it is answering.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_policy::straggler_throttle::FetchRound;
use euphrates_policy::window::{WindowReceiver, WindowSender};
use parking_lot::{Condvar, Mutex};

/// The most bytes of one request that are in flight or not taken yet.
pub const WINDOW_BYTES: u64 = 8 << 20;

/// A request to one process, and the answer so far.
pub struct PendingFetch {
    /// The process that answers.
    pub process: usize,
    /// The number of the request.
    pub number: u64,
    /// The answers of all processes to the same request.
    pub round: Arc<Mutex<FetchRound>>,
    pub state: Mutex<PartialAnswer>,
    pub changed: Condvar,
}

impl PendingFetch {
    /// A request that is not answered yet.
    pub fn new(process: usize, number: u64, round: Arc<Mutex<FetchRound>>) -> PendingFetch {
        let window = WindowReceiver::new(WINDOW_BYTES);
        let state = PartialAnswer { batches: VecDeque::new(), bytes: 0, window, end: None };
        PendingFetch { process, number, round, state: Mutex::new(state), changed: Condvar::new() }
    }
}

/// The part of an answer that has arrived.
pub struct PartialAnswer {
    /// Batches that are not taken yet, with their sizes.
    pub batches: VecDeque<(RecordBatch, u64)>,
    /// The size of all batches that have arrived.
    pub bytes: u64,
    pub window: WindowReceiver,
    pub end: Option<Result<()>>,
}

/// A request that this process answers.
pub struct AnswerInProgress {
    pub state: Mutex<ServingState>,
    pub changed: Condvar,
}

/// How far an answer may go on.
pub struct ServingState {
    pub window: WindowSender,
    /// The requester has cancelled the request.
    pub is_cancelled: bool,
}

impl AnswerInProgress {
    /// A request without an answer so far.
    pub fn new() -> AnswerInProgress {
        let state = ServingState { window: WindowSender::new(WINDOW_BYTES), is_cancelled: false };
        AnswerInProgress { state: Mutex::new(state), changed: Condvar::new() }
    }
}
