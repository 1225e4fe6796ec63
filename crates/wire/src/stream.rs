//! A socket of any kind, and the two halves of a stream over it: who waits, waits only so long.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use euphrates_flow::{Error, Result};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};

use crate::tls::{Opening, Sealing, Tls};

/// What a socket may hold on its way: a few batches. Over loopback, a quarter of it cost a third of
/// TCP's speed, and more gained nothing over either. Linux doubles what it is told, and may grant
/// less.
const TCP_BYTES: usize = 2 << 20;
const UNIX_BYTES: usize = 1 << 20;
/// Nobody is waited for less than that: a socket takes zero for "for ever".
const WAIT_LEAST: Duration = Duration::from_millis(1);
/// How long an end that is refused may take to hang up, and how many kilobytes it may still say.
const UNREAD_WAIT: Duration = Duration::from_secs(1);
const UNREAD_ROUNDS: u32 = 64;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Ready for frames: they go out as soon as they are complete, and many fit.
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

    /// Whether both ends are on one machine: then they have the same address.
    pub fn is_within_machine(&self) -> bool {
        let Socket::Tcp(stream) = self else { return true };
        match (stream.local_addr(), stream.peer_addr()) {
            (Ok(here), Ok(there)) => here.ip() == there.ip() || there.ip().is_loopback(),
            _ => false,
        }
    }

    /// Whose the other end is, for a log.
    pub fn peer(&self) -> String {
        let peer = match self {
            Socket::Tcp(stream) => stream.peer_addr().map(|address| address.to_string()).ok(),
            Socket::Unix(stream) => sockopt::socket_peercred(stream).ok().map(|peer| {
                format!("process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw())
            }),
        };
        peer.unwrap_or_else(|| "a caller that has gone".into())
    }

    /// Fails unless the process at the other end of a unix socket is ours, or the system's.
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

    pub fn shut(&self) {
        // It may have been shut already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Hangs up such that the other end can still read what was said last: a socket that is closed
    /// with something unread takes that away from it.
    pub fn hang_up(&self, deadline: Instant) {
        let done = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        let (mut unread, mut rounds) = ([0; 1024], if done.is_ok() { UNREAD_ROUNDS } else { 0 });
        while rounds > 0 {
            rounds -= 1;
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.patience(true, Some(left.min(UNREAD_WAIT)));
            if waited.is_err() || !matches!(self.read(&mut [IoSliceMut::new(&mut unread)]), Ok(1..))
            {
                break;
            }
        }
        self.shut();
    }

    fn patience(&self, reading: bool, wait: Option<Duration>) -> io::Result<()> {
        let wait = wait.map(|wait| wait.max(WAIT_LEAST));
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

    /// As much as there is room for; `WouldBlock` if there is none.
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

/// How long an end waits for the other.
#[derive(Clone, Debug)]
enum Patience {
    /// For ever.
    Endless,
    /// Until then, and for so many bytes: the other end has not shown yet who it is.
    Until { deadline: Instant, bytes_left: usize },
    /// So long, each time; and who it is that is waited for.
    Each { wait: Duration, whom: String },
}

/// One direction of a socket.
#[derive(Debug)]
struct Half {
    socket: Arc<Socket>,
    patience: Patience,
    reading: bool,
    /// Does what can be done at once, and no more.
    now: bool,
}

impl Half {
    fn set(&mut self, patience: Patience) -> io::Result<()> {
        self.patience = patience;
        let wait = match &self.patience {
            Patience::Each { wait, .. } => Some(*wait),
            Patience::Endless | Patience::Until { .. } => None,
        };
        self.socket.patience(self.reading, wait)
    }

    /// Waits no longer than it may for the next bytes, and for no more of them than it may.
    fn begin(&self) -> io::Result<()> {
        let Patience::Until { deadline, bytes_left } = self.patience else { return Ok(()) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_late());
        }
        if bytes_left == 0 {
            return Err(io::Error::other(Error::corrupt(
                "the other end says too much before it has shown who it is",
            )));
        }
        self.socket.patience(self.reading, Some(left))
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

    /// Bytes that never make a whole are no sign of life.
    fn check_patience(&self, since: Instant) -> io::Result<()> {
        match &self.patience {
            Patience::Each { wait, whom } if since.elapsed() > *wait => {
                Err(silent(whom, *wait, self.reading))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, done: io::Result<usize>) -> io::Result<usize> {
        match (&mut self.patience, done) {
            (Patience::Until { bytes_left, .. }, Ok(bytes)) => {
                *bytes_left = bytes_left.saturating_sub(bytes);
                Ok(bytes)
            }
            (Patience::Until { .. }, Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                Err(too_late())
            }
            (Patience::Each { wait, whom }, Err(error))
                if error.kind() == ErrorKind::WouldBlock =>
            {
                Err(silent(whom, *wait, self.reading))
            }
            (_, done) => done,
        }
    }
}

fn too_late() -> io::Error {
    let error = Error::resource("the other end took too long to say who it is");
    io::Error::new(ErrorKind::TimedOut, error.remedy("look at its load and at the network between"))
}

fn silent(whom: &str, wait: Duration, reading: bool) -> io::Error {
    let seconds = wait.as_secs_f64();
    let message = if reading {
        format!("no sign of life from `{whom}` for {seconds:.1} s")
    } else {
        format!("`{whom}` has taken nothing for {seconds:.1} s")
    };
    let remedy = format!("look whether `{whom}` still runs, and at the network between");
    io::Error::new(ErrorKind::TimedOut, Error::resource(message).remedy(remedy))
}

/// What the other end says.
#[derive(Debug)]
pub struct ReadHalf {
    half: Half,
    tls: Option<Opening>,
}

/// What this end says.
#[derive(Debug)]
pub struct WriteHalf {
    half: Half,
    tls: Option<Sealing>,
}

/// Both halves of a stream over this socket, on which only so much may come until then.
pub(crate) fn halves(
    socket: &Arc<Socket>,
    deadline: Instant,
    bytes_max: usize,
) -> (ReadHalf, WriteHalf) {
    let half = |reading, bytes_left| Half {
        socket: socket.clone(),
        patience: Patience::Until { deadline, bytes_left },
        reading,
        now: false,
    };
    let reading = ReadHalf { half: half(true, bytes_max), tls: None };
    (reading, WriteHalf { half: half(false, usize::MAX), tls: None })
}

/// From now on, what goes through these halves is encrypted.
pub(crate) fn encrypt(reading: &mut ReadHalf, writing: &mut WriteHalf, tls: &Tls) {
    let (opening, sealing) = tls.halves();
    (reading.tls, writing.tls) = (Some(opening), Some(sealing));
}

impl ReadHalf {
    /// The other end has shown who it is, and is waited for.
    pub(crate) fn trust(&mut self) -> io::Result<()> {
        self.half.set(Patience::Endless)
    }

    /// From now on an end that says nothing for so long is an error.
    pub(crate) fn suspect(&mut self, whom: &str, wait: Duration) -> io::Result<()> {
        self.half.set(Patience::Each { wait, whom: whom.into() })
    }

    /// The first byte that comes, which is read again.
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
    /// From now on, writes do what can be done at once; or, again, wait as long as they may.
    pub(crate) fn hurry(&mut self, now: bool) {
        self.half.now = now;
    }

    /// The other end has shown who it is, and is waited for.
    pub(crate) fn trust(&mut self) -> io::Result<()> {
        self.half.set(Patience::Endless)
    }

    /// From now on an end that takes nothing for so long is an error.
    pub(crate) fn suspect(&mut self, whom: &str, wait: Duration) -> io::Result<()> {
        self.half.set(Patience::Each { wait, whom: whom.into() })
    }
}

impl Read for ReadHalf {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(bytes)])
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(opening) = &mut self.tls else { return self.half.read(slices) };
        let (half, since) = (&mut self.half, Instant::now());
        opening.read(slices, |sealed| {
            half.check_patience(since)?;
            half.read(&mut [IoSliceMut::new(sealed)])
        })
    }
}

impl Write for WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(sealing) = &mut self.tls else { return self.half.write(slices) };
        let half = &mut self.half;
        sealing.write(slices, |sealed| half.write(&[IoSlice::new(sealed)]))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(sealing) = &mut self.tls else { return Ok(()) };
        let half = &mut self.half;
        sealing.flush(|sealed| half.write(&[IoSlice::new(sealed)]))
    }
}
