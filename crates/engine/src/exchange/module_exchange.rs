//! The exchange of one module in one process: answers requests of other processes in windows of
//! bytes, and passes answers and messages on to the module.
//!
//! A requester that has waited too long for a single process, when all others have answered
//! (`FetchRound::is_overdue`), notifies that process that it is overdue. An overdue process serves
//! fetches before it claims work (`fetch_backlog.rs`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use arrow::record_batch::RecordBatch;
use euphrates_flow::{Cancel, Error, ExchangeServer, Result, batch_bytes};
use euphrates_wire::Frame;
use parking_lot::Mutex;

use super::messages::{RequestMessage, decode, encode};
use super::pending::{AnswerInProgress, PendingFetch, ServingState};
use super::server_pool::ServerPool;
use crate::panics::caught;
use crate::queue::fetch_backlog::FetchBacklog;
use crate::queue::transport::{FrameEnds, Transport, malformed, misdirected_from};

/// One module's exchange, in one process.
pub struct ModuleExchange {
    pub(super) transport: Transport,
    server: Arc<dyn ExchangeServer>,
    /// The other processes that have instances of the module.
    pub(super) others: Vec<usize>,
    /// The names of all processes, by number.
    pub(super) names: Arc<[String]>,
    pub(super) cancel: Arc<Cancel>,
    next: AtomicU64,
    /// Requests of this process, by number.
    fetching: Mutex<HashMap<u64, Arc<PendingFetch>>>,
    pub(super) served: Mutex<RemoteRequests>,
    servers: Arc<ServerPool>,
    me: Weak<ModuleExchange>,
}

/// A request of another process: the process, and its number there.
type RequestKey = (usize, u64);

/// Requests of other processes.
#[derive(Default)]
pub(super) struct RemoteRequests {
    serving: HashMap<RequestKey, Arc<AnswerInProgress>>,
    /// Those whose requesters wait for this process alone.
    pub(super) blocked: HashSet<RequestKey>,
}

impl fmt::Debug for ModuleExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModuleExchange")
    }
}

impl ModuleExchange {
    /// An exchange between this process and others.
    pub fn new(
        transport: Transport,
        server: Arc<dyn ExchangeServer>,
        (others, names): (Vec<usize>, Arc<[String]>),
        cancel: Arc<Cancel>,
    ) -> Arc<ModuleExchange> {
        Arc::new_cyclic(|me| ModuleExchange {
            transport,
            server,
            others,
            names,
            cancel,
            next: AtomicU64::new(0),
            fetching: Mutex::default(),
            served: Mutex::default(),
            servers: Arc::default(),
            me: me.clone(),
        })
    }

    /// Handles a frame of another process.
    pub fn on_frame(&self, frame: &Frame) -> Result<()> {
        let (message, batch) = self.transport.decode(frame)?;
        let (message, number, rest) = decode(message).ok_or_else(malformed)?;
        let requester = frame.header.consumer as usize;
        misdirected_from(frame.header.consumer, self.names.len())?;
        let key = (requester, number);
        match (message, batch) {
            (RequestMessage::Fetch { request }, None) => self.serve(requester, number, request),
            (RequestMessage::Taken { bytes }, None) => {
                self.with_serving(key, |state| state.window.on_taken(bytes));
            }
            (RequestMessage::Cancel, None) => {
                self.with_serving(key, |state| state.is_cancelled = true)
            }
            (RequestMessage::Batch { bytes }, Some(batch)) => {
                self.on_batch(number, batch, bytes, false)
            }
            (RequestMessage::Last { bytes }, Some(batch)) => {
                self.on_batch(number, batch, bytes, true)
            }
            (RequestMessage::Overdue, None) => self.on_blocked(key),
            (RequestMessage::End, None) => self.end(number, Ok(())),
            (RequestMessage::Failed, None) => {
                let error = serde_json::from_slice(rest).unwrap_or_else(|_| malformed());
                self.end(number, Err(error));
            }
            (RequestMessage::Module, None) => {
                self.server.on_message(requester, rest, &frame.body)?
            }
            _ => return Err(malformed()),
        }
        Ok(())
    }

    /// Sends a request to one process; its answer arrives in what is returned.
    pub(super) fn fetch(
        &self,
        process: usize,
        request: u64,
        pending: impl FnOnce(u64) -> PendingFetch,
    ) -> Arc<PendingFetch> {
        let number = self.next.fetch_add(1, Relaxed);
        let pending = Arc::new(pending(number));
        self.fetching.lock().insert(number, pending.clone());
        self.send(process, self.transport.me(), RequestMessage::Fetch { request }, number, "");
        pending
    }

    /// Drops what still arrives for a request of this process.
    pub(super) fn forget(&self, number: u64) {
        self.fetching.lock().remove(&number);
    }

    fn on_batch(&self, number: u64, batch: RecordBatch, bytes: u64, is_last: bool) {
        // The requester may have cancelled meanwhile.
        let pending = self.fetching.lock().get(&number).cloned();
        if let Some(pending) = pending {
            let mut answer = pending.state.lock();
            answer.window.on_come(bytes);
            answer.bytes += bytes;
            answer.batches.push_back((batch, bytes));
            drop(answer);
            match is_last {
                true => self.end(number, Ok(())),
                false => {
                    pending.changed.notify_one();
                }
            }
        }
    }

    /// The answer of a process is complete.
    fn end(&self, number: u64, end: Result<()>) {
        let pending = self.fetching.lock().get(&number).cloned();
        if let Some(pending) = pending {
            let mut answer = pending.state.lock();
            answer.end = Some(end);
            let bytes = answer.bytes;
            drop(answer);
            pending.round.lock().on_answered(bytes, self.fetch_backlog().now());
            pending.changed.notify_one();
        }
    }

    fn on_blocked(&self, key: RequestKey) {
        let mut served = self.served.lock();
        // The answer may be complete by now.
        if served.serving.contains_key(&key) && served.blocked.insert(key) {
            self.fetch_backlog().on_requester_blocked();
        }
    }

    fn on_served(&self, key: RequestKey) {
        let mut served = self.served.lock();
        served.serving.remove(&key);
        if served.blocked.remove(&key) {
            self.fetch_backlog().on_requester_served();
        }
    }

    fn with_serving(&self, key: RequestKey, act: impl FnOnce(&mut ServingState)) {
        let serving = self.served.lock().serving.get(&key).cloned();
        if let Some(serving) = serving {
            act(&mut serving.state.lock());
            serving.changed.notify_one();
        }
    }

    /// Answers a request on a thread of the pool.
    fn serve(&self, requester: usize, number: u64, request: u64) {
        let Some(me) = self.me.upgrade() else { return };
        let serving = Arc::new(AnswerInProgress::new());
        self.served.lock().serving.insert((requester, number), serving.clone());
        let answer = move || {
            let answered = caught(|| me.answer(requester, number, request, &serving));
            me.on_served((requester, number));
            if let Err(error) = answered {
                me.fail(requester, number, &error);
            }
        };
        if let Err(error) = self.servers.run(Box::new(answer)) {
            self.fail(requester, number, &error);
        }
    }

    fn fail(&self, requester: usize, number: u64, error: &Error) {
        let text = serde_json::to_string(error).unwrap_or_default();
        self.send(requester, requester, RequestMessage::Failed, number, &text);
    }

    fn answer(
        &self,
        requester: usize,
        number: u64,
        request: u64,
        serving: &AnswerInProgress,
    ) -> Result<()> {
        let ends = self.ends(requester, number);
        let mut batches = self.server.serve(request)?;
        let mut next = self.servers.compute(|| batches.next()).transpose()?;
        while let Some(batch) = next {
            let bytes = batch_bytes(&batch) as u64;
            let mut state = serving.state.lock();
            while !state.window.may_send(bytes) && !state.is_cancelled {
                self.cancel.wait(&serving.changed, &mut state)?;
            }
            if state.is_cancelled {
                return Ok(());
            }
            state.window.on_sent(bytes);
            drop(state);
            next = self.servers.compute(|| batches.next()).transpose()?;
            let is_last = next.is_none();
            let message = if is_last {
                RequestMessage::Last { bytes }
            } else {
                RequestMessage::Batch { bytes }
            };
            self.transport.send_batch(requester, ends, &encode(message, number, b""), &batch);
            if is_last {
                return Ok(());
            }
        }
        self.send(requester, requester, RequestMessage::End, number, "");
        Ok(())
    }

    pub(super) fn fetch_backlog(&self) -> &FetchBacklog {
        self.transport.fetch_backlog()
    }

    /// Names the requester on the consuming side in either direction, and the request on the
    /// producing side. Frames of one request stay in order; different requests may use different
    /// lanes.
    pub(super) fn ends(&self, requester: usize, number: u64) -> FrameEnds {
        FrameEnds { producer: number as u32, consumer: requester as u32 }
    }

    /// Sends a message about a request to one of its two processes.
    pub(super) fn send(
        &self,
        to: usize,
        requester: usize,
        message: RequestMessage,
        number: u64,
        text: &str,
    ) {
        let message = encode(message, number, text.as_bytes());
        self.transport.send(to, self.ends(requester, number), message);
    }
}
