//! The Python classes of active messages: an endpoint, and its regions.
//!
//! The endpoint is locked without the GIL, and its handlers attach for as long as they run. A
//! thread that waits holds neither, so others may send meanwhile.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use euphrates_flow::{Error, Owner, Result};
use euphrates_wire::active::{
    ARGUMENTS, ActiveEndpoint, ActiveMessage, ActiveOptions, Doorbell, MessageData,
    OutgoingMessage, PeerId, Region, RegionPlace, ReplyToken, ReturnReason, ReturnedMessage,
};
use euphrates_wire::{Secret, Security};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::data::buffers::PinnedBytes;
use crate::errors::OrRaise;

/// How long a wait lasts before signals are checked.
const SIGNALS_CHECKED: Duration = Duration::from_millis(100);

/// What Python says of a message: handler, words, data, and the key and offset of a region.
type MessageParts<'py> = (u32, Vec<u32>, Option<Bound<'py, PyAny>>, Option<(u64, u64)>);
/// What a handler of requests decides: to decline, to reply, or neither.
type HandlerAnswer<'py> = (bool, Option<MessageParts<'py>>);

/// An endpoint of active messages.
#[pyclass(frozen, module = "euphrates._euphrates", name = "ActiveEndpoint")]
pub struct ActiveEndpointHandle {
    endpoint: Mutex<Option<ActiveEndpoint>>,
    doorbell: Doorbell,
    address: Option<String>,
    /// The thread that runs handlers.
    handling: Mutex<Option<ThreadId>>,
    failure: Arc<Mutex<Option<PyErr>>>,
    owner: Owner,
}

/// A region of an endpoint.
#[pyclass(frozen, module = "euphrates._euphrates", name = "ActiveRegion")]
pub struct ActiveRegionHandle(Region);

#[pymethods]
impl ActiveEndpointHandle {
    /// Makes an endpoint, which listens if there is an address.
    #[new]
    // The Python class passes all of them.
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        name: &str,
        address: Option<&str>,
        token: &str,
        tls: bool,
        requests_max: u32,
        message_bytes_max: u64,
        lost_after: Option<f64>,
    ) -> PyResult<ActiveEndpointHandle> {
        let security = if tls { Security::Tls } else { Security::Token };
        let options = ActiveOptions {
            security,
            requests_max,
            message_bytes_max,
            lost_after: lost_after.map(seconds).transpose().or_raise(py)?,
            ..ActiveOptions::default()
        };
        let bound = py.detach(|| {
            let address = address.map(str::parse).transpose()?;
            ActiveEndpoint::bind(name, address.as_ref(), &Secret::parse(token)?, options)
        });
        let endpoint = bound.or_raise(py)?;
        Ok(ActiveEndpointHandle {
            doorbell: endpoint.doorbell(),
            address: endpoint.address().map(ToString::to_string),
            endpoint: Mutex::new(Some(endpoint)),
            handling: Mutex::new(None),
            failure: Arc::default(),
            owner: Owner::here(),
        })
    }

    /// Where it listens.
    fn address(&self) -> Option<String> {
        self.address.clone()
    }

    /// Connects to another endpoint; returns the number of the peer.
    fn connect(&self, py: Python<'_>, address: &str, within: f64) -> PyResult<u32> {
        let connect = |endpoint: &mut ActiveEndpoint| {
            endpoint.connect(&address.parse()?, seconds(within)?).map(PeerId::number)
        };
        self.with(py, connect)
    }

    /// The connected peers, with their names.
    fn peers(&self, py: Python<'_>) -> PyResult<Vec<(u32, String)>> {
        self.with(py, |endpoint| {
            let named =
                |peer: PeerId| (peer.number(), endpoint.peer_name(peer).unwrap_or_default().into());
            Ok(endpoint.peers().map(named).collect())
        })
    }

    /// The latest peers that were lost, and why.
    fn losses(&self, py: Python<'_>) -> PyResult<Vec<(u32, String)>> {
        self.with(py, |endpoint| {
            Ok(endpoint.losses().map(|(peer, error)| (peer.number(), error.to_string())).collect())
        })
    }

    /// Requests that no peer has settled yet.
    fn unsettled(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |endpoint| Ok(endpoint.unsettled_requests()))
    }

    /// Sets the handler of requests with a number.
    fn on_request(&self, py: Python<'_>, handler: u32, run: Py<PyAny>) -> PyResult<()> {
        let failure = self.failure.clone();
        let run = move |token: ReplyToken<'_>, message: ActiveMessage<'_>| {
            // A failed handler has declined: its sender learns that nothing was done.
            match handled_request(&run, message) {
                Ok((_, Some(reply))) => token.reply(reply),
                // Settled without a reply.
                Ok((false, None)) => {}
                Ok((true, None)) => token.decline(),
                Err(error) => {
                    token.decline();
                    failure.lock().get_or_insert(error);
                }
            }
        };
        self.with(py, |endpoint| {
            endpoint.on_request(handler, run);
            Ok(())
        })
    }

    /// Sets the handler of replies with a number.
    fn on_reply(&self, py: Python<'_>, handler: u32, run: Py<PyAny>) -> PyResult<()> {
        let failure = self.failure.clone();
        let run = move |message: ActiveMessage<'_>| {
            let ran = attached(|py| run.call1(py, seen(py, message)).map(drop));
            if let Err(error) = ran {
                failure.lock().get_or_insert(error);
            }
        };
        self.with(py, |endpoint| {
            endpoint.on_reply(handler, run);
            Ok(())
        })
    }

    /// Sets the handler of messages that return.
    fn on_returned(&self, py: Python<'_>, run: Py<PyAny>) -> PyResult<()> {
        let failure = self.failure.clone();
        let run = move |message: ReturnedMessage| {
            let ran = attached(|py| {
                let text = message.to_string();
                let (data, place) = data_of(py, &message.message.data);
                let OutgoingMessage { handler, arguments, .. } = message.message;
                let (to, kind) = (message.to.number(), message.is_reply);
                let parts = (to, kind, handler, arguments, data, place, code(&message), text);
                run.call1(py, parts).map(drop)
            });
            if let Err(error) = ran {
                failure.lock().get_or_insert(error);
            }
        };
        self.with(py, |endpoint| {
            endpoint.on_returned(run);
            Ok(())
        })
    }

    /// Makes a region.
    fn register(&self, py: Python<'_>, bytes: usize) -> PyResult<ActiveRegionHandle> {
        self.with(py, |endpoint| endpoint.register(bytes).map(ActiveRegionHandle))
    }

    /// Ends a region; false if it has ended before.
    fn unregister(&self, py: Python<'_>, region: &ActiveRegionHandle) -> PyResult<bool> {
        self.with(py, |endpoint| Ok(endpoint.unregister(&region.0)))
    }

    /// Sends a request, and handles what arrives while there is no credit.
    fn request(&self, py: Python<'_>, to: u32, message: MessageParts<'_>) -> PyResult<()> {
        let mut waiting = Some(message_of(message)?);
        while let Some(message) = waiting {
            let to = PeerId::of_number(to);
            waiting = self.with(py, |endpoint| endpoint.try_request(to, message))?;
            if waiting.is_some() {
                self.wait(py, None)?;
            }
        }
        Ok(())
    }

    /// Handles what has arrived; returns how much that was.
    fn poll(&self, py: Python<'_>) -> PyResult<usize> {
        let polled = self.with(py, |endpoint| {
            *self.handling.lock() = Some(thread::current().id());
            let polled = endpoint.poll();
            *self.handling.lock() = None;
            polled
        });
        match self.failure.lock().take() {
            Some(failure) => Err(failure),
            None => polled,
        }
    }

    /// Waits until something arrives and handles it; 0 after this many seconds.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<usize> {
        let timeout = timeout.map(seconds).transpose().or_raise(py)?;
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let count = self.poll(py)?;
            let now = Instant::now();
            if count > 0 || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(count);
            }
            let checked = now + SIGNALS_CHECKED;
            let until = deadline.map_or(checked, |deadline| deadline.min(checked));
            py.detach(|| self.doorbell.wait(Some(until)));
            py.check_signals()?;
        }
    }

    /// Closes the endpoint within this many seconds. Does nothing if it is closed, or in a forked
    /// child.
    fn close(&self, py: Python<'_>, within: f64) -> PyResult<()> {
        if !self.owner.is_here() {
            return Ok(());
        }
        self.check_thread().or_raise(py)?;
        let within = seconds(within).or_raise(py)?;
        let closed = py.detach(|| match self.endpoint.lock().take() {
            Some(endpoint) => endpoint.close(Instant::now() + within),
            None => Ok(()),
        });
        match self.failure.lock().take() {
            Some(failure) => Err(failure),
            None => closed.or_raise(py),
        }
    }
}

impl ActiveEndpointHandle {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut ActiveEndpoint) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.owner.check("the endpoint").or_raise(py)?;
        self.check_thread().or_raise(py)?;
        let closed = || Error::usage("the endpoint is closed").remedy("make another one");
        let acted = py.detach(|| act(self.endpoint.lock().as_mut().ok_or_else(closed)?));
        acted.or_raise(py)
    }

    /// Fails in a handler, which holds the endpoint.
    fn check_thread(&self) -> Result<()> {
        if *self.handling.lock() != Some(thread::current().id()) {
            return Ok(());
        }
        Err(Error::usage("a handler used its endpoint")
            .remedy("reply with the token, or note what to do, and do it after `poll` or `wait`"))
    }
}

impl Drop for ActiveEndpointHandle {
    fn drop(&mut self) {
        // The connections are those of the parent, whose threads a fork does not have.
        if !self.owner.is_here() {
            std::mem::forget(self.endpoint.get_mut().take());
        }
    }
}

#[pymethods]
impl ActiveRegionHandle {
    /// The key by which peers name it.
    fn key(&self) -> u64 {
        self.0.key()
    }

    /// Its length in bytes.
    fn size(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.read(<[u8]>::len))
    }

    /// Copies bytes from it.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let copied = py.detach(|| {
            self.0.read(|bytes| part(bytes.len(), offset, count).map(|at| bytes[at].to_vec()))
        });
        Ok(PyBytes::new(py, &copied.or_raise(py)?))
    }

    /// Copies bytes to it.
    fn write(&self, py: Python<'_>, offset: usize, from: &Bound<'_, PyAny>) -> PyResult<()> {
        let from = PinnedBytes::of(from, false)?;
        let written = py.detach(|| {
            self.0.write(|bytes| {
                let at = part(bytes.len(), offset, from.bytes().len())?;
                bytes[at].copy_from_slice(from.bytes());
                Ok(())
            })
        });
        written.or_raise(py)
    }
}

fn part(bytes: usize, offset: usize, count: usize) -> Result<std::ops::Range<usize>> {
    match offset.checked_add(count).filter(|end| *end <= bytes) {
        Some(end) => Ok(offset..end),
        None => {
            let message = format!("{count} bytes at {offset} of a region of {bytes}");
            Err(Error::usage(message).remedy("stay within the region"))
        }
    }
}

fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Error::usage(format!("{seconds} seconds")).remedy("give a number of seconds from 0 on")
    })
}

fn message_of((handler, words, data, place): MessageParts<'_>) -> PyResult<OutgoingMessage> {
    let mut arguments = [0; ARGUMENTS];
    arguments[..words.len().min(ARGUMENTS)].copy_from_slice(&words[..words.len().min(ARGUMENTS)]);
    let copied = |data: Bound<'_, PyAny>| {
        PinnedBytes::of(&data, false).map(|pinned| Buffer::from(pinned.bytes()))
    };
    let data = match (data.map(copied).transpose()?, place) {
        (None, _) => MessageData::Short,
        (Some(data), None) => MessageData::Medium(data),
        (Some(data), Some((key, offset))) => MessageData::Bulk(data, RegionPlace { key, offset }),
    };
    Ok(OutgoingMessage { handler, arguments, data })
}

fn handled_request(
    run: &Py<PyAny>,
    message: ActiveMessage<'_>,
) -> PyResult<(bool, Option<OutgoingMessage>)> {
    attached(|py| {
        let answer = run.call1(py, seen(py, message))?;
        let (declines, reply): HandlerAnswer<'_> = answer.extract(py)?;
        Ok((declines, reply.map(message_of).transpose()?))
    })
}

/// A message as Python sees it: peer, words, data, and key, offset and length of placed data.
type SeenMessage<'py> = (u32, [u32; ARGUMENTS], Bound<'py, PyBytes>, Option<(u64, u64, usize)>);

fn seen<'py>(py: Python<'py>, message: ActiveMessage<'_>) -> SeenMessage<'py> {
    let placed = message.placed.map(|(place, bytes)| (place.key, place.offset, bytes));
    (message.from.number(), message.arguments, PyBytes::new(py, message.data), placed)
}

fn data_of<'py>(
    py: Python<'py>,
    data: &MessageData,
) -> (Option<Bound<'py, PyBytes>>, Option<(u64, u64)>) {
    match data {
        MessageData::Short => (None, None),
        MessageData::Medium(data) => (Some(PyBytes::new(py, data)), None),
        MessageData::Bulk(data, place) => {
            (Some(PyBytes::new(py, data)), Some((place.key, place.offset)))
        }
    }
}

/// The word for a reason in Python.
fn code(message: &ReturnedMessage) -> &'static str {
    match message.reason {
        ReturnReason::NoEndpoint => "no endpoint",
        ReturnReason::NoHandler => "no handler",
        ReturnReason::NoRegion => "no region",
        ReturnReason::RegionTooSmall { .. } => "region too small",
        ReturnReason::Declined => "declined",
        ReturnReason::TooLarge { .. } => "too large",
        ReturnReason::PeerLost => "peer lost",
    }
}

/// Runs with the interpreter, unless it is shutting down.
fn attached<T>(act: impl FnOnce(Python<'_>) -> PyResult<T>) -> PyResult<T> {
    Python::try_attach(act)
        .unwrap_or_else(|| Err(pyo3::exceptions::PyRuntimeError::new_err("Python shuts down")))
}
