//! A connection between two ends that have shown each other who they are.

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
use crate::link::{self, Receiver, Sender};
use crate::secret::Secret;
use crate::stream::{ReadHalf, Socket, WriteHalf, encrypt, halves};
use crate::tls::{Opened, REMEDY_SECURITY, Tls};
use crate::{handshake, tls};

/// What may come before the other end has shown who it is, TLS and all.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 16 << 10;

/// How ends that share no machine keep others out. Over unix sockets it is always the owner of the
/// process and the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS 1.3, both ends with certificates of the flow.
    Tls,
    /// Both prove that they know the token; what they say after that can be read, and changed, on
    /// its way.
    Token,
}

/// The secret of each flow that an end takes part in; 0 is the cluster itself.
pub type Keys = dyn Fn(u64) -> Option<Secret> + Send + Sync;

/// An open connection: what both agreed on, and its halves. Nobody says anything on it by itself,
/// and nobody is suspected, until it is a [`crate::lane::Lane`].
#[derive(Debug)]
pub struct Connection {
    /// The other end, with what both ends allow and can do.
    pub peer: Greeting,
    /// For what this end says.
    pub sender: Sender<WriteHalf>,
    /// For what the other end says.
    pub receiver: Receiver<ReadHalf>,
    closer: Closer,
}

impl Connection {
    /// What ends it from anywhere.
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Whether both ends are on one machine, judging by their addresses.
    pub fn is_within_machine(&self) -> bool {
        self.closer.0.is_within_machine()
    }
}

/// Ends a connection at once, whoever waits for it.
#[derive(Clone)]
pub struct Closer(Arc<Socket>);

impl Closer {
    /// What was not sent yet is lost; whoever waits for the other end does so no longer.
    pub fn close(&self) {
        self.0.shut();
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closer")
    }
}

/// Calls this address as `me`, with the secret of the greeting's flow.
pub fn dial(
    address: &Address,
    me: &Greeting,
    secret: &Secret,
    security: Security,
    within: Duration,
) -> Result<Connection> {
    let dialled = connect(address, within).and_then(|(socket, deadline)| {
        // What is said last is why, and the other end shall hear it.
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
    let mut ends = Ends::strange(socket.clone(), deadline)?;
    let tls = match (&**socket, security) {
        (Socket::Tcp(_), Security::Tls) => Some(ends.call(me, secret)?),
        _ => None,
    };
    ends.greet(tls, |sender, receiver, vouch| handshake::call(sender, receiver, me, secret, vouch))
}

/// Answers one who called, and whose socket this is.
pub(crate) fn answer(
    socket: &Arc<Socket>,
    me: &Greeting,
    keys: &Keys,
    security: Security,
    deadline: Instant,
) -> Result<Connection> {
    let mut ends = Ends::strange(socket.clone(), deadline)?;
    let tls = match &**socket {
        Socket::Tcp(_) => ends.open(me, keys, security)?,
        Socket::Unix(_) => None,
    };
    // Who was let in to one flow has not shown that it may take part in another.
    let flow = tls.as_ref().map(|opened| opened.flow);
    let keys = |asked| keys(asked).filter(|_| flow.is_none_or(|flow| flow == asked));
    ends.greet(tls.map(|opened| opened.tls), |sender, receiver, vouch| {
        handshake::answer(sender, receiver, me, keys, vouch)
    })
}

/// Both ends of a socket whose other end is a stranger.
struct Ends {
    socket: Arc<Socket>,
    reading: ReadHalf,
    writing: WriteHalf,
}

impl Ends {
    fn strange(socket: Arc<Socket>, deadline: Instant) -> Result<Ends> {
        let (reading, mut writing) = halves(&socket, deadline, HANDSHAKE_BYTES_MAX);
        match socket.check_owner() {
            Ok(()) => Ok(Ends { socket, reading, writing }),
            Err(error) => Err(handshake::refuse(&mut Sender::new(&mut writing), error)),
        }
    }

    fn call(&mut self, me: &Greeting, secret: &Secret) -> Result<Tls> {
        me.encode()?;
        let cards = tls::cards(&me.name, me.flow, secret)?;
        tls::call(&mut self.reading, &mut self.writing, &cards, me.flow)
    }

    /// TLS or none, as it should be; a caller who begins with the other is told.
    fn open(&mut self, me: &Greeting, keys: &Keys, security: Security) -> Result<Option<Opened>> {
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
                let cards_for = |flow| Some(tls::cards(&me.name, flow, &keys(flow)?));
                tls::serve(&mut self.reading, &mut self.writing, &me.name, cards_for).map(Some)
            }
            (Security::Tls, false) => {
                let error =
                    Error::usage("the caller speaks no TLS, and this end speaks nothing else")
                        .remedy(REMEDY_SECURITY);
                Err(handshake::refuse(&mut Sender::new(&mut self.writing), error))
            }
        }
    }

    /// Both ends say who they are; over TLS, by the names in their certificates.
    fn greet(
        mut self,
        tls: Option<Tls>,
        handshake: impl FnOnce(
            &mut Sender<WriteHalf>,
            &mut Receiver<ReadHalf>,
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
        let mut sender = Sender::new(self.writing);
        let mut receiver = Receiver::new(self.reading, Caps::UNKNOWN);
        let peer = handshake(&mut sender, &mut receiver, &vouch)?;
        let trusted = receiver.stream_mut().trust().and_then(|()| sender.stream_mut().trust());
        trusted.map_err(link::lost)?;
        Ok(Connection { peer, sender, receiver, closer: Closer(self.socket) })
    }
}

/// A socket to this address, and until when the rest may take.
fn connect(address: &Address, within: Duration) -> Result<(Arc<Socket>, Instant)> {
    let deadline = Instant::now() + within;
    let unreached = |error: io::Error| unreached(address, &error);
    let socket = match address {
        Address::Unix(path) => UnixStream::connect(path).map(Socket::Unix).map_err(unreached)?,
        Address::Tcp(place) => {
            // A machine that starts may have no name yet: whoever has time tries again.
            let places = place.to_socket_addrs().map_err(|error| {
                Error::resource(format!("no machine is known by {place}: {error}"))
                    .remedy("check the name, or give the machine's number")
            })?;
            let mut tried = Err(ErrorKind::AddrNotAvailable.into());
            for place in places {
                let left = deadline.saturating_duration_since(Instant::now());
                tried = TcpStream::connect_timeout(&place, left.max(Duration::from_millis(1)));
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

/// The error for a path that the system has no room for.
pub(crate) fn too_long(address: &Address) -> Error {
    Error::usage(format!("{address} is too long for a socket"))
        .remedy("choose a folder with a path of less than 90 bytes")
}

/// What stands in the way of a path as a socket's.
pub(crate) fn fits(path: &Path) -> bool {
    use std::os::unix::net::SocketAddr;
    SocketAddr::from_pathname(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use euphrates_flow::Kind;

    #[test]
    fn a_name_that_nobody_knows_may_be_known_later() {
        // No name has parts of more than 63 letters, and no other machine needs to be asked.
        let address: Address = format!("{}:7", "x".repeat(64)).parse().unwrap();
        let error = connect(&address, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), Kind::Resource);
        assert!(error.to_string().contains("no machine is known by xxx"), "{error}");
        assert!(error.advice().unwrap().contains("check the name"), "{error}");
    }
}
