//! Draining a worker by its keeper: a client names a worker, the keeper requests the drain on the
//! worker's own connection, and reports when the worker has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use euphrates_wire::{Address, Connection, Frame, Lane, Secret, Security, dial};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Book, CALL_WAIT, DRAIN, KeeperRequest};
use crate::cluster::control;
use crate::cluster::identity::{MASTER, greeting};
use crate::cluster::sender::ControlSender;

/// How often both ends check whether the other one has gone.
const GONE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What a keeper answers a caller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
enum DrainAnswer {
    /// No worker has this name.
    Unknown {
        /// The names of the workers.
        names: Vec<String>,
    },
    /// The worker has left.
    Left,
}

/// One end of the connection between a caller and the keeper.
struct DrainConnection<T> {
    lane: Lane,
    /// The messages of the other end, of which the first counts.
    received: Receiver<Result<T>>,
    /// Set when the other end has gone.
    has_ended: Arc<AtomicBool>,
}

impl<T: DeserializeOwned + Send + 'static> DrainConnection<T> {
    fn start(connection: Connection) -> Result<DrainConnection<T>> {
        let (sender, received) = channel();
        let on_frame = move |frame: Frame| drop(sender.send(control::read(&frame.meta)));
        let has_ended = Arc::<AtomicBool>::default();
        let ended = has_ended.clone();
        let on_end = move |_| ended.store(true, SeqCst);
        let lane = Lane::start_within(None, connection, DRAIN, on_frame, on_end)?;
        Ok(DrainConnection { lane, received, has_ended })
    }
}

/// Requests that a worker drains, and waits until it has left. Fails if the keeper has no such
/// worker, if it ends, or if interrupted; then the worker drains nevertheless.
pub fn drain(
    keeper: &Address,
    worker: &str,
    secret: &Secret,
    security: Security,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<()> {
    let connection = dial(keeper, &greeting(MASTER, DRAIN, (0, 0)), secret, security, CALL_WAIT)?;
    let DrainConnection { lane, received, has_ended } = DrainConnection::start(connection)?;
    ControlSender::of_cluster(&lane).send(&worker.to_string(), vec![]);
    let gone = || {
        Error::resource(format!("{keeper} has ended, or is no keeper"))
            .remedy("name the address of `euphrates cluster`")
    };
    let answer = loop {
        let is_last = has_ended.load(SeqCst);
        match received.recv_timeout(GONE_POLL_INTERVAL) {
            Ok(answer) => break answer?,
            Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            Err(RecvTimeoutError::Timeout) if is_last => return Err(gone()),
            Err(RecvTimeoutError::Timeout) if is_interrupted() => return Err(Error::interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    lane.close();
    match answer {
        DrainAnswer::Left => Ok(()),
        DrainAnswer::Unknown { names } => {
            Err(unknown("worker", worker, names.iter().map(String::as_str)))
        }
    }
}

impl Book {
    /// Requests the drain of a worker for a caller, and reports to it when the worker has left.
    pub(super) fn drain(&self, connection: Connection) -> Result<()> {
        let caller = DrainConnection::start(connection)?;
        let DrainConnection { lane: caller, received, has_ended: is_gone } = caller;
        let silent = |_| Error::resource("it did not name a worker");
        let name: String = received.recv_timeout(CALL_WAIT).map_err(silent)??;
        let answer = self.drain_worker(&name, &|| is_gone.load(SeqCst));
        ControlSender::of_cluster(&caller).send(&answer, vec![]);
        caller.close();
        // The caller closes the connection when it has the answer.
        let deadline = Instant::now() + CALL_WAIT;
        while !is_gone.load(SeqCst) && Instant::now() < deadline {
            std::thread::sleep(GONE_POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns when the worker has left, or when the caller has gone.
    fn drain_worker(&self, name: &str, is_gone: &dyn Fn() -> bool) -> DrainAnswer {
        let mut state = self.state.lock();
        let Some(lane) = state.lanes.get(name) else {
            return DrainAnswer::Unknown { names: state.joined.keys().cloned().collect() };
        };
        ControlSender::of_cluster(lane).send(&KeeperRequest::Drain, vec![]);
        // Another worker may take the name.
        let drained = state.joined.get(name).cloned();
        while state.joined.get(name) == drained.as_ref() && !is_gone() {
            self.changed.wait_for(&mut state, GONE_POLL_INTERVAL);
        }
        DrainAnswer::Left
    }
}
