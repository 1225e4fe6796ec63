//! Sockets of any kind, and the two halves of a stream over one, each with a timeout.

mod passed_files;

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

use crate::tls::{Opening, Sealing, Tls};

/// The buffer of a TCP socket: a few batches. Over loopback, a quarter of it cost a third of the
/// throughput, and more gained nothing. Linux doubles the value, and may grant less.
const TCP_BYTES: usize = 2 << 20;
/// The buffer of a unix socket; more gained nothing.
const UNIX_BYTES: usize = 1 << 20;
/// The shortest timeout of a socket, which takes zero for no timeout.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// How long to wait for a refused peer to hang up.
const UNREAD_WAIT: Duration = Duration::from_secs(1);
/// Kilobytes that are read from a refused peer and discarded, at most.
const UNREAD_ROUNDS: u32 = 64;

/// A connected socket of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Sets options: no delay for small frames, and buffers for several batches.
    pub fn prepare(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_send_buffer_size(stream, TCP_BYTES)?;
                sockopt::set_socket_recv_buffer_size(stream, TCP_BYTES)?;
            }
            Socket::Unix(stream) => {
                sockopt::set_socket_send_buffer_size(stream, UNIX_BYTES)?;
            }
        }
        Ok(())
    }

    /// Whether both ends are on one machine, that is, have the same address.
    pub fn is_within_machine(&self) -> bool {
        let Socket::Tcp(stream) = self else { return true };
        match (stream.local_addr(), stream.peer_addr()) {
            (Ok(here), Ok(there)) => here.ip() == there.ip() || there.ip().is_loopback(),
            _ => false,
        }
    }

    /// Describes the other end for a log: address, or process and user.
    pub fn peer(&self) -> String {
        let peer = match self {
            Socket::Tcp(stream) => stream.peer_addr().map(|address| address.to_string()).ok(),
            Socket::Unix(stream) => sockopt::socket_peercred(stream).ok().map(|peer| {
                format!("process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw())
            }),
        };
        peer.unwrap_or_else(|| "a caller that has gone".into())
    }

    /// Fails unless the other end of a unix socket belongs to this user or to root.
    pub fn check_owner(&self) -> Result<()> {
        let Socket::Unix(stream) = self else { return Ok(()) };
        let peer = sockopt::socket_peercred(stream)
            .map_err(|error| Error::resource(format!("whose socket this is: {error}")))?;
        let ours = rustix::process::geteuid();
        if peer.uid == ours || peer.uid.is_root() {
            return Ok(());
        }
        let (theirs, ours) = (peer.uid.as_raw(), ours.as_raw());
        Err(Error::usage(format!("the other end belongs to user {theirs}, this one to {ours}"))
            .remedy("run both ends as the same user, or let them talk over TCP"))
    }

    /// Whether this is a unix socket, and the other end a process of this user.
    pub fn is_of_this_user(&self) -> bool {
        let Socket::Unix(stream) = self else { return false };
        let peer = sockopt::socket_peercred(stream);
        peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
    }

    pub fn shut(&self) {
        // The socket may have been shut down already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Hangs up such that the other end can still read the last frame: closing a socket with unread
    /// data resets the connection and discards what was sent.
    pub fn hang_up(&self, deadline: Instant) {
        let done = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        let (mut unread, mut rounds) = ([0; 1024], if done.is_ok() { UNREAD_ROUNDS } else { 0 });
        while rounds > 0 {
            rounds -= 1;
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.set_wait(true, Some(left.min(UNREAD_WAIT)));
            if waited.is_err() || !matches!(self.read(&mut [IoSliceMut::new(&mut unread)]), Ok(1..))
            {
                break;
            }
        }
        self.shut();
    }

    fn set_wait(&self, reading: bool, wait: Option<Duration>) -> io::Result<()> {
        let wait = wait.map(|wait| wait.max(WAIT_MIN));
        match (self, reading) {
            (Socket::Tcp(stream), true) => stream.set_read_timeout(wait),
            (Socket::Tcp(stream), false) => stream.set_write_timeout(wait),
            (Socket::Unix(stream), true) => stream.set_read_timeout(wait),
            (Socket::Unix(stream), false) => stream.set_write_timeout(wait),
        }
    }

    fn read(&self, bytes: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).read_vectored(bytes),
            Socket::Unix(stream) => (&*stream).read_vectored(bytes),
        }
    }

    /// Writes as much as the socket's buffer has room for; `WouldBlock` if it is full.
    fn write_now(&self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        let socket = match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(sendmsg(socket, bytes, &mut SendAncillaryBuffer::default(), flags)?)
    }

    fn write(&self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).write_vectored(bytes),
            Socket::Unix(stream) => (&*stream).write_vectored(bytes),
        }
    }
}

/// The timeout of one half.
#[derive(Clone, Debug)]
enum Timeout {
    /// Blocks without a limit.
    Endless,
    /// An absolute deadline and a byte limit, for an unauthenticated peer.
    Until { deadline: Instant, bytes_left: usize },
    /// A limit on every read or write; `peer` is named in the error.
    Each { wait: Duration, peer: String },
}

/// One direction of a socket.
#[derive(Debug)]
pub(crate) struct Half {
    socket: Arc<Socket>,
    timeout: Timeout,
    reading: bool,
    /// Whether writes return `WouldBlock` instead of waiting.
    now: bool,
}

impl Half {
    /// Lifts the limits of an unauthenticated peer.
    pub(crate) fn trust(&mut self) -> io::Result<()> {
        self.set(Timeout::Endless)
    }

    /// Makes a call fail if `peer` sends or reads nothing for `wait`.
    pub(crate) fn set_timeout(&mut self, peer: &str, wait: Duration) -> io::Result<()> {
        self.set(Timeout::Each { wait, peer: peer.into() })
    }

    fn set(&mut self, timeout: Timeout) -> io::Result<()> {
        self.timeout = timeout;
        let wait = match &self.timeout {
            Timeout::Each { wait, .. } => Some(*wait),
            Timeout::Endless | Timeout::Until { .. } => None,
        };
        self.socket.set_wait(self.reading, wait)
    }

    /// Applies the deadline and the byte limit of an unauthenticated peer before a call.
    fn begin(&self) -> io::Result<()> {
        let Timeout::Until { deadline, bytes_left } = self.timeout else { return Ok(()) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_late());
        }
        if bytes_left == 0 {
            return Err(io::Error::other(Error::corrupt(
                "the other end says too much before it has shown who it is",
            )));
        }
        self.socket.set_wait(self.reading, Some(left))
    }

    fn read(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.begin()?;
        let done = self.socket.read(slices);
        self.end(done)
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.begin()?;
        if self.now {
            return self.socket.write_now(slices);
        }
        let done = self.socket.write(slices);
        self.end(done)
    }

    /// As `write`, with files that are passed with the bytes; removes those that were.
    fn write_files(
        &mut self,
        slices: &[IoSlice<'_>],
        files: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        let Socket::Unix(stream) = &*self.socket else { return self.write(slices) };
        let flags = if self.now { SendFlags::DONTWAIT } else { SendFlags::empty() };
        let done = passed_files::write(stream, slices, files, flags);
        if self.now { done } else { self.end(done) }
    }

    /// As `read`; appends the files that were passed with the bytes.
    fn read_files(
        &mut self,
        slices: &mut [IoSliceMut<'_>],
        files: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        let Socket::Unix(stream) = &*self.socket else { return self.read(slices) };
        let done = passed_files::read(stream, slices, files);
        self.end(done)
    }

    /// Fails after the timeout even if bytes keep coming that never complete a TLS record.
    fn check_timeout(&self, since: Instant) -> io::Result<()> {
        match &self.timeout {
            Timeout::Each { wait, peer } if since.elapsed() > *wait => {
                Err(silent(peer, *wait, self.reading))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, done: io::Result<usize>) -> io::Result<usize> {
        match (&mut self.timeout, done) {
            (Timeout::Until { bytes_left, .. }, Ok(bytes)) => {
                *bytes_left = bytes_left.saturating_sub(bytes);
                Ok(bytes)
            }
            (Timeout::Until { .. }, Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                Err(too_late())
            }
            (Timeout::Each { wait, peer }, Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                Err(silent(peer, *wait, self.reading))
            }
            (_, done) => done,
        }
    }
}

fn too_late() -> io::Error {
    let error = Error::resource("the other end took too long to say who it is");
    io::Error::new(ErrorKind::TimedOut, error.remedy("look at its load and at the network between"))
}

fn silent(peer: &str, wait: Duration, reading: bool) -> io::Error {
    let seconds = wait.as_secs_f64();
    let message = if reading {
        format!("no sign of life from `{peer}` for {seconds:.1} s")
    } else {
        format!("`{peer}` has taken nothing for {seconds:.1} s")
    };
    let remedy = format!("look whether `{peer}` still runs, and at the network between");
    io::Error::new(ErrorKind::TimedOut, Error::resource(message).remedy(remedy))
}

/// The receiving half of a stream, decrypting if it has TLS.
#[derive(Debug)]
pub struct ReadHalf {
    pub(crate) half: Half,
    tls: Option<Opening>,
    /// Files that were passed; `None` before they are accepted: the system closes them then.
    files: Option<Vec<OwnedFd>>,
}

/// The sending half of a stream, encrypting if it has TLS.
#[derive(Debug)]
pub struct WriteHalf {
    pub(crate) half: Half,
    tls: Option<Sealing>,
    /// Files to pass with the next bytes.
    files: Vec<OwnedFd>,
}

/// Both halves of a stream over a socket whose peer is unauthenticated: it may send `bytes_max`
/// until the deadline.
pub(crate) fn halves(
    socket: &Arc<Socket>,
    deadline: Instant,
    bytes_max: usize,
) -> (ReadHalf, WriteHalf) {
    let half = |reading, bytes_left| Half {
        socket: socket.clone(),
        timeout: Timeout::Until { deadline, bytes_left },
        reading,
        now: false,
    };
    let reading = ReadHalf { half: half(true, bytes_max), tls: None, files: None };
    (reading, WriteHalf { half: half(false, usize::MAX), tls: None, files: vec![] })
}

/// Encrypts both halves from now on.
pub(crate) fn encrypt(reading: &mut ReadHalf, writing: &mut WriteHalf, tls: &Tls) {
    let (opening, sealing) = tls.halves();
    (reading.tls, writing.tls) = (Some(opening), Some(sealing));
}

impl ReadHalf {
    /// Accepts files from now on; the other end must be authenticated.
    pub(crate) fn accept_files(&mut self) {
        self.files.get_or_insert_default();
    }

    /// The files that were passed since the last call.
    pub(crate) fn take_files(&mut self) -> Vec<OwnedFd> {
        self.files.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The first byte of the stream, which remains to be read.
    pub(crate) fn peek(&mut self) -> io::Result<u8> {
        self.half.begin()?;
        let mut first = [0];
        let peeked = match &*self.half.socket {
            Socket::Tcp(stream) => stream.peek(&mut first),
            Socket::Unix(_) => Err(ErrorKind::Unsupported.into()),
        };
        match peeked {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            peeked => self.half.end(peeked).map(|_| first[0]),
        }
    }
}

impl WriteHalf {
    /// Passes files with the first byte that is written next.
    pub(crate) fn pass(&mut self, files: [OwnedFd; 2]) {
        self.files.extend(files);
    }

    /// Switches between writes that return `WouldBlock` and writes that wait.
    pub(crate) fn set_nonblocking(&mut self, now: bool) {
        self.half.now = now;
    }
}

impl Read for ReadHalf {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(bytes)])
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(opening) = &mut self.tls else {
            return match &mut self.files {
                Some(files) => self.half.read_files(slices, files),
                None => self.half.read(slices),
            };
        };
        let (half, since) = (&mut self.half, Instant::now());
        opening.read(slices, |sealed| {
            half.check_timeout(since)?;
            half.read(&mut [IoSliceMut::new(sealed)])
        })
    }
}

impl Write for WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(sealing) = &mut self.tls else {
            return match self.files.is_empty() {
                true => self.half.write(slices),
                false => self.half.write_files(slices, &mut self.files),
            };
        };
        let half = &mut self.half;
        sealing.write(slices, |sealed| half.write(&[IoSlice::new(sealed)]))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(sealing) = &mut self.tls else { return Ok(()) };
        let half = &mut self.half;
        sealing.flush(|sealed| half.write(&[IoSlice::new(sealed)]))
    }
}
