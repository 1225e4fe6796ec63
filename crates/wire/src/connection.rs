//! Authenticated connections: dialling, answering, TLS or token, and the handshake.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use rustls::AlertDescription;

use crate::address::Address;
use crate::frame::Caps;
use crate::greeting::Greeting;
use crate::link::{self, FrameReceiver, FrameSender};
use crate::secret::Secret;
use crate::stream::{ReadHalf, Socket, WriteHalf, encrypt, halves};
use crate::tls::{REMEDY_SECURITY, Tls, TlsAnswer};
use crate::{handshake, shared_memory, tls};

/// Bytes accepted from an unauthenticated peer, TLS included.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 16 << 10;

/// How TCP connections are secured. Unix sockets always check the peer's user and the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS 1.3, with certificates of the flow at both ends.
    Tls,
    /// Both ends prove that they know the token. Everything after that is neither encrypted nor
    /// authenticated.
    Token,
}

/// Looks up the secret of a flow that this end takes part in; flow 0 is the cluster itself.
pub type FlowSecrets = dyn Fn(u64) -> Option<Secret> + Send + Sync;

/// An open connection: the agreed greeting and both halves. It sends no heartbeats and has no
/// timeout until it is a [`crate::lane::Lane`].
#[derive(Debug)]
pub struct Connection {
    /// The other end's greeting, with the caps and abilities that both ends share.
    pub peer: Greeting,
    /// The sending half, for one thread.
    pub sender: FrameSender<WriteHalf>,
    /// The receiving half, for one thread.
    pub receiver: FrameReceiver<ReadHalf>,
    closer: Closer,
    shares_memory: bool,
}

impl Connection {
    /// A handle that ends the connection from any thread.
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Whether large bodies may be sent in shared memory.
    pub fn shares_memory(&self) -> bool {
        self.shares_memory
    }

    /// Whether both ends are on one machine, judging by their addresses.
    pub fn is_within_machine(&self) -> bool {
        self.closer.0.is_within_machine()
    }
}

/// Ends a connection at once, from any thread.
#[derive(Clone)]
pub struct Closer(Arc<Socket>);

impl Closer {
    /// Shuts the socket down. Unsent bytes are lost, and blocked reads and writes return.
    pub fn close(&self) {
        self.0.shut();
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closer")
    }
}

/// Dials an address as `me`, with the secret of the greeting's flow.
pub fn dial(
    address: &Address,
    me: &Greeting,
    secret: &Secret,
    security: Security,
    within: Duration,
) -> Result<Connection> {
    let dialled = connect(address, within).and_then(|(socket, deadline)| {
        // The last frame is the reason, which the other end must be able to read.
        introduce(&socket, me, secret, security, deadline).inspect_err(|_| socket.hang_up(deadline))
    });
    dialled.map_err(|error| error.at(format!("calling {address}")))
}

fn introduce(
    socket: &Arc<Socket>,
    me: &Greeting,
    secret: &Secret,
    security: Security,
    deadline: Instant,
) -> Result<Connection> {
    let mut ends = SocketHalves::new(socket.clone(), deadline)?;
    let tls = match (&**socket, security) {
        (Socket::Tcp(_), Security::Tls) => Some(ends.call(me, secret)?),
        _ => None,
    };
    ends.greet(tls, |sender, receiver, vouch| handshake::call(sender, receiver, me, secret, vouch))
}

/// Authenticates a caller on its socket.
pub(crate) fn answer(
    socket: &Arc<Socket>,
    me: &Greeting,
    keys: &FlowSecrets,
    security: Security,
    deadline: Instant,
) -> Result<Connection> {
    let mut ends = SocketHalves::new(socket.clone(), deadline)?;
    let tls = match &**socket {
        Socket::Tcp(_) => ends.open(me, keys, security)?,
        Socket::Unix(_) => None,
    };
    // A caller with a certificate of one flow has not proved that it belongs to another.
    let flow = tls.as_ref().map(|opened| opened.flow);
    let keys = |asked| keys(asked).filter(|_| flow.is_none_or(|flow| flow == asked));
    ends.greet(tls.map(|opened| opened.tls), |sender, receiver, vouch| {
        handshake::answer(sender, receiver, me, keys, vouch)
    })
}

/// Both halves of a socket whose other end is unauthenticated.
struct SocketHalves {
    socket: Arc<Socket>,
    reading: ReadHalf,
    writing: WriteHalf,
}

impl SocketHalves {
    fn new(socket: Arc<Socket>, deadline: Instant) -> Result<SocketHalves> {
        let (reading, mut writing) = halves(&socket, deadline, HANDSHAKE_BYTES_MAX);
        match socket.check_owner() {
            Ok(()) => Ok(SocketHalves { socket, reading, writing }),
            Err(error) => Err(handshake::refuse(&mut FrameSender::new(&mut writing), error)),
        }
    }

    fn call(&mut self, me: &Greeting, secret: &Secret) -> Result<Tls> {
        me.encode()?;
        let configs = tls::configs(&me.name, me.flow, secret)?;
        tls::call(&mut self.reading, &mut self.writing, &configs, me.flow)
    }

    /// Opens TLS if `security` asks for it; a caller that begins with the other is refused.
    fn open(
        &mut self,
        me: &Greeting,
        keys: &FlowSecrets,
        security: Security,
    ) -> Result<Option<TlsAnswer>> {
        let first = self.reading.peek().map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::resource("the caller hung up without a word"),
            _ => link::lost(error),
        })?;
        match (security, tls::is_tls(first)) {
            (Security::Token, false) => Ok(None),
            (Security::Token, true) => {
                tls::refuse_tls(&mut self.writing, AlertDescription::ProtocolVersion);
                Err(Error::usage("the caller speaks TLS, and this end does not")
                    .remedy(REMEDY_SECURITY))
            }
            (Security::Tls, true) => {
                let configs_for = |flow| Some(tls::configs(&me.name, flow, &keys(flow)?));
                tls::serve(&mut self.reading, &mut self.writing, &me.name, configs_for).map(Some)
            }
            (Security::Tls, false) => {
                let error = Error::usage("the caller does not use TLS, which this end requires")
                    .remedy(REMEDY_SECURITY);
                Err(handshake::refuse(&mut FrameSender::new(&mut self.writing), error))
            }
        }
    }

    /// Exchanges greetings; over TLS, checks names against the certificates.
    fn greet(
        mut self,
        tls: Option<Tls>,
        handshake: impl FnOnce(
            &mut FrameSender<WriteHalf>,
            &mut FrameReceiver<ReadHalf>,
            &dyn Fn(&Greeting) -> Result<()>,
        ) -> Result<Greeting>,
    ) -> Result<Connection> {
        if let Some(tls) = &tls {
            encrypt(&mut self.reading, &mut self.writing, tls);
        }
        let vouch = |peer: &Greeting| match &tls {
            Some(tls) => tls.check_name(&peer.name, peer.flow),
            None => Ok(()),
        };
        let mut sender = FrameSender::new(self.writing);
        let mut receiver = FrameReceiver::new(self.reading, Caps::UNKNOWN);
        let peer = handshake(&mut sender, &mut receiver, &vouch)?;
        let trusted =
            receiver.stream_mut().half.trust().and_then(|()| sender.stream_mut().half.trust());
        trusted.map_err(link::lost)?;
        // The carrier is chosen here: bodies in shared memory, or all of a frame in the stream.
        let shares_memory = shared_memory::is_agreed(&self.socket, &peer);
        if shares_memory {
            receiver.stream_mut().accept_files();
        }
        let closer = Closer(self.socket);
        Ok(Connection { peer, sender, receiver, closer, shares_memory })
    }
}

/// Connects to an address; returns the socket and the deadline for the handshake.
fn connect(address: &Address, within: Duration) -> Result<(Arc<Socket>, Instant)> {
    let deadline = Instant::now() + within;
    let unreached = |error: io::Error| unreached(address, &error);
    let socket = match address {
        Address::Unix(path) => UnixStream::connect(path).map(Socket::Unix).map_err(unreached)?,
        Address::Tcp(host_port) => {
            // A machine that is starting may have no name yet, so the caller may retry.
            let addresses = host_port.to_socket_addrs().map_err(|error| {
                Error::resource(format!("cannot resolve {host_port}: {error}"))
                    .remedy("check the name, or give the machine's number")
            })?;
            let mut tried = Err(ErrorKind::AddrNotAvailable.into());
            for socket_address in addresses {
                let left = deadline.saturating_duration_since(Instant::now());
                tried =
                    TcpStream::connect_timeout(&socket_address, left.max(Duration::from_millis(1)));
                if tried.is_ok() {
                    break;
                }
            }
            Socket::Tcp(tried.map_err(unreached)?)
        }
    };
    socket.prepare().map_err(unreached)?;
    Ok((Arc::new(socket), deadline))
}

fn unreached(address: &Address, error: &io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
            "look whether the other end runs, and listens at this address"
        }
        ErrorKind::InvalidInput => return too_long(address),
        _ => "look at the network between, and whether a firewall stands in the way",
    };
    Error::resource(format!("{address} cannot be reached: {error}")).remedy(remedy)
}

/// The error for a path that exceeds the system's limit for sockets.
pub(crate) fn too_long(address: &Address) -> Error {
    Error::usage(format!("{address} is too long for a socket"))
        .remedy("choose a folder with a path of less than 90 bytes")
}

/// Whether a path is short enough for a socket.
pub(crate) fn fits(path: &Path) -> bool {
    use std::os::unix::net::SocketAddr;
    SocketAddr::from_pathname(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    #[test]
    fn unknown_host_name_is_a_resource_error() {
        // A label of more than 63 letters is invalid, so no name server is asked.
        let address: Address = format!("{}:7", "x".repeat(64)).parse().unwrap();
        let error = connect(&address, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), Kind::Resource);
        assert!(error.to_string().contains("cannot resolve xxx"), "{error}");
        assert!(error.advice().unwrap().contains("check the name"), "{error}");
    }
}
