//! The listener: accepts connections and authenticates every caller on a thread of its own.
//!
//! An unauthenticated peer may use a few seconds and a few kilobytes. If too many connections are
//! open without authentication, the oldest is closed in favour of the newest, and no other is
//! accepted before its thread has closed it.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use euphrates_flow::{Error, Owner, Refusals, Result};
use parking_lot::{Condvar, Mutex};

use crate::address::Address;
use crate::connection::{Connection, FlowSecrets, Security, answer, fits, too_long};
use crate::greeting::Greeting;
use crate::stream::Socket;

/// The time within which a caller must authenticate.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
/// Unauthenticated callers at a time, at most; one more disconnects the oldest.
pub const UNAUTHENTICATED_MAX: usize = 64;
/// Refusals that are kept for `Listener::refusals`, at most; the oldest are dropped.
pub(crate) const REFUSALS_MAX: usize = 32;
/// The stack of a handshake's thread, which is a few calls deep.
const STACK_BYTES: usize = 1 << 20;
/// The pause after a failed accept, most likely because the system has no sockets left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A listening socket. Dropping it stops listening and removes a unix socket's file.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    handshakes: Arc<Handshakes>,
    listening: Arc<ListeningSocket>,
    accepting: Option<JoinHandle<()>>,
    file: Option<SocketFile>,
}

impl Listener {
    /// Listens at an address as `me`, with the secrets of the flows that this end takes part in.
    /// Every authenticated connection is passed to `on`, on a thread of its own that `on` may keep.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    /// use euphrates_wire::{Address, Caps, Greeting, Listener, Secret, Security, dial};
    ///
    /// let greeting = |name: &str| Greeting {
    ///     name: name.into(),
    ///     purpose: "batches".into(),
    ///     flow: 7,
    ///     epoch: 1,
    ///     lane: 0,
    ///     program: "0.1.0".into(),
    ///     silence_ms: 0,
    ///     caps: Caps::KNOWN,
    ///     abilities: vec![],
    /// };
    /// let secret = Secret::random()?;
    /// let (sender, connections) = channel();
    /// let known = secret.clone();
    /// let listener = Listener::bind(
    ///     &"127.0.0.1:0".parse::<Address>()?,
    ///     greeting("w0"),
    ///     Arc::new(move |_flow| Some(known.clone())),
    ///     Security::Tls,
    ///     move |connection| drop(sender.send(connection)),
    /// )?;
    /// let within = Duration::from_secs(10);
    /// let calling = dial(listener.address(), &greeting("w1"), &secret, Security::Tls, within)?;
    /// assert_eq!(calling.peer.name, "w0");
    /// assert_eq!(connections.recv()?.peer.name, "w1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind(
        address: &Address,
        me: Greeting,
        keys: Arc<FlowSecrets>,
        security: Security,
        on: impl Fn(Connection) + Send + Sync + 'static,
    ) -> Result<Listener> {
        me.encode()?;
        let (listening, address, file) = ListeningSocket::open(address)?;
        let (listening, handshakes) = (Arc::new(listening), Arc::new(Handshakes::default()));
        let authenticator =
            Authenticator { me, keys, security, on: Box::new(on), handshakes: handshakes.clone() };
        let (at, open) = (Arc::new(authenticator), listening.clone());
        let accepting = thread::Builder::new()
            .name("listener".into())
            .spawn(move || accept(&open, &at))
            .map_err(|error| Error::resource(format!("no thread to listen with: {error}")))?;
        Ok(Listener { address, handshakes, listening, accepting: Some(accepting), file })
    }

    /// The address, with the port that the system chose for port 0.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The latest refused callers, each with the reason; every refusal is returned once.
    pub fn refusals(&self) -> Vec<Error> {
        self.handshakes.state.lock().refusals.drain(..).collect()
    }

    /// The lines to log now about refused callers; see `Refusals::lines`.
    pub fn lines(&self) -> Vec<String> {
        self.handshakes.log.lines(SystemTime::now())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handshakes.close();
        self.listening.close();
        if let Some(accepting) = self.accepting.take() {
            // The thread ends by itself and returns nothing.
            let _ = accepting.join();
        }
        let unauthenticated: Vec<_> =
            self.handshakes.state.lock().unauthenticated.drain(..).collect();
        unauthenticated.iter().for_each(|caller| caller.socket.shut());
        self.file.take();
    }
}

/// Handshakes in progress, and refused callers.
#[derive(Debug, Default)]
struct Handshakes {
    closed: AtomicBool,
    state: Mutex<ListenerState>,
    /// Unauthenticated callers whose connections are open, disconnected or not.
    open: Mutex<usize>,
    /// One of them is no longer.
    has_left: Condvar,
    log: Refusals,
}

#[derive(Debug, Default)]
struct ListenerState {
    next: u64,
    unauthenticated: VecDeque<UnauthenticatedCaller>,
    refusals: VecDeque<Error>,
}

/// A caller that may be disconnected in favour of a newer one.
#[derive(Debug)]
struct UnauthenticatedCaller {
    number: u64,
    socket: Arc<Socket>,
    /// Whether it is only there to read why.
    is_refused: bool,
}

/// An unauthenticated caller whose connection is open: dropped behind its socket.
struct OpenCaller(Arc<Handshakes>);

impl OpenCaller {
    fn new(handshakes: &Arc<Handshakes>) -> OpenCaller {
        *handshakes.open.lock() += 1;
        OpenCaller(handshakes.clone())
    }
}

impl Drop for OpenCaller {
    fn drop(&mut self) {
        *self.0.open.lock() -= 1;
        self.0.has_left.notify_all();
    }
}

impl Handshakes {
    fn close(&self) {
        let _open = self.open.lock();
        self.closed.store(true, SeqCst);
        self.has_left.notify_all();
    }

    /// Waits until the callers that made room have closed their connections: their threads do it,
    /// which may wait for a processor.
    fn wait_for_room(&self) {
        let mut open = self.open.lock();
        while *open > UNAUTHENTICATED_MAX && !self.closed.load(SeqCst) {
            self.has_left.wait(&mut open);
        }
    }

    /// Registers a caller, and disconnects the oldest if there are too many.
    fn enter(&self, socket: &Arc<Socket>) -> u64 {
        let mut state = self.state.lock();
        if state.unauthenticated.len() == UNAUTHENTICATED_MAX {
            self.drop_oldest(&mut state);
        }
        let number = state.next;
        state.next += 1;
        let (socket, is_refused) = (socket.clone(), false);
        state.unauthenticated.push_back(UnauthenticatedCaller { number, socket, is_refused });
        number
    }

    /// Removes a caller, unless it has been disconnected in favour of a newer one.
    fn leave(&self, number: u64) {
        self.state.lock().unauthenticated.retain(|caller| caller.number != number);
    }

    /// Notes that a caller is refused; false if it has been disconnected before.
    fn note_refused(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let caller = state.unauthenticated.iter_mut().find(|caller| caller.number == number);
        caller.map(|caller| caller.is_refused = true).is_some()
    }

    fn drop_oldest(&self, state: &mut ListenerState) {
        if let Some(caller) = state.unauthenticated.pop_front() {
            if !caller.is_refused {
                self.log.add(&caller.socket.peer(), "it made room for a newer caller");
            }
            caller.socket.shut();
        }
    }

    fn refuse(&self, error: Error) {
        let mut state = self.state.lock();
        if state.refusals.len() == REFUSALS_MAX {
            state.refusals.pop_front();
        }
        state.refusals.push_back(error);
    }
}

/// Everything that a handshake needs.
struct Authenticator {
    me: Greeting,
    keys: Arc<FlowSecrets>,
    security: Security,
    on: Box<dyn Fn(Connection) + Send + Sync>,
    handshakes: Arc<Handshakes>,
}

impl Authenticator {
    fn authenticate(&self, socket: Arc<Socket>, number: u64, caller: OpenCaller) {
        let deadline = Instant::now() + HANDSHAKE_WAIT;
        let answered = answer(&socket, &self.me, &*self.keys, self.security, deadline);
        let connection = match answered {
            Ok(connection) => Some(connection),
            Err(error) => {
                // A caller that made room is in the log already.
                if self.handshakes.note_refused(number) {
                    self.handshakes.log.add(&socket.peer(), error.message());
                }
                self.handshakes.refuse(error.at("a caller"));
                socket.hang_up(deadline);
                None
            }
        };
        self.handshakes.leave(number);
        match connection.filter(|_| !self.handshakes.closed.load(SeqCst)) {
            Some(connection) => {
                drop(caller);
                (self.on)(connection);
            }
            None => {
                socket.shut();
                // The last reference closes it.
                drop(socket);
                drop(caller);
            }
        }
    }
}

fn accept(listening: &ListeningSocket, authenticator: &Arc<Authenticator>) {
    loop {
        authenticator.handshakes.wait_for_room();
        let accepted = listening.accept();
        if authenticator.handshakes.closed.load(SeqCst) {
            return;
        }
        let socket = match accepted {
            Ok(socket) => Arc::new(socket),
            // The system has no more sockets, most likely: close one, and do not spin.
            Err(_) => {
                authenticator.handshakes.drop_oldest(&mut authenticator.handshakes.state.lock());
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let number = authenticator.handshakes.enter(&socket);
        let caller = OpenCaller::new(&authenticator.handshakes);
        let (at, of_caller) = (authenticator.clone(), socket.clone());
        let spawned = thread::Builder::new()
            .name("caller".into())
            .stack_size(STACK_BYTES)
            .spawn(move || at.authenticate(of_caller, number, caller));
        if let Err(error) = spawned {
            socket.shut();
            authenticator.handshakes.leave(number);
            authenticator
                .handshakes
                .refuse(Error::resource(format!("no thread to answer a caller: {error}")));
        }
    }
}

/// The listening socket, of either kind.
#[derive(Debug)]
enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ListeningSocket {
    fn open(address: &Address) -> Result<(ListeningSocket, Address, Option<SocketFile>)> {
        let refused = |error: &io::Error| unusable(address, error);
        match address {
            Address::Unix(path) => {
                if !fits(path) {
                    return Err(too_long(address));
                }
                let listening = bind_unix(path).map_err(|error| refused(&error))?;
                let file = SocketFile::of(path).map_err(|error| refused(&error))?;
                Ok((ListeningSocket::Unix(listening), address.clone(), Some(file)))
            }
            Address::Tcp(host_port) => {
                let addresses = host_port.to_socket_addrs().map_err(|error| refused(&error))?;
                let addresses: Vec<_> = addresses.collect();
                let listening =
                    TcpListener::bind(&addresses[..]).map_err(|error| refused(&error))?;
                let port = listening.local_addr().map_err(|error| refused(&error))?.port();
                let host = host_port.rsplit_once(':').map_or(host_port.as_str(), |(host, _)| host);
                Ok((ListeningSocket::Tcp(listening), Address::Tcp(format!("{host}:{port}")), None))
            }
        }
    }

    fn accept(&self) -> io::Result<Socket> {
        let socket = match self {
            ListeningSocket::Tcp(listening) => Socket::Tcp(listening.accept()?.0),
            ListeningSocket::Unix(listening) => Socket::Unix(listening.accept()?.0),
        };
        socket.prepare().map(|()| socket)
    }

    /// Wakes the thread that waits in `accept`.
    fn close(&self) {
        let listening = match self {
            ListeningSocket::Tcp(listening) => listening.as_fd(),
            ListeningSocket::Unix(listening) => listening.as_fd(),
        };
        // It fails only if the socket has been shut down before.
        let _ = rustix::net::shutdown(listening, rustix::net::Shutdown::Both);
    }
}

/// Binds a unix socket, replacing a file that a dead process has left.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let listening = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            match UnixStream::connect(path) {
                Err(left) if left.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
                _ => return Err(error),
            }
            UnixListener::bind(path)?
        }
        listening => listening?,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listening)
}

fn unusable(address: &Address, error: &io::Error) -> Error {
    let message = format!("{address} cannot be listened at: {error}");
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => {
            "choose another port or path, or end the program that listens there"
        }
        ErrorKind::PermissionDenied => "choose a port above 1023, or a folder of your own",
        ErrorKind::NotFound => "check that the folder exists",
        _ => "choose an address of this machine",
    };
    Error::usage(message).remedy(remedy)
}

/// The file of a unix socket. Dropping it removes the file unless another process has replaced it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
    owner: Owner,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.into(), inode: inode(path)?, owner: Owner::here() })
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|facts| (facts.dev(), facts.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = inode(&self.path).is_ok_and(|inode| inode == self.inode);
        if is_ours && self.owner.is_here() {
            // Another process may have removed it in between.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("me", &self.me).finish_non_exhaustive()
    }
}
