//! The table of open connections, and its limits. A connection must authenticate within seconds;
//! when the table is full, the oldest unauthenticated connection is closed for a new one. An
//! authenticated connection is never closed for an unauthenticated one.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use euphrates_flow::Refusals;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

/// Open connections that have not authenticated.
pub const UNAUTHENTICATED_MAX: usize = 64;
/// Open connections that have authenticated. One more closes the least recently used. Event
/// streams have a separate limit.
pub const AUTHENTICATED_MAX: usize = 64;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the start of a connection until it has authenticated, and for the headers of the next
    /// request.
    pub request: Duration,
    /// For the whole body of a request, and until the client has received a response.
    pub transfer: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { request: Duration::from_secs(10), transfer: Duration::from_secs(60) }
    }
}

/// The open connections of a server.
pub struct Connections {
    table: Mutex<ConnectionTable>,
    refusals: Arc<Refusals>,
    /// The timeouts of each connection.
    pub timeouts: Timeouts,
}

#[derive(Default)]
struct ConnectionTable {
    next: u64,
    /// In the order of their arrival.
    unauthenticated: BTreeMap<u64, ConnectionEntry>,
    /// In the order of their last request.
    authenticated: BTreeMap<u64, ConnectionEntry>,
}

#[derive(Clone)]
struct ConnectionEntry {
    peer: SocketAddr,
    closing: Arc<ConnectionClosing>,
}

/// The closing of a connection for another one.
#[derive(Default)]
struct ConnectionClosing {
    began: AtomicBool,
    notify: Notify,
}

impl ConnectionClosing {
    fn begin(&self) {
        self.began.store(true, SeqCst);
        self.notify.notify_one();
    }
}

/// One connection. Dropping it removes it from the table.
pub struct HttpConnection {
    connections: Arc<Connections>,
    entry: ConnectionEntry,
    /// The key in the table.
    number: AtomicU64,
}

impl Connections {
    /// An empty table that logs refused connections.
    pub fn new(refusals: Arc<Refusals>, timeouts: Timeouts) -> Connections {
        Connections { table: Mutex::default(), refusals, timeouts }
    }

    /// Adds a connection. If the table is full, closes the oldest unauthenticated one.
    pub fn add(self: &Arc<Connections>, peer: SocketAddr) -> Arc<HttpConnection> {
        let entry = ConnectionEntry { peer, closing: Arc::default() };
        let mut table = self.table.lock();
        if table.unauthenticated.len() == UNAUTHENTICATED_MAX {
            self.close_oldest(&mut table);
        }
        let number = table.number();
        table.unauthenticated.insert(number, entry.clone());
        Arc::new(HttpConnection { connections: self.clone(), entry, number: number.into() })
    }

    /// The number of connections, without event streams.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        let table = self.table.lock();
        table.unauthenticated.len() + table.authenticated.len()
    }

    /// Closes the oldest unauthenticated connection, because the process is out of resources.
    pub fn make_room(&self) {
        self.close_oldest(&mut self.table.lock());
    }

    fn close_oldest(&self, table: &mut ConnectionTable) {
        if let Some((_, oldest)) = table.unauthenticated.pop_first() {
            oldest.closing.begin();
            self.refusals.add(&oldest.peer.to_string(), "it made room for a newer connection");
        }
    }
}

impl ConnectionTable {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn remove(&mut self, number: u64) {
        self.unauthenticated.remove(&number);
        self.authenticated.remove(&number);
    }
}

impl HttpConnection {
    /// The address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.entry.peer
    }

    /// The timeouts of this connection.
    pub fn timeouts(&self) -> Timeouts {
        self.connections.timeouts
    }

    /// Records a request with a session or a token. A connection that is being closed for another
    /// one is not added again: with requests in a pipeline, it would close a newer one.
    pub fn set_authenticated(&self) {
        let mut table = self.connections.table.lock();
        if self.entry.closing.began.load(SeqCst) {
            return;
        }
        table.remove(self.number.load(SeqCst));
        if table.authenticated.len() == AUTHENTICATED_MAX
            && let Some((_, oldest)) = table.authenticated.pop_first()
        {
            oldest.closing.begin();
            let why = "it made room for a newer connection with a session";
            self.connections.refusals.add(&oldest.peer.to_string(), why);
        }
        let number = table.number();
        table.authenticated.insert(number, self.entry.clone());
        self.number.store(number, SeqCst);
    }

    /// Removes the connection from the table: it is an event stream now, which `Events` limits.
    pub fn become_stream(&self) {
        self.connections.table.lock().remove(self.number.load(SeqCst));
    }

    /// Logs a refused request.
    pub fn refused(&self, what: &str, why: &str) {
        let request = format!("{} {what}", self.peer());
        self.connections.refusals.add(request.trim_end(), why);
    }

    /// Whether it has not authenticated yet.
    pub fn is_unauthenticated(&self) -> bool {
        self.connections.table.lock().unauthenticated.contains_key(&self.number.load(SeqCst))
    }

    /// Resolves when the connection has to close for another one.
    pub async fn closing(&self) {
        self.entry.closing.notify.notified().await;
    }

    /// Resolves if the connection does not authenticate in time.
    pub async fn authentication_timeout(&self) {
        let wait = self.timeouts().request;
        sleep(wait).await;
        if !self.is_unauthenticated() {
            return std::future::pending().await;
        }
        self.refused("", &format!("no session was shown within {} s", wait.as_secs()));
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.connections.table.lock().remove(self.number.load(SeqCst));
    }
}

/// A socket with a write timeout: the client must receive all buffered bytes in time, for example a
/// response or an event, however they are divided.
pub struct TimedSocket {
    socket: TokioIo<TcpStream>,
    wait: Duration,
    /// The deadline of the bytes that wait to be sent.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl TimedSocket {
    /// Wraps a socket; `wait` is its write timeout.
    pub fn new(socket: TcpStream, wait: Duration) -> TimedSocket {
        TimedSocket { socket: TokioIo::new(socket), wait, deadline: None }
    }

    fn socket(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().socket)
    }

    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            return written;
        }
        let wait = self.wait;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(wait)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for TimedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket().poll_read(context, buffer)
    }
}

impl Write for TimedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().socket().poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes when all bytes have been written.
        self.deadline = None;
        self.socket().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().socket().poll_write_vectored(context, parts);
        self.in_time(context, written)
    }
}
