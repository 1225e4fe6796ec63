//! A client's sessions with workers, and the calls on their connections.
//!
//! A worker that does not answer is out of reach, and all calls fail at once: a lost disk costs one
//! timeout, and not one for each block. A thread asks it again every few seconds, since it may take
//! the whole time of a connection to learn that the worker is still silent.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use euphrates_device::served::{ServedFolderAddress, WorkerAccess};
use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Owner, PerProcess, Result};

use super::protocol::{
    DIAL_WAIT, FILE_REQUESTS, FILES, FileAnswer, FileRequest, WHOLE_BYTES_MAX, WorkerOffer,
    client_greeting, decode, encode, header,
};
use crate::address::Address;
use crate::connection::{Closer, Connection, Security, dial};
use crate::lane::Lane;
use crate::secret::Secret;

/// How long after a worker was out of reach it is asked again.
const OUT_OF_REACH: Duration = Duration::from_secs(5);
/// How long a call waits for a worker that was out of reach and is asked again: one that is back
/// answers within milliseconds.
const BACK_WAIT: Duration = Duration::from_secs(1);
/// How long a worker may take for one request: its disk may not answer.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// Connections that wait for the next call, at most.
const IDLE_MAX: usize = 16;

/// Calls in progress in this process, which is what it has left at the servers.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// What a worker serves. A usage error if it serves no files.
pub fn offers(at: &ServedFolderAddress, access: &WorkerAccess) -> Result<WorkerOffer> {
    let worker = ServedWorker::of(at, access)?;
    let session = worker.session().map_err(|error| error.at(format!("worker {}", at.worker)))?;
    Ok(session.offer.clone())
}

/// A worker, as this process reaches it.
pub(super) struct ServedWorker {
    pub name: String,
    address: Address,
    secret: Secret,
    security: Security,
    lost_after: Option<Duration>,
    state: Mutex<WorkerReach>,
    /// A forked child has none of its threads, and must not use its connections.
    owner: Owner,
}

#[derive(Default)]
struct WorkerReach {
    sessions: u64,
    session: Option<Arc<ClientSession>>,
    lost: Option<LostWorker>,
}

/// A worker that is out of reach.
struct LostWorker {
    error: Error,
    /// When it was asked last; `None` if it has not been since its session ended.
    asked: Option<Instant>,
    /// Whether a thread asks it now.
    is_asked: bool,
}

/// A session with a worker, until one end has gone.
pub(super) struct ClientSession {
    /// Its number among those with this worker: handles of another mean nothing.
    pub number: u64,
    pub offer: WorkerOffer,
    _lane: Lane,
    shared: Arc<SessionShared>,
}

#[derive(Default)]
struct SessionShared {
    /// Why the session has ended.
    ended: OnceLock<Error>,
    state: Mutex<ConnectionsState>,
}

#[derive(Default)]
struct ConnectionsState {
    idle: Vec<(u64, Connection)>,
    closers: HashMap<u64, Closer>,
    next: u64,
}

/// Where the content of an answer goes.
pub(super) enum Content<'a> {
    None,
    /// As much as the answer has.
    Into(&'a mut [u8]),
    Whole(&'a mut Vec<u8>),
}

impl fmt::Debug for ServedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedWorker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ServedWorker {
    /// The worker at this address; a process has one session with it.
    pub fn of(at: &ServedFolderAddress, access: &WorkerAccess) -> Result<Arc<ServedWorker>> {
        let key = format!("{} {} {access:?}", at.worker, at.address);
        ServedWorker::known(key, || {
            Ok(ServedWorker {
                name: at.worker.clone(),
                address: at.address.parse()?,
                secret: Secret::read(&access.token_file)?,
                security: if access.is_encrypted { Security::Tls } else { Security::Token },
                lost_after: access.lost_after_ms.map(Duration::from_millis),
                state: Mutex::default(),
                owner: Owner::here(),
            })
        })
    }

    /// A worker of the cluster that this process, another worker, belongs to.
    pub fn neighbour(
        name: &str,
        address: &Address,
        (secret, security): (&Secret, Security),
        lost_after: Option<Duration>,
    ) -> Result<Arc<ServedWorker>> {
        ServedWorker::known(format!("neighbour {name} {address}"), || {
            Ok(ServedWorker {
                name: name.to_string(),
                address: address.clone(),
                secret: secret.clone(),
                security,
                lost_after,
                state: Mutex::default(),
                owner: Owner::here(),
            })
        })
    }

    fn known(
        key: String,
        make: impl FnOnce() -> Result<ServedWorker>,
    ) -> Result<Arc<ServedWorker>> {
        type KnownWorkers = HashMap<(Owner, String), Arc<ServedWorker>>;
        static WORKERS: PerProcess<Mutex<KnownWorkers>> = PerProcess::new();
        let mut workers = WORKERS.get(Mutex::default).lock();
        let key = (Owner::here(), key);
        if let Some(worker) = workers.get(&key) {
            return Ok(worker.clone());
        }
        let worker = Arc::new(make()?);
        workers.insert(key, worker.clone());
        Ok(worker)
    }

    /// The session, begun if there is none. Waits for the worker unless it was out of reach before.
    pub fn session(self: &Arc<Self>) -> Result<Arc<ClientSession>> {
        self.owner.check("the connection to a worker")?;
        let mut state = self.state.lock();
        if let Some(session) = &state.session {
            let Some(error) = session.shared.ended.get() else { return Ok(session.clone()) };
            let error = error.clone();
            state.lost = Some(LostWorker { error, asked: None, is_asked: false });
            state.session = None;
        }
        let Some(lost) = &mut state.lost else {
            let begun = self.begin(state.next_number());
            return state.settle(begun);
        };
        let error = lost.error.clone();
        if lost.is_asked || lost.asked.is_some_and(|at| at.elapsed() < OUT_OF_REACH) {
            return Err(error);
        }
        lost.is_asked = true;
        let (number, (done, asked)) = (state.next_number(), channel());
        drop(state);
        let worker = self.clone();
        let ask = move || {
            let begun = worker.begin(number);
            // The call that has waited may have given up.
            let _ = done.send(worker.state.lock().settle(begun));
        };
        match thread::Builder::new().name("served worker".into()).spawn(ask) {
            Ok(_) => asked.recv_timeout(BACK_WAIT).unwrap_or(Err(error)),
            Err(failed) => self.state.lock().settle(Err(Error::resource(failed))),
        }
    }

    fn begin(&self, number: u64) -> Result<ClientSession> {
        let within = self.lost_after.map_or(DIAL_WAIT, |lost_after| lost_after.min(DIAL_WAIT));
        let me = client_greeting(FILES).silent_for(self.lost_after);
        let connection = dial(&self.address, &me, &self.secret, self.security, within)?;
        let shared = Arc::new(SessionShared::default());
        let (sender, offered) = channel();
        let on_frame = move |frame: crate::link::Frame| {
            // Only the first message counts.
            let _ = sender.send(decode::<WorkerOffer>(&frame.meta));
        };
        let ended = shared.clone();
        let on_end = move |end: Result<()>| {
            ended.end(end.err().unwrap_or_else(|| Error::resource("the worker has ended")));
        };
        let lane = Lane::start_within(self.lost_after, connection, "files", on_frame, on_end)?;
        let offer = match offered.recv_timeout(within) {
            Ok(offer) => offer?,
            Err(RecvTimeoutError::Timeout) => {
                return Err(Error::resource(format!("worker `{}` does not answer", self.name)));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let error = Error::usage(format!("worker `{}` serves no files", self.name));
                return Err(error.remedy("start it with --serve HOME"));
            }
        };
        Ok(ClientSession { number, offer, _lane: lane, shared })
    }

    /// Sends a request and receives its answer; returns the number of the session as well. With
    /// `only_in`, fails if the session is another one.
    pub fn call(
        self: &Arc<Self>,
        request: &FileRequest,
        body: &[u8],
        content: &mut Content<'_>,
        only_in: Option<u64>,
    ) -> io::Result<(FileAnswer, u64)> {
        let is_repeatable = match request {
            FileRequest::Folder { request, .. } => request.is_repeatable(),
            FileRequest::Attach { .. } | FileRequest::Open { .. } => false,
        };
        let _counted = CountedCall::begin();
        let mut has_failed = false;
        loop {
            let session = self.session().map_err(|error| self.out_of_reach(&error))?;
            if only_in.is_some_and(|number| number != session.number) {
                return Err(io::Error::new(
                    io::ErrorKind::StaleNetworkFileHandle,
                    format!("worker `{}` has lost its connection to this program", self.name),
                ));
            }
            let called = self.call_in(&session, request, body, content);
            match called {
                Ok(answer) => return Ok((answer, session.number)),
                Err(error) if has_failed || !is_repeatable => {
                    return Err(self.out_of_reach(&error));
                }
                Err(_) => has_failed = true,
            }
        }
    }

    fn out_of_reach(&self, error: &Error) -> io::Error {
        let message = format!("worker `{}` is out of reach: {}", self.name, error.message());
        io::Error::new(io::ErrorKind::HostUnreachable, message)
    }

    fn call_in(
        &self,
        session: &ClientSession,
        request: &FileRequest,
        body: &[u8],
        content: &mut Content<'_>,
    ) -> Result<FileAnswer> {
        let (number, mut connection) = self.connection(session)?;
        let answer = exchange(&mut connection, request, body, content);
        session.shared.give_back(number, connection, answer.is_ok());
        answer
    }

    fn connection(&self, session: &ClientSession) -> Result<(u64, Connection)> {
        if let Some(idle) = session.shared.state.lock().idle.pop() {
            return Ok(idle);
        }
        let me = client_greeting(FILE_REQUESTS);
        let dialled = dial(&self.address, &me, &self.secret, self.security, DIAL_WAIT);
        let mut connection = dialled?;
        let timeouts = [
            connection.receiver.stream_mut().half.set_timeout(&self.name, ANSWER_WAIT),
            connection.sender.stream_mut().half.set_timeout(&self.name, ANSWER_WAIT),
        ];
        timeouts.into_iter().collect::<io::Result<()>>().map_err(Error::resource)?;
        let attach = FileRequest::Attach { session: session.offer.session.clone() };
        let sent = connection.sender.send_borrowed(header(), &encode(&attach)?, &[]);
        sent.map_err(Error::resource)?;
        session.shared.enter(connection)
    }
}

impl WorkerReach {
    fn next_number(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    /// Keeps what came of asking the worker.
    fn settle(&mut self, begun: Result<ClientSession>) -> Result<Arc<ClientSession>> {
        match begun {
            Ok(session) => {
                self.lost = None;
                Ok(self.session.insert(Arc::new(session)).clone())
            }
            Err(error) => {
                let (asked, is_asked) = (Some(Instant::now()), false);
                self.lost = Some(LostWorker { error: error.clone(), asked, is_asked });
                Err(error)
            }
        }
    }
}

impl SessionShared {
    /// The worker is lost, or has ended: no call waits for it any more.
    fn end(&self, why: Error) {
        let mut state = self.state.lock();
        self.ended.get_or_init(|| why);
        state.closers.drain().for_each(|(_, closer)| closer.close());
        state.idle.clear();
    }

    fn enter(&self, connection: Connection) -> Result<(u64, Connection)> {
        let mut state = self.state.lock();
        if let Some(error) = self.ended.get() {
            return Err(error.clone());
        }
        let number = state.next;
        state.next += 1;
        state.closers.insert(number, connection.closer());
        Ok((number, connection))
    }

    fn give_back(&self, number: u64, connection: Connection, is_good: bool) {
        let mut state = self.state.lock();
        if is_good && self.ended.get().is_none() && state.idle.len() < IDLE_MAX {
            state.idle.push((number, connection));
        } else {
            state.closers.remove(&number);
            drop(connection);
        }
    }
}

fn exchange(
    connection: &mut Connection,
    request: &FileRequest,
    body: &[u8],
    content: &mut Content<'_>,
) -> Result<FileAnswer> {
    let sent = connection.sender.send_borrowed(header(), &encode(request)?, body);
    sent.map_err(Error::resource)?;
    let head = connection.receiver.receive_head()?;
    let head = head.ok_or_else(|| Error::resource("the worker has closed the connection"))?;
    let length = head.0.body_bytes;
    match content {
        Content::Into(buffer) if length <= buffer.len() as u64 => {
            connection.receiver.receive_body(&head, &mut buffer[..length as usize])?;
            let into = std::mem::take(buffer);
            *buffer = &mut into[..length as usize];
        }
        Content::Whole(bytes) if length <= WHOLE_BYTES_MAX => {
            bytes.resize(length as usize, 0);
            connection.receiver.receive_body(&head, bytes)?;
        }
        _ if length == 0 => connection.receiver.receive_body(&head, &mut [])?,
        _ => return Err(Error::corrupt("an answer with more content than was asked for")),
    }
    decode(&head.1)
}

/// A call in progress, until dropped.
struct CountedCall;

impl CountedCall {
    fn begin() -> CountedCall {
        CALLS.fetch_add(1, Relaxed);
        CountedCall
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Relaxed);
    }
}

/// Transfers that this process has outstanding.
pub(super) fn calls_outstanding() -> u64 {
    CALLS.load(Relaxed)
}
