//! The table of open connections. A stranger is one that has shown no session yet: it has a few
//! seconds, and when the table is full the oldest stranger makes room for the next. A connection
//! that has shown a session is closed for no stranger.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use euphrates_flow::Refusals;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use crate::lock;

/// Connections at once that have shown no session.
pub const STRANGERS_MAX: usize = 64;
/// Connections at once that have. One more closes the one whose last request is oldest; streams of
/// events have a bound of their own.
pub const KNOWN_MAX: usize = 64;

/// How long the other end of a connection is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Until it has shown a session, from its beginning on, whatever it sends meanwhile; and for
    /// the next request of one that has.
    pub request: Duration,
    /// For the whole body of a request, and until an answer has been taken.
    pub transfer: Duration,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits { request: Duration::from_secs(10), transfer: Duration::from_secs(60) }
    }
}

/// All connections of a server.
pub struct Connections {
    table: Mutex<Table>,
    refusals: Arc<Refusals>,
    /// How long each is waited for.
    pub waits: Waits,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// By when they came.
    strangers: BTreeMap<u64, Entry>,
    /// By when their last request came.
    known: BTreeMap<u64, Entry>,
}

#[derive(Clone)]
struct Entry {
    peer: SocketAddr,
    closing: Arc<Notify>,
}

/// One connection; it leaves the table when this is dropped.
pub struct Connection {
    connections: Arc<Connections>,
    entry: Entry,
    /// Its key in the table.
    place: AtomicU64,
}

impl Connections {
    /// An empty table.
    pub fn new(refusals: Arc<Refusals>, waits: Waits) -> Connections {
        Connections { table: Mutex::default(), refusals, waits }
    }

    /// One more; the oldest stranger makes room.
    pub fn enter(self: &Arc<Connections>, peer: SocketAddr) -> Arc<Connection> {
        let entry = Entry { peer, closing: Arc::default() };
        let mut table = lock(&self.table);
        if table.strangers.len() == STRANGERS_MAX {
            self.close_stranger(&mut table);
        }
        let place = table.number();
        table.strangers.insert(place, entry.clone());
        Arc::new(Connection { connections: self.clone(), entry, place: place.into() })
    }

    /// How many there are, besides streams of events.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        let table = lock(&self.table);
        table.strangers.len() + table.known.len()
    }

    /// Closes the oldest stranger: another connection, or the system, needs its place.
    pub fn make_room(&self) {
        self.close_stranger(&mut lock(&self.table));
    }

    fn close_stranger(&self, table: &mut Table) {
        if let Some((_, oldest)) = table.strangers.pop_first() {
            oldest.closing.notify_one();
            self.refusals.add(&oldest.peer.to_string(), "it made room for a newer connection");
        }
    }
}

impl Table {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn remove(&mut self, place: u64) {
        self.strangers.remove(&place);
        self.known.remove(&place);
    }
}

impl Connection {
    /// Whose it is.
    pub fn peer(&self) -> SocketAddr {
        self.entry.peer
    }

    /// How long it is waited for.
    pub fn waits(&self) -> Waits {
        self.connections.waits
    }

    /// It has brought a request with a session.
    pub fn let_in(&self) {
        let mut table = lock(&self.connections.table);
        table.remove(self.place.load(SeqCst));
        if table.known.len() == KNOWN_MAX
            && let Some((_, oldest)) = table.known.pop_first()
        {
            oldest.closing.notify_one();
            let why = "it made room for a newer connection with a session";
            self.connections.refusals.add(&oldest.peer.to_string(), why);
        }
        let place = table.number();
        table.known.insert(place, self.entry.clone());
        self.place.store(place, SeqCst);
    }

    /// It is a stream of events from now on, which are counted elsewhere.
    pub fn keep_open(&self) {
        lock(&self.connections.table).remove(self.place.load(SeqCst));
    }

    /// It was refused something.
    pub fn refused(&self, what: &str, why: &str) {
        let who = format!("{} {what}", self.peer());
        self.connections.refusals.add(who.trim_end(), why);
    }

    /// Whether it has shown no session so far.
    pub fn is_stranger(&self) -> bool {
        lock(&self.connections.table).strangers.contains_key(&self.place.load(SeqCst))
    }

    /// Returns when it has to make room.
    pub async fn closing(&self) {
        self.entry.closing.notified().await;
    }

    /// Returns if it shows no session in time.
    pub async fn no_session(&self) {
        let wait = self.waits().request;
        sleep(wait).await;
        if !self.is_stranger() {
            return std::future::pending().await;
        }
        self.refused("", &format!("no session was shown within {} s", wait.as_secs()));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.connections.table).remove(self.place.load(SeqCst));
    }
}

/// A socket whose other end must take what it asked for in time: all of an answer, or of what a
/// stream of events has to say at once, however slowly or fast each part of it goes.
pub struct Timed {
    socket: TokioIo<TcpStream>,
    wait: Duration,
    /// Runs while something waits to be taken.
    behind: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    /// The other end has so long.
    pub fn new(socket: TcpStream, wait: Duration) -> Timed {
        Timed { socket: TokioIo::new(socket), wait, behind: None }
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
        let behind = self.behind.get_or_insert_with(|| Box::pin(sleep(wait)));
        behind.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for Timed {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket().poll_read(context, buffer)
    }
}

impl Write for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().socket().poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // All that waited has been taken.
        self.behind = None;
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
