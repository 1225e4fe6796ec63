//! The client side of the exchange, for instances of a module: fetches batches, and sends messages.

use std::sync::Arc;
use std::time::Duration;

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Batches, Exchange, Result};
use euphrates_policy::straggler_throttle::FetchRound;
use parking_lot::Mutex;

use super::messages::{RequestMessage, encode};
use super::module_exchange::ModuleExchange;
use super::pending::PendingFetch;

/// How soon a waiting fetch notices a cancelled flow, or that the process is late.
const FETCH_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The exchange of a module, for its instances.
#[derive(Debug)]
pub struct ExchangeHandle(pub Arc<ModuleExchange>);

impl Exchange for ExchangeHandle {
    fn others(&self) -> Vec<usize> {
        self.0.others.clone()
    }

    fn me(&self) -> usize {
        self.0.transport.me()
    }

    fn name(&self, process: usize) -> &str {
        self.0.names.get(process).map(String::as_str).unwrap_or_default()
    }

    fn send(&self, process: usize, message: &[u8], body: Vec<Buffer>) {
        // The sender is named on the consuming side, as requesters are.
        let (ends, message) =
            (self.0.ends(self.me(), 0), encode(RequestMessage::Module, 0, message));
        self.0.transport.send_bytes(process, ends, message, body);
    }

    fn fetch(&self, request: u64) -> Result<Vec<Batches>> {
        let others = &self.0.others;
        let round = FetchRound::new(others.len(), self.0.fetch_backlog().now());
        let round = Arc::new(Mutex::new(round));
        let fetch = |other: &usize| self.fetch_from(*other, request, round.clone());
        Ok(others.iter().map(fetch).collect())
    }

    fn may_take(&self, is_shared: bool) -> Result<bool> {
        self.0.fetch_backlog().may_claim(is_shared, &self.0.cancel)
    }
}

impl ExchangeHandle {
    fn fetch_from(&self, process: usize, request: u64, round: Arc<Mutex<FetchRound>>) -> Batches {
        let exchange = self.0.clone();
        let pending = |number| PendingFetch::new(process, number, round);
        let pending = exchange.fetch(process, request, pending);
        Box::new(Fetch { exchange, pending, has_reported: false, is_over: false })
    }
}

/// The batches of an answer, as they arrive.
struct Fetch {
    exchange: Arc<ModuleExchange>,
    pending: Arc<PendingFetch>,
    /// Whether it has reported that it waits for this process alone.
    has_reported: bool,
    is_over: bool,
}

impl Fetch {
    fn send(&self, message: RequestMessage) {
        let me = self.exchange.transport.me();
        self.exchange.send(self.pending.process, me, message, self.pending.number, "");
    }

    fn wait(&mut self) -> Result<Option<RecordBatch>> {
        let pending = self.pending.clone();
        let mut answer = pending.state.lock();
        loop {
            if let Some((batch, bytes)) = answer.batches.pop_front() {
                if let Some(bytes) = answer.window.on_taken(bytes)
                    && answer.end.is_none()
                {
                    self.send(RequestMessage::Taken { bytes });
                }
                return Ok(Some(batch));
            }
            match answer.end.take() {
                Some(Ok(())) => return Ok(None),
                Some(Err(error)) => return Err(error),
                None => {}
            }
            self.exchange.cancel.check()?;
            let now = self.exchange.fetch_backlog().now();
            if !self.has_reported && pending.round.lock().is_overdue(answer.bytes, now) {
                self.has_reported = true;
                self.send(RequestMessage::Overdue);
            }
            pending.changed.wait_for(&mut answer, FETCH_POLL_INTERVAL);
        }
    }
}

impl Iterator for Fetch {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.is_over {
            return None;
        }
        let next = self.wait().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.exchange.forget(self.pending.number);
        if !self.is_over {
            self.send(RequestMessage::Cancel);
        }
    }
}
